"""Real peers over real sockets: Chromium, Firefox and stock aiortc against a real server process.

=============== ======================================================================================================
server          the server in a process of its own, and what must be true when it ends
chromium        Debian's Chromium through Playwright; ``page`` is our page as a person sees it
firefox         Firefox ESR through WebDriver BiDi
aiortc_client   stock ``RTCPeerConnection``; run as a module, it is a caller that can be killed
speech          what the microphone hears
listen          what comes back: sound, spans, words; ``ear.js`` records it inside the browser
=============== ======================================================================================================

Laws: every wait has a bound, and the bound is generous, since the machine is busy; order and words are asserted, not
latencies. A server must end without a traceback in its log and without a slot in use.
"""
