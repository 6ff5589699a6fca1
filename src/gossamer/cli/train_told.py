"""A training run in words and as JSON: who is slow and why, what to try next, and every number under its name."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import asdict

from gossamer.cli.train_pace import each
from gossamer.cli.train_request import Request
from gossamer.cli.train_verdict import Verdict
from gossamer.parts.payload import Payload
from gossamer.parts.units import told_rate, told_seconds
from gossamer.recipes import Batches
from gossamer.recipes.recipe import read, written
from gossamer.records import Event
from gossamer.records.summary import Slow
from gossamer.strategy import slots

BUSY, STARVED, LAGGING = 0.30, 0.20, 0.25  # shares of a step: of exchange, of data, and of one member's delay


def why_slow(slow: Slow) -> str:
    """Who holds the others up, and by what."""
    mine, usual = told_seconds(slow.seconds), told_seconds(slow.usual)
    if slow.span == "wait":
        return f"member {slow.member} waits least, {mine} a step against {usual}: the others wait for it"
    times = f", {slow.seconds / slow.usual:.2g}x the others" if slow.usual > 0 else ""
    return f"member {slow.member}: {slow.span} takes {mine} a step{times}"


def even(spread: float) -> str:
    """That nobody does hold the others up, and how far members lie apart all the same."""
    return f"nobody stands out: members' own work differs by {spread:.2f}x"


def told_pays(found: Verdict, below: float) -> str:
    """Where the codec is worth what it takes, and whether that is here."""
    spent = told_seconds(found.spans["encode"] + found.spans["decode"])
    if not below:
        return f"nowhere: writing and reading take {spent} a step, and no byte is spared"
    here = "; here members share memory, where it spares nothing" if (found.fabric or "").startswith("shared") else ""
    return f"on links slower than {told_rate(below / 8)}: writing and reading take {spent} a step{here}"


def told_truth(found: Verdict) -> str:
    """What lossy exchanges came to beside the exact average."""
    truth = found.truth
    if truth is None:
        lossy = any(exchange.codec.compresses for exchange in slots(found.request.strategy))
        return "no look yet" if lossy else "no exchange loses anything: there is nothing to compare"
    held = f", {truth.residual:.2g} of it held back" if truth.keeps else ""
    looks = f"the last of {found.looks:,} looks" if found.looks > 1 else "one look"
    lowest = f"lowest in {truth.tensor}, {truth.lowest:.2f}"
    return f"cosine {truth.cosine:.3f} with the exact average, bias {truth.bias:+.1%}{held}; {lowest} ({looks})"


def advice(found: Verdict) -> str | None:
    """The one thing that the numbers say to try next, if they say any."""
    settings, slow, step = found.request.settings, found.slow, found.step
    if found.failure is not None:
        return f"--rate {(settings.rate or 0.0) / 4:g}" if found.failure.startswith("diverged") else None
    if found.spans["data"] > STARVED * step:
        return f"{found.spans['data'] / step:.0%} of a step goes into data: a faster loader, or data kept in memory"
    if slow is not None and slow.span != "wait" and slow.seconds - slow.usual > LAGGING * step:
        late = told_seconds(slow.seconds - slow.usual)
        return f"member {slow.member} is late by {late} a step: find out why, or do not wait: --strategy gossip_pull"
    if found.exchange > BUSY and found.request.world.size > 1 and (less := _less(found.request)):
        return f"{found.exchange:.0%} of a step is exchange: {less}"
    if found.to_target is None and found.last is not None and found.best is found.last:
        more = f"--resume {found.folder.name} {found.request.longer(0)}"
        return f"{settings.target:g} is not reached and accuracy still grows: {more}"
    return None


def _less(request: Request) -> str:
    """How to exchange less often, or more at a time."""
    every = max(exchange.synchrony.every for exchange in slots(request.strategy))
    gradients = all(ex.payload is Payload.GRADIENTS and not ex.hub for ex in slots(request.strategy))
    seldom = f"every {2 * every} steps" if every > 1 else "--strategy 'local_sgd(every=8)'" if gradients else None
    return ", or ".join(filter(None, (seldom, _larger(request))))


def _larger(request: Request) -> str | None:
    """Steps of twice as many samples, in the words in which they were said, if there are as many."""
    said = request.settings
    if said.batches is None:
        twice = 2 * each(said)
        return f"--batch {twice}" if twice * said.workers <= request.samples else None
    sizes = Batches(tuple((start, 2 * size) for start, size in read(said.batches).sizes))
    return f"--batches {written(sizes)!r}" if max(size for _, size in sizes.sizes) <= request.samples else None


def told(found: Verdict) -> dict[str, object]:
    """A run as one JSON object."""
    request, settings, slow = found.request, found.request.settings, found.slow
    return {
        "strategy": repr(request.strategy),
        "workers": request.world.size,
        "seed": request.world.seed,
        "steps": int(found.steps) if found.steps == int(found.steps) else found.steps,
        "epochs": found.epochs,
        "seconds": found.seconds,
        "accuracy": None if found.last is None else found.last.accuracy,
        "loss": None if found.last is None else found.last.loss,
        "training_loss": found.loss,
        "failure": found.failure,
        "bytes_sent_per_member": found.sent,
        "staleness_mean": found.stale[0],
        "staleness_most": found.stale[1],
        "contributions_dropped": found.dropped,
        "reads_torn": found.torn,
        "seconds_per_step": found.spans,
        "scaling_efficiency": found.efficiency,
        "exchange_share": found.exchange,
        "journal": found.folder,
        "fabric": found.fabric,
        "kernel": found.kernel,
        "target": settings.target,
        "seconds_to_target": found.to_target,
        "best_accuracy": None if found.best is None else found.best.accuracy,
        "divergence": None if found.last is None else found.last.divergence,
        "spread": found.spread,
        "pays_below_bits_per_second": found.pays_below,
        "truth": None if found.truth is None else {**asdict(found.truth), "looks": found.looks},
        "noise_scale": None if found.noise is None else found.noise.scale,
        "batch_cost": None
        if found.noise is None or not found.noise.scale
        else 1 + found.noise.large / found.noise.scale,
        "slowest": None if slow is None else {**vars(slow), "why": why_slow(slow)},
        "next": advice(found),
        "events": [{"seconds": e.time, "what": e.what, "member": e.member} for e in in_order(found.events)],
        "resumed_from": found.resumed,
        "expression": settings.strategy,
        "task": settings.task,
        "task_options": settings.options,
        "optimizer": repr(request.optimizer),
        "batch": request.mean_batch,
        "recipe": settings.recipe,
        "trouble": settings.trouble,
    }


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events by time, those of one moment by member, whichever journal was read first."""
    return sorted(events, key=lambda event: (event.time, -1 if event.member is None else event.member))
