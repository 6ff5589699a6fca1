"""What workers are asked to run, as JSON: everything a worker needs to know, nothing to execute."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from gossamer.engine.shards import SMALLEST

FABRICS = ("auto", "shared", "hosts", "torch", "messages")  # what may carry wires between workers, as it is asked for


class Job(msgspec.Struct, frozen=True):
    """A strategy by its expression, a task by its reference, and where to leave what came of it.

    `fabric`: torch carries mixes, and visits travel over torch, by keyed messages, or lie in shared memory; auto is
    what a run on one host takes: memory for mixes, and for visits where only the visitor acts. `shard`: elements that
    a member's part of a hub has at least.
    """

    name: str
    folder: str
    strategy: str
    task: str = "digits"
    options: dict[str, str | int | float] = {}
    optimizer: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.0
    decay: float = 0.0
    batch: int = 32
    steps: int = 10
    seed: int = 0
    order: list[int] | None = None
    fabric: Literal["auto", "torch", "messages", "shared"] = "torch"
    shard: int = SMALLEST
    truth: int = 0


class TrainJob(msgspec.Struct, frozen=True):
    """A whole training run: `folder` takes journals and checkpoints, `batch` is each worker's share of a step.

    `batches` says the samples of a step, of all workers, by epoch, instead of `batch`; `schedule` how the rate
    goes, and `rule` what it does where the batch changes; forward and backward run in
    `precision`, the loss of fp16 times `scale` (0: dynamic); a worker computes at most `at_once` samples at a time, and
    more of them only where it may `accumulate`. With `epochs` the run has a pace, without it is `steps` alike.
    `norms`: statistics of batch norm (moving, fresh, shared); `decays`: all or weights; `zero_gamma`: the class of the
    residual blocks whose last gamma begins at 0.
    `resume` is the folder of the checkpoints to go on from, at the newest, or one of them.
    """

    folder: str
    strategy: str
    task: str
    options: dict[str, Any]
    optimizer: str
    rate: float
    momentum: float
    decay: float
    batch: int
    steps: int
    seed: int
    workers: int
    evaluate_every: int
    save_every: int
    keep: int = 2
    resume: str | None = None
    fabric: str = "auto"
    clip: float | None = None
    trouble: str | None = None
    truth: int | None = None
    trust: float = 0.001
    epochs: float | None = None
    schedule: str | None = None
    batches: str | None = None
    rule: str = "linear"
    smoothing: float = 0.0
    at_once: int | None = None
    accumulate: bool = True
    precision: str = "fp32"
    scale: float = 0.0
    norms: str = "moving"
    decays: str = "all"
    zero_gamma: str | None = None
