"""A shelf: numbers of all members in one memory, which anybody reads, or changes, where they lie. Knows no strategy.

Every member's own numbers have a version, odd while somebody writes them: a read during which it changed is torn. Who
must be alone takes a lock of the kernel's on a byte of the memory; with its holder's process a lock ends, too.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import torch
from torch import Tensor

from gossamer.engine.shared import kernel, memory
from gossamer.engine.shared.places import LINE, PAGE, up
from gossamer.engine.shared.siblings import Siblings

VERSION, DONE, LEFT = range(3)  # a member's words: of its numbers; steps it has completed; whether it ended in peace
WIDTH = LINE // 8


class Shelf:
    """One member's hold on a shelf; all members open it alike.

    `words` are numbers of 64 bits: a line for each member, then whatever was asked for. `shared` are what exists once.
    """

    def __init__(
        self,
        store: memory.Store,
        name: str,
        member: int,
        size: int,
        like: Tensor,
        extra: Sequence[tuple[int, torch.dtype]] = (),
        words: int = 0,
    ) -> None:
        """`like` is what each member's numbers are to begin with; raises Unshared on all members, or on none."""
        self.member, self.size = member, size
        counts = [(size * WIDTH + words, torch.int64), *[(like.numel(), like.dtype)] * size, *extra]
        starts = list(accumulate((up(count * dtype.itemsize, PAGE) for count, dtype in counts), initial=PAGE))
        self._memory = memory.shared(store, name, member, size, starts[-1], kernel.in_use(), lockable=True)
        parts = [self._memory.tensor(at, *of) for at, of in zip(starts, counts, strict=False)]
        flat = parts[0].numpy()
        self._lines, self.words = flat[: size * WIDTH].reshape(size, WIDTH), flat[size * WIDTH :]
        self.replicas, self.shared = parts[1 : 1 + size], parts[1 + size :]
        self.mine = self.replicas[member]
        self.mine.copy_(like)
        self.siblings = Siblings(store, name, member, size)
        self.fence = threading.Lock()  # taken around words, it orders memory on machines that need it

    def version(self, member: int) -> int:
        """How often a member's numbers were changed, times two; odd while they are."""
        with self.fence:  # orders memory on machines that need it
            return int(self._lines[member, VERSION])

    def steps(self, member: int) -> int:
        """Steps that a member has completed."""
        return int(self._lines[member, DONE])

    def completed(self, steps: int) -> None:
        """This member has completed so many steps."""
        self._lines[self.member, DONE] = steps

    def leave(self) -> None:
        """This member ends in peace: its numbers stay, for whoever still reads them."""
        self._lines[self.member, LEFT] = 1

    def left(self, member: int) -> bool:
        """Whether a member has ended in peace."""
        return bool(self._lines[member, LEFT])

    def lost(self, member: int) -> bool:
        """Whether a member has ended, and not in peace."""
        return not self.left(member) and self.siblings.ended(member)

    @contextmanager
    def writing(self, member: int | None = None) -> Iterator[None]:
        """While a member's numbers change; it must be the only one to change them."""
        line = self._lines[self.member if member is None else member]
        line[VERSION] += 1
        with self.fence:
            pass
        try:
            yield
        finally:
            with self.fence:
                pass
            line[VERSION] += 1

    @contextmanager
    def locked(self, number: int) -> Iterator[None]:
        """Alone among all processes that lock the same number; not for two threads of one process."""
        fcntl.lockf(self._memory.descriptor, fcntl.LOCK_EX, 1, number)
        try:
            yield
        finally:
            fcntl.lockf(self._memory.descriptor, fcntl.LOCK_UN, 1, number)
