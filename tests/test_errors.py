from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import rtc_server
from rtc_server import errors
from rtc_server.errors import ConfigError, RtcServerError

PACKAGE = Path(rtc_server.__file__).parent
TOLD = {
    name
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, RtcServerError) and kind is not ConfigError
}


def without_a_hint(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TOLD:
            hints = [word.value for word in node.keywords if word.arg in ("hint", None)]
            if not hints or (isinstance(hints[0], ast.Constant) and not hints[0].value):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}"


def test_whoever_uses_the_api_or_the_phone_line_is_told_what_to_do_about_each_error() -> None:
    places = [*(PACKAGE / "http").rglob("*.py"), *(PACKAGE / "transports" / "sip").rglob("*.py")]
    assert len(places) > 50
    assert [where for path in places for where in without_a_hint(path)] == []


def test_each_error_has_a_code_of_its_own() -> None:
    kinds = [vars(errors)[name] for name in sorted(TOLD)]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(400 <= kind.http_status <= 599 for kind in kinds)
