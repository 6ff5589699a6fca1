"""Hosts made of namespaces: each with one interface, all on a bridge that has a namespace of its own.

Nothing of the machine's own network is touched: a link's both ends are made inside. Knows no process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gossamer.lab.guard import FILES
from gossamer.lab.rate import mtu, shaper
from gossamer.lab.tools import ask, batch

INTERFACE = "eth0"  # of every host, in its own namespace
BRIDGE = "bridge"
MOST = 250  # hosts, each with an address in one /24
NETWORK = "10.213.77"  # private, and seen by nobody outside the namespaces


@dataclass(frozen=True)
class Host:
    """A host of a lab: `name` is its namespace's, `hostname` what it calls itself and others find it by."""

    index: int
    name: str
    address: str
    interface: str = INTERFACE

    @property
    def hostname(self) -> str:
        """Its name on the lab's network."""
        return f"host-{self.index}"


@dataclass(frozen=True)
class Traffic:
    """Bytes that left a host and that reached it, with all headers."""

    sent: int
    received: int

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.sent - other.sent, self.received - other.received)


def host(prefix: str, index: int) -> Host:
    """Host `index` of the lab whose namespaces begin so."""
    return Host(index, f"{prefix}-{index}", f"{NETWORK}.{index + 1}")


def middle(prefix: str) -> str:
    """The namespace that holds the bridge."""
    return f"{prefix}-{BRIDGE}"


def port(index: int) -> str:
    """The bridge's end of a host's link."""
    return f"port{index}"


def wire(prefix: str, hosts: Sequence[Host], bits: int | None) -> None:
    """Make the namespaces and the links between them, each held to its rate in both directions."""
    centre = middle(prefix)
    for name in (centre, *(each.name for each in hosts)):
        ask("ip", "netns", "add", name)
        _names(name, hosts)
    batch("ip", centre, [*_bridge(mtu(bits)), *(line for each in hosts for line in _link(each, mtu(bits)))])
    for each in hosts:
        batch("ip", each.name, _ends(each))
    if bits is not None:
        batch("tc", centre, [shaper(port(each.index), bits) for each in hosts])
        for each in hosts:
            batch("tc", each.name, [shaper(each.interface, bits)])


def _names(name: str, hosts: Sequence[Host]) -> None:
    """What stands in /etc/hosts inside a namespace: every host by its name."""
    (FILES / name).mkdir(parents=True, exist_ok=True)
    lines = ["127.0.0.1 localhost", "::1 localhost", *(f"{each.address} {each.hostname}" for each in hosts)]
    (FILES / name / "hosts").write_text("\n".join(lines) + "\n")


def _bridge(packet: int) -> list[str]:
    return [
        "link set lo up",
        f"link add {BRIDGE} mtu {packet} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        f"link set {BRIDGE} addrgenmode none",  # no announcements of its own: only what hosts send is counted
        f"link set {BRIDGE} up",
    ]


def _link(each: Host, packet: int) -> list[str]:
    here = port(each.index)
    return [
        f"link add {here} mtu {packet} type veth peer name {each.interface} mtu {packet} netns {each.name}",
        f"link set {here} addrgenmode none",
        f"link set {here} master {BRIDGE}",
        f"link set {here} up",
    ]


def _ends(each: Host) -> list[str]:
    return [
        "link set lo up",
        f"link set {each.interface} addrgenmode none",
        f"address add {each.address}/24 dev {each.interface}",
        f"link set {each.interface} up",
    ]


def switch(prefix: str, each: Host, on: bool) -> None:
    """Let a host's link carry, or not; seen from the host its cable is out, and its address stays."""
    ask("ip", "-n", middle(prefix), "link", "set", port(each.index), "up" if on else "down")


def traffic(prefix: str, hosts: Sequence[Host]) -> list[Traffic]:
    """What has passed each host's link since it was made, as the bridge's end of it counted."""
    lines = ask("ip", "netns", "exec", middle(prefix), "cat", "/proc/net/dev").splitlines()
    counts = {name.strip(): rest.split() for name, _, rest in (line.partition(":") for line in lines[2:])}
    return [Traffic(int(counts[port(each.index)][0]), int(counts[port(each.index)][8])) for each in hosts]
