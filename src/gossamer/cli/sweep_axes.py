"""What was asked of a sweep, read and refused by name before anything heavy is loaded. Plays nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gossamer.cli.request import RATES, Part, misfortune
from gossamer.cli.sweep_case import Axes
from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.trouble import Script

WORKERS, SEEDS, STRAGGLER = "4,16,32,128", 3, "slow(rank=1, factor=5)"
STRATEGIES = ("allreduce", "async_easgd(rate=0.8, every=1)", "gossip_pull", "gossip_push")  # paper 3's, all every step
LARGER = 4  # the larger of two rates over the optimizer's usual one, where --rates does not say
NONE = "none"
NOT_ALONE = {
    "workers": "--sweep-workers",
    "rates": "--rates",
    "seeds": "--seeds",
    "straggler": "--straggler",
    "out": "--out",
    "jobs": "--jobs",
}
NOT_SWEPT = {
    "workers": "--sweep-workers",
    "rate": "--rates",
    "trouble": "--straggler",
    "steps": "--epochs",
    "journal": "--out",
    "evaluate_every": "none: every run is looked at about 20 times",
}


@dataclass(frozen=True)
class Asked:
    """The options of a sweep as they were typed."""

    workers: str | None = None
    rates: str | None = None
    seeds: int | None = None
    straggler: str | None = None
    out: Path | None = None
    jobs: int | None = None


def apart(asked: Asked, sweep: bool, given: set[str]) -> None:
    """Refuse options of a sweep without one, and options of a single run in a sweep."""
    for name, option in NOT_ALONE.items():
        if not sweep and getattr(asked, name) is not None:
            raise Refused(f"{option} belongs to a sweep", f"--sweep {option}")
    for name in sorted(given & set(NOT_SWEPT)) if sweep else ():
        raise Refused(f"--{name.replace('_', '-')} says nothing to a sweep", NOT_SWEPT[name])
    if asked.jobs is not None:
        whole("sweep", "jobs", asked.jobs, 1, 1024)


def axes(asked: Asked, parts: Sequence[Part], optimizer: str, seed: int) -> Axes:
    """What the sweep goes over."""
    seeds = SEEDS if asked.seeds is None else asked.seeds
    whole("sweep", "seeds", seeds, 1, 10_000)
    usual = RATES.get(optimizer, 0.1)
    rates = (LARGER * usual, usual) if asked.rates is None else numbers("rates", asked.rates)
    for rate in rates:
        real("sweep", "rates", rate, 0.0, 1e4, open_low=True)
    for place, part in enumerate(parts):
        if part.strategy in [other.strategy for other in parts[:place]]:
            raise Refused(f"sweep: {part.text} is given twice")
    stragglers = _stragglers(STRAGGLER if asked.straggler is None else asked.straggler)
    counts = _counts(WORKERS if asked.workers is None else asked.workers)
    return Axes(tuple(parts), counts, rates, stragglers, tuple(range(seed, seed + seeds)))


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them, no two alike."""
    found = []
    for word in text.split(","):
        try:
            found.append(float(word))
        except ValueError:
            raise Refused(f"{name}: {word.strip()!r} is not a number", "numbers with commas between them") from None
    for place, number in enumerate(found):
        if number in found[:place]:
            raise Refused(f"{name}: {number:g} is given twice")
    return tuple(found)


def _counts(text: str) -> tuple[int, ...]:
    """Worker counts, smallest first."""
    found = numbers("sweep-workers", text)
    for count in found:
        whole("sweep", "workers", int(count) if float(count).is_integer() else count, 1, 2**20)
    return tuple(sorted(int(count) for count in found))


def _stragglers(script: str) -> tuple[Script, ...]:
    """Without trouble, and with it unless there is to be none."""
    if not script.strip():
        raise Refused("straggler: the script is empty", f"--straggler {NONE}")
    return (Script(),) if script.strip() == NONE else (Script(), misfortune(script))
