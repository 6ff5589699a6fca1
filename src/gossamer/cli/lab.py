"""`gossamer lab`: a command on several hosts that are namespaces of this machine. Here is only the door."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

HELP = """Run a command once on each of several hosts, with links of a chosen rate, on this machine.

Hosts are network namespaces (Linux, root). The command finds in its environment what torchrun and
`gossamer run` read their settings from: neither needs a flag to know how many hosts there are, or where to meet.

    gossamer lab --hosts 4 --rate 100mbit --workers 2 -- gossamer run train.py

    gossamer lab --hosts 2 -- torchrun --nproc-per-node 2 train.py

At the end: the bytes that each host's link carried, beside those that the run's journals say left the host.
They are to agree.
"""
EXAMPLE = "gossamer lab --hosts 4 --rate 100mbit -- gossamer run train.py"


def lab(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", show_default=False, help="What each host runs.")
    ] = None,
    hosts: Annotated[int, typer.Option(metavar="N", help="How many hosts.")] = 2,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Of each link, both ways: 1gbit, 100mbit. Default: as it comes.")
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Workers per host, for torchrun.")] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", metavar="", help="Let others run on when one host fails.")
    ] = False,
    spare: Annotated[
        str, typer.Option(metavar="BYTES", help="Bytes of a host that no step recorded: meeting, the first model.")
    ] = "4MB",
) -> None:
    """Run it; leave with the code of the host that failed first, or with 1 if the bytes do not agree."""
    from gossamer.cli.lab_play import Request, play
    from gossamer.lab.rate import bits_per_second
    from gossamer.lab.tools import needed
    from gossamer.lab.wiring import MOST
    from gossamer.parts.refusal import Refused, whole
    from gossamer.parts.units import nbytes

    whole("lab", "hosts", hosts, 1, MOST)
    if workers is not None:
        whole("lab", "workers", workers, 1, 1024)
    if rate is not None:
        bits_per_second(rate)
    if not command:
        raise Refused("lab: there is no command", EXAMPLE)
    if shutil.which(command[0]) is None:
        raise Refused(f"lab: there is no command {command[0]!r} that can be run", EXAMPLE)
    whole("lab", "spare", allowed := nbytes(spare), 0)
    needed()
    if code := play(Request(command, hosts, rate, workers, keep_going, allowed)):
        raise typer.Exit(code)
