"""Writing an SDP answer (RFC 8829 section 5.3): every section mirrored in place, what was not taken with port 0.

Header extensions are not answered, so their ids cannot change meaning. RED stands first where it is agreed on: a
sender takes the first payload type of the answer.
"""

from __future__ import annotations

from rtc_server.events import MAX_MESSAGE_BYTES
from rtc_server.media.audioformat import AudioFormat
from rtc_server.transports.webrtc.offer import Offer, Section
from rtc_server.transports.webrtc.sdp import AgreedPath, LocalDescription, Negotiated

PTIME_MS = 20
SCTP_PORT = 5000
WANTED_BITRATE_BPS = 40_000
"""What we ask of the peer: mono speech at 24 kHz, with in-band FEC."""

_OPUS_FMTP = (
    "minptime=10;useinbandfec=1;usedtx=0;stereo=0;sprop-stereo=0;"
    f"maxplaybackrate=24000;maxaveragebitrate={WANTED_BITRATE_BPS}"
)


def write_answer(offer: Offer, agreed: AgreedPath, local: LocalDescription) -> str:
    """The answer to `offer` that says what was `agreed` on (all but its `answer_sdp`); lines end with CRLF.

    Audio is accepted only in what is `Negotiated`.
    """
    accepted = [section for section, state in zip(offer.sections, agreed.sections, strict=True) if state.accepted]
    lines = ["v=0", f"o=- {local.session_id} {agreed.version} IN IP4 0.0.0.0", "s=-", "t=0 0"]
    if not agreed.remote_lite:
        lines.append("a=ice-lite")
    lines += _bundle_line(offer, accepted)
    if "msid-semantic" in offer.attributes.first:
        lines.append("a=msid-semantic:WMS *")
    for section, state in zip(offer.sections, agreed.sections, strict=True):
        if not state.accepted:
            lines += [f"m={section.kind} 0 {section.profile} {' '.join(section.formats)}", "c=IN IP4 0.0.0.0"]
            lines += [*_mid_line(section), "a=inactive"]
            continue
        call = agreed if isinstance(agreed, Negotiated) and section.kind == "audio" else None
        formats = "webrtc-datachannel" if call is None else _payload_types(call.audio)
        lines += [f"m={section.kind} {local.port} {section.profile} {formats}"]
        lines += [*_transport_lines(agreed, local), *_mid_line(section)]
        lines += _data_channel_lines() if call is None else _audio_lines(call, local)
    return "\r\n".join(lines) + "\r\n"


def _bundle_line(offer: Offer, accepted: list[Section]) -> list[str]:
    mids = {section.mid for section in accepted}
    bundle = next(filter(None, (offer.bundle_of(section) for section in accepted)), ())
    taken = [mid for mid in dict.fromkeys(bundle) if mid in mids]
    return ["a=group:BUNDLE " + " ".join(taken)] if taken else []


def _mid_line(section: Section) -> list[str]:
    return [] if section.mid is None else [f"a=mid:{section.mid}"]


def _transport_lines(agreed: AgreedPath, local: LocalDescription) -> list[str]:
    credentials = local.fresh_credentials if agreed.restarts_ice else local.credentials
    best = local.addresses[0] if local.addresses else "0.0.0.0"
    lines = [
        f"c=IN IP{6 if ':' in best else 4} {best}",
        f"a=ice-ufrag:{credentials.ufrag}",
        f"a=ice-pwd:{credentials.pwd}",
        f"a=fingerprint:{local.fingerprint.algorithm} {local.fingerprint.value}",
        f"a=setup:{agreed.setup}",
    ]
    for index, address in enumerate(local.addresses):
        # RFC 8445 section 5.1.2.1: type preference 126 (host), local preference falling, component 1.
        priority = (126 << 24) | ((65535 - index) << 8) | 255
        lines.append(f"a=candidate:{index + 1} 1 udp {priority} {address} {local.port} typ host")
    return [*lines, "a=end-of-candidates"]


def _payload_types(audio: AudioFormat) -> str:
    numbers = (audio.red_payload_type, audio.payload_type, audio.comfort_noise_payload_type)
    return " ".join(str(number) for number in numbers if number is not None)


def _audio_lines(agreed: Negotiated, local: LocalDescription) -> list[str]:
    lines = [f"a={agreed.direction}", "a=rtcp-mux", *_format_lines(agreed.audio), f"a=ptime:{PTIME_MS}"]
    if agreed.sends_audio:
        lines += [f"a=msid:{local.cname} agent", f"a=ssrc:{local.ssrc} cname:{local.cname}"]
    return lines


def _format_lines(audio: AudioFormat) -> list[str]:
    number, red, noise = audio.payload_type, audio.red_payload_type, audio.comfort_noise_payload_type
    if audio.codec == "opus":
        around = [] if red is None else [f"a=rtpmap:{red} red/48000/2", f"a=fmtp:{red} {number}/{number}"]
        return [*around, f"a=rtpmap:{number} opus/48000/2", f"a=fmtp:{number} {_OPUS_FMTP}"]
    beside = [] if noise is None else [f"a=rtpmap:{noise} CN/{audio.clock_hz}"]
    return [f"a=rtpmap:{number} {audio.codec}/{audio.clock_hz}", *beside]


def _data_channel_lines() -> list[str]:
    return [f"a=sctp-port:{SCTP_PORT}", f"a=max-message-size:{MAX_MESSAGE_BYTES}"]
