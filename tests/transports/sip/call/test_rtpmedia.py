from __future__ import annotations

from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip.call.rtpmedia import RtpMedia
from rtc_server.transports.sip.dialog.sessiontimer import LONGEST_S, MARGIN_S
from rtc_server.transports.sip.media.rtpport import RtpPorts
from tests.transports.sip.media.phones import Handler
from tests.transports.sip.media.test_rtpport import HOST, Clock, free_range


async def test_dialog_is_believed_in_as_long_as_the_longest_session_timer_lets_it_stand() -> None:
    clock, first = Clock(), free_range(1)
    media = RtpMedia(RtpPorts(first, first + 1, clock=clock), Pacer(clock), clock)
    leg = media.leg(media.acquire(HOST, HOST), lambda event: None, lambda reason: None)
    leg.handler = Handler()
    clock.now += LONGEST_S - MARGIN_S
    assert leg.last_sign_of_life_s == clock.now
    await leg.close("over")
