"""Every error that a caller, a peer or an operator can meet.

::

    RtcServerError
    ├── ClientError              the request is at fault
    │   ├── BadRequest           malformed JSON, an unknown field, a value out of range
    │   ├── BadOffer             an SDP that cannot be answered
    │   │   └── UnsupportedOffer an SDP that is correct, but asks for what this server does not do
    │   ├── BadEvent             a malformed message on the event channel
    │   ├── UnknownVoice         a voice that the engine does not have
    │   ├── Unauthorized         a missing or wrong API key
    │   ├── ForbiddenOrigin      a page of another origin
    │   ├── SessionNotFound      no such session, or not yours
    │   ├── CallNotFound         no such phone call, or one that ended a while ago
    │   ├── TelephonyOff         a phone call, of a server that takes none
    │   ├── InvalidNumber        what cannot be dialled: a pattern in the place of a number
    │   ├── NumberNotAllowed     a number that the settings of its trunk do not let through
    │   ├── NotConnected         a session whose caller is away just now, a phone call that is not answered
    │   ├── TransferPending      a phone call that is being transferred already
    │   ├── DigitsPending        keys, while as many wait to be pressed as may
    │   ├── OldIceSession        a change of an ICE session that is over
    │   ├── TooManyResumes       a client that takes its conversation over again and again
    │   ├── NoVoiceSample        a voice that nobody can listen to, or none at all
    │   └── TooLarge             a body over its limit
    ├── CapacityError            nobody's fault; try again later
    │   ├── EngineFull           every slot is in use
    │   ├── EngineDraining       the server is going down
    │   ├── TooManyHalfOpen      too many calls are being set up at once
    │   ├── TrunkBusy            the trunk has as many phone calls as it may
    │   ├── NoRtpPort            no port for the audio of a phone call is free
    │   ├── TransactionsFull     too many SIP requests of ours are under way
    │   ├── TooManySubscribers   too many listen to a phone call already
    │   └── TooManyTests         too many test their connection at once
    ├── PeerError                the far end or the network
    │   ├── IceFailed            no connectivity check arrived in time
    │   ├── DtlsFailed           the handshake failed or took too long
    │   └── TransferRefused      the other end of a phone call does not call whom it is to call
    ├── EngineError              the engine
    │   ├── EngineUnavailable    it is not running, or has died
    │   ├── CheckpointError      a model's files are missing, damaged, refused, or not what the engine can run
    │   └── UnknownEngine        no engine of this name
    ├── MissingLibrary           a native library could not be found
    └── ConfigError              a setting is wrong

A message says what failed, which value, and what to do. ``code`` is what clients match on, ``http_status`` is how the
HTTP API tells it, ``close_code`` how a WebSocket does (RFC 6455 section 7.4 and its registry), ``retry_after_s`` when
trying again makes sense.
"""

from __future__ import annotations

from typing import ClassVar


class RtcServerError(Exception):
    """Base of all errors of this package."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    close_code: ClassVar[int] = 1011
    """Internal error."""
    retry_after_s: int | None = None

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def to_json(self) -> dict[str, str]:
        """The body of an error answer and of the event ``error``: ``{code, message, hint}``."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class ClientError(RtcServerError):
    code = "client_error"
    http_status = 400
    close_code = 1008  # policy violation


class BadRequest(ClientError):
    code = "bad_request"


class BadOffer(ClientError):
    code = "bad_offer"


class UnsupportedOffer(BadOffer):
    code = "unsupported_offer"
    http_status = 422


class BadEvent(ClientError):
    code = "bad_event"


class UnknownVoice(ClientError):
    code = "unknown_voice"
    http_status = 422


class Unauthorized(ClientError):
    code = "unauthorized"
    http_status = 401


class ForbiddenOrigin(ClientError):
    code = "forbidden_origin"
    http_status = 403


class SessionNotFound(ClientError):
    code = "session_not_found"
    http_status = 404


class CallNotFound(ClientError):
    code = "call_not_found"
    http_status = 404


class TelephonyOff(ClientError):
    code = "telephony_off"
    http_status = 501


class InvalidNumber(ClientError):
    code = "invalid_number"
    http_status = 422


class NumberNotAllowed(ClientError):
    code = "number_not_allowed"
    http_status = 403


class NotConnected(ClientError):
    code = "not_connected"
    http_status = 409


class TransferPending(ClientError):
    code = "transfer_pending"
    http_status = 409


class DigitsPending(ClientError):
    code = "digits_pending"
    http_status = 409


class OldIceSession(ClientError):
    code = "old_ice_session"
    http_status = 412


class TooManyResumes(ClientError):
    code = "too_many_resumes"
    http_status = 429
    close_code = 1013
    retry_after_s = 5


class NoVoiceSample(ClientError):
    code = "no_voice_sample"
    http_status = 404


class TooLarge(ClientError):
    code = "too_large"
    http_status = 413


class CapacityError(RtcServerError):
    code = "at_capacity"
    http_status = 503
    close_code = 1013  # try again later
    retry_after_s = 5


class EngineFull(CapacityError):
    code = "engine_full"


class EngineDraining(CapacityError):
    code = "engine_draining"
    retry_after_s = 30


class TooManyHalfOpen(CapacityError):
    code = "too_many_half_open"


class TrunkBusy(CapacityError):
    code = "trunk_busy"


class NoRtpPort(CapacityError):
    code = "no_rtp_port"

    def __init__(self, message: str, *, hint: str = "", retry_after_s: int | None = None) -> None:
        """`retry_after_s`: when a port will be free, where that is known."""
        super().__init__(message, hint=hint)
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s


class TransactionsFull(CapacityError):
    code = "too_many_transactions"


class TooManySubscribers(CapacityError):
    code = "too_many_subscribers"


class TooManyTests(CapacityError):
    code = "too_many_tests"
    http_status = 429


class PeerError(RtcServerError):
    code = "peer_error"
    http_status = 502


class IceFailed(PeerError):
    code = "ice_failed"


class DtlsFailed(PeerError):
    code = "dtls_failed"


class TransferRefused(PeerError):
    code = "transfer_refused"


class EngineError(RtcServerError):
    code = "engine_error"


class EngineUnavailable(EngineError):
    code = "engine_unavailable"
    http_status = 503
    close_code = 1013
    retry_after_s = 5


class CheckpointError(EngineError):
    code = "checkpoint_error"


class UnknownEngine(EngineError):
    code = "unknown_engine"


class MissingLibrary(RtcServerError):
    code = "missing_library"


class ConfigError(RtcServerError):
    code = "config_error"
