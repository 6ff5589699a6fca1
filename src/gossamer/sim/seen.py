"""What a run's journals say of its steps: how long they were, how long members computed, and how unevenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from gossamer.parts.refusal import Refused, whole
from gossamer.records import Header, Record, StepRecord, read
from gossamer.sim.simulate import period
from gossamer.strategy import AnyStrategy, Staged, parse

FIRST = 0.2  # of a run's steps, which are not like the others
CODEC = ("encode", "decode")  # spans of a step
STEADY = 0.1  # the share of steps below which none was disturbed


@dataclass(frozen=True)
class Seen:
    """One run: by whom, how many members on each host, and seconds of a step: in all, and of an undisturbed compute.

    `jitter` is that of a cluster: twice the mean by which compute is late, as a share of it. `servers`: hosts more that
    kept its hubs; None where the run does not say. `early`: of a strategy that is followed by another, the share of
    the steps that were before it. `encode`, `decode`: seconds of a step that codecs took.
    """

    name: str
    strategy: str
    hosts: tuple[int, ...]
    batch: float
    seconds: float
    compute: float
    jitter: float
    noise: float | None = None  # the noise scale, as the run saw it last
    servers: int | None = None
    early: float = 0.0
    encode: float = 0.0
    decode: float = 0.0

    @property
    def workers(self) -> int:
        """All members."""
        return sum(self.hosts)


def seen(folder: Path) -> Seen:
    """Read the journals of a run: a folder with journal-0.jsonl and so on, or one such file."""
    paths = [folder] if folder.is_file() else sorted(folder.glob("journal-*.jsonl"))
    records = [_records(path) for path in paths]
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
    whole(str(folder), "batch", header.batch, 0)
    _calm(folder, headers)
    computes = sorted(record.spans.get("compute", 0.0) for each in kept for record in each)
    steady = max(1e-9, mean(computes[: max(1, int(STEADY * len(computes)))]))
    counted, early = _counted(kept, parse(header.strategy))
    seconds = mean(mean(sum(record.spans.values()) for record in each) for each in counted)
    if not seconds > 0:
        raise Refused(f"{folder}: its steps took no time", "the journals of a run, whose steps have spans")
    hosts = _hosts(folder, header)
    encode, decode = (mean(record.spans.get(s, 0.0) for each in counted for record in each) for s in CODEC)
    return Seen(
        str(folder), header.strategy, hosts, float(header.batch or 1), seconds, steady,
        max(0.0, 2.0 * (mean(computes) / steady - 1.0)),
        next((look.scale for each in reversed(kept) for record in each for look in record.noise if look.scale), None),
        _servers(folder, header, len(hosts)), early, encode, decode,
    )  # fmt: skip


def _records(path: Path) -> list[Record]:
    try:
        return list(read(path))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # it names the file and the line
        raise Refused(str(error), "a journal as a run has left it") from None


def _calm(folder: Path, headers: Sequence[Header]) -> None:
    """Refuse runs that had trouble by a script: how long they waited for it is not the links'."""
    script = next((found for each in headers if (found := each.settings.get("trouble"))), None)
    if script:
        raise Refused(
            f"{folder} had trouble by a script, {script}: its links cannot be told", "a run without --trouble"
        )


def _servers(folder: Path, header: Header, hosts: int) -> int | None:
    """Hosts of servers alone, after those of members; None where the header says nothing of servers."""
    words = header.settings.get("servers")
    if not words:
        return None if words is None else 0
    places = words.split("+")
    if not all(word.isdecimal() and len(word) < 8 for word in places):
        raise Refused(f"{folder}: servers is the host of each with + between, not {words!r}", "servers = 2+3")
    if min(map(int, places)) < hosts:
        raise Refused(
            f"{folder}: its servers share hosts with members, and those of the simulator have hosts of their own",
            "a run without --servers, or with hosts for them",
        )
    return len(set(places))


def _hosts(folder: Path, header: Header) -> tuple[int, ...]:
    """By host, how many members the header says it has."""
    words = header.settings.get("hosts", str(header.workers)).split("+")
    if not all(word.isdecimal() and len(word) < 8 and 0 < int(word) <= 2**20 for word in words):
        raise Refused(f"{folder}: hosts is members of each with + between, not {'+'.join(words)!r}", "hosts = 4+4")
    return tuple(map(int, words))


def _counted(steps: Sequence[list[StepRecord]], strategy: AnyStrategy) -> tuple[list[list[StepRecord]], float]:
    """The last steps that make whole periods, of each strategy where one follows another; and the first one's share."""
    if not isinstance(strategy, Staged):
        return _whole(steps, strategy), 0.0
    first = [each for each in steps if each[0].step < strategy.step]
    early, late = _whole(first, strategy.first), _whole(steps[len(first) :], strategy.then)
    return [*early, *late], len(early) / len([*early, *late])


def _whole(steps: Sequence[list[StepRecord]], strategy: AnyStrategy) -> list[list[StepRecord]]:
    often = period(strategy)
    return list(steps[len(steps) % often :] if len(steps) > often else steps)
