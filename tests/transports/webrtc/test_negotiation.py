from __future__ import annotations

from dataclasses import replace

import pytest

from rtc_server.errors import BadOffer, UnsupportedOffer
from rtc_server.media.audioformat import MAX_BITRATE_BPS
from rtc_server.transports.webrtc.ice import Credentials
from rtc_server.transports.webrtc.negotiation import answer_data_offer, answer_offer
from rtc_server.transports.webrtc.sdp import Negotiated, RemoteCandidate
from tests.transports.webrtc import offers
from tests.transports.webrtc.answers import check_answer, section_lines, sections_of
from tests.transports.webrtc.offers import LOCAL, with_lines

# file, codec, payload type, RED's, answer's direction, our DTLS role
ANSWERED = [
    ("S01", "opus", 111, 63, "sendrecv", "passive"),
    ("S03", "opus", 111, None, "sendrecv", "passive"),
    ("S05", "opus", 111, 63, "sendrecv", "passive"),
    ("S08", "opus", 109, None, "sendrecv", "passive"),
    ("S09", "opus", 109, None, "sendrecv", "passive"),
    ("S10", "opus", 109, None, "sendrecv", "passive"),
    ("S13", "opus", 111, 63, "sendrecv", "passive"),
    ("S17", "PCMA", 8, None, "sendrecv", "passive"),
    ("S18", "opus", 111, None, "sendrecv", "active"),
    ("S22", "opus", 111, None, "sendrecv", "passive"),
    ("S23", "opus", 111, None, "sendrecv", "passive"),
    ("S25", "opus", 111, None, "sendrecv", "passive"),
    ("S26", "opus", 111, None, "sendrecv", "passive"),
    ("S28a", "opus", 111, None, "sendrecv", "passive"),
    ("S28b", "opus", 111, None, "sendrecv", "passive"),
    ("S30", "opus", 111, None, "sendrecv", "passive"),
    ("S32", "PCMU", 0, None, "sendrecv", "passive"),
    ("S34", "opus", 111, 63, "sendonly", "passive"),
    ("S35", "opus", 111, None, "sendrecv", "passive"),
    ("S37_1", "opus", 111, 63, "sendrecv", "passive"),
    ("S37_2", "opus", 111, 63, "sendrecv", "passive"),
    ("S37_3", "opus", 111, 63, "sendrecv", "passive"),
    ("S40_1", "opus", 111, 63, "sendrecv", "passive"),
    ("S40_2", "opus", 111, 63, "sendrecv", "passive"),
    ("S41", "opus", 111, 63, "sendrecv", "passive"),
]
REFUSED = [("S04", "no audio section"), ("S29", "no fingerprint is strong enough")]


def test_every_file_has_its_row() -> None:
    rows = [row[0] for row in ANSWERED] + [name for name, _ in REFUSED]
    assert sorted(offers.read(name) for name in rows) == sorted(offers.read(name) for name in offers.names())


@pytest.mark.parametrize(("name", "codec", "payload_type", "red", "direction", "setup"), ANSWERED)
def test_offer_from_the_field_is_answered(
    name: str, codec: str, payload_type: int, red: int | None, direction: str, setup: str
) -> None:
    sdp = offers.read(name)
    agreed = answer_offer(sdp, LOCAL)
    audio = agreed.audio
    assert (audio.codec, audio.payload_type, audio.red_payload_type) == (codec, payload_type, red)
    assert (agreed.direction, agreed.setup) == (direction, setup)
    assert not agreed.restarts_ice
    check_answer(sdp, agreed)


@pytest.mark.parametrize(("name", "reason"), REFUSED)
def test_offer_from_the_field_is_refused_with_a_reason(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedOffer, match=reason):
        answer_offer(offers.read(name), LOCAL)


def test_data_channel_section_is_answered_with_port_and_message_size() -> None:
    agreed = answer_offer(offers.read("S01"), LOCAL)
    lines = section_lines(agreed.answer_sdp, "application")
    assert lines[0] == "m=application 8125 UDP/DTLS/SCTP webrtc-datachannel"
    assert {"a=mid:1", "a=sctp-port:5000", "a=max-message-size:16384"} <= set(lines)
    assert agreed.sctp is not None and agreed.sctp.max_message_bytes == 262144
    assert "a=group:BUNDLE 0 1\r\n" in agreed.answer_sdp


def test_rejected_first_section_is_passed_over() -> None:
    agreed = answer_offer(offers.read("S09"), LOCAL)
    assert [section.accepted for section in agreed.sections] == [False, True, True]


