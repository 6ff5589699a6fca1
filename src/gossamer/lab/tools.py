"""The kernel's tools for networks, `ip` and `tc`: asking them, and whether they can be asked. Knows no host."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache

from gossamer.parts.refusal import Refused

PACKAGES = dict.fromkeys(("ip", "tc"), "the package iproute2") | {"unshare": "the package util-linux"}


class Unwilling(Refused):
    """The kernel or its tools said no, in their own words."""


def ask(*words: str, lines: Sequence[str] = ()) -> str:
    """Run a tool, with `lines` as its batch; what it says, or `Unwilling` with what it complains of."""
    done = subprocess.run(words, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode:
        raise Unwilling(f"lab: {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def batch(tool: str, namespace: str, lines: Sequence[str]) -> None:
    """Let `ip` or `tc` perform these lines inside a namespace."""
    ask(tool, "-n", namespace, "-batch", "-", lines=lines)


@cache
def missing() -> str | None:
    """Why there can be no lab here; nothing if there can."""
    if absent := [tool for tool in PACKAGES if shutil.which(tool) is None]:
        return f"needs `{absent[0]}`, which is not here: install {PACKAGES[absent[0]]}"
    if os.geteuid() != 0:
        return "needs root, to make network namespaces: run it with sudo"
    return _unwilling()


def _unwilling() -> str | None:
    """What the kernel does not let us do of all a lab does, tried once in a namespace that goes away again."""
    name = f"gossamer-try-{os.getpid()}"
    trial = ("link add br0 type bridge", "link add v0 type veth peer name v1", "link set v0 up")
    try:
        ask("ip", "netns", "add", name)
        try:
            batch("ip", name, trial)
            batch("tc", name, ["qdisc add dev v0 root tbf rate 1mbit burst 10k latency 100ms"])
        finally:
            ask("ip", "netns", "del", name)
    except Unwilling as error:
        said = error.reason.splitlines()[0].removeprefix("lab: ")
        return f"needs namespaces, bridges, veth and tbf, and this kernel refuses: {said}"
    return None


def needed() -> None:
    """Refuse where there can be no lab."""
    if (why := missing()) is not None:
        raise Refused(f"lab: {why}")
