"""How fast a codec writes and reads on one core, as bytes of 32-bit floats in a second; and top-k by a sampled bound.

Run `python benchmarks/codecs.py` on a quiet machine: one process, one thread, memory as a worker of ours has it. A
repeat plays every case once, in shuffled order, so that a drift of the machine meets all alike. `write` is all a member
does until its wire is there, its residual included where the codec keeps one; `read` is what it does with one other
member's wire, a mix of one. `copy` is `torch.Tensor.copy_` of the same numbers, beside which memory speed shows, and
`top-k / torch` is `torch.topk` of all sizes over ours of the same vector, with how many were found for each that was
asked for.
The bars: one bit, three values and four bits write and read 1 GB/s; 16-bit floats as fast as a copy of as many bytes;
top-k 5 times as fast as torch's, from 0.1 to 1 %, and as many as asked for to 20 %.
"""

from __future__ import annotations

import os
import random
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from math import ceil
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from gossamer.engine import freed
from gossamer.parts import kernel
from gossamer.parts.chance import Chance
from gossamer.parts.codec import (
    QSGD,
    Block,
    Brain,
    Codec,
    ErrorFeedback,
    Half,
    Int8,
    Natural,
    OneBit,
    PowerSGD,
    RandomK,
    Sign,
    Ternary,
    TopK,
    Wire,
    alone,
)
from gossamer.parts.codec.sparse import top

SIZES, REPEATS = (1_000_000, 10_000_000, 50_000_000), 7
CODECS: dict[str, Codec] = {
    "half": Half(),
    "bf16": Brain(),
    "one bit, residual": ErrorFeedback(OneBit()),
    "signs, residual": ErrorFeedback(Sign()),
    "three values": Ternary(),
    "three values, residual": ErrorFeedback(Ternary()),
    "qsgd 2 bits": QSGD(2),
    "qsgd 4 bits": QSGD(4),
    "qsgd 4 bits, residual": ErrorFeedback(QSGD(4)),
    "qsgd 8 bits": QSGD(8),
    "int8, residual": ErrorFeedback(Int8()),
    "natural": Natural(),
    "top 1 %, residual": ErrorFeedback(TopK(0.01)),
    "random 1 %, residual": ErrorFeedback(RandomK(0.01)),
    "PowerSGD 2, residual": ErrorFeedback(PowerSGD(2)),
}
BARRED = ("one bit, residual", "three values", "three values, residual", "qsgd 4 bits", "qsgd 4 bits, residual")
SHARES = (0.001, 0.01)
Times = dict[str, list[float]]


class Case:
    """A codec and a vector: seconds to write it, and to read what was written, with what is remembered kept."""

    def __init__(self, codec: Codec, flat: Tensor, columns: int) -> None:
        self.codec, self.memory, self.step = codec, dict[str, Tensor](), 0
        self.block = Block(flat, ((flat.numel() // columns, columns),))

    def play(self) -> tuple[float, float]:
        """Write, read: all turns of each together. What a two-turn codec does between them counts as writing."""
        self.step += 1
        talking = self.codec.converse(self.block, self.memory, Chance(0, 0, self.step, 0))
        began = perf_counter()
        wire: Wire = next(talking)
        spent = perf_counter() - began
        for _ in range(self.codec.turns - 1):
            began = perf_counter()
            wire = talking.send(alone(wire))
            spent += perf_counter() - began
        began = perf_counter()
        try:
            talking.send(alone(wire))
        except StopIteration:
            return spent, perf_counter() - began
        raise AssertionError(f"{self.codec!r} goes on speaking")


def timed(call: Callable[[], Any]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def measured(count: int, repeats: int) -> tuple[Times, dict[str, float]]:
    """Seconds of every case, and how many elements ours found for each that was asked for."""
    torch.manual_seed(0)
    flat, room = torch.randn(count) ** 3, torch.empty(count)
    short = flat.half()
    cases = {name: Case(codec, flat, 1000) for name, codec in CODECS.items()}
    found = {f"top {share:.1%}": len(top(flat, ceil(share * count))) / ceil(share * count) for share in SHARES}
    calls: dict[str, Callable[[], Any]] = {
        "copy": lambda: room.copy_(flat), "copy of 16 bits": lambda: room.copy_(short),
    }  # fmt: skip
    for share in SHARES:
        calls[f"top {share:.1%}"] = lambda share=share: top(flat, ceil(share * count))
        calls[f"torch {share:.1%}"] = lambda share=share: flat.abs().topk(ceil(share * count), sorted=False)
    times: Times = {name: [] for name in calls}
    times |= {f"{name} {way}": [] for name in cases for way in ("write", "read")}
    order = random.Random(0)
    for repeat in range(repeats + 1):
        for name in order.sample([*calls, *cases], len(calls) + len(cases)):
            if name in cases:
                spent = dict(zip(("write", "read"), cases[name].play(), strict=True))
                for way, seconds in spent.items():
                    times[f"{name} {way}"] += [seconds] if repeat else []  # the first is to warm up
            else:
                seconds = timed(calls[name])
                times[name] += [seconds] if repeat else []
    return times, found


def rate(count: int, seconds: list[float]) -> str:
    """Median, lowest and highest bytes of 32-bit floats in a second."""
    low, middle, high = (4e-9 * count / each for each in (max(seconds), median(seconds), min(seconds)))
    return f"{middle:6.2f} ({low:.2f}..{high:.2f})"


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    if pages := freed.large_pages(os.environ):  # as a worker is started
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **pages})
    freed.keep()
    torch.set_num_threads(1)
    print(
        f"loops: {'torch' if kernel.library() is None else 'compiled'}; GB/s of 32-bit floats, median (lowest..highest)"
    )
    short = []
    for count in options.sizes:
        times, found = measured(count, options.repeats)
        copies = (rate(count, times[name]) for name in ("copy", "copy of 16 bits"))
        print("\n{:,} elements: copy {}, from 16 bits {}".format(count, *copies))
        for name in CODECS:
            write, read = times[f"{name} write"], times[f"{name} read"]
            print(f"  {name:24} write {rate(count, write):22} read {rate(count, read)}")
            if name in BARRED:
                short += [
                    f"{count:,} {name}: {way} {4e-9 * count / median(each):.2f} GB/s, bar 1"
                    for way, each in (("write", write), ("read", read)) if 4e-9 * count / median(each) < 1.0
                ]  # fmt: skip
        for share in SHARES:
            name = f"{share:.1%}"
            ratios = sorted(t / o for t, o in zip(times[f"torch {name}"], times[f"top {name}"], strict=True))
            spread = f"{median(ratios):.1f} ({ratios[0]:.1f}..{ratios[-1]:.1f})"
            print(f"  top {name} / torch: {spread}, found {found[f'top {name}']:.2f}")
            if median(ratios) < 5.0:
                short.append(f"{count:,} top {share:.1%}: {median(ratios):.1f} times torch, bar 5")
    print("\nall bars held" if not short else "\nshort of a bar: " + "; ".join(short))


if __name__ == "__main__":
    main()