def test_section_with_opus_is_taken_before_one_with_g711() -> None:
    second = section_of("S32", "audio", mid="phone")
    with_both = offers.read("S01").replace("m=audio", second + "m=audio", 1)
    agreed = answer_offer(with_both, LOCAL)
    assert [section.accepted for section in agreed.sections] == [False, True, True]
    assert agreed.audio.codec == "opus"


def section_of(name: str, kind: str, mid: str) -> str:
    lines = section_lines(offers.read(name), kind)
    return "\r\n".join(f"a=mid:{mid}" if line.startswith("a=mid:") else line for line in lines) + "\r\n"


def test_data_channel_outside_the_bundle_is_rejected_because_there_is_one_transport() -> None:
    sdp = with_lines(offers.read("S01"), {"a=group:BUNDLE": "a=group:BUNDLE 0"})
    agreed = answer_offer(sdp, LOCAL)
    assert agreed.sctp is None
    assert section_lines(agreed.answer_sdp, "application")[0].startswith("m=application 0 ")


def test_bundle_only_section_with_port_zero_is_not_rejected() -> None:
    sdp = offers.read("S01").replace("m=application 9 ", "m=application 0 ")
    assert answer_offer(sdp.replace("a=mid:1", "a=mid:1\r\na=bundle-only"), LOCAL).sctp is not None


def test_listener_without_microphone_is_not_expected_to_send() -> None:
    agreed = answer_offer(offers.read("S34"), LOCAL)
    assert not agreed.expects_audio and agreed.sends_audio


@pytest.mark.parametrize(
    ("offered", "answered"), [("sendonly", "recvonly"), ("inactive", "inactive"), ("recvonly", "sendonly")]
)
def test_direction_is_answered_from_the_other_side(offered: str, answered: str) -> None:
    agreed = answer_offer(with_lines(offers.read("S01"), {"a=sendrecv": f"a={offered}"}), LOCAL)
    assert agreed.direction == answered
    assert ("a=ssrc:" in agreed.answer_sdp) is agreed.sends_audio


@pytest.mark.parametrize(("name", "bitrate_bps"), [("S23", 20_000), ("S35", MAX_BITRATE_BPS)])
def test_offered_bitrate_is_told(name: str, bitrate_bps: int) -> None:
    assert answer_offer(offers.read(name), LOCAL).audio.max_bitrate_bps == bitrate_bps


@pytest.mark.parametrize(
    ("replacements", "status", "reason"),
    [
        ({"a=fingerprint": None}, 400, "no a=fingerprint"),
        ({"a=fingerprint": "a=fingerprint:sha-256 AB:CD"}, 400, "malformed sha-256"),
        ({"a=ice-pwd": None}, 400, "no ICE credentials"),
        ({"a=ice-ufrag": "a=ice-ufrag:a b!"}, 400, "malformed"),
        ({"a=setup": "a=setup:sideways"}, 400, "malformed a=setup"),
        ({"a=setup": "a=setup:holdconn"}, 400, "malformed a=setup"),
        ({"a=rtcp-mux": None}, 422, "no a=rtcp-mux"),
        ({"a=mid": "a=mid:one two"}, 400, "malformed a=mid"),
        ({"a=mid": "a=mid:same"}, 400, "the same a=mid"),
        ({"m=audio": "m=audio 99999 UDP/TLS/RTP/SAVPF 111"}, 400, "malformed m="),
        ({"m=audio": "m=audio nine UDP/TLS/RTP/SAVPF 111"}, 400, "malformed m="),
        ({"m=audio": "m=audio 0 UDP/TLS/RTP/SAVPF 111"}, 422, "no audio section"),
        ({"m=audio": "m=audio 9 udp 111"}, 422, "not RTP"),
        ({"v=0": "v=1"}, 400, "not SDP"),
    ],
)
def test_wrong_offer_is_refused_with_what_is_wrong(
    replacements: dict[str, str | None], status: int, reason: str
) -> None:
    with pytest.raises(BadOffer, match=reason) as caught:
        answer_offer(with_lines(offers.read("S01"), replacements), LOCAL)
    assert caught.value.http_status == status


@pytest.mark.parametrize("line", ["a=group:", "a=group", "a=group:BUNDLE", "a=group: BUNDLE", "a=group:LS 0"])
def test_odd_group_line_is_no_bundle(line: str) -> None:
    offer = offers.read("S01").replace("a=group:BUNDLE 0 1", line)
    assert line in offer
    assert answer_offer(offer, LOCAL).answer_sdp.startswith("v=0")


