"""A folder of golden tensors, and the server's own models built from its weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from rtc_server.engine.personaplex.checkpoint import Checkpoint
from rtc_server.engine.personaplex.config import TOKEN_ROWS, LmConfig, MimiConfig, ModelConfig
from rtc_server.engine.personaplex.depformer import Depformer
from rtc_server.engine.personaplex.files import lm_weights, mimi_weights
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.settings import FIXED
from rtc_server.errors import ConfigError

README = "README.json"
MAX_README_BYTES = 50_000_000
MIMI_WEIGHTS = "mimi_tiny.safetensors"
TOKENIZER = "spm_tiny.model"
RULES = {key: value for key, value in FIXED.items() if key != "delays"}
"""Those settings of a language model that are not its sizes. A folder may have other delays than a checkpoint."""


class Tensors(Mapping[str, Tensor]):
    """Of one file. Raises: ConfigError for a name that is not in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tensors = load_file(path)
        except (OSError, SafetensorError, ValueError) as error:
            raise ConfigError(f"cannot read {path}: {error}", hint="is it whole? copy the folder again") from None

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise ConfigError(f"{self._path} has no tensor {name!r}", hint="is it of the format of golden tensors?")
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def under(self, prefix: str) -> dict[str, Tensor]:
        """Those whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): tensor for name, tensor in self._tensors.items() if name.startswith(prefix)}


class UnsupportedModel(Exception):
    """The folder is of a model that this engine cannot be."""


class GoldenFolder:
    """``README.json`` holds the settings of the models (``configs``), schedules (``info``) and what each file is.

    Raises: ConfigError for a folder that is none of golden tensors.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        readme = self.json(README)
        self.configs = _object(readme, "configs", path / README)
        self.info = _object(readme, "info", path / README)
        self._described = readme.get("files") if isinstance(readme.get("files"), dict) else {}

    def missing(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if not (self.path / name).is_file()]

    def tensors(self, name: str) -> Tensors:
        return Tensors(self.path / name)

    def json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            with path.open("rb") as file:
                content = json.loads(file.read(MAX_README_BYTES))
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}", hint="name a folder of golden tensors") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not JSON: {error}") from None
        if not isinstance(content, dict):
            raise ConfigError(f"{path} is not a JSON object")
        return content

    def changed(self) -> list[str]:
        """Files that are not what the folder's own description says (sha256)."""
        names = []
        for name, description in (self._described or {}).items():
            path = self.path / name
            if isinstance(description, dict) and "sha256" in description and path.is_file():
                with path.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != description["sha256"]:
                        names.append(name)
        return names

    def lm_config(self, name: str, *, personaplex: bool) -> LmConfig:
        """Raises: UnsupportedModel for settings that this engine does not run."""
        raw = self._settings(name)
        for key, value in RULES.items():
            if raw.get(key, value) != value:
                raise UnsupportedModel(f"{key} {raw[key]!r}; this engine runs {value!r}")
        try:
            config = LmConfig.from_json(raw, personaplex=personaplex)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{self.path / README}: configs.{name} does not tell {error}") from None
        if len(config.delays) != TOKEN_ROWS or min(config.delays) < 0:
            raise UnsupportedModel(f"delays {list(config.delays)} are not those of {TOKEN_ROWS} token rows")
        return config

    def mimi_config(self) -> MimiConfig:
        try:
            return MimiConfig.from_json(self._settings("mimi"), personaplex=True)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{self.path / README}: configs.mimi does not tell {error}") from None

    def _settings(self, name: str) -> dict[str, Any]:
        return _object(self.configs, name, self.path / README)


def _object(raw: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = raw.get(name)
    if not isinstance(value, dict):
        raise ConfigError(f"{path} has no object {name!r}", hint="is it of the format of golden tensors?")
    return value


@dataclass(frozen=True, slots=True)
class Models:
    """Builds the server's models from a folder's weights, through the server's own loader."""

    folder: GoldenFolder
    device: torch.device
    dtype: torch.dtype
    weight_bits: int = 16
    kv_bits: int = 16

    def lm(self, file: str, config: LmConfig, *, rows: int, depformer_steps: int = 8) -> LanguageModel:
        """Raises: CheckpointError for weights that are not those of `config`."""
        weights = lm_weights(
            self._checkpoint(file, config, MimiConfig()),
            device=self.device,
            dtype=self.dtype,
            depformer_steps=depformer_steps,
        )
        with weights:
            return LanguageModel(
                weights,
                config,
                rows=rows,
                device=self.device,
                dtype=self.dtype,
                depformer_steps=depformer_steps,
                weight_bits=self.weight_bits,
                kv_bits=self.kv_bits,
            )

    def depformer(self, file: str, config: LmConfig, *, rows: int) -> Depformer:
        """Alone, with all the steps that are stored. Raises: CheckpointError."""
        steps = config.depformer_steps
        checkpoint = self._checkpoint(file, config, MimiConfig())
        with lm_weights(checkpoint, device=self.device, dtype=self.dtype, depformer_steps=steps) as weights:
            return Depformer(weights, config, steps=steps, rows=rows, bits=self.weight_bits)

    def mimi(self, *, rows: int) -> Mimi:
        """Raises: CheckpointError for weights that are not those of the folder's settings."""
        config = self.folder.mimi_config()
        with mimi_weights(self._checkpoint("", LmConfig(), config), device=self.device) as weights:
            return Mimi(weights, config, rows=rows, device=self.device)

    def _checkpoint(self, lm_file: str, lm: LmConfig, mimi: MimiConfig) -> Checkpoint:
        folder = self.folder.path
        model = ModelConfig(lm, mimi, personaplex=lm.drop_oldest)
        files = (folder / lm_file, folder / MIMI_WEIGHTS, folder / TOKENIZER)
        return Checkpoint(folder.name, None, model, *files, voices=None)
