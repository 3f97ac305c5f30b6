"""What holds for every test: a clean environment, a header that names the peers, and no silent skip in CI."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
from collections.abc import Generator

import hypothesis
import pytest

from rtc_server.errors import MissingLibrary
from rtc_server.media import libopus

IN_CI = os.environ.get("CI") == "true"

# A developer's own settings must not change what is tested, and no test may ask a model hub for anything.
for name in [name for name in os.environ if name.startswith("RTC_") and name not in ("RTC_SOAK", "RTC_ARTIFACTS")]:
    del os.environ[name]
os.environ["HF_HUB_OFFLINE"] = "1"

# CI repeats the same examples, so that a change never fails for what it did not touch. No deadline: machines are busy.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("developer", deadline=None)
hypothesis.settings.load_profile("ci" if IN_CI else "developer")


def pytest_report_header() -> list[str]:
    browsers = {"chromium": _version_of("chromium"), "firefox": _version_of("firefox-esr")}
    libraries = {name: importlib.metadata.version(name) for name in ("aiortc", "av", "numpy")}
    return [
        "peers: " + ", ".join(f"{name} {version}" for name, version in browsers.items()),
        "media: " + ", ".join([_libopus_version(), *(f"{name} {version}" for name, version in libraries.items())]),
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real peers come last: what fails in a millisecond is known before the first browser opens."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.get_closest_marker("gpu") is None:
        _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid_skip(report)
    return report


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI a skip is a failure: a peer that is missing there would otherwise hide its tests for ever."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"CI runs every test, but {report.nodeid} was skipped. {reason}"


def _version_of(program: str) -> str:
    if shutil.which(program) is None:
        return "missing"
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "does not start"
    digits = [word for word in answer.stdout.split() if word[0].isdigit()]
    return digits[0] if digits else "of unknown version"


def _libopus_version() -> str:
    try:
        return libopus.version()
    except MissingLibrary:
        return "libopus missing"
