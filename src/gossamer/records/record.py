"""What happened, as plain records: the same from every player. Knows no player and no clock."""

from __future__ import annotations

import msgspec

FORMAT = 1
SERVED = "sent after its last step"  # to members that were not done yet
STILL = "the run stands still"  # how the event of a run that could not go on begins


class Header(msgspec.Struct, frozen=True, tag="header", tag_field="kind"):
    """The first line of a journal: what is being run."""

    player: str
    strategy: str
    workers: int
    seed: int
    task: str
    optimizer: str
    batch: int
    steps: int
    settings: dict[str, str] = {}
    format: int = FORMAT


class Truth(msgspec.Struct, frozen=True):
    """A bucket of a lossy exchange beside what it would have been: the exact average, or at a hub what was pushed.

    `cosine` is of the two, 1 for the same direction. `bias`: how much longer the codec's version is along the exact
    one, 0 for unbiased, -0.9 for a tenth of it. `residual`: what is not sent yet, as a multiple of the exact one.
    `keeps`: whether what was not sent is kept for later.
    `tensor` has the lowest cosine of those in the bucket, which is `lowest`.
    """

    slot: int
    bucket: int
    cosine: float
    bias: float
    residual: float
    keeps: bool
    tensor: str
    lowest: float


class Noise(msgspec.Struct, frozen=True):
    """A look at gradients before and after they were averaged: the mean over members of the squared norm of their own,
    of `small` samples, and that of the average of all `large`; `scale` is the noise scale by all looks so far."""

    small: float
    small_square: float
    large: int
    large_square: float
    scale: float | None


class StepRecord(msgspec.Struct, frozen=True, tag="step", tag_field="kind"):
    """One step of one member: when it ended, its loss, where its seconds went, its bytes slot by slot.

    `sent` counts the buffers that left this member since its last record, those it served to others included;
    `crossed` is what of them left its host.
    `torn` counts partners that changed while they were read. `truth`: what a look beside lossy exchanges has shown.
    `noise`: what a look at the gradients' noise has shown, which was made in the step before.
    `staleness` is how many versions (hub) or steps (peer, delay) old the oldest thing used was.
    """

    member: int
    step: int
    time: float
    loss: float
    spans: dict[str, float]
    sent: dict[int, int]
    heard: dict[int, int]
    staleness: int = 0
    dropped: int = 0
    crossed: dict[int, int] = {}
    torn: int = 0
    truth: list[Truth] = []
    noise: list[Noise] = []


class Evaluation(msgspec.Struct, frozen=True, tag="evaluation", tag_field="kind"):
    """The exact average of the replicas on held-out data; `divergence` is the replicas' relative spread around it."""

    time: float
    steps: int
    epochs: float
    loss: float
    accuracy: float
    divergence: float


class Event(msgspec.Struct, frozen=True, tag="event", tag_field="kind"):
    """Something worth a line: a member that died, a run that ended and why; with what it sent since its last step."""

    time: float
    what: str
    member: int | None = None
    sent: dict[int, int] = {}


Record = Header | StepRecord | Evaluation | Event
