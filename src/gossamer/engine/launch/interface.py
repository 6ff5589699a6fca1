"""Which network interface leads to the other hosts, and what this host's address is there. Sends nothing."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

from gossamer.parts.refusal import Refused

SIOCGIFADDR = 0x8915  # asks Linux for an interface's IPv4 address


def towards(host: str, port: int = 9) -> str | None:
    """This host's address on the way to another; None where none leads there."""
    with suppress(OSError):
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as trial:
                trial.connect(address)  # a datagram socket only looks up the route
                return str(trial.getsockname()[0])
    return None


def interface_of(address: str) -> str | None:
    """The interface that has this address, or None where that cannot be told."""
    if ":" in address:
        return _of_six(address)
    return next((name for name in interfaces() if address_of(name) == address), None)


def interfaces() -> list[str]:
    """The interfaces of this host by name."""
    return [name for _, name in socket.if_nameindex()]


def address_of(name: str) -> str | None:
    """An interface's IPv4 address, if it has one and the system tells it."""
    if sys.platform != "linux":
        return None
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(OSError):
        told = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        return socket.inet_ntoa(told[20:24])
    return None


def there(name: str) -> str:
    """An interface by name; refused, with those that are there, if it is not."""
    known = interfaces()
    for each in name.split(","):
        if each not in known:
            raise Refused(f"run: there is no network interface {each!r} on this host", ", ".join(known))
    return name


def own_only(name: str) -> bool:
    """Whether a host knows its own name only by a loopback address, as some systems write it into /etc/hosts."""
    try:
        ipaddress.ip_address(name)
        return False  # whoever writes an address means it
    except ValueError:
        found = towards(name)
    return name != "localhost" and found is not None and ipaddress.ip_address(found.partition("%")[0]).is_loopback


def lead_out(where: tuple[str, int], address: str | None) -> tuple[str, int]:
    """Where to listen instead of such a name: at the address of the interface that was named."""
    if address is None:
        raise Refused(
            f"run: {where[0]} is a loopback address on this host, where no other host gets",
            f"this host's address on the network as --rdzv-endpoint ADDRESS:{where[1]}, or --interface NAME",
        )
    return address, where[1]


def _of_six(address: str) -> str | None:
    wanted = socket.inet_pton(socket.AF_INET6, address.partition("%")[0]).hex()
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            if line.split()[0] == wanted:
                return line.split()[5]
    return None
