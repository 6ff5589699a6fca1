"""A worker process: joins its world, then plays one job after the other as they come on standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed.distributed_c10d import Store

from gossamer.engine.fabrics import Fabric
from gossamer.engine.fabrics.over_torch import OverTorch
from gossamer.engine.fabrics.shared import Shared
from gossamer.engine.job import Job
from gossamer.engine.lines import FOR_EVER, Lines
from gossamer.engine.messages.lines import Messages
from gossamer.engine.over_gloo import OverGloo
from gossamer.engine.reach import Reach
from gossamer.engine.stepper import Stepper
from gossamer.engine.turns import Turns
from gossamer.parts.refusal import Refused, whole
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records import Header, Journal, StepRecord
from gossamer.replica import Layout, Local, Replica
from gossamer.strategy import AnyStrategy, fits, parse
from gossamer.tasks import Stream, Task, build

PATIENCE = timedelta(seconds=120)
LIMIT = 1 << 30  # bytes of a body; a crew does not know the models of its jobs


def main() -> None:
    """Join by RANK, WORLD_SIZE and GOSSAMER_STORE; answer each job with one line on standard output."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a task prints is not mistaken for our word

    def say(what: str) -> None:
        print(what.replace("\n", " "), file=said, flush=True)

    torch.set_num_threads(1)
    store = dist.FileStore(os.environ["GOSSAMER_STORE"], size)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
    asks = dist.new_group(timeout=FOR_EVER, backend="gloo")  # a service may well not be asked for long
    replies = dist.new_group(timeout=PATIENCE, backend="gloo")
    carriers: dict[str, Lines] = {"torch": OverGloo(asks, replies)}
    mixes = dist.new_group(timeout=PATIENCE)
    say("ready")
    for line in sys.stdin:
        job = msgspec.json.decode(line.encode(), type=Job)
        try:
            if job.fabric == "messages" and job.fabric not in carriers:
                carriers[job.fabric] = Messages.open(store, "crew", rank, size, LIMIT)
            play(job, store, carriers, mixes)
        except Refused as error:
            say(f"refused {error}")
        else:
            say("done")
    for carrier in carriers.values():
        carrier.close()
    dist.destroy_process_group()


def play(job: Job, store: Store, lines: Mapping[str, Lines], mixes: dist.ProcessGroup) -> None:
    """Run one job and leave this member's journal and final parameters in its folder."""
    rank, size = dist.get_rank(), dist.get_world_size()
    strategy, world = parse(job.strategy), World(size, job.seed)
    optimizer = Optimizer(job.optimizer, job.rate, job.momentum, job.decay)
    whole("job", "steps", job.steps, 1)
    for member in job.order or ():
        whole("order", "member", member, 0, size - 1)
    turns = Turns(store, job.name, rank, size, job.order)
    task = build(job.task, job.seed, dict(job.options))
    fits(strategy, world)
    optimizer.suits(strategy)
    layout = Layout(task.model)
    carrier: Lines | Reach | None = lines.get(job.fabric)  # visits are made in memory where there are no lines
    if carrier is None:
        carrier = Reach.of(store, f"shelf {job.name}", rank, layout, world, strategy, optimizer)
    if carrier is None and job.fabric == "shared":
        raise Refused(f"{strategy!r} is not visited in shared memory", "fabric torch")
    beyond = OverTorch(mixes)
    fabric = Shared(beyond, store, f"memory {job.name}") if job.fabric == "auto" else beyond
    played = Member(task, layout, strategy, world, optimizer, job, (carrier or lines["torch"], fabric), turns)
    steps = job.steps if job.order is None else turns.steps
    header = Header(
        "engine",
        repr(strategy),
        size,
        job.seed,
        job.task,
        repr(optimizer),
        job.batch,
        steps,
        {"fabric": "torch (gloo)" if job.fabric == "torch" else job.fabric},
    )
    with Journal(Path(job.folder) / f"journal-{rank}.jsonl") as journal:
        journal.write(header)
        for step in range(steps):
            journal.write(played.step(step))
        journal.write(played.stepper.close())
    kept = {f"hub {slot}": hub.centre.clone() for slot, hub in played.stepper.hubs.items()}
    masses = {
        f"mass {slot}": torch.tensor(desk.mass, dtype=torch.float64)
        for slot, desk in enumerate(played.stepper.replica.desks)
    }
    save_file(
        {"parameters": played.stepper.replica.parameters, **kept, **masses},
        Path(job.folder) / f"member-{rank}.safetensors",
    )


class Member:
    """The loop of a job: the task's own compute, step by step, between what the stepper plays."""

    def __init__(
        self,
        task: Task,
        layout: Layout,
        strategy: AnyStrategy,
        world: World,
        optimizer: Optimizer,
        job: Job,
        carriers: tuple[Lines | Reach, Fabric],
        turns: Turns,
    ) -> None:
        carrier, fabric = carriers
        own = carrier.shelf.mine if isinstance(carrier, Reach) else torch.empty_like(layout.start)
        storage = (own, torch.zeros_like(layout.start))
        self.task, self.stream = task, Stream(task.size, job.batch, world)
        self.replica = Replica(dist.get_rank(), world, strategy, layout, storage)
        self.replica.looks.every = job.truth
        self.optimizer = optimizer.build(self.replica.views)
        self.local = Local(task, layout, world)
        self.stepper = Stepper(self.replica, fabric, carrier, turns, optimizer, smallest=job.shard)

    def step(self, step: int) -> StepRecord:
        """Play one step."""
        stepper, member = self.stepper, self.replica.member
        stepper.begin(step)
        with stepper.span("compute"):
            batch = tuple(part[self.stream.indices(member, step)] for part in self.task.train)
            stepper.note.loss = self.local.gradient(stepper.here, batch, self.replica.gradients, (step, member))
        stepper.mix(step)
        return stepper.finish(step, self.optimizer)


if __name__ == "__main__":
    main()
