"""The media half of a call: its ports, what was negotiated, its leg and its session."""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.events import Numbered
from rtc_server.session.attachment import Attachment
from rtc_server.session.session import Session
from rtc_server.transports.sip.call.surroundings import CallLeg, Media, Port
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, LocalMedia, MediaPolicy
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.negotiation.remotemedia import DISCARD_PORT


class CallMedia:
    """Takes ports and session one after the other, and gives all back with `close`.

    Args:
        on_event: hears every event of the session.
        on_closed: the session has closed the leg, and with it the ports.
        on_hold: the other end of an answered call has put it on hold, or taken it off again. It holds when it takes
            our audio no more, or gives and takes none. Who never took any, and talks, does not hold.
    """

    def __init__(
        self,
        media: Media,
        policy: MediaPolicy,
        on_event: Callable[[Numbered], None],
        on_closed: Callable[[str], None],
        on_hold: Callable[[bool], None],
    ) -> None:
        self.leg: CallLeg | None = None
        self.peer_host: str | None = None
        """Where the other end's signalling comes from, an IP literal."""
        self._media = media
        self._on_event = on_event
        self._on_closed = on_closed
        self._on_hold = on_hold
        self._policy = policy
        self._session: Session | None = None
        self._attachment: Attachment | None = None
        self._answered = False
        self._listened = False
        """The other end has taken our audio behind the answer."""
        self._held = False
        self._closed = False
        self._port: Port | None = None
        self._negotiation: MediaNegotiation | None = None

    @property
    def negotiation(self) -> MediaNegotiation:
        """From `open` on."""
        assert self._negotiation is not None
        return self._negotiation

    def check_offer(self, body: bytes, told_host: str) -> None:
        """Whether an offer could be answered, before there is a port. Raises: MediaRefused."""
        MediaNegotiation(LocalMedia(told_host, DISCARD_PORT, DISCARD_PORT), self._policy).answer_offer(body)

    def open(self, own_host: str, told_host: str) -> None:
        """Take the ports. Called once.

        Args:
            own_host: our address that the other end's signalling comes to.
            told_host: the one that it is told to send its audio to.

        Raises: CapacityError, when there is no port left.
        """
        self._port = self._media.acquire(own_host, told_host)
        self._negotiation = MediaNegotiation(self._port.local, self._policy)

    def adopt(self, session: Session) -> None:
        """The session that this call is for; it ends with the call."""
        self._session = session

    def join(self) -> None:
        """Become the leg of the adopted session, which now makes its agent ready. No audio flows before `answer`.

        Raises: SessionNotFound.
        """
        assert self._session is not None and self._port is not None
        self._attachment = attachment = self._session.expect_leg()
        self.leg = self._media.leg(self._port, self._on_event, self._on_closed)
        self.leg.handler = attachment
        attachment.attach(self.leg)
        self.follow()
        attachment.on_connected()

    def follow(self) -> None:
        """Send and receive what was agreed on just now. Not to be called for less: the leg then looks anew for where
        the other end's audio comes from."""
        agreed = None if self._negotiation is None else self._negotiation.agreed
        if agreed is None or self.leg is None or self._closed:
            return
        self.leg.agree(agreed, self.peer_host)
        if self._answered:
            self._follow_hold(self.leg, agreed)

    def _follow_hold(self, leg: CallLeg, agreed: AgreedMedia) -> None:
        self._listened = self._listened or agreed.sends_audio
        held = not agreed.sends_audio and (self._listened or not agreed.expects_audio)
        if held is not self._held:
            self._held = held
            leg.hold(held)
            self._on_hold(held)

    def answer(self) -> None:
        """Audio flows from now on. Called once."""
        if self.leg is None:
            return
        self._answered = True
        self.leg.answer()
        if self.negotiation.agreed is not None:
            self._follow_hold(self.leg, self.negotiation.agreed)

    def keep_alive(self) -> None:
        if self.leg is not None:
            self.leg.keep_alive()

    def digit(self, digit: str) -> None:
        """One that has not come as RTP."""
        if self._attachment is not None:
            self._attachment.on_digit(digit)

    @property
    def last_audio_s(self) -> float:
        """0 before there is a leg."""
        return 0.0 if self.leg is None else self.leg.last_audio_s

    @property
    def expects_audio(self) -> bool:
        return self.leg is not None and self.leg.expects_audio

    def close(self, reason: str) -> None:
        """May be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._session is not None:
            self._session.close(reason)
        if self._port is not None and self.leg is None:
            self._port.close()  # else the session closes the leg, and the leg its port
        # Calls are remembered for a while, and samples are large.
        self.leg = self._session = self._attachment = None
