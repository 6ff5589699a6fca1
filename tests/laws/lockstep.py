"""All members of a world converse in lockstep, so that laws can look at every wire. Opens no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Codec, Heard, Wire, laid_down
from gossamer.replica import combine

torch.set_num_threads(1)  # tensors this small only lose time to a second thread

SHAPES = ((5, 4), (3,), (2, 3, 2), ())
Memories = list[dict[str, Tensor]]


@dataclass
class Talk:
    """One exchange: the blocks, every wire by turn and member, and how each member's conversation ended."""

    blocks: list[Block]
    rows: list[Mapping[int, float]]
    wires: list[list[Wire]] = field(default_factory=list)
    mixed: list[Tensor] = field(default_factory=list)
    heard_of_me: list[Tensor] = field(default_factory=list)
    written_to: set[str] = field(default_factory=set)
    shared: list[Tensor] = field(default_factory=list)  # what more than one member may have been handed

    def mean(self, values: Sequence[Tensor], member: int = 0) -> Tensor:
        """The sum of `values` with the weights of `member`, in float64."""
        return torch.stack([weight * values[other].double() for other, weight in self.rows[member].items()]).sum(0)

    def tolerance(self) -> float:
        """Rounding to allow for, relative to the largest input: of the coarsest float on the wire, or of the block."""
        floats = [self.blocks[0].flat.dtype, *(w.body.dtype for turn in self.wires for w in turn)]
        coarsest = max(torch.finfo(dtype).eps for dtype in floats if dtype.is_floating_point)
        return 16 * coarsest * max(1.0, *(float(block.flat.abs().max()) for block in self.blocks))


def blocks(size: int, key: int, dtype: torch.dtype = torch.float32, shapes: tuple = SHAPES) -> list[Block]:
    """One block of normal numbers for each member, decided by the key, with other numbers beside it."""
    count = sum(torch.Size(shape).numel() for shape in shapes)
    numbers = torch.randn(size, count, dtype=dtype, generator=torch.Generator().manual_seed(key))
    return [Block(row, shapes, beside) for row, beside in zip(numbers, numbers.flip(1), strict=True)]


def everybody(weights: Sequence[float]) -> list[Mapping[int, float]]:
    """A complete exchange: all hear all, with these weights."""
    return [dict(enumerate(weights))] * len(weights)


def exchange(
    codec: Codec, given: list[Block], rows: list[Mapping[int, float]], memories: Memories, step: int = 0
) -> Talk:
    """Let all members converse; member m hears each sender with the weight that rows[m] gives it."""
    talk, alike = Talk(given, rows), all(row == rows[0] for row in rows)
    lent = [tensor for block in given for tensor in (block.flat, block.beside) if tensor is not None]
    guarded = [(tensor, tensor.clone(), "block") for tensor in lent]
    speaking = [codec.converse(block, memories[m], Chance(11, 2, step, m)) for m, block in enumerate(given)]
    wires: list[Wire] = [next(one) for one in speaking]
    while wires:
        talk.wires.append(wires)
        assert len({type(wire) for wire in wires}) == 1, f"{codec!r}: wires of one turn are of several kinds"
        guarded += [(wire.body, wire.body.clone(), "wire") for wire in wires]
        heard = [combine([(row[m], wires[m]) for m in sorted(row)]) for row in (rows[:1] if alike else rows)]
        bodies = [body for one in heard for body in _bodies(one)]
        guarded += [(body, body.clone(), "heard") for body in bodies]
        talk.shared += bodies
        wires = _answer(codec, speaking, heard * len(given) if alike else heard, talk)
    talk.written_to = {what for now, before, what in guarded if not torch.equal(now, before)}
    return talk


def _bodies(heard: Heard) -> list[Tensor]:
    return [heard.whole] if heard.whole is not None else [body for _, body in heard.apart]


def _answer(codec: Codec, speaking: list, heard: list[Heard], talk: Talk) -> list[Wire]:
    """Send everybody what it hears; the next turn's wires, or none when all are done."""
    wires = []
    for one, news in zip(speaking, heard, strict=True):
        try:
            wires.append(one.send(news))
        except StopIteration as end:
            talk.mixed.append(end.value[0])
            talk.heard_of_me.append(laid_down(end.value[1]))
    assert len(wires) in (0, len(speaking)), f"{codec!r}: members fall out of step"
    return wires


def talks(codec: Codec, steps: int = 4) -> Iterator[tuple[Talk, Memories]]:
    """Worlds of 1, 2 and 5 in single precision and of 3 in double, evenly weighted or not, several exchanges each."""
    for size, dtype in ((1, torch.float32), (2, torch.float32), (5, torch.float32), (3, torch.float64)):
        shares = [1.0 if size == 2 else 1.0 + m for m in range(size)]
        rows = everybody([share / sum(shares) for share in shares])
        memories: Memories = [{} for _ in range(size)]
        for step in range(steps):
            yield exchange(codec, blocks(size, 100 * size + step, dtype), rows, memories, step), memories
