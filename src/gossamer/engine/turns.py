"""Whose turn it is: a scripted order of the members' visible steps, and the gate of bounded staleness."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from torch.distributed.distributed_c10d import Store

NAP = 0.0005  # seconds between two looks at the store
PATIENCE = 120.0


class Turns:
    """With an order, a member's k-th step waits for its k-th place in it; without one, nobody waits here."""

    def __init__(self, store: Store, job: str, member: int, size: int, order: Sequence[int] | None) -> None:
        self.scripted = order is not None
        self._store, self._job, self._member, self._size = store, job, member, size
        self._places = [place for place, who in enumerate(order or ()) if who == member]
        self._taken = 0
        self._holding = False

    @property
    def steps(self) -> int:
        """How many steps the order gives this member."""
        return len(self._places)

    def take(self) -> None:
        """Wait for this member's next place in the order."""
        if not self.scripted:
            return
        place = self._places[self._taken]
        self._until(lambda: self._read("turn") >= place, f"place {place} in the order")
        self._taken += 1
        self._holding = True

    def give_way(self) -> None:
        """What others can see of this step has happened: the next in the order may go on."""
        if self._holding:
            self._holding = False
            self._store.add(f"{self._job}/turn", 1)

    def tell(self, done: int) -> None:
        """Let the others' gates know how many steps this member has completed."""
        self._store.set(f"{self._job}/done/{self._member}", str(done))

    def gate(self, step: int, bound: int | None) -> None:
        """Wait until the slowest member is within `bound` steps."""
        if bound is None:
            return

        def open_() -> bool:
            return step - min(self._read(f"done/{member}") for member in range(self._size)) <= bound

        self._until(open_, f"members that are more than {bound} steps behind")

    def _read(self, name: str) -> int:
        """A number in the store, 0 before anybody has written it. Looking writes nothing: a file store keeps it all."""
        key = f"{self._job}/{name}"
        return int(self._store.get(key)) if self._store.check([key]) else 0

    def _until(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > deadline:
                raise TimeoutError(f"member {self._member} waited {PATIENCE:.0f} s for {what}")
            time.sleep(NAP)