# ---- the DTLS role ---------------------------------------------------------------------------------------------------


def offer_with_setup(setup: str | None) -> str:
    return with_lines(offers.read("S01"), {"a=setup": None if setup is None else f"a=setup:{setup}"})


@pytest.mark.parametrize(
    ("offered", "ours"),
    [("actpass", "passive"), ("active", "passive"), ("passive", "active"), (None, "passive"), ("PASSIVE", "active")],
)
def test_we_are_the_dtls_server_unless_the_offer_forbids_it(offered: str | None, ours: str) -> None:
    sdp = offer_with_setup(offered)
    agreed = answer_offer(sdp, LOCAL)
    assert agreed.setup == ours
    check_answer(sdp, agreed)


@pytest.mark.parametrize("first", ["actpass", "active", "passive"])
def test_later_offer_keeps_the_role_in_use(first: str) -> None:
    previous = answer_offer(offer_with_setup(first), LOCAL)
    for later in ("actpass", "active" if previous.setup == "passive" else "passive"):
        agreed = answer_offer(offer_with_setup(later), LOCAL, previous)
        assert agreed.setup == previous.setup
        assert f"a=setup:{previous.setup}\r\n" in agreed.answer_sdp


@pytest.mark.parametrize(("first", "later"), [("actpass", "passive"), ("active", "passive"), ("passive", "active")])
def test_later_offer_that_turns_the_roles_round_is_refused(first: str, later: str) -> None:
    previous = answer_offer(offer_with_setup(first), LOCAL)
    with pytest.raises(UnsupportedOffer, match=f"setup:{later} and changes the DTLS role"):
        answer_offer(offer_with_setup(later), LOCAL, previous)


# ---- peers that are ICE-lite -----------------------------------------------------------------------------------------


def test_lite_peer_gets_an_answer_of_a_full_agent_that_knows_where_to_send_its_checks() -> None:
    agreed = answer_offer(offers.read("S23"), LOCAL)
    assert agreed.remote_lite and "ice-lite" not in agreed.answer_sdp
    assert agreed.remote_candidates == (RemoteCandidate("203.0.113.51", 3484, 2122260223),)


def test_ice_lite_in_the_section_is_understood_as_well() -> None:
    sdp = with_lines(offers.read("S23"), {"a=ice-lite": None, "a=mid": "a=mid:audio\r\na=ice-lite"})
    assert answer_offer(sdp, LOCAL).remote_lite


def test_candidates_of_a_full_agent_are_not_looked_at() -> None:
    agreed = answer_offer(offers.read("S03"), LOCAL)
    assert not agreed.remote_lite and agreed.remote_candidates == ()


@pytest.mark.parametrize(
    "candidate", [None, "a=candidate:1 1 tcp 1 203.0.113.51 9 typ host", "a=candidate:1 1 udp 1 peer.local 9 typ host"]
)
def test_lite_peer_that_no_check_can_reach_is_refused(candidate: str | None) -> None:
    sdp = with_lines(offers.read("S23"), {"a=candidate": candidate})
    with pytest.raises(BadOffer, match="none of its [01] candidates can be checked") as caught:
        answer_offer(sdp, LOCAL)
    assert caught.value.http_status == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_loopback_candidate_counts_only_where_the_peer_may_be_on_this_machine(host: str) -> None:
    sdp = with_lines(offers.read("S23"), {"a=candidate": f"a=candidate:1 1 udp 1 {host} 9 typ host"})
    agreed = answer_offer(sdp, replace(LOCAL, peers_on_loopback=True))
    assert agreed.remote_candidates == (RemoteCandidate("127.0.0.1", 9, 1),)
    with pytest.raises(BadOffer, match="can be checked"):
        answer_offer(sdp, LOCAL)


@pytest.mark.parametrize(("first", "later"), [("S23", "full"), ("full", "S23")])
def test_later_offer_that_changes_the_kind_of_ice_is_refused(first: str, later: str) -> None:
    sdp = {"S23": offers.read("S23"), "full": with_lines(offers.read("S23"), {"a=ice-lite": None})}
    previous = answer_offer(sdp[first], LOCAL)
    with pytest.raises(UnsupportedOffer, match="ICE"):
        answer_offer(sdp[later], LOCAL, previous)


# ---- ICE restart -----------------------------------------------------------------------------------------------------

