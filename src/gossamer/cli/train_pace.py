"""How rate and batch go over a run, as its settings and a recipe say, and in whose words the nearest that can be is
told. Starts nothing."""

from __future__ import annotations

from math import ceil
from typing import Any

from gossamer.cli.request import TURNS
from gossamer.cli.train_settings import DEFAULT, Resolved, Settings
from gossamer.parts.refusal import Refused
from gossamer.recipes import Batches, Optimizer, Pace, Portion, portion
from gossamer.recipes.batches import nearest_size
from gossamer.recipes.recipe import RULES, Recipe, named, read, written

BATCH, EPOCHS = 16, 40.0  # samples per worker and step, and the length of a run, where nobody says


def by_recipe(resolved: Resolved, samples: int) -> Resolved:
    """What a recipe says for the data and workers at hand, wherever nobody says otherwise."""
    said, told = resolved.settings, {name for name, origin in resolved.origins.items() if origin != DEFAULT}
    if "steps" in told:
        raise Refused("train: a recipe counts in epochs", "--epochs instead of --steps")
    given: dict[str, Any] = {} if said.batch is None else {"base_batch": said.batch * said.workers}
    given |= {} if said.epochs is None else {"epochs": said.epochs}
    found = named(said.recipe or "", **given)
    asks = {name: value for name, value in found.settings(samples, said.workers).items() if name not in told}
    if not asks.keys().isdisjoint(("schedule", "batches")):  # of a run that goes on nothing is left to ask
        _contradicted(resolved, found)
    why = dict.fromkeys(asks, f"recipe {said.recipe}")
    if "batch" in told and "batches" in asks:
        asks["batch"], why["batch"] = None, f"{resolved.origins['batch']}: in batches from here on"
    return resolved.filled(asks, why)


def _contradicted(resolved: Resolved, found: Recipe) -> None:
    """Refuse what the recipe says itself, and a setting otherwise."""
    said = resolved.settings
    if said.epochs is not None and found.epochs != said.epochs:
        other = _told(resolved, "epochs", f"{said.epochs:g}")
        raise Refused(f"train: the recipe says {found.epochs:g} epochs, and {other}", "one of them")
    total = None if said.batch is None else said.batch * said.workers
    if total is not None and found.base_batch != total:
        other = _told(resolved, "batch", f"{said.batch} on {said.workers} workers {total:,}")
        raise Refused(f"train: the recipe says base_batch={found.base_batch}, and {other}", "one of them")


def _told(resolved: Resolved, name: str, value: str) -> str:
    origin = resolved.origins[name]
    return f"{origin} {value}" if origin.startswith("--") else f"{origin} {name} {value}"


def sized(resolved: Resolved) -> Resolved:
    """With a batch, where nothing else says how large a step is."""
    said = resolved.settings
    return resolved if said.batch is not None or said.batches is not None else resolved.filled({"batch": BATCH}, {})


def once(said: Settings) -> None:
    """Refuse what is said in two ways."""
    if said.batch is not None and said.batches is not None:
        raise Refused("train: batch and batches both say how large a step is", "one of them")


def length(resolved: Resolved, samples: int) -> tuple[int, str]:
    """The steps of a run whose steps are all alike, and why as many."""
    said, origins = resolved.settings, resolved.origins
    if said.steps is not None:
        return said.steps, origins["steps"]
    epochs = said.epochs or EPOCHS
    steps = ceil(epochs * samples / (each(said) * said.workers))
    if said.epochs is None and steps * said.workers > TURNS:
        return ceil(TURNS / said.workers), f"{DEFAULT}: {TURNS:,} of all workers"
    return steps, f"{origins['epochs']}: {epochs:g} epochs of {samples:,} samples"


def pace(resolved: Resolved, optimizer: Optimizer, samples: int) -> Pace | None:
    """How rate and batch go over the run, where anything says that they go at all."""
    said = resolved.settings
    if said.rule not in RULES:
        raise Refused(f"train: there is no rule {said.rule!r} for the rate", " or ".join(RULES))
    epochs = said.epochs or EPOCHS
    if said.schedule is None and said.batches is None and said.at_once is None:
        if not optimizer.paced:
            return None
        steps, _ = length(resolved, samples)
        epochs = said.epochs or steps * each(said) * said.workers / samples
    elif said.steps is not None:
        raise Refused("train: a schedule, and batches, count in epochs", "--epochs instead of --steps")
    batches = Batches(((0.0, each(said) * said.workers),)) if said.batches is None else read(said.batches)
    _met(resolved, batches, samples)
    return Pace.of(batches, said.schedule, samples, epochs, optimizer.rate, said.rule)


def each(said: Settings) -> int:
    """Samples of a worker in a step, where they are always as many."""
    assert said.batch is not None
    return said.batch


def share(said: Settings, size: int) -> Portion:
    """How each worker meets a step of so many samples."""
    return portion(size, said.workers, said.at_once, said.accumulate)


def _met(resolved: Resolved, batches: Batches, samples: int) -> None:
    """Refuse sizes that the data or the workers cannot meet."""
    try:
        for _, size in batches.sizes:
            if size > samples:
                raise Refused(f"Batches: a step of {size:,} samples, and there are {samples:,}")
            share(resolved.settings, size)
    except Refused as refused:
        raise Refused(f"train: {refused.reason}", _nearest(resolved, batches, samples)) from None


def _nearest(resolved: Resolved, batches: Batches, samples: int) -> str | None:
    """Sizes that can be met, in the words in which these were said; with fewer workers where so many cannot."""
    said, origins, sizes = resolved.settings, resolved.origins, [size for _, size in batches.sizes]
    asked = origins["batches"].startswith("recipe")
    alone = said.batches is not None and not asked
    times = 1 if alone else max(sizes) // sizes[0]  # the others are so many times the first
    once = None if said.accumulate or said.at_once is None else said.at_once * said.workers
    most = samples if once is None else min(samples, once)
    if once is not None and once < times * said.workers:
        return "--accumulate"
    workers = min(said.workers, most // times)
    if not workers:
        return None
    first, *others = (nearest_size(size, workers, most, times) for size in sizes)
    if alone:
        near = zip((start for start, _ in batches.sizes), (first, *others), strict=True)
        words = f"--batches {written(Batches(tuple(near)))!r}"
    else:
        words = f"base_batch={first}" if asked and origins["batch"] == DEFAULT else f"--batch {first // workers}"
    fewer = f" and --workers {workers}" if workers < said.workers else ""
    return f"{words}{fewer}{', or --accumulate' if once is not None else ''}"
