"""What is shipped for containers and systemd, as far as it can be read without either."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
SECRET = re.compile(r"(?i)(?:secret|key|password)[\"']?\s*[:=]\s*[\"']?[0-9a-f]{16,}")


def test_no_secret_is_in_what_is_shipped() -> None:
    for path in (*DEPLOY.rglob("*"), *(ROOT / "turn").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            assert not SECRET.search(path.read_text()), path


def test_every_image_has_a_version() -> None:
    images = [service["image"] for service in COMPOSE["services"].values()]
    assert [image for image in images if ":" not in image] == ["rtc-server", "rtc-server"]  # built here
    assert not [image for image in images if image.endswith(":latest")]
    for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
        assert image == "python:${PYTHON}-slim"


def test_containers_run_without_root_and_without_rights_that_they_do_not_need() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["user"] == "10001:10001", name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "turn" else []), name
    assert re.search(r"^USER rtc$", DOCKERFILE, re.MULTILINE)


def test_media_never_goes_through_a_bridge() -> None:
    for name in ("server", "turn"):
        assert COMPOSE["services"][name]["network_mode"] == "host"
        assert "ports" not in COMPOSE["services"][name]
    assert "RTC_ADVERTISE_IP" in COMPOSE["services"]["server"]["environment"]


def test_server_and_coturn_start_after_their_secret_is_there() -> None:
    for name in ("server", "turn"):
        assert COMPOSE["services"][name]["depends_on"]["setup"]["condition"] == "service_completed_successfully"


def test_what_the_image_copies_exists_and_is_let_through() -> None:
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    for source in (source for line in copies for source in line.split()):
        assert (ROOT / source).exists(), source
        assert source in let_through, source


def test_the_image_takes_wheels_with_checked_hashes_only() -> None:
    assert "--require-hashes --only-binary :all:" in DOCKERFILE
    installs = re.findall(r"pip (?:install|wheel) [^&\n]+", DOCKERFILE)
    assert installs and all("--no-index" in install for install in installs)


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, "http://127.0.0.1:8124/livez"),
        ({"RTC_PORT": "80", "RTC_TLS": "off"}, "http://127.0.0.1:80/livez"),
        ({"RTC_TLS": "self-signed"}, "https://127.0.0.1:8124/livez"),
        ({"RTC_TLS_CERT": "c.pem"}, "https://127.0.0.1:8124/livez"),
    ],
)
def test_the_health_check_asks_where_the_server_listens(environment: dict[str, str], address: str) -> None:
    code = f"import healthcheck; print(healthcheck.address({environment!r}))"
    run = subprocess.run([sys.executable, "-c", code], cwd=DEPLOY, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == address


def test_the_health_check_fails_where_nobody_listens() -> None:
    environment = {"RTC_PORT": "9"}
    command = [sys.executable, str(DEPLOY / "healthcheck.py")]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith("healthcheck:")


def test_the_setup_script_is_shell() -> None:
    [script] = [part for part in COMPOSE["services"]["setup"]["entrypoint"] if "\n" in part]
    command = ["sh", "-n", "-c", script.replace("$$", "$")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_units_are_ones_that_systemd_understands(tmp_path: Path) -> None:
    """Programs that lie elsewhere in production are replaced by one that is here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here: apt-get install systemd")
    names = []
    for path in sorted((DEPLOY / "systemd").iterdir()):
        if path.is_file():
            names.append(path.name)
            text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE)
            (tmp_path / path.name).write_text(text)
    drop_in = (DEPLOY / "systemd" / "coturn.service.d" / "rtc-server.conf").read_text()
    (tmp_path / "coturn.service").write_text(drop_in.replace("[Service]", "[Service]\nExecStart=/bin/true"))
    command = ["systemd-analyze", "verify", *names, "coturn.service"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert not [line for line in run.stderr.splitlines() if any(name in line for name in (*names, "coturn"))], (
        run.stderr
    )
