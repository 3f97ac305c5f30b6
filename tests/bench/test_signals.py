import numpy as np

from rtc_server.bench import signals
from rtc_server.bench.analysis import MIN_CORRELATION, correlate_normalised


def test_no_burst_resembles_another() -> None:
    bursts = signals.bursts()
    silence = np.zeros(signals.BURST_SAMPLES)
    for number, burst in enumerate(bursts):
        padded = np.concatenate([silence, burst, silence])
        for other in range(signals.BURSTS):
            likeness = correlate_normalised(padded, bursts[other]).max()
            assert likeness > 0.999 if other == number else likeness < MIN_CORRELATION - 0.1


def test_the_matched_filter_finds_each_onset_in_the_loop_to_the_sample() -> None:
    loop = signals.loop().astype(np.float64)
    for number, burst in enumerate(signals.bursts()):
        assert correlate_normalised(loop, burst).argmax() == signals.onset_samples(number)


def test_the_loop_is_whole_packets_and_fits_into_the_range_of_samples() -> None:
    assert signals.LOOP_PACKETS * signals.PACKET_SAMPLES == signals.LOOP_SAMPLES == signals.loop().size
    assert np.abs(signals.loop()).max() < 0.7
    assert signals.onset_samples(signals.BURSTS - 1) + signals.BURST_SAMPLES < signals.LOOP_SAMPLES


def test_onsets_do_not_lie_on_packet_edges() -> None:
    for number in range(signals.BURSTS):
        assert signals.onset_samples(number) % signals.PACKET_SAMPLES != 0


def test_bursts_between_repeats_with_the_loop_and_keeps_to_whole_bursts() -> None:
    two_turns = signals.bursts_between(0, 2 * signals.LOOP_PACKETS)
    assert [burst for burst, _ in two_turns] == [*range(signals.BURSTS)] * 2
    assert two_turns[signals.BURSTS][1] - two_turns[0][1] == signals.LOOP_S
    first_packet = signals.onset_samples(0) // signals.PACKET_SAMPLES
    last_packet = -(-(signals.onset_samples(0) + signals.BURST_SAMPLES) // signals.PACKET_SAMPLES)
    assert [burst for burst, _ in signals.bursts_between(first_packet, last_packet)] == [0]
    assert signals.bursts_between(first_packet + 1, last_packet) == []
    assert signals.bursts_between(first_packet, last_packet - 1) == []


def test_a_stream_that_began_inside_the_loop_has_its_onsets_so_much_earlier() -> None:
    offset = 37
    shifted = signals.bursts_between(0, signals.LOOP_PACKETS - offset, offset)
    plain = signals.bursts_between(offset, signals.LOOP_PACKETS)
    assert [(burst, round(at_s + offset * signals.PACKET_S, 9)) for burst, at_s in shifted] == [
        (burst, round(at_s, 9)) for burst, at_s in plain
    ]
