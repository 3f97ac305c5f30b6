"""Every metric, with its unit and buckets. Labels come from closed sets, never a session id, address, voice or text."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

SESSIONS = Gauge("rtc_sessions", "Sessions that exist", ["state"])
SESSIONS_ENDED = Counter("rtc_sessions_ended_total", "Sessions that ended", ["reason"])
SESSIONS_RESUMED = Counter("rtc_sessions_resumed_total", "Conversations that a new leg of their caller took over")
PHONE_CALLS_ENDED = Counter("rtc_phone_calls_ended_total", "Phone calls that ended", ["direction", "reason"])
OFFERS_REJECTED = Counter("rtc_offers_rejected_total", "Offers refused", ["code"])
SETUP_SECONDS = Histogram(
    "rtc_setup_seconds",
    "From the offer to a stage of the call set-up",
    ["stage"],
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 10, 15),
)
DATAGRAMS_DROPPED = Counter("rtc_datagrams_dropped_total", "Datagrams of strangers, or malformed", ["reason"])
SIP_CONNECTIONS_REFUSED = Counter(
    "rtc_sip_connections_refused_total", "Connections of SIP that did not come about", ["reason"]
)
SIP_CONNECTIONS_CLOSED = Counter(
    "rtc_sip_connections_closed_total", "Connections of SIP that ended, by either side", ["reason"]
)
PACKETS = Counter("rtc_packets_total", "RTP packets", ["direction"])
PACKETS_RECOVERED = Counter("rtc_packets_recovered_total", "Packets of callers taken from a copy in a later one (RED)")
FEC_SECONDS = Counter("rtc_fec_seconds_total", "Audio of callers taken from the FEC of a later packet")
CONCEALED_SECONDS = Counter("rtc_concealed_seconds_total", "Audio of callers that never came, and was made up")
PACKET_LATENESS_SECONDS = Histogram(
    "rtc_packet_lateness_seconds",
    "Departure of outgoing packets behind their time",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64),
)
INPUT_DROPPED_SECONDS = Counter(
    "rtc_input_dropped_seconds_total", "Audio of callers on sockets that came faster than time passes, and was dropped"
)
EVENTS_REJECTED = Counter("rtc_events_rejected_total", "Client events that were malformed or unknown", ["code"])
EVENTS_DROPPED = Counter("rtc_events_dropped_total", "Server events dropped because the peer does not read")
BARGE_INS = Counter("rtc_barge_in_total", "Interruptions of the agent", ["source"])
TICK_SECONDS = Histogram(
    "engine_tick_seconds",
    "Duration of one engine step",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.16, 0.32),
)
TICKS_SHED = Counter("engine_ticks_shed_total", "Tick edges that went by because a step overran")
INPUTS_MISSING = Counter("engine_inputs_missing_total", "Live slots stepped with silence because their frame was late")
ENGINE_RESTARTS = Counter("engine_restarts_total", "Times that the engine's process was started again")
SLOTS = Gauge("engine_slots", "Slots of the engine", ["state"])
