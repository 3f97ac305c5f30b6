"""The house keeps its shape: imports point one way, files stay small, nothing of the machine it grew on is in it."""

from __future__ import annotations

import ast
import fnmatch
import importlib.metadata
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500

COMMON = {"rtc_server", "rtc_server.errors", "rtc_server.events", "rtc_server.metrics", "rtc_server.log"}
ENGINE_SEAM = {"rtc_server.engine.client", "rtc_server.engine.stepper", "rtc_server.media"}
SESSION = {"rtc_server.session", *ENGINE_SEAM}
TRANSPORT = {"rtc_server.transports.pacer", "rtc_server.transports.ratelimit", "rtc_server.wrongfield", *SESSION}
RTP = {"rtc_server.transports.rtp"}
WIRES = {"rtc_server.transports.webrtc", "rtc_server.transports.websocket", "rtc_server.transports.sip"}
HTTP = {"rtc_server.archive", "rtc_server.config", "rtc_server.http", "rtc_server.dialects", *WIRES, *TRANSPORT}
SERVER = {
    *("rtc_server.server", "rtc_server.check", "rtc_server.launch", "rtc_server.engine"),
    *("rtc_server.finding", "rtc_server.sipcheck", "rtc_server.sipconfig"),
    *HTTP,
}
COMMANDS = {
    "rtc_server.bench",
    "rtc_server.bench.engine",
    "rtc_server.offline",
    "rtc_server.talk",
    "rtc_server.token_command",
    "rtc_server.verify_command",
    "rtc_server.voices_command",
}

# Every area of the package, and what it may import beside itself. A module belongs to the longest name that fits it.
MAY_IMPORT: dict[str, set[str]] = {
    "rtc_server": set(),
    "rtc_server.errors": set(),
    "rtc_server.events": {"rtc_server.errors"},
    "rtc_server.metrics": set(),
    "rtc_server.log": set(),
    "rtc_server.archive": {"rtc_server.errors"},
    "rtc_server.config": COMMON,
    "rtc_server.media": COMMON,
    "rtc_server.engine.stepper": COMMON,
    "rtc_server.engine.client": {"rtc_server.engine.stepper", *COMMON},
    "rtc_server.engine": ENGINE_SEAM | COMMON,
    # Engines are found by name, so that nothing else pays for importing them.
    "rtc_server.engine.echo": {"rtc_server.engine", *ENGINE_SEAM, *COMMON},
    "rtc_server.engine.cascade": {"rtc_server.engine", *ENGINE_SEAM, *COMMON},
    "rtc_server.engine.personaplex": {"rtc_server.archive", "rtc_server.engine", *ENGINE_SEAM, *COMMON},
    # What the page at / may be, without a model.
    "rtc_server.engine.personaplex.webclient": {"rtc_server.engine.personaplex", *COMMON},
    "rtc_server.session": SESSION | COMMON,
    "rtc_server.transports": COMMON,
    "rtc_server.transports.pacer": COMMON,
    "rtc_server.transports.ratelimit": COMMON,
    "rtc_server.transports.rtp": {"rtc_server.media", "rtc_server.transports.ratelimit", *COMMON},
    "rtc_server.transports.webrtc": RTP | TRANSPORT | COMMON,
    "rtc_server.transports.websocket": TRANSPORT | COMMON,
    "rtc_server.transports.sip": RTP | TRANSPORT | COMMON,
    "rtc_server.dialects": TRANSPORT | COMMON,
    "rtc_server.http": HTTP | COMMON,
    "rtc_server.finding": set(),
    "rtc_server.wrongfield": {"rtc_server.errors"},
    "rtc_server.sipcheck": {
        *("rtc_server.config", "rtc_server.finding", "rtc_server.sipconfig", "rtc_server.transports.sip"),
        *COMMON,
    },
    "rtc_server.sipconfig": {"rtc_server.config", "rtc_server.transports.sip", *TRANSPORT, *COMMON},
    "rtc_server.launch": {
        *("rtc_server.config", "rtc_server.engine", "rtc_server.engine.personaplex.webclient"),
        *(*ENGINE_SEAM, *COMMON),
    },
    "rtc_server.offline": {"rtc_server.config", "rtc_server.launch", "rtc_server.engine", *ENGINE_SEAM, *COMMON},
    "rtc_server.talk": {"rtc_server.media", "rtc_server.transports.websocket", *COMMON},
    "rtc_server.token_command": {"rtc_server.config", "rtc_server.http", *COMMON},
    "rtc_server.verify_command": {"rtc_server.engine.personaplex", *COMMON},
    "rtc_server.voices_command": {"rtc_server.engine.personaplex", *COMMON},
    "rtc_server.server": SERVER | COMMON,
    "rtc_server.check": SERVER | COMMON,
    "rtc_server.bench": {
        *("rtc_server.bench.listener", "rtc_server.bench.speech", "rtc_server.bench.words"),
        *("rtc_server.config", "rtc_server.engine", *RTP, *WIRES, *ENGINE_SEAM, *COMMON),
    },
    "rtc_server.bench.listener": {"rtc_server.engine", "rtc_server.engine.echo", *ENGINE_SEAM, *COMMON},
    "rtc_server.bench.speech": ENGINE_SEAM | COMMON,
    "rtc_server.bench.words": {"rtc_server.engine.cascade", *ENGINE_SEAM, *COMMON},
    "rtc_server.bench.engine": {"rtc_server.bench", "rtc_server.engine.personaplex", *COMMON},
    "rtc_server.cli": COMMANDS | SERVER | COMMON,
    "rtc_server.__main__": {"rtc_server.cli"},
}