NEW_UFRAG = {"a=ice-ufrag": "a=ice-ufrag:fresh"}
NEW_PWD = {"a=ice-pwd": "a=ice-pwd:abcdefghijklmnopqrstuvwx"}


@pytest.mark.parametrize("changes", [NEW_UFRAG, NEW_PWD, NEW_UFRAG | NEW_PWD], ids=["ufrag", "pwd", "both"])
def test_new_credentials_are_answered_with_new_ones_of_ours(changes: dict[str, str | None]) -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    sdp = with_lines(offers.read("S01"), changes)
    agreed = answer_offer(sdp, LOCAL, first)
    assert agreed.restarts_ice
    assert LOCAL.credentials.ufrag not in agreed.answer_sdp
    check_answer(sdp, agreed)


def test_same_credentials_are_answered_with_the_current_ones() -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    agreed = answer_offer(offers.read("S01"), LOCAL, first)
    assert not agreed.restarts_ice
    check_answer(offers.read("S01"), agreed)


def test_second_restart_and_a_repeated_one_differ() -> None:
    """Credentials of ours are in use once an answer has told them: the call's owner moves them on."""
    first = answer_offer(offers.read("S01"), LOCAL)
    restart = with_lines(offers.read("S01"), NEW_UFRAG | NEW_PWD)
    second = answer_offer(restart, LOCAL, first)
    rotated = replace(LOCAL, credentials=LOCAL.fresh_credentials, fresh_credentials=Credentials.random())
    repeated = answer_offer(restart, rotated, second)
    assert not repeated.restarts_ice
    assert f"a=ice-ufrag:{LOCAL.fresh_credentials.ufrag}\r\n" in repeated.answer_sdp
    third = answer_offer(offers.read("S01"), rotated, repeated)
    assert third.restarts_ice
    assert f"a=ice-ufrag:{rotated.fresh_credentials.ufrag}\r\n" in third.answer_sdp


def test_restart_of_a_lite_peer_brings_its_new_candidates() -> None:
    first = answer_offer(offers.read("S23"), LOCAL)
    moved = NEW_UFRAG | NEW_PWD | {"a=candidate": "a=candidate:1 1 udp 5 198.51.100.9 4000 typ host"}
    agreed = answer_offer(with_lines(offers.read("S23"), moved), LOCAL, first)
    assert agreed.restarts_ice
    assert agreed.remote_candidates == (RemoteCandidate("198.51.100.9", 4000, 5),)


def test_restart_with_another_certificate_is_another_call() -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    other = {"a=fingerprint": "a=fingerprint:sha-256 " + ":".join(["CD"] * 32)}
    for changes in (other, NEW_UFRAG | NEW_PWD | other):
        with pytest.raises(UnsupportedOffer, match="fingerprint"):
            answer_offer(with_lines(offers.read("S01"), changes), LOCAL, first)


# ---- sections of later offers ----------------------------------------------------------------------------------------


def test_later_offer_may_add_video_and_keeps_the_call() -> None:
    first = answer_offer(offers.read("S37_1"), LOCAL)
    second = answer_offer(offers.read("S37_2"), LOCAL, first)
    assert second.version == first.version + 1
    assert f"a=ice-ufrag:{LOCAL.credentials.ufrag}\r\n" in second.answer_sdp
    assert section_lines(second.answer_sdp, "video")[0].startswith("m=video 0 ")
    assert "a=group:BUNDLE 0 1\r\n" in second.answer_sdp


def test_later_offer_with_swapped_sections_is_refused() -> None:
    first = answer_offer(offers.read("S37_1"), LOCAL)
    second = answer_offer(offers.read("S37_2"), LOCAL, first)
    with pytest.raises(BadOffer, match="section 0 changed"):
        answer_offer(offers.read("S37_3"), LOCAL, second)


def test_header_extensions_are_never_answered_so_their_ids_cannot_change() -> None:
    first = answer_offer(offers.read("S40_1"), LOCAL)
    second = answer_offer(offers.read("S40_2"), LOCAL, first)
    assert "extmap" not in first.answer_sdp + second.answer_sdp


def test_later_offer_with_fewer_sections_is_refused() -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    with pytest.raises(BadOffer, match="fewer"):
        answer_offer(offers.read("S01").split("m=application")[0], LOCAL, first)


