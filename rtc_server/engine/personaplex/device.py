"""Where a model runs and in what type, by the names that an operator uses, and how much memory is free there."""

from __future__ import annotations

from pathlib import Path

import torch

from rtc_server.errors import ConfigError

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
"""Of the container, as it sees itself."""
_DEVICE_HINT = "set --device to cpu, cuda or cuda:1"


def parse_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """``bf16``, ``f16`` or ``f32``. None: float32 on a CPU; on a GPU bfloat16, or float16 where it cannot do that.

    Raises: ConfigError.
    """
    if name is None:
        if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
        return torch.float32
    if name not in DTYPES:
        raise ConfigError(f"dtype {name!r} is none of {', '.join(DTYPES)}", hint="set --dtype")
    return DTYPES[name]


def dtype_name(dtype: torch.dtype) -> str:
    """The reverse of `parse_dtype`."""
    return next(name for name, known in DTYPES.items() if known == dtype)


def parse_device(name: str | None) -> torch.device:
    """``cpu``, ``cuda``, ``cuda:1``. None: the first GPU, else the CPU.

    Raises: ConfigError for what is not a device, or not one of this machine.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device {name!r} is unknown", hint=_DEVICE_HINT) from error
    if device.type == "cuda":
        _check_cuda(name, device)
    elif device.type != "cpu":  # say mps, which lacks the float64 that positions are turned with
        raise ConfigError(f"device {name!r} is of a kind that this engine does not run on", hint=_DEVICE_HINT)
    return device


def _check_cuda(name: str, device: torch.device) -> None:
    if torch.version.cuda is None and torch.version.hip is None:
        raise ConfigError(
            f"device {name!r}: this torch ({torch.__version__}) is built without CUDA",
            hint="install torch for your GPU, or set --device cpu",
        )
    if not torch.cuda.is_available():
        raise ConfigError(f"device {name!r}: torch finds no GPU", hint="check nvidia-smi, or set --device cpu")
    count = torch.cuda.device_count()
    if device.index is not None and device.index >= count:
        raise ConfigError(
            f"device {name!r}: this machine has {count} GPU(s), counted from 0", hint=f"set --device cuda:{count - 1}"
        )


def device_name(device: torch.device) -> str:
    """For people: of the GPU, as its driver has it, or ``cpu``."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def free_bytes(device: torch.device) -> int | None:
    """Memory that a model could take there: of the GPU, or of this machine within its container's limit.

    None where nobody can tell.
    """
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    known = [free for free in (_free_of_machine(), _free_of_container()) if free is not None]
    return min(known, default=None)


def _free_of_machine() -> int | None:
    try:
        lines = MEMINFO.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _free_of_container() -> int | None:
    """What files take of its memory can be had back."""
    try:
        limit_bytes = int((CGROUP / "memory.max").read_text())
        used_bytes = int((CGROUP / "memory.current").read_text())
        fields = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return limit_bytes - used_bytes + int(fields.get("file", 0))
    except (OSError, ValueError):  # "max": no limit
        return None
