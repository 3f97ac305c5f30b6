from rtc_server.bench.impairment import Uplink


def lost(uplink: Uplink, begin_s: float, seconds: float) -> list[int]:
    return [n for n in range(round(seconds * 50)) if uplink.loses(begin_s + n * 0.02)]


def test_nothing_is_lost_before_the_run_begins() -> None:
    uplink = Uplink(loss=0.9, drop_at_s=[0.1])
    assert lost(uplink, 100.0, 10.0) == []


def test_exactly_one_packet_is_lost_at_each_drop() -> None:
    uplink = Uplink(drop_at_s=[3.0, 1.01])
    uplink.begin(100.0)
    assert lost(uplink, 100.0, 10.0) == [51, 150]
    assert uplink.dropped == 2


def test_random_loss_keeps_to_its_rate_and_its_seed() -> None:
    def run(seed: int) -> list[int]:
        uplink = Uplink(loss=0.1, seed=seed)
        uplink.begin(0.0)
        return lost(uplink, 0.0, 200.0)

    assert 900 < len(run(1)) < 1100
    assert run(1) == run(1) != run(2)