@pytest.mark.parametrize("line", ["m=audio 0 UDP/TLS/RTP/SAVPF 111", "m=audio 9 udp 111"])
def test_later_offer_without_the_audio_section_is_refused(line: str) -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    with pytest.raises(UnsupportedOffer, match="takes the audio section away"):
        answer_offer(with_lines(offers.read("S01"), {"m=audio": line}), LOCAL, first)


def test_audio_of_the_call_stays_though_a_rejected_section_before_it_comes_alive() -> None:
    first = answer_offer(offers.read("S09"), LOCAL)
    alive = section_of("S01", "audio", mid="another")
    sections = [*sections_of(offers.read("S09"))]
    sdp = offers.read("S09").replace("\r\n".join(sections[0]) + "\r\n", alive)
    assert len(sections_of(sdp)) == len(sections)
    later = answer_offer(sdp, LOCAL, first)
    assert [section.accepted for section in later.sections] == [False, True, True]


def test_data_channel_of_the_call_stays_though_another_one_is_offered_before_it() -> None:
    first = answer_offer(offers.read("S09"), LOCAL)
    another = section_of("S01", "application", mid="another")
    rejected = "\r\n".join(sections_of(offers.read("S09"))[0]) + "\r\n"
    sdp = offers.read("S09").replace(rejected, another).replace("a=group:BUNDLE", "a=group:BUNDLE another")
    later = answer_offer(sdp, LOCAL, first)
    assert [section.accepted for section in later.sections] == [False, True, True]


def test_later_offer_may_hold_the_call_and_take_it_up_again() -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    held = answer_offer(with_lines(offers.read("S01"), {"a=sendrecv": "a=inactive"}), LOCAL, first)
    assert not held.expects_audio and not held.sends_audio
    back = answer_offer(offers.read("S01"), LOCAL, held)
    assert back.expects_audio and back.sends_audio and back.version == 3


@pytest.mark.parametrize("name", [row[0] for row in ANSWERED])
def test_answering_a_later_offer_again_changes_only_the_version(name: str) -> None:
    first = answer_offer(offers.read(name), LOCAL)
    once = answer_offer(offers.read(name), LOCAL, first)
    twice = answer_offer(offers.read(name), LOCAL, once)
    assert unversioned(twice) == unversioned(once) == unversioned(first)
    assert (first.version, once.version, twice.version) == (1, 2, 3)


def unversioned(agreed: Negotiated) -> Negotiated:
    line = f"o=- {LOCAL.session_id} {agreed.version} "
    assert line in agreed.answer_sdp
    return replace(agreed, version=0, answer_sdp=agreed.answer_sdp.replace(line, f"o=- {LOCAL.session_id} 0 "))


# ---- a data channel alone --------------------------------------------------------------------------------------------


def test_an_offer_for_a_data_channel_alone_is_answered() -> None:
    agreed = answer_data_offer(offers.read("S04"), LOCAL)
    assert agreed.sctp is not None and agreed.setup == "passive" and not agreed.restarts_ice
    assert [state.accepted for state in agreed.sections] == [True]
    lines = agreed.answer_sdp.split("\r\n")
    assert "a=ice-lite" in lines and "a=sctp-port:5000" in lines and f"a=ice-ufrag:{LOCAL.credentials.ufrag}" in lines
    assert any(line.startswith("m=application 8125 ") and line.endswith("webrtc-datachannel") for line in lines)
    assert not any(line.startswith("a=rtpmap") for line in lines)


def test_audio_beside_the_data_channel_is_turned_down() -> None:
    agreed = answer_data_offer(offers.read("S01"), LOCAL)
    assert {state.kind: state.accepted for state in agreed.sections} == {"audio": False, "application": True}
    (audio,) = [line for line in agreed.answer_sdp.split("\r\n") if line.startswith("m=audio")]
    assert audio.startswith("m=audio 0 ")
    (bundle,) = [line for line in agreed.answer_sdp.split("\r\n") if line.startswith("a=group:BUNDLE")]
    assert bundle == f"a=group:BUNDLE {agreed.sections[1].mid}"


def test_without_a_data_channel_there_is_nothing_to_test() -> None:
    with pytest.raises(UnsupportedOffer, match="no data channel"):
        answer_data_offer(offers.read("S34").replace("m=application 9", "m=application 0"), LOCAL)


@pytest.mark.parametrize("without", ["a=fingerprint", "a=ice-pwd"])
def test_a_data_channel_needs_what_a_call_needs(without: str) -> None:
    with pytest.raises(BadOffer):
        answer_data_offer(with_lines(offers.read("S04"), {without: None}), LOCAL)
