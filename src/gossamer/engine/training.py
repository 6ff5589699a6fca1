"""One worker of `gossamer train`: plays a training job in a loop of our own, and leaves a journal and checkpoints."""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from gossamer.engine.checkpoint.names import step_of
from gossamer.engine.job import TrainJob
from gossamer.engine.loop.average import agreed, averaged, divergence, mean
from gossamer.engine.loop.checkpoints import Checkpoints
from gossamer.engine.loop.course import Course
from gossamer.engine.loop.opening import open_session
from gossamer.engine.loop.place import Place, join
from gossamer.engine.loop.tell import tell
from gossamer.engine.lost import MemberLost
from gossamer.engine.norms import shared_norms
from gossamer.engine.shared import kernel
from gossamer.engine.statistics import Statistics
from gossamer.parts.refusal import Refused
from gossamer.parts.trouble import Script
from gossamer.parts.world import World
from gossamer.recipes import Batches, Optimizer, Pace, portion
from gossamer.recipes.norms import decayed, parts_called, zero_last_gamma
from gossamer.recipes.precision import LossScale, Precision
from gossamer.recipes.recipe import read
from gossamer.records import Evaluation, Event, Header, Journal, StepRecord
from gossamer.replica.local import drawing
from gossamer.replica.states import rates, set_rates
from gossamer.strategy import parse, parse_trouble
from gossamer.tasks import Stream, Task, build, evaluate, smoothed


