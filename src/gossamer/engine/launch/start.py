"""How a worker process of one host is started: its command, its environment, its private folder. Waits for nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gossamer.engine.freed import large_pages
from gossamer.engine.launch.worker import NOTES, PARENT

SHIM = str(Path(__file__).with_name("worker.py"))
LOOPBACK = "lo" if sys.platform == "linux" else "lo0"


def environment(rank: int, size: int, folder: Path, path: Sequence[str] = (), servers: int = 0) -> dict[str, str]:
    """What worker `rank` of `size` on this host finds in its environment; they meet through a file in the folder.

    Servers come after all workers.
    """
    paths = [*path, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank if rank < size else 0),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "GOSSAMER_STORE": str(folder / "store"),
        "GLOO_SOCKET_IFNAME": LOOPBACK,
        "OMP_NUM_THREADS": "1",
        **large_pages(os.environ),
        "PYTHONPATH": os.pathsep.join(paths),
        NOTES: str(folder),
        PARENT: str(os.getpid()),
        **server_variables(rank, size, servers),
    }


def server_variables(rank: int, size: int, servers: int) -> dict[str, str]:
    """What says how many servers there are, and to each of them that it is one."""
    if not servers:
        return {}
    return {"GOSSAMER_SERVERS": str(servers), **({"GOSSAMER_SERVER": str(rank - size)} if rank >= size else {})}


def party(rank: int, size: int) -> str:
    """A worker or a server in words."""
    return f"rank {rank}" if rank < size else f"server {rank - size}"


def keeping(party: str, kept: str) -> str:
    """The same, with what it keeps for all."""
    return f"{party}, which kept {kept}," if kept else party


def told(folder: Path, word: str) -> bool:
    """Whether workers have left a word for their launcher, beside their store."""
    return (folder / word).exists()


def start(
    words: Sequence[str], env: Mapping[str, str], stdin: int, stderr: int, apart: bool = False
) -> subprocess.Popen[str]:
    """Start `python WORDS` through the shim, its output in a pipe; apart: out of reach of the terminal's Ctrl-C.

    It ends when the thread that called this ends: call from the main one, or one that outlives the worker.
    """
    command = [sys.executable, SHIM, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=env, stdin=stdin, stdout=pipe, stderr=stderr, text=True, errors="replace", start_new_session=apart
    )
