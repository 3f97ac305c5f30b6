"""What all sections have in common: where their values come from, and how a wrong one is told."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from rtc_server.errors import ConfigError


def _split(value: Any) -> Any:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        return value
    return tuple(part.strip() for item in items for part in item.split(",") if part.strip())


CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list; in the environment, and in a flag that may be repeated, ``a, b``."""


class Section(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="RTC_", frozen=True, extra="forbid", enable_decoding=False)

    flag_prefix: ClassVar[str] = ""
    """Before the names of its flags; in upper case, it is part of `env_prefix` as well."""
    secrets: ClassVar[frozenset[str]] = frozenset()
    """Never shown, and never a flag. In `tables` as well."""
    tables: ClassVar[frozenset[str]] = frozenset()
    """Lists of tables, which only the file can hold."""
    with_flag: ClassVar[frozenset[str] | None] = None
    """What the command line can set. None: everything but `secrets`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Flags and file are merged around the environment by `merge`; here only the environment is read.
        return init_settings, env_settings


S = TypeVar("S", bound=Section)


def merge(name: str, model: type[S], flags: Mapping[str, Any], file: Mapping[str, Any]) -> S:
    """A section from its three sources. Raises: ConfigError."""
    own = {field: flags[flag] for field in model.model_fields if (flag := model.flag_prefix + field) in flags}
    for key in file:
        if key not in model.model_fields:
            raise ConfigError(f"[{name}] {key} is no setting", hint=did_you_mean(key, model.model_fields))
    try:
        environment = model().model_dump(exclude_unset=True)
        return model(**{**file, **environment, **own})
    except ValidationError as error:
        raise _wrong(name, model, error, file) from None


def _wrong(name: str, model: type[Section], error: ValidationError, file: Mapping[str, Any]) -> ConfigError:
    first = error.errors()[0]
    location = first["loc"] or (name,)
    field = str(location[0])
    secret = any(str(part) in model.secrets for part in location)
    message = first["msg"].removeprefix("Value error, ")
    if field in model.tables:
        place = f"[{name}] {place_of(location, file)}"
        if first["type"] == "extra_forbidden":
            # The value is not shown: the key may be a password's, mistyped.
            table = _table_at(model, location[:-1])
            known = table.model_fields if table is not None else ()
            return ConfigError(f"{place} is no setting", hint=did_you_mean(str(location[-1]), known))
        # A whole table is not shown: it may hold a secret.
        is_table = _table_at(model, location) is not None
        if is_table and first["type"] in ("tuple_type", "model_type"):
            title = ".".join([name, *(part for part in location if isinstance(part, str))])
            return ConfigError(f"{place}: this is a list of tables", hint=f"write [[{title}]]")
        hidden = secret or is_table or isinstance(first["input"], dict | list)
        shown = "" if hidden else f"={first['input']!r}"
        return ConfigError(f"{place}{shown[:80]}: {message}", hint=f"correct [[{name}.{field}]] in the settings file")
    shown = "" if secret else f"={first['input']!r}"
    flag_name = (model.flag_prefix + field).replace("_", "-")
    has_flag = field in model.with_flag if model.with_flag is not None else not secret
    flag = f"--{flag_name} or " if has_flag else ""
    variable = f"{model.model_config['env_prefix']}{field.upper()}"
    return ConfigError(f"{field}{shown[:80]}: {message}", hint=f"set {flag}{variable}")


def _table_at(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel] | None:
    """The model of the table, or of the list of tables, that stands there; None where something else does."""
    found: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, str):
            field = found.model_fields.get(part) if found is not None else None
            inside = get_args(field.annotation) if field is not None else ()
            found = next((kind for kind in inside if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
    return found


def place_of(location: Sequence[str | int], content: Any) -> str:
    """Where something stands in lists of tables: ``trunks[carrier].numbers[+1555*].voice``. Tables go by names."""
    place = ""
    for part in location:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            content = None
        if isinstance(part, int):
            place += f"[{_label(content, part)}]"
        else:
            place += f".{part}" if place else part
    return place


def _label(table: Any, index: int) -> str:
    names = (table.get(key) for key in ("name", "pattern")) if isinstance(table, dict) else ()
    return next((name[:40] for name in names if isinstance(name, str) and name), f"#{index + 1}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
