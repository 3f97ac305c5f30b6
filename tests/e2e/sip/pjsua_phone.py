"""A PJSIP phone: one command in JSON a line goes in, one answer in JSON comes out.

Runs in an environment of its own, with nothing of this project in it. PJSIP is polled by this thread alone; only sound
has threads of its own, which never call Python.
"""

# ruff: noqa: N802  PJSIP calls its callbacks by these names.

import json
import os
import select
import sys
import time

import pjsua2 as pj

ANSWER_WITHIN_S = 10.0
TALKING, ENDED = pj.PJSIP_INV_STATE_CONFIRMED, pj.PJSIP_INV_STATE_DISCONNECTED
TRANSPORTS = {"udp": pj.PJSIP_TRANSPORT_UDP, "tcp": pj.PJSIP_TRANSPORT_TCP, "tls": pj.PJSIP_TRANSPORT_TLS}


class Call(pj.Call):
    def __init__(self, phone, call_id=pj.PJSUA_INVALID_ID):
        super().__init__(phone.account, call_id)
        self.phone = phone
        self.digits = ""
        self.player = self.recorder = None
        self.state, self.status, self.reason = pj.PJSIP_INV_STATE_NULL, 0, ""
        self.media_changes = 0
        self.answered_changes = []

    def onCallTsxState(self, parameters):
        """What the other end says to a re-INVITE of ours."""
        change = parameters.e.body.tsxState.tsx
        ours = change.role == pj.PJSIP_ROLE_UAC and change.method == "INVITE" and self.state == TALKING
        if ours and change.state in (pj.PJSIP_TSX_STATE_COMPLETED, pj.PJSIP_TSX_STATE_TERMINATED):
            self.answered_changes.append(change.statusCode)

    def onCallState(self, parameters):
        info = self.getInfo()
        self.state, self.status, self.reason = info.state, info.lastStatusCode, info.lastReason

    def onCallMediaState(self, parameters):
        self.media_changes += 1
        info = self.getInfo()  # it owns what `info.media` refers to
        for index, media in enumerate(info.media):
            if media.type == pj.PJMEDIA_TYPE_AUDIO and media.status == pj.PJSUA_CALL_MEDIA_ACTIVE:
                self._connect(self.getAudioMedia(index))

    def _connect(self, sound):
        if self.player is None:
            self.player, self.recorder = pj.AudioMediaPlayer(), pj.AudioMediaRecorder()
            self.player.createPlayer(self.phone.settings["microphone"], pj.PJMEDIA_FILE_NO_LOOP)
            self.recorder.createRecorder(self.phone.settings["recording"])
        self.player.startTransmit(sound)
        sound.startTransmit(self.recorder)

    def onDtmfDigit(self, parameters):
        self.digits += parameters.digit


class Account(pj.Account):
    def __init__(self, phone):
        super().__init__()
        self.phone = phone

    def onIncomingCall(self, parameters):
        self.phone.current = Call(self.phone, parameters.callId)
        answer = pj.CallOpParam()
        answer.statusCode = 200
        self.phone.current.answer(answer)