# Other people's packages: which have one home, which are an extra's, and what media must do without.
ONLY_IN = {
    "torch": "rtc_server.engine.personaplex",
    "safetensors": "rtc_server.engine.personaplex",
    "ray": "rtc_server.engine.ray",
}
EXTRA_OF = {
    "rtc_server.engine.cascade": "demo",
    "rtc_server.engine.personaplex": "personaplex",
    "rtc_server.engine.personaplex.webclient": "personaplex",
    "rtc_server.talk": "talk",
}
NOT_IN_MEDIA = {"aiohttp", "aioice", "aiortc", "asyncio", "select", "selectors", "socket", "socketserver", "ssl"}

TOP_LEVEL = {
    *("pyproject.toml", "rtc_server", "static", "tests", "turn", "README.md"),
    *("LICENSE", "NOTICE", "CHANGELOG.md", "SECURITY.md", "Makefile", "requirements", "docs", "deploy"),
    *(".git", ".gitattributes", ".gitignore", ".dockerignore", ".ci"),
    "PKG-INFO",  # of an unpacked source distribution
}
TEXT_FILES = {".py", ".js", ".css", ".html", ".md", ".toml", ".in", ".txt", ".sdp", ".json", ""}
HOST_PATH = re.compile(r"(?<![\w.:/>])/(?:work|tmp|root|home|Users)/\w")  # our-own-pattern
LEFT_OVER = re.compile(r"\b(?:TODO|FIXME|XXX|raise NotImplementedError)\b")  # our-own-pattern


def _module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module_of(path): path for path in sorted((ROOT / "rtc_server").rglob("*.py"))}


