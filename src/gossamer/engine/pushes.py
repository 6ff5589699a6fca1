"""How a member pushes to hubs that lie in memory members share: it plays their part itself, and takes up the answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from gossamer.engine.centre import Centre
from gossamer.engine.shared.shelf import Shelf
from gossamer.engine.sick import first_sick
from gossamer.engine.turns import Turns
from gossamer.parts.codec import Wire
from gossamer.parts.merge import Share
from gossamer.records import Note
from gossamer.replica import Answer, Replica, conclude

NAP, PATIENCE = 0.0002, 1800.0  # seconds between two looks at how far the others are, and until they are given up


class Pushes:
    """One member's pushes; `still` holds its own parameters still while they become a hub's."""

    def __init__(
        self,
        replica: Replica,
        shelf: Shelf,
        turns: Turns,
        centres: Mapping[int, Centre],
        still: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.replica, self.shelf, self.turns, self.centres, self.still = replica, shelf, turns, centres, still
        self.member, self._broken = replica.member, dict[int, int]()
        self._pushing: dict[int, Generator[Wire, Answer, None]] = {}
        self._stepped: dict[int, int] = {}  # by slot: the version that the centre had when this member had stepped it
        self.forget()

    def forget(self) -> None:
        """A step is over."""
        self.slopes: Sequence[Tensor] = self.replica.slopes  # by place: the gradients of this step
        self.sick: bool | None = None  # whether they are no numbers, where somebody has looked

    @property
    def steps(self) -> bool:
        """Whether hubs are stepped with gradients as they are, wherever they lie: `slopes`."""
        return all(centre.parts for centre in self.centres.values() if centre.exchange.updates_at_hub)

    def push(self, slot: int, step: int, note: Note) -> None:
        """Play a hub's part for what this member tells it; the answer is taken up at once if it is due."""
        round, centre = self.replica.desks[slot].round(), self.centres[slot]
        if centre.parts:
            self._step(slot, round, centre, note)
        else:
            self._pushing[slot] = pushing = self.replica.push(slot, step)
            wire = next(pushing)
            note.send(slot, wire.body.nbytes)
            with self.still(), centre.held() as hub:  # always in this order
                self._take(slot, hub.push(self.member, round, wire), note)
        self._say_broken(slot)
        while self.turns.scripted and centre.owing:  # whoever is set free has its answer before anybody goes on
            time.sleep(NAP)

    def take_answer(self, slot: int, note: Note) -> None:
        """Take up what the hub says; waits where this member is too far ahead of the others."""
        centre, until = self.centres[slot], time.monotonic() + PATIENCE
        centre.waits(self.member, slot in self._pushing or slot in self._stepped)
        self.turns.give_way()
        while slot in self._pushing or slot in self._stepped:
            if centre.open(self.member):
                self._answer(slot, centre, note)
            elif time.monotonic() > until:
                raise TimeoutError(f"member {self.member} waited {PATIENCE:.0f} s for others that are too far behind")
            else:
                time.sleep(NAP)
        centre.waits(self.member, False)

    def _step(self, slot: int, round: int, centre: Centre, note: Note) -> None:
        """Step the centre with plain gradients; where nobody is waited for, it is taken up as each part is left."""
        desk, ex = self.replica.desks[slot], centre.exchange
        chosen = [self.slopes[place] for place in desk.chosen.places]
        sick = bool(first_sick(desk.chosen.places, chosen) >= 0) if self.sick is None else self.sick
        for slope in chosen if isinstance(ex.merge, Share) and not sick else ():
            slope.mul_(1.0 / self.shelf.size)
        free, span = ex.synchrony.staleness is None, desk.chosen.span
        whole = self.shelf.mine if span is None else self.shelf.mine[span[0] : span[1]]
        direct = free and span is not None
        with self.still() if direct else nullcontext():
            version, behind = centre.step(self.member, round, None if sick else chosen, whole if direct else None)
        nbytes = desk.chosen.count * whole.element_size()
        note.send(slot, nbytes)
        note.aged(behind)
        self._stepped[slot] = version
        if direct:
            self._took(slot, nbytes, note)
        elif centre.open(self.member):
            self._answer(slot, centre, note)

    def _answer(self, slot: int, centre: Centre, note: Note) -> None:
        if slot in self._pushing:
            with self.still(), centre.held() as hub:
                self._take(slot, hub.free(), note)
            return
        chosen = self.replica.desks[slot].chosen
        told = torch.empty_like(centre.hub.centre) if chosen.span is None else chosen.take(self.shelf.mine)
        with self.still():
            centre.show(self.member, told)
            chosen.put(self.shelf.mine, told)
        self._took(slot, told.nbytes, note)

    def _took(self, slot: int, nbytes: int, note: Note) -> None:
        note.hear(slot, nbytes)
        self.replica.pushed(slot, self._stepped.pop(slot))

    def _take(self, slot: int, answers: list[tuple[int, Answer]], note: Note) -> None:
        """Take an answer up, if there is one, while the hub is held: its centre is the answer."""
        for _, answer in answers:
            note.hear(slot, answer.values.nbytes)
            note.aged(answer.staleness)
            note.dropped += answer.dropped
            conclude(self._pushing.pop(slot), answer)

    def _say_broken(self, slot: int) -> None:
        centre = self.centres[slot]
        while self._broken.get(slot, 0) < centre.broken:
            self._broken[slot] = self._broken.get(slot, 0) + 1
            what = "a member died while it stepped the hub: that step is applied in part"
            print(f"gossamer: slot {slot}: {what}", file=sys.stderr, flush=True)
