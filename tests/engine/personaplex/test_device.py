from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rtc_server.engine.personaplex import device
from rtc_server.engine.personaplex.device import dtype_name, free_bytes, parse_device, parse_dtype
from rtc_server.errors import ConfigError

CPU = torch.device("cpu")


def test_types_go_by_their_short_names() -> None:
    cpu = torch.device("cpu")
    assert [parse_dtype(name, cpu) for name in ("bf16", "f16", "f32")] == [torch.bfloat16, torch.float16, torch.float32]
    assert parse_dtype(None, cpu) == torch.float32
    assert dtype_name(torch.bfloat16) == "bf16"
    with pytest.raises(ConfigError, match="dtype 'fp8' is none of bf16, f16, f32"):
        parse_dtype("fp8", cpu)


@pytest.mark.parametrize("name", ["cpu", "cuda:99", "tpu", "gpu", "meta", "cuda:x", "", "xpu", "mps:7"])
def test_a_device_is_one_of_this_machine_or_a_clear_error(name: str) -> None:
    if name == "cpu":
        assert parse_device(name) == torch.device("cpu")
        return
    with pytest.raises(ConfigError, match="device"):
        parse_device(name)


def test_an_apple_gpu_is_refused_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(ConfigError, match="device 'mps' is of a kind that this engine does not run on") as refused:
        parse_device("mps")
    assert "mps" not in refused.value.hint


def test_without_a_gpu_the_cpu_is_chosen() -> None:
    assert parse_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Linux machine with 8 GB to be had, in a container without a limit."""
    monkeypatch.setattr(device, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(device, "CGROUP", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("3000000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000000\nfile 2000000000\n")
    return tmp_path


def test_free_memory_of_the_machine_is_what_can_be_had(machine: Path) -> None:
    assert free_bytes(CPU) == 8_000_000 * 1024


def test_a_container_with_a_limit_has_less(machine: Path) -> None:
    """Of its 4 GB one is taken by programs; two are taken by files, which can be had back."""
    (machine / "memory.max").write_text("4000000000\n")
    assert free_bytes(CPU) == 3_000_000_000


def test_where_nobody_can_tell_nothing_is_said(machine: Path) -> None:
    for path in machine.iterdir():
        path.unlink()
    assert free_bytes(CPU) is None
    (machine / "meminfo").write_text("MemTotal: lots\n")
    assert free_bytes(CPU) is None
