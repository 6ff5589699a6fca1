"""What a run's journals say of its steps: how long they were, how long members computed, and how unevenly."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from pathlib import Path
from statistics import mean

from gossamer.parts.refusal import Refused
from gossamer.records import Header, StepRecord, read
from gossamer.strategy import parse, slots

FIRST = 0.2  # of a run's steps, which are not like the others
STEADY = 0.1  # the share of steps below which none was disturbed


@dataclass(frozen=True)
class Seen:
    """One run: by whom, how many members on each host, and seconds of a step: in all, and of an undisturbed compute.

    `jitter` is that of a cluster: twice the mean by which compute is late, as a share of it.
    """

    name: str
    strategy: str
    hosts: tuple[int, ...]
    batch: float
    seconds: float
    compute: float
    jitter: float
    noise: float | None = None  # the noise scale, as the run saw it last

    @property
    def workers(self) -> int:
        """All members."""
        return sum(self.hosts)


def seen(folder: Path) -> Seen:
    """Read the journals of a run: a folder with journal-0.jsonl and so on, or one such file."""
    paths = [folder] if folder.is_file() else sorted(folder.glob("journal-*.jsonl"))
    records = [list(read(path)) for path in paths]
    headers = [each for found in records for each in found if isinstance(each, Header)]
    if not headers:
        raise Refused(f"{folder} holds no journal", "a folder of `gossamer train`, or one given as --journal")
    steps: dict[int, list[StepRecord]] = {}
    for each in (each for found in records for each in found):
        if isinstance(each, StepRecord):
            steps.setdefault(each.step, []).append(each)
    kept = [each for _, each in sorted(steps.items())][int(FIRST * len(steps)) :]
    if not kept:
        raise Refused(f"{folder}: nobody has done a step", "the journals of a run of some steps")
    header = headers[0]
    computes = sorted(record.spans.get("compute", 0.0) for each in kept for record in each)
    steady = max(1e-9, mean(computes[: max(1, int(STEADY * len(computes)))]))
    seconds = mean(mean(sum(record.spans.values()) for record in each) for each in _whole(kept, header.strategy))
    if not seconds > 0:
        raise Refused(f"{folder}: its steps took no time", "the journals of a run, whose steps have spans")
    return Seen(
        str(folder), header.strategy, _hosts(folder, header), float(header.batch or 1), seconds, steady,
        max(0.0, 2.0 * (mean(computes) / steady - 1.0)),
        next((look.scale for each in reversed(kept) for record in each for look in record.noise if look.scale), None),
    )  # fmt: skip


def _hosts(folder: Path, header: Header) -> tuple[int, ...]:
    """By host, how many members the header says it has."""
    words = header.settings.get("hosts", str(header.workers)).split("+")
    if not all(word.isdecimal() and len(word) < 8 and 0 < int(word) <= 2**20 for word in words):
        raise Refused(f"{folder}: hosts is members of each with + between, not {'+'.join(words)!r}", "hosts = 4+4")
    return tuple(map(int, words))


def _whole(steps: list[list[StepRecord]], strategy: str) -> list[list[StepRecord]]:
    """The last steps, as many as make whole periods of the strategy."""
    period = lcm(*(ex.synchrony.every for ex in slots(parse(strategy))))
    return steps[len(steps) % period :] if len(steps) > period else steps
