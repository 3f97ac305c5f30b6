"""All checks of a folder, one after the other."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from rtc_server.engine.personaplex.device import device_name, parse_device, parse_dtype
from rtc_server.engine.personaplex.verify import batch, choice, codec, language, moshi, openings, session
from rtc_server.engine.personaplex.verify.compare import Comparison
from rtc_server.engine.personaplex.verify.folder import GoldenFolder, Models, UnsupportedModel
from rtc_server.engine.personaplex.verify.report import Report
from rtc_server.errors import ConfigError, RtcServerError

Check = Callable[[GoldenFolder, Models, Comparison], None]


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    files: tuple[str, ...]
    check: Check


PARTS = (
    _Part("mimi", codec.FILES, codec.check),
    _Part("lm", language.FILES, language.check),
    _Part("openings", language.FILES, openings.check),
    _Part("lm_batch", batch.FILES, batch.check),
    _Part("session", session.FILES, session.check),
    _Part("moshi", moshi.FILES, moshi.check),
    _Part("sampling", choice.FILES, choice.check),
)


def verify(
    folder: Path,
    *,
    device: str | None = None,
    dtype: str = "f32",
    weight_bits: int = 16,
    kv_bits: int = 16,
    started: Callable[[str], None] = lambda _part: None,
) -> Report:
    """Compare everything that the folder has.

    Limits bind in float32 with nothing rounded to int8; otherwise the errors are told, and all that is asked is that
    they are finite. `started` is called with the name of each part.

    Raises: ConfigError for a folder that cannot be used, and for a device that is not there.
    """
    on = parse_device(device)
    golden = GoldenFolder(folder)
    models = Models(golden, on, parse_dtype(dtype, on), weight_bits, kv_bits)
    report = Report(_subject(models, dtype), binding=(dtype, weight_bits, kv_bits) == ("f32", 16, 16))
    if changed := golden.changed():
        report.notes.append(f"not as the folder describes them (sha256): {', '.join(changed)}")
    for part in PARTS:
        if missing := golden.missing(part.files):
            report.skip(part.name, f"not in this folder: {', '.join(missing)}")
            continue
        started(part.name)
        try:
            with torch.inference_mode():
                part.check(golden, models, Comparison(report))
        except UnsupportedModel as error:
            report.group(part.name).problems.append(str(error))
        except ConfigError:
            raise
        except RtcServerError as error:
            raise ConfigError(f"{folder}: {error.message}", hint="settings and weights must be of one model") from error
        except Exception as error:  # a kernel that this machine cannot run must not hide the other parts
            report.group(part.name).problems.append(_told(error))
    if not report.compared:
        raise ConfigError(f"{folder} has no golden tensors of any part", hint="name a folder of golden tensors")
    return report


def _told(error: Exception) -> str:
    """With the place where it happened."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if "personaplex" in frame.filename), frames[-1])
    return f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}: {error}"


def _subject(models: Models, dtype: str) -> dict[str, str]:
    return {"device": device_name(models.device), "dtype": dtype, "torch": torch.__version__}