class Phone:
    def __init__(self, settings):
        self.settings = settings
        self.current = None
        self.endpoint = pj.Endpoint()
        self.endpoint.libCreate()
        config = pj.EpConfig()
        config.logConfig.level, config.logConfig.consoleLevel = 5, 0
        config.logConfig.filename = settings["log"]
        config.uaConfig.threadCnt = 0
        config.uaConfig.mainThreadOnly = True
        config.medConfig.noVad = True
        config.medConfig.ecTailLen = 0
        config.medConfig.clockRate = config.medConfig.sndClockRate = 16000 if settings["codec"] == "G722" else 8000
        self.endpoint.libInit(config)
        for name, kind in TRANSPORTS.items():
            transport = pj.TransportConfig()
            transport.port = settings["sip_port"] + (name == "tls")
            transport.boundAddress = settings["host"]
            self.endpoint.transportCreate(kind, transport)
        self.endpoint.libStart()
        self.endpoint.audDevManager().setNullDev()
        for codec in self.endpoint.codecEnum2():
            self.endpoint.codecSetPriority(codec.codecId, 255 if codec.codecId.startswith(settings["codec"]) else 0)
        self.account = Account(self)
        self.account.create(self._account_config(settings))

    def _account_config(self, settings):
        config = pj.AccountConfig()
        config.idUri = f"sip:{settings['username']}@{settings['host']}:{settings['sip_port']}"
        config.mediaConfig.transportConfig.boundAddress = settings["host"]
        config.mediaConfig.transportConfig.port = settings["rtp_port"]
        if settings["srtp"]:
            config.mediaConfig.srtpUse = pj.PJMEDIA_SRTP_MANDATORY
            config.mediaConfig.srtpSecureSignaling = 0
        if settings["password"]:
            credentials = pj.AuthCredInfo("digest", "*", settings["username"], 0, settings["password"])
            config.sipConfig.authCreds.append(credentials)
        return config

    def poll(self):
        self.endpoint.libHandleEvents(10)

    def wait(self, ready):
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while not ready():
            if time.monotonic() > deadline:
                raise RuntimeError("it took too long")
            self.poll()

    # ---- commands ----------------------------------------------------------------------------------------------------

    def call(self, uri):
        self.current = Call(self)
        self.current.makeCall(uri, pj.CallOpParam(True))
        self.wait(lambda: self.current.state in (TALKING, ENDED))
        if self.current.state != TALKING:
            raise RuntimeError(f"{self.current.status} {self.current.reason}")
        return {}

    def answered(self):
        """Wait for a call that comes in."""
        self.wait(lambda: self.current is not None and self.current.state == TALKING)
        return {}

    def press(self, digits):
        self.current.dialDtmf(digits)
        return {}

    def hold(self):
        return self._reinvite(self.current.setHold, pj.CallOpParam())

    def resume(self):
        parameters = pj.CallOpParam(True)
        parameters.opt.flag = pj.PJSUA_CALL_UNHOLD
        return self._reinvite(self.current.reinvite, parameters)

    def change(self):
        """Offer what there is once more; the status that it is answered with."""
        self.current.answered_changes.clear()
        self.current.reinvite(pj.CallOpParam(True))
        self.wait(lambda: self.current.answered_changes)
        return {"status": self.current.answered_changes[0]}

    def _reinvite(self, begin, parameters):
        """Returns when it is answered."""
        before = self.current.media_changes
        begin(parameters)
        self.wait(lambda: self.current.media_changes > before)
        return {}

    def pressed(self, count):
        """Wait for so many keys of the other end."""
        self.wait(lambda: len(self.current.digits) >= count)
        return {"digits": self.current.digits}

    def ended(self):
        """Wait for the other end to hang up. The recording is whole then."""
        self.wait(lambda: self.current.state == ENDED)
        self.current.player = self.current.recorder = None
        return {}

    def status(self):
        call = self.current
        answer = {"ended": call.state == ENDED, "status": call.status, "digits": call.digits}
        if call.state == TALKING:
            received = call.getStreamStat(0).rtcp.rxStat
            answer |= {"packets": received.pkt, "lost": received.loss}
        return answer

    def hangup(self):
        """The recording is whole then."""
        answer = self.status()
        if self.current.state != ENDED:
            self.current.hangup(pj.CallOpParam())
            self.wait(lambda: self.current.state == ENDED)
        self.current.player = self.current.recorder = None
        return answer


def main():
    phone = Phone(json.loads(sys.argv[1]))
    waiting = b""
    while True:
        phone.poll()
        if not select.select([0], [], [], 0)[0]:
            continue
        read = os.read(0, 65536)
        if not read:
            os._exit(0)  # PJSIP's destructors do not survive the end of the interpreter
        waiting += read
        while b"\n" in waiting:
            line, _, waiting = waiting.partition(b"\n")
            command = json.loads(line)
            try:
                answer = getattr(phone, command.pop("do"))(**command)
            except (RuntimeError, pj.Error) as error:
                answer = {"error": error.info() if isinstance(error, pj.Error) else str(error)}
            print(json.dumps(answer), flush=True)


main()
