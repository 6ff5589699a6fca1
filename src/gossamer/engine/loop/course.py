"""A course: what one optimizer steps, and how far it has come. It plays a step around the user's own calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from msgspec.structs import replace
from torch import Tensor

from gossamer.engine.fabrics import Fabric
from gossamer.engine.fabrics.fabric import Rows
from gossamer.engine.loop.gauge import SILENT, Gauge, packed, unpacked
from gossamer.engine.loop.masters import Masters
from gossamer.engine.loop.shard import Shard
from gossamer.engine.loop.strand import Strand
from gossamer.engine.loop.votes import beside
from gossamer.parts.refusal import Refused
from gossamer.records import Noise, StepRecord
from gossamer.records.summary import EXCHANGE


class Course:
    """One optimizer's strands: a step is begun by a forward, mixed by a backward, finished by `optimizer.step()`."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        strands: Sequence[Strand],
        fabric: Fabric,
        member: int,
        clip: float | None = None,
        frozen: Sequence[tuple[str, Tensor]] = (),
        masters: Masters | None = None,
    ) -> None:
        self.masters = masters or Masters(optimizer)  # of a model that is 16 bits itself; `optimizer` steps them
        self.optimizer, self.strands, self.fabric, self.member, self.clip = optimizer, strands, fabric, member, clip
        self.frozen, self.step, self.skipped, self.usual = frozen, 0, 0, 0.0  # `usual`: seconds of a step, lately
        self.begun = self.mixed = False
        self.gathered = False  # whether a backward inside no_sync() has added to the gradients
        self.sick: list[tuple[int, str]] = []  # members whose gradient was no number, and where
        self.alone = False  # whether nobody else knows of it
        self.spoilt = False  # whether a hub has said that it stepped with nobody's gradients, for somebody's were sick
        self.edited = False  # whether parameters that exist once were changed by somebody else than us
        self._versions: int | None = None
        self._weight = self._loss = 1.0  # of the backward under way: what mine counts, and what its loss was scaled by
        self.samples: int | None = 0  # that my gradient of this step is the mean of; None: of weighed means
        self.gauge, self._noise = Gauge(), list[Noise]()
        self._norms = fabric.board(1) if clip is not None else None
        self._ended = self._started = time.perf_counter()

    @property
    def owner(self) -> torch.optim.Optimizer:
        """The optimizer that the user holds."""
        return self.masters.owner

    @property
    def overflown(self) -> bool:
        """Whether the last step was left out, as far as this member has heard: a scale of the loss may be too large."""
        return bool(self.sick) or self.spoilt

    @property
    def waiting(self) -> float | None:
        """Since when this member waits in an exchange, or None; read by another thread."""
        return next((s.stepper.waiting for s in self.strands if s.stepper.waiting is not None), None)

    @property
    def called(self) -> str:
        """What the exchange under way is, in words."""
        exchanges = self.strands[0].stepper.exchanges
        return " + ".join(f"exchange {n} ({ex.payload.value} over {ex.topology!r})" for n, ex in enumerate(exchanges))

    def refuse_thawed(self) -> None:
        """Refuse tensors that were frozen when prepared, and train now: nobody has laid them out."""
        for name, tensor in self.frozen:
            if tensor.requires_grad:
                raise Refused(
                    f"optimizer.step(): parameter {name} was frozen when it was prepared, and trains now",
                    "unfreezing it before prepare(...)",
                )

    @property
    def elsewhere(self) -> str | None:
        """Why the optimizer's memory is not with this member as a whole, if it is not."""
        if self._shards:
            return "with route=sharded each member remembers its share of the parameters"
        if any(strand.pushed for strand in self.strands):
            return "a hub steps the parameters, and remembers for all"
        return None

    def begin(self) -> None:
        """The first forward of a step: pass the gate."""
        if self.begun:
            return
        self.begun, self.mixed, self.sick, self.alone = True, False, [], False
        self._started = time.perf_counter()
        for strand in self.strands:
            strand.begin()
            strand.stepper.begin(self.step)
        if self.masters.any and any(ex.merge.lookahead for ex in self.strands[0].stepper.exchanges):
            self.masters.round(self.strands)  # gradients are taken elsewhere than where the last step has ended

    def rested(self) -> None:
        """What went by since the last step was no waiting for data: an evaluation, a save."""
        self._ended = time.perf_counter()

    def counts(self, samples: int | None) -> None:
        """A backward adds the gradient of so many samples to that of this step."""
        self.samples = None if self.samples is None or samples is None else self.samples + samples

    def open(self, scale: float, loss: Callable[[], float]) -> None:
        """A backward begins whose gradients will be exchanged, mine counting `scale` times; its loss was scaled by
        `loss`, which is off where an exchange would mind, and on again in what is handed out. Where nobody minds nor
        looks at gradients it is not asked for: it may lie on a device."""
        self.begin()
        if self.mixed and any(ex.synchrony.delay for ex in self.strands[0].leaving):
            raise Refused(
                "a second backward in one step, though gradients are exchanged with a delay",
                "with model.no_sync(): around every backward but the last",
            )
        self.sick = []
        self._weight, self._loss = scale, loss() if any(strand.minds for strand in self.strands) else 1.0
        self.masters.forget()
        for strand in self.strands:
            strand.scale = scale / self._loss if strand.minds else scale
            strand.open(self.step)
        self._look(loss)

    def _look(self, loss: Callable[[], float]) -> None:
        """Let the strands look at their gradients if it is time, and tell what the last look has shown."""
        gauge, first = self.gauge, self.strands[0]
        looking = gauge.opens(self.step, loss, able=all(strand.averages for strand in self.strands))
        told = gauge.tells(self.usual)
        for strand in self.strands:
            strand.look_at(gauge if looking else None, self.samples or 0, told if strand is first else SILENT)

    def arrived(self, strand: Strand, place: int) -> None:
        """The gradient of a tensor is complete."""
        self.masters.take(strand.tensors[place])
        strand.arrived(place, self.step)

    def close(self) -> None:
        """The backward is over: mix, and let the user's gradients be what was mixed."""
        self.masters.take_rest()
        for strand in self.strands:
            strand.close(self.step)
        self.mixed = True
        if not self.deferred:
            self._hear_votes()
            for strand in self.strands:
                strand.hand_out(self._rows(strand))
                if strand.minds and self._loss != 1.0:
                    strand.multiply(self._loss)
                    strand.scale = self._weight  # a hub is told of gradients that the optimizer's step has unscaled
                self.masters.show(strand)
            if self.gauge.looking:
                mixed = [strand.tensors[place].grad for strand in self.strands for place in strand.due.places]
                self.gauge.mixed([grad for grad in mixed if grad is not None])

    def finish(self, update: Callable[[], object], *, overflown: bool = False) -> StepRecord:
        """Play the rest of the step around the update, which is left out where the user's scaler saw an overflow."""
        self.begin()
        self._look_for_edits()
        self.masters.follow()
        if not self.mixed:  # every backward was inside no_sync(): what was gathered, weighed, is exchanged now
            self.open(1.0, lambda: 1.0 / self.masters.by)
            self.masters.take_rest()
            for strand in self.strands:
                strand.look()
            self.close()
        self.masters.hear()
        if self.deferred:
            self._sum_shares()
        for strand in self.strands:
            strand.offer()
        updates = [strand.stepper.before(self.step) for strand in self.strands]
        if all(updates):
            with ExitStack() as still:
                for strand in self.strands:
                    still.enter_context(strand.stepper.updating())
                self._update(update, overflown)
        self.owner._opt_called = True  # type: ignore[attr-defined]  # a scheduler may step, whoever made the update
        self._notice()
        with self.strands[0].stepper.span("wait"):
            for shard in self._shards:
                shard.settle() if shard.ours else shard.fence()
        record = self._summed([strand.stepper.after(self.step) for strand in self.strands])
        self.spoilt = any(strand.stepper.note.spoilt for strand in self.strands)
        self.masters.round(self.strands)
        self.step, self.begun, self.mixed, self.gathered = self.step + 1, False, False, False
        self.samples, self._noise = 0, []
        return record

    def _look_for_edits(self) -> None:
        """Where parameters exist once, `p.mul_(...)` outside of the optimizer would count once for each worker."""
        if self._shards and not self.deferred:
            now = sum(tensor._version for strand in self.strands for tensor in strand.tensors)
            self.edited = self._versions is not None and now != self._versions
            self._versions = now

    @property
    def _shards(self) -> list[Shard]:
        return [strand.shard for strand in self.strands if strand.shard is not None]

    @property
    def deferred(self) -> bool:
        """Whether sums are taken when the update asks for them."""
        return any(shard.ours for shard in self._shards)

    @property
    def route(self) -> str:
        """How the update is made: by every member for itself, or each for its share of the parameters."""
        return "sharded" if self._shards else "whole"

    def _sum_shares(self) -> None:
        with self.strands[0].stepper.span("wait"):
            for shard in self._shards:
                shard.sum()
        if self.gauge.looking:
            self.gauge.mixed([slope for shard in self._shards for slope in shard.slopes])
        self._hear_votes()

    def _hear_votes(self) -> None:
        """Who was sick; where nobody looked, a spoilt mix shows, on all members alike."""
        for strand in self.strands:
            rows = self._rows(strand)
            blind = not self.deferred and strand.due.told and not strand.looks and not any(row[0] for row in rows)
            if blind and strand.spoilt():
                with self.strands[0].stepper.span("wait"):
                    rows = strand.ask_who()
            self.sick += strand.sick_members(rows)
        self._hear_of_noise()

    def _hear_of_noise(self) -> None:
        """What all members saw of their gradients, and then of the mix."""
        heard = [[beside(said) for said in self._rows(strand)] for strand in self.strands]
        told = heard[0]
        if self.gauge.looking and len(heard) > 1:  # a member's gradient is in all strands
            told = [(packed(sum(unpacked(each[0]) for each in said)), said[0][1]) for said in zip(*heard, strict=True)]
        seen = self.gauge.hears(told, self.step, shares=self.deferred)
        self._noise = [] if seen is None else [seen]

    def _rows(self, strand: Strand) -> Rows:
        with self.strands[0].stepper.span("wait"):  # over a network it is one: who looks for silent hosts must know
            return strand.votes()

    def _update(self, update: Callable[[], object], overflown: bool) -> None:
        """Step the parameters, unless somebody's gradient is no number: then nobody steps, and who it was is known."""
        if not self.sick:
            self._find([name for strand in self.strands for name in strand.sick_alone()])
        if self.sick or overflown:
            self.skipped += 1
        elif self._shards:
            self._step_shares()
        else:
            update()

    def _find(self, names: list[str]) -> None:
        self.sick, self.alone = [(self.member, name) for name in names], bool(names)

    def _notice(self) -> None:
        """What was sent as nothing, or to a hub that passed it over, is known to this member only."""
        noticed = [strand.name(strand.noticed) for strand in self.strands if strand.noticed >= 0]
        for strand in self.strands:
            strand.noticed = -1
        if noticed and not self.sick:
            self._find(noticed)

    def _step_shares(self) -> None:
        if not self.deferred:  # others may still look at the parameters, until they step, too
            self._shards[0].fence()
            for shard in self._shards:
                shard.gather()
        elif self.clip is not None:
            self._clip(self.clip)
        for hook in self.owner._optimizer_step_pre_hooks.values():
            hook(self.owner, (), {})
        for strand in self.strands:
            if strand.shard is not None:
                strand.shard.step(strand.unused(self._rows(strand)) if self.deferred else strand.bare())
        for hook in self.owner._optimizer_step_post_hooks.values():
            hook(self.owner, (), {})

    def _clip(self, most: float) -> None:
        """Clip by the norm of the whole mean gradient, of which each member knows its share."""
        mine = sum(shard.norm_squared() for shard in self._shards)
        assert self._norms is not None
        rows = self._norms([packed(mine)])
        self._shards[0].fence()
        total = sum(unpacked(row[0]) for row in rows())
        factor = most / (total**0.5 + 1e-6)
        if factor < 1.0:
            for shard in self._shards:
                shard.scale(factor)

    def _summed(self, records: Sequence[StepRecord]) -> StepRecord:
        """One record of all strands; seconds that no exchange took were spent computing, or on data before it."""
        now, first = time.perf_counter(), records[0]
        spans = {name: sum(r.spans.get(name, 0.0) for r in records) for name in EXCHANGE}
        inside = sum(spans.values())
        spans["data"] = max(0.0, self._started - self._ended)
        spans["compute"] = max(0.0, now - self._started - inside)
        width = len(self.strands[0].stepper.exchanges)
        taken, self._ended = now - self._ended, now
        self.usual = taken if not self.usual else 0.9 * self.usual + 0.1 * taken
        return StepRecord(
            first.member,
            first.step,
            first.time,
            float("nan"),
            spans,
            {slot + n * width: size for n, record in enumerate(records) for slot, size in record.sent.items()},
            {slot + n * width: size for n, record in enumerate(records) for slot, size in record.heard.items()},
            max(record.staleness for record in records),
            sum(record.dropped for record in records),
            {slot + n * width: size for n, record in enumerate(records) for slot, size in record.crossed.items()},
            sum(record.torn for record in records),
            [replace(look, slot=look.slot + n * width) for n, record in enumerate(records) for look in record.truth],
            self._noise,
        )
