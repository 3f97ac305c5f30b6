"""Would anybody want this engine here unasked? Answered without importing torch, which takes seconds."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from pathlib import Path

from rtc_server.engine.registry import EngineOptions

DEFAULT_MODEL = "nvidia/personaplex-7b-v1"


def lack(options: EngineOptions) -> str | None:
    """Half a sentence that says why not; None if there is a GPU and the weights are on this machine."""
    if options.device is None and not nvidia_gpus():
        return "personaplex wants an NVIDIA GPU (--engine personaplex takes the CPU all the same)"
    if options.model is None and not is_downloaded(DEFAULT_MODEL):
        return f"{DEFAULT_MODEL} is not on this machine (--engine personaplex fetches it)"
    return None


def nvidia_gpus() -> int:
    """How many the driver shows."""
    name = ctypes.util.find_library("cuda") or ("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    try:
        driver = ctypes.CDLL(name)
        count = ctypes.c_int()
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0
    except (OSError, AttributeError):
        return 0
    return count.value


def is_downloaded(repository: str) -> bool:
    """Does the hub's cache hold a whole snapshot of it?"""
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    folder = Path(cache or Path(home, "hub")) / f"models--{repository.replace('/', '--')}"
    return any(folder.glob("snapshots/*/model.safetensors"))