def imports_in(source: str, module: str, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """(line, what) of each import, wherever it stands; ``from package import module`` imports the module."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for name in (f"{base}.{alias.name}" for alias in node.names):
                yield node.lineno, name if name in MODULES else base


def area_of(module: str) -> str:
    return max((area for area in MAY_IMPORT if f"{module}.".startswith(f"{area}.")), key=len, default="")


def wrong_arrows(source: str, module: str, is_package: bool = False) -> list[str]:
    """Each import of ours that `module` must not have, with its line."""
    home = area_of(module)
    allowed = {home, *MAY_IMPORT[home]}
    arrows = [(line, what) for line, what in imports_in(source, module, is_package) if area_of(what)]
    return [f"{module}:{line}: {home} must not import {what}" for line, what in arrows if area_of(what) not in allowed]


def foreign_imports() -> Iterator[tuple[str, int, str]]:
    """(module, line, top-level name) of everything that is neither ours nor the standard library's."""
    for module, path in MODULES.items():
        for line, what in imports_in(path.read_text(), module, path.name == "__init__.py"):
            name = what.partition(".")[0]
            if name != "rtc_server" and name not in sys.stdlib_module_names:
                yield module, line, name


def own_files() -> Iterator[Path]:
    """Every text file of the project, without what .gitignore leaves out."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name != ".git" and not ignored(name))
        paths = (Path(folder, name) for name in sorted(names) if not ignored(name))
        yield from (path for path in paths if path.suffix in TEXT_FILES)


def ignored(name: str) -> bool:
    patterns = (ROOT / ".gitignore").read_text().split()
    return any(fnmatch.fnmatch(name, pattern.strip("/")) for pattern in patterns)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    path = MODULES[module]
    assert not wrong_arrows(path.read_text(), module, path.name == "__init__.py")


def test_every_module_stands_in_an_area_with_rules() -> None:
    strangers = [module for module in MODULES if module != "rtc_server" and area_of(module) == "rtc_server"]
    assert not strangers, "say in MAY_IMPORT what these may import"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rtc_server.media.opus", "from rtc_server.engine import loop"),
        ("rtc_server.media.opus", "def late():\n    import rtc_server.session.session"),
        ("rtc_server.session.session", "from rtc_server.engine.loop import EngineLoop"),
        ("rtc_server.session.session", "from ..transports.webrtc import peer"),
        ("rtc_server.engine.loop", "from . import echo"),
        ("rtc_server.transports.websocket.pcm", "from rtc_server.transports.webrtc import sdp"),
        ("rtc_server.http.sessions", "from rtc_server.server import Server"),
        ("rtc_server.server", "from rtc_server import cli"),
    ],
)
def test_an_arrow_that_points_the_wrong_way_is_named(module: str, source: str) -> None:
    assert wrong_arrows(source, module)


def test_torch_and_ray_have_one_home() -> None:
    homes = [(f"{module}:{line}: {name}", ONLY_IN[name]) for module, line, name in foreign_imports() if name in ONLY_IN]
    assert not [place for place, home in homes if not place.startswith(home)]


def test_media_knows_no_loop_and_no_socket() -> None:
    for module, path in MODULES.items():
        if area_of(module) == "rtc_server.media":
            names = {what.partition(".")[0] for _, what in imports_in(path.read_text(), module)}
            assert not names & NOT_IN_MEDIA, f"{module} imports {names & NOT_IN_MEDIA}"


def test_what_is_imported_is_declared_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    distributions = importlib.metadata.packages_distributions()
    for module, line, name in foreign_imports():
        extra = EXTRA_OF.get(area_of(module), "")
        lines = [*project["dependencies"], *project["optional-dependencies"].get(extra, [])]
        declared = {canonicalize_name(Requirement(requirement).name) for requirement in lines}
        providers = {canonicalize_name(provider) for provider in distributions.get(name, [name])}
        assert providers & declared, f"{module}:{line}: {name} comes with {providers}, which nothing declares"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_it_is_for(module: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[module].read_text()))


def test_no_file_outgrows_its_idea() -> None:
    sizes = {path: path.read_text().count("\n") for path in own_files() if path.suffix in {".py", ".js"}}
    too_long = {str(path.relative_to(ROOT)): lines for path, lines in sizes.items() if lines > MAX_LINES}
    assert not too_long, f"more than {MAX_LINES} lines: look for the seam"


def test_nothing_is_left_over_and_no_path_of_a_host_is_named() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in own_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if (HOST_PATH.search(line) or LEFT_OVER.search(line)) and not line.endswith("# our-own-pattern")
    ]
    assert not found


def test_only_agreed_names_stand_at_the_top() -> None:
    assert not {path.name for path in ROOT.iterdir() if not ignored(path.name)} - TOP_LEVEL
