"""Three machines on one: a caller, a TURN server in the middle that also routes, and the media server behind it.

::

    caller 10.99.1.2 ---- 10.99.1.1 TURN server 10.99.2.1 ---- 10.99.2.2 media server
                                10.99.0.1
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

Machine = Literal["caller", "turn", "server"]

CALLER = "10.99.1.2"
TURN = "10.99.0.1"
TURN_V6 = "fd00:99::1"
SERVER = "10.99.2.2"
SERVER_V6 = "fd00:99:2::2"
NOWHERE = "10.99.0.66"
"""Whatever is sent there is lost without a word."""

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def missing() -> str:
    """Why there can be no such network here; empty when it can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "no ip here: apt-get install iproute2"
    allowed = subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=20, check=False).returncode == 0
    return "" if allowed else "this machine lets not even root make network namespaces"


class Network:
    """Exists until `close`; nothing of it can be reached from this machine's own network."""

    def __init__(self) -> None:
        self._prefix = f"rtc{os.getpid()}{os.urandom(2).hex()}"
        self._machines: list[Machine] = []

    def open(self) -> None:
        machines: tuple[Machine, ...] = ("caller", "turn", "server")
        for machine in machines:
            _ip("netns", "add", self._name(machine))
            self._machines.append(machine)
            self._ip(machine, "link", "set", "lo", "up")
        self._connect("caller", 1)
        self._connect("server", 2)
        for address in (f"{TURN}/32", f"{TURN_V6}/128"):
            self._ip("turn", "address", "add", address, "dev", "lo")
        self._ip("turn", "route", "add", "blackhole", f"{NOWHERE}/32")
        with self.inside("turn"):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")

    def close(self) -> None:
        while self._machines:
            _ip("netns", "delete", self._name(self._machines.pop()))

    @contextlib.contextmanager
    def inside(self, machine: Machine) -> Iterator[None]:
        """This thread, and what it starts, is on that machine."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self._name(machine)}", os.O_RDONLY)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(there)
            os.close(home)

    def block_udp(self) -> None:
        """From now on no UDP packet of the caller gets anywhere, as behind a strict firewall."""
        for family in ("-4", "-6"):
            # The rule has to come before the table of the machine's own addresses.
            self._ip("turn", family, "rule", "add", "preference", "10", "lookup", "local")
            self._ip("turn", family, "rule", "delete", "preference", "0")
            self._ip("turn", family, "rule", "add", "preference", "5", "iif", "to1", "ipproto", "udp", "blackhole")

    def _connect(self, machine: Machine, number: int) -> None:
        near, far = "link0", f"to{number}"
        peer = ("peer", "name", near, "netns", self._name(machine))
        self._ip("turn", "link", "add", far, "type", "veth", *peer)
        for place, device, host in ((machine, near, 2), ("turn", far, 1)):
            self._ip(place, "address", "add", f"10.99.{number}.{host}/24", "dev", device)  # type: ignore[arg-type]
            self._ip(place, "address", "add", f"fd00:99:{number}::{host}/64", "dev", device, "nodad")  # type: ignore[arg-type]
            self._ip(place, "link", "set", device, "up")  # type: ignore[arg-type]
        self._ip(machine, "route", "add", "default", "via", f"10.99.{number}.1")
        self._ip(machine, "-6", "route", "add", "default", "via", f"fd00:99:{number}::1")

    def _name(self, machine: Machine) -> str:
        return f"{self._prefix}-{machine}"

    def _ip(self, machine: Machine, *arguments: str) -> None:
        _ip("-netns", self._name(machine), *arguments)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