class Training:
    """A member's model, data and session; `run` trains to the end of the job."""

    def __init__(self, job: TrainJob) -> None:
        torch.set_num_threads(1)
        self.job, self.place = job, join()
        self.world = World(self.place.size, job.seed)
        self.task = _normed(smoothed(build(job.task, job.seed, dict(job.options)), job.smoothing), job, self.place)
        self.model = self.task.model.train()
        self.recipe = Optimizer(job.optimizer, job.rate, job.momentum, job.decay, job.trust)
        self.pace = _pace(job, self.task.size)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = self.recipe.build(trained if job.decays == "all" else decayed(self.model, job.decay))
        self.precision = Precision(job.precision, job.scale)
        self.scaler = LossScale(self.precision, trained)
        strategy = parse(job.strategy)
        self.session = open_session(
            self.place, [self.model], [self.optimizer], strategy,
            fabric=job.fabric, seed=job.seed, ours=True, clip=job.clip, truth=job.truth or 0,
        )  # fmt: skip
        self.stream = Stream(self.task.size, job.batch, self.world, None if self.pace is None else self.pace.table)
        self.statistics = Statistics(self.task, self.stream, self.place.member, fresh=job.norms == "fresh")
        self.course = self.session.courses[0]
        self.journal = Journal(Path(job.folder) / f"journal-{self.place.member}.jsonl", tell)
        self.loss = self._pace = self._slept = 0.0
        self.trouble = parse_trouble(job.trouble) if job.trouble else Script()
        self.began = time.perf_counter()
        self.session.watches.append(self._note)
        self.session.events.append(self._event)
        same = {"task": job.task, "options": job.options, "optimizer": job.optimizer, "decays": job.decays}
        kept = Path(job.folder) / "checkpoints"
        self.checkpoints = Checkpoints(self.session, [self.model], kept, job.keep, same, self.session.say)

    def run(self) -> None:
        """Train, look at the average now and then, keep checkpoints."""
        with self.journal:
            if self.job.resume is not None:
                self._resume()
            self.journal.write(self._header())
            while (step := self.course.step) < self.job.steps:
                self._step(step)
                self._look(step + 1)
            self.session.close()

    def _look(self, step: int) -> None:
        """Between two steps: evaluate and save where it is time, and at the end."""
        last = step == self.job.steps
        saves = last or step % self.job.save_every == 0
        if last or step % self.job.evaluate_every == 0 or (saves and self.statistics.fresh):
            try:
                self._evaluate()
            except MemberLost as lost:
                if not self.session.survives:
                    raise
                self.session.say(f"step {step} is not evaluated: {lost}", aloud=False)
        if saves:
            self.checkpoints.save(step, beside={**self.scaler.state_dict(), **self._read(step)})
        self.course.rested()

    def _resume(self) -> None:
        """Go on from a checkpoint, with the rates that this job says."""
        said, chosen = rates(self.optimizer), Path(self.job.resume or "")
        step = step_of(chosen)
        step, beside = self.checkpoints.load(step, root=chosen if step is None else chosen.parent)
        if "scale" in beside and self.precision.kind == "fp16":
            self.scaler.load_state_dict(beside)
        if "sample" in beside:  # of one that a version before wrote nobody knows
            self._go_on(step, beside["sample"], beside["batches"])
        set_rates(self.optimizer, said)

    def _read(self, step: int) -> dict[str, object]:
        """What a checkpoint says of the stream: the sample that comes next, and the sizes of steps so far."""
        total = self.stream.cuts.size(step)
        return {"sample": self.stream.cuts.start(step), "batches": self.job.batches or str(total)}

    def _go_on(self, step: int, sample: int, batches: str) -> None:
        """No sample is dropped, none comes twice: a run without a pace goes on where it was, another must be there."""
        if self.pace is None:
            self.stream.begin(step, sample)
        elif (here := self.pace.table.start(step)) != sample:
            reason = f"step {step:,} begins with sample {sample:,} there, with {here:,} here: steps had other sizes"
            raise Refused(f"load: {reason}", f"--batches {batches!r}")

    def _step(self, step: int) -> None:
        member, device = self.place.member, next(self.model.parameters()).device
        if self.pace is not None:
            self._tell_size(step, self.pace)
            self.pace.set(self.optimizer, step)
        indices = self.stream.indices(member, step)
        parts = self._parts(indices, step)
        self.course.counts(len(indices))
        self.loss = 0.0
        for number, rows in enumerate(parts, 1):
            batch = tuple(part[rows].to(device) for part in self.task.train)
            drawn = (step, member + (number - 1) * self.world.size)
            with drawing(device, self.world, drawn), self.precision.casting(device):
                loss, _, _ = self.task.loss(self.model, batch)
            if number == len(parts):
                self._suffer(step)
            share = len(rows) / len(indices)  # so that all pieces together have the gradient of the whole
            with nullcontext() if number == len(parts) else self.session.no_sync():
                self.scaler.backward(loss * share if len(parts) > 1 else loss)
            self.loss += loss.item() * share
        if self.job.clip is not None and not self.course.deferred:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.job.clip)
        self._update(step)
        self.optimizer.zero_grad()

    def _update(self, step: int) -> None:
        """Step, or with an overflow on any worker not; then the loss is scaled less, on all alike."""
        before = self.scaler.scale
        self.optimizer.step()
        self.scaler.stepped(overflown=self.course.overflown)
        if self.scaler.scale < before and self.place.member == 0:
            self._event(
                f"step {step:,} was skipped: an overflow in fp16; the loss is scaled by {self.scaler.scale:g}", 0
            )

    def _parts(self, indices: Tensor, step: int) -> list[Tensor]:
        """A step's samples, in pieces that are computed one after the other."""
        if self.pace is None:
            return [indices]
        share = portion(self.pace.table.size(step), self.world.size, self.job.at_once, self.job.accumulate)
        return list(indices.split_with_sizes(share.pieces))

    def _tell_size(self, step: int, pace: Pace) -> None:
        """A step that is larger or smaller than the last one is an event."""
        size, before = pace.table.size(step), pace.table.size(max(0, step - 1))
        if size != before and self.place.member == 0:
            now, then = pace.rate(step), pace.rate(step - 1)
            self._event(
                f"a step has {size:,} samples from step {step:,} on, not {before:,}; rate {then:.4g} -> {now:.4g}", 0
            )

    def _suffer(self, step: int) -> None:
        """What the script of trouble has for this member: to die, or to compute so many times longer."""
        if self.trouble.fatal(self.place.member, step):
            os.kill(os.getpid(), signal.SIGKILL)
        self._slept = (self.trouble.slowdown(self.place.member, step) - 1.0) * self._pace
        time.sleep(self._slept)

    def _note(self, _: Course, record: StepRecord) -> None:
        self._pace = max(0.0, record.spans["compute"] - self._slept)
        self.journal.write(msgspec.structs.replace(record, loss=self.loss))

    def _event(self, what: str, member: int) -> None:
        self.journal.write(Event(time.perf_counter() - self.began, what, member))

    def _header(self) -> Header:
        settings = {
            "fabric": self.session.carried, "kernel": kernel.in_use(), "route": self.course.route,
            "hosts": self.place.told_hosts, "servers": self.place.told_servers, "trouble": self.job.trouble or "",
        }  # fmt: skip
        return Header(
            "engine", repr(self.session.strategy), self.world.size, self.job.seed, self.job.task, repr(self.recipe),
            self.job.batch, self.job.steps, settings,
        )  # fmt: skip

    def _evaluate(self) -> None:
        """The exact average on held-out data, of which each member looks at its share."""
        strands = self.course.strands
        with averaged(self.session, [self.model]) as met:
            place, size = met.present.index(self.place.member), len(met.present)
            rows = range(place, len(self.task.test[0]), size)
            loss = right = 0.0
            held = replace(self.task, test=tuple(part[rows.start :: size] for part in self.task.test)) if rows else None
            with self.statistics.taken(self.course.step, met):
                if held is not None:
                    loss, right = evaluate(held, self.model)
        self.statistics.leave()
        spread = [divergence(strand, agreed(strand, met)) for strand in strands]
        mine = [loss * len(rows), right * len(rows), len(rows), sum(a for a, _ in spread), sum(n for _, n in spread)]
        sums = (mean(met.fabric, torch.tensor(mine, dtype=torch.float64)) * size).tolist()
        if place == 0:
            steps, (total, correct, count, apart, norm) = self.course.step, sums
            epochs = self.stream.cuts.start(steps) / self.task.size
            self.journal.write(
                Evaluation(time.perf_counter() - self.began, steps * size, epochs, total / count, correct / count,
                           (apart / max(norm, 1e-300)) ** 0.5)
            )  # fmt: skip


def _normed(task: Task, job: TrainJob, place: Place) -> Task:
    """The task whose model has the norms that the job asks for, to begin with as it says."""
    if job.zero_gamma is not None:
        zero_last_gamma(parts_called(task.model, job.zero_gamma))
    if job.norms != "shared" or place.size == 1 or place.serves:
        return task
    return replace(task, model=shared_norms(task.model, place.groups.make()))


def _pace(job: TrainJob, samples: int) -> Pace | None:
    """How rate and batch go over the run, if they do."""
    if job.epochs is None:
        return None
    batches = Batches(((0.0, job.batch * job.workers),)) if job.batches is None else read(job.batches)
    return Pace.of(batches, job.schedule, samples, job.epochs, job.rate, job.rule)


def main() -> None:
    """Play the job whose description the environment names."""
    Training(msgspec.json.decode(Path(os.environ["GOSSAMER_JOB"]).read_bytes(), type=TrainJob)).run()


if __name__ == "__main__":
    main()
