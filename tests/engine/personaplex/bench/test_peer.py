import sys
from pathlib import Path
from textwrap import dedent

import pytest

from rtc_server.engine.personaplex.bench.peer import Peer, language_settings
from rtc_server.engine.personaplex.config import MID_LM
from rtc_server.errors import ConfigError

PYTHON = Path(sys.executable)


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that has the peer's name and the little of its surface that is called; it writes down what it got."""
    models = tmp_path / "moshi" / "models"
    models.mkdir(parents=True)
    for package in (models.parent, models):
        (package / "__init__.py").touch()  # or one that is installed would come first
    (tmp_path / "moshi-7.8.9.dist-info").mkdir()
    (tmp_path / "moshi-7.8.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: moshi\nVersion: 7.8.9\n")
    (models / "lm.py").write_text(
        dedent(
            """
            from pathlib import Path
            LOG = Path(__file__).with_name("log")
            class LMModel:
                def __init__(self, **settings):
                    LOG.write_text(repr({name: settings[name] for name in ("dim", "dep_q", "hidden_scale")}))
                def eval(self):
                    return self
            class LMGen:
                def __init__(self, model): pass
                def streaming_forever(self, slots): self.slots = slots
                def step(self, codes):
                    assert codes.shape == (self.slots, 8, 1)
                    with LOG.open("a") as log: log.write(" step")
            """
        )
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return models / "log"


def test_the_reference_makes_one_call_each_time_it_is_asked(stub: Path) -> None:
    with Peer(PYTHON, language_settings(MID_LM, 8), 3, 1, "cpu") as peer:
        assert peer.version == "7.8.9"
        before = stub.read_text().count("step")
        sample = peer.sample()
        assert sample.cpu_ms > 0 and sample.wall_ms > 0
        assert stub.read_text().count("step") == before + 1
    assert "'dim': 512, 'dep_q': 8, 'hidden_scale': 4.125" in stub.read_text()


def test_a_peer_that_ends_is_told_with_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"--peer .*status 1"):
        Peer(PYTHON, language_settings(MID_LM, 8) | {"dim": -1, "num_heads": None}, 1, 1, "nowhere")
    assert "Error" in capfd.readouterr().err


def test_an_interpreter_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="--peer .*missing.* cannot be started"):
        Peer(Path("missing/python"), {}, 1, 1, "cpu")


def test_feed_forward_widths_are_given_as_the_reference_counts_them() -> None:
    settings = language_settings(MID_LM, 16)
    assert (settings["hidden_scale"], settings["depformer_dim_feedforward"]) == (4.125, 1056)
    assert (settings["n_q"], settings["dep_q"]) == (16, 16)
