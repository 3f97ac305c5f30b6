"""A person at a terminal, or a file, as a caller: ``rtc-server talk``.

::

    command     flags, what people read, what the exit status says
      address     where the server is, and which socket of it
      connect     the socket, or a sentence that says why there is none
      call        one conversation: speaks, listens, hangs up
        protocol    what a server may say, whichever way it says it: moshi, pcm (no I/O)
        files       a WAV file as microphone, a WAV file as speaker
        devices     the machine's own microphone and speaker
      screen      words as they come
"""
