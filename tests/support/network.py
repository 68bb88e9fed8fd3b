"""Machines of a network of their own: network namespaces on a bridge, which can be cut off for real.

    with machines(["db1", "db2"]) as (one, two):
        Process("server", command, folder=folder, machine=one)
        one.lose([two])      # no packet between the two
        one.unplug()         # no packet at all, and nobody is told

They need root and the capability CAP_NET_ADMIN. What does not care runs :data:`HERE`.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


@dataclass(frozen=True)
class Machine:
    """A place where processes run. ``cable``: the end of its cable on the bridge."""

    address: str = "127.0.0.1"
    namespace: str = ""
    cable: str = ""

    @property
    def enter(self) -> list[str]:
        """The words before a command that run it there."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}"] if self.namespace else []

    def lose(self, others: "Iterable[Machine]") -> None:
        """Send them nothing any more, answers included."""
        for other in others:
            _ip("-n", self.namespace, "route", "add", "blackhole", other.address)

    def find(self, others: "Iterable[Machine]") -> None:
        """End :meth:`lose`."""
        for other in others:
            _ip("-n", self.namespace, "route", "del", "blackhole", other.address)

    def set_kernel(self, **values: int) -> None:
        """Set what its kernel does with TCP: names of ``net.ipv4``, such as ``tcp_retries2``."""
        for name, value in values.items():
            command = [*self.enter, "sysctl", "-qw", f"net.ipv4.{name}={value}"]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def unplug(self) -> None:
        """Pull its cable."""
        _ip("link", "set", self.cable, "down")

    def plug(self) -> None:
        """Put the cable back."""
        _ip("link", "set", self.cable, "up")


HERE = Machine()


@contextlib.contextmanager
def machines(names: Sequence[str]) -> Iterator[list[Machine]]:
    """Make machines that reach one another, and whom this one reaches; skip where that may not be."""
    number = os.getpid()
    bridge = f"plb{number}"
    # The range is for tests of networks (RFC 2544), and nobody's.
    network = f"198.18.{number % 256}"
    with contextlib.ExitStack() as stack:
        if os.geteuid() != 0:
            pytest.skip("network namespaces need root")
        try:
            _ip("link", "add", bridge, "type", "bridge")
        except (AssertionError, FileNotFoundError) as refusal:
            pytest.skip(f"network namespaces need iproute2 and CAP_NET_ADMIN: {refusal}")
        stack.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{network}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        made = []
        for place, name in enumerate(names, 1):
            machine = Machine(f"{network}.{place}", f"pl{number}-{name}", f"plv{number}n{place}")
            _ip("netns", "add", machine.namespace)
            stack.callback(_ip, "netns", "del", machine.namespace)
            _join(machine, bridge)
            made.append(machine)
        yield made


def _join(machine: Machine, bridge: str) -> None:
    """Lay the cable from the machine to the bridge."""
    inside = ("-n", machine.namespace)
    _ip("link", "add", machine.cable, "type", "veth", "peer", "eth0", "netns", machine.namespace)
    _ip("link", "set", machine.cable, "master", bridge)
    machine.plug()
    _ip(*inside, "addr", "add", f"{machine.address}/24", "dev", "eth0")
    _ip(*inside, "link", "set", "eth0", "up")
    _ip(*inside, "link", "set", "lo", "up")
