"""A caller on GStreamer's webrtcbin: ``/usr/bin/python3 client.py URL CODEC SETUP``, with Debian's own Python.

CODEC is ``opus``, ``pcmu`` or ``pcma``; SETUP the DTLS role to offer: ``actpass``, or ``passive`` to make the far end
the client. Reads one command a line: connect, heard, close; answers each with one line of JSON. It says a tone for
ever.
"""

import base64
import json
import sys
import threading
import time
import urllib.error
import urllib.request

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstWebRTC", "1.0")
gi.require_version("GstSdp", "1.0")
from gi.repository import GLib, Gst, GstSdp, GstWebRTC  # noqa: E402

RATE_HZ = 48_000
WAIT_S = 10.0
ENCODERS = {
    "opus": "audio/x-raw,rate=48000,channels=2 ! opusenc frame-size=20 ! rtpopuspay pt=96",
    "pcmu": "audio/x-raw,rate=8000,channels=1 ! mulawenc ! rtppcmupay pt=0 min-ptime=20000000 max-ptime=20000000",
    "pcma": "audio/x-raw,rate=8000,channels=1 ! alawenc ! rtppcmapay pt=8 min-ptime=20000000 max-ptime=20000000",
}
DECODERS = {
    "opus": "rtpopusdepay ! opusdec",
    "pcmu": "rtppcmudepay ! mulawdec",
    "pcma": "rtppcmadepay ! alawdec",
}


class Client:
    def __init__(self, url, codec, setup):
        self.url, self.codec, self.setup = url, codec, setup
        self.heard, self.events, self.error, self.session = [], [], "", {}
        self.channel_open = threading.Event()
        tone = "audiotestsrc is-live=true freq=440 volume=0.2 ! audioconvert ! audioresample"
        self.pipeline = Gst.parse_launch(
            f"webrtcbin name=peer bundle-policy=max-bundle {tone} ! {ENCODERS[codec]} ! queue ! peer."
        )
        self.peer = self.pipeline.get_by_name("peer")
        self.peer.connect("on-negotiation-needed", self.negotiate)
        self.peer.connect("notify::ice-gathering-state", self.on_gathering)
        self.peer.connect("pad-added", self.on_pad)

    def play(self):
        self.pipeline.set_state(Gst.State.READY)
        self.channel = self.peer.emit("create-data-channel", "events", Gst.Structure.new_empty("options"))
        self.channel.connect("on-open", lambda _: self.channel_open.set())
        self.channel.connect("on-message-string", self.on_message)
        self.pipeline.set_state(Gst.State.PLAYING)

    def negotiate(self, _peer):
        self.peer.emit("create-offer", None, Gst.Promise.new_with_change_func(self.on_offer))

    def on_offer(self, promise, *_):
        reply = promise.get_reply()  # kept: the offer lives as long as it does
        offer = reply.get_value("offer")
        if offer is not None and offer.sdp is not None:
            self.peer.emit("set-local-description", offer, Gst.Promise.new())

    def on_gathering(self, *_):
        if self.peer.get_property("ice-gathering-state") != GstWebRTC.WebRTCICEGatheringState.COMPLETE:
            return
        sdp = self.peer.get_property("local-description").sdp.as_text()
        self.offer = sdp.replace("a=setup:actpass", f"a=setup:{self.setup}")
        body = json.dumps({"type": "offer", "sdp": self.offer}).encode()
        request = urllib.request.Request(self.url + "/v1/sessions", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as response:
                self.session = json.load(response)
        except urllib.error.HTTPError as error:
            self.error = f"{error.code}: {error.read().decode()}"
            return
        _, message = GstSdp.SDPMessage.new_from_text(self.session["sdp"])
        answer = GstWebRTC.WebRTCSessionDescription.new(GstWebRTC.WebRTCSDPType.ANSWER, message)
        self.peer.emit("set-remote-description", answer, None)

    def on_pad(self, _peer, pad):
        if pad.direction != Gst.PadDirection.SRC:
            return
        ear = Gst.parse_bin_from_description(
            f"rtpjitterbuffer latency=60 ! {DECODERS[self.codec]} ! audioconvert ! audioresample ! "
            f"audio/x-raw,format=S16LE,rate={RATE_HZ},channels=1 ! fakesink name=ear signal-handoffs=true sync=false",
            True,
        )
        ear.get_by_name("ear").connect("handoff", self.on_sound)
        self.pipeline.add(ear)
        ear.sync_state_with_parent()
        pad.link(ear.get_static_pad("sink"))

    def on_sound(self, _sink, buffer, _pad):
        self.heard.append(buffer.extract_dup(0, buffer.get_size()))

    def on_message(self, _channel, text):
        found = json.loads(text)
        self.events += found if isinstance(found, list) else [found]

    # ---- commands ------------------------------------------------------------------------------------------------

    def connect(self):
        self.play()
        self.wait("open channel", self.channel_open.is_set)
        self.wait("live session", lambda: any(event["type"] == "session.ready" for event in self.events))
        return {"id": self.session["id"], "offer": self.offer, "answer": self.session["sdp"]}

    def said(self):
        return {"pcm": base64.b64encode(b"".join(self.heard)).decode(), "events": self.events}

    def close(self):
        url = f"{self.url}/v1/sessions/{self.session['id']}"
        with urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=WAIT_S):
            self.pipeline.set_state(Gst.State.NULL)
        return {}

    def wait(self, what, is_true):
        deadline = time.monotonic() + WAIT_S
        while not is_true():
            if self.error or time.monotonic() > deadline:
                raise RuntimeError(self.error or f"no {what} within {WAIT_S:g} s")
            time.sleep(0.01)


def main():
    Gst.init(None)
    client = Client(*sys.argv[1:])
    commands = {"connect": client.connect, "heard": client.said, "close": client.close}
    loop = GLib.MainLoop()
    threading.Thread(target=loop.run, daemon=True).start()
    for line in sys.stdin:
        try:
            answer = commands[line.strip()]()
        except Exception as error:
            answer = {"error": str(error) or repr(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
