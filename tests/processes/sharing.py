"""Real processes that open lanes together, and the parts they play; a part's result is sent back to the test."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise, product
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import profile

from gossamer.engine.shared import Into, Lane, Unshared, kernel

Part = Callable[..., Any]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.processes.sharing"])
WAIT = 60.0


def together(size: int, part: Part, *given: Any, killed: int | None = None) -> list[Any]:
    """What each process returns from its part, or the exception it raised; nothing from one that is killed."""
    with tempfile.TemporaryDirectory() as folder:
        started = [_start(f"{folder}/store", member, size, part, given) for member in range(size)]
        try:
            heard = [_heard(pipe, None if member == killed else WAIT) for member, (_, pipe) in enumerate(started)]
            for process, _ in started:
                process.join(WAIT)
        finally:
            for process, pipe in started:
                process.kill()
                process.join()
                process.close()
                pipe.close()
        return heard


def _start(path: str, member: int, size: int, part: Part, given: tuple[Any, ...]) -> tuple[BaseProcess, Connection]:
    mine, theirs = SERVER.Pipe()
    process = SERVER.Process(target=_play, args=(path, member, size, part, given, theirs))
    process.start()
    theirs.close()
    return process, mine


def _heard(pipe: Connection, seconds: float | None) -> Any:
    if seconds is None:
        return None
    assert pipe.poll(seconds), "a member said nothing"
    return pipe.recv()


def _play(path: str, member: int, size: int, part: Part, given: tuple[Any, ...], pipe: Connection) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(path, size)
    try:
        result = part(store, member, size, *given)
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    pipe.send(result)


# ---- parts ----


def numbers(member: int, round_: int, count: int, dtype: torch.dtype) -> Tensor:
    """What a member brings to a round; everybody can tell everybody's."""
    return torch.randn(count, generator=torch.Generator().manual_seed(1000 * round_ + member)).to(dtype)


def mean(values: list[Tensor], weights: list[float] | None) -> Tensor:
    """In the order of members, 16-bit numbers in 32."""
    wide = torch.promote_types(values[0].dtype, torch.float32)
    total = values[0].to(wide) * (1.0 if weights is None else weights[0])
    for member, value in enumerate(values[1:], start=1):
        total = total + value.to(wide) * (1.0 if weights is None else weights[member])
    return (total * (1.0 / len(values)) if weights is None else total).to(values[0].dtype)


def mixes(store: dist.Store, member: int, size: int, kind: kernel.Kind, dtypes: list[torch.dtype]) -> list[bytes]:
    """Lanes of many shapes, every way of mixing; returns what each left in the slot, to be compared bit by bit."""
    kernel.force(kind)
    chance, left = random.Random(size), []
    for (case, count), dtype in product(enumerate((0, 1, 3, 63, 1001, 30_001)), dtypes):
        cuts = sorted(chance.choices(range(count + 1), k=chance.choice((0, 1, 7))))
        edges = [0, *cuts, count]
        lane = Lane.open(store, f"{case} {dtype}", member, size, count, dtype, cuts, True, _shares(edges, size, case))
        assert lane.mine.data_ptr() % 64 == 0
        for round_ in range(3):
            weights = None if round_ < 2 else [0.1 * (other + 1) for other in range(size)]
            values = [numbers(other, round_, count, dtype) for other in range(size)]
            wanted = mean(values, weights)
            for into in Into:
                for bucket, (start, stop) in enumerate(pairwise(edges)):
                    assert lane.load(bucket, list(values[member][start:stop].split(max(17, count // 9)))) == -1
                    _mixed(lane, bucket, into, weights, in_one=round_ == 0)
                result = lane.whole if into is Into.ONCE else lane.mine
                left += [result.view(torch.uint8).numpy().tobytes()] if into is not Into.OWN else []
                for spans in lane.shares:
                    for start, stop in spans if into is not Into.OWN else [spans[member]]:
                        _close(result[start:stop], wanted[start:stop], exact=weights is None)
    return left


def _shares(edges: list[int], size: int, case: int) -> list[list[tuple[int, int]]] | None:
    """Every other lane is cut unevenly: all to one, and to those after it nothing."""
    if case % 2:
        return None
    return [[(a, b) if owner == case % size else (0, 0) for owner in range(size)] for a, b in pairwise(edges)]


def _mixed(lane: Lane, bucket: int, into: Into, weights: list[float] | None, in_one: bool) -> None:
    if in_one:
        lane.mix(bucket, into, weights)
        return
    lane.announce(bucket)
    lane.reduce(bucket, into, weights)
    lane.done(bucket)
    lane.settle(bucket)
    assert not lane.ready(bucket)  # the next one is not announced yet


def _close(result: Tensor, wanted: Tensor, exact: bool) -> None:
    narrow = result.dtype.itemsize == 2
    if exact and not narrow:
        assert torch.equal(result, wanted)
    torch.testing.assert_close(result, wanted, rtol=1e-2 if narrow else 1e-6, atol=1e-6)


def hurried(store: dist.Store, member: int, size: int, kind: kernel.Kind, rounds: int) -> int:
    """Many mixes by members that dawdle differently; returns how many results were torn."""
    kernel.force(kind)
    cuts = (1, 900, 20_000)
    lane = Lane.open(store, "hurried", member, size, 120_000, torch.float64, cuts, shared=True)
    alike, alone, torn = random.Random(1), random.Random(member), 0
    edges = [0, *cuts, 120_000]
    for round_ in range(rounds):
        bucket, into = alike.randrange(4), alike.choice((Into.EVERY, Into.ONCE))
        start, stop = edges[bucket], edges[bucket + 1]
        if alone.random() < 0.02:
            time.sleep(alone.random() * 0.002)
        lane.mine[start:stop] = round_ * size * 8 + member
        lane.say(round_ * size + member)
        _mixed(lane, bucket, into, [1.0] * size, in_one=alike.random() < 0.5)
        result = (lane.whole if into is Into.ONCE else lane.mine)[start:stop]
        torn += bool((result != round_ * size * size * 8 + size * (size - 1) // 2).any())
        torn += lane.said() != [round_ * size + other for other in range(size)]
        lane.announce(0), lane.reduce(0, Into.OWN), lane.done(0), lane.settle(0)  # all have looked: write again
    return torn


def written_once(store: dist.Store, member: int, size: int) -> tuple[int, list[int]]:
    """Mixes whose one result is long enough for two ways to write it; how many were wrong, and both ways' tries."""
    kernel.force("compiled")
    count, wrong = size * 300_001, 0
    lane = Lane.open(store, "once", member, size, count, torch.float32, shared=True)
    for round_ in range(14):
        values = [numbers(other, round_, count, torch.float32) for other in range(size)]
        assert lane.load(0, [values[member]]) == -1
        lane.mix(0, Into.ONCE)
        assert lane.whole is not None
        wrong += not torch.equal(lane.whole, mean(values, None))
        lane.mix(0, Into.OWN)  # all have looked
    assert lane._compiled is not None
    return wrong, [way.tried for way in lane._compiled.ways]


def absent(store: dist.Store, member: int, size: int, kind: kernel.Kind, phase: str) -> tuple[list[Any], str, float]:
    """Member 1 goes missing in a phase; returns what the others were told, how they gave up, and after how long."""
    kernel.force(kind)
    lane, told = Lane.open(store, "absent", member, size, 100_000, torch.float32), list[Any]()
    if member == 1:
        if phase == "done":
            lane.announce(0)
        store.wait([f"gave up {other}" for other in range(size) if other != 1])
        return told, "", 0.0
    lane.alarm, default = 0.5, lane.missing

    def missing(who: list[int], bucket: int, phase: str) -> None:
        told.append((who, bucket, phase))
        if len(told) == 2:
            default(who, bucket, phase)

    lane.missing, began, said = missing, time.monotonic(), ""
    try:
        lane.mix(0, Into.EVERY)
    except TimeoutError as error:
        said = str(error)
    store.set(f"gave up {member}", "")
    return told, said, time.monotonic() - began


def interrupted(store: dist.Store, member: int, size: int, kind: kernel.Kind) -> float:
    """A signal comes while a member waits; returns after how many seconds it was heard."""
    kernel.force(kind)
    lane, began = Lane.open(store, "interrupted", member, size, 10, torch.float32), time.monotonic()

    def hear(*_: object) -> None:
        raise InterruptedError

    signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        if member:
            time.sleep(5)
        lane.mix(0, Into.EVERY)
    except InterruptedError:
        return time.monotonic() - began
    return 0.0


def killed(store: dist.Store, member: int, size: int, kind: kernel.Kind) -> tuple[str, list[str], float]:
    """Member 0, who made the memory, dies in a mix; returns what a survivor says, has open, and still reads."""
    kernel.force(kind)
    lane = Lane.open(store, "killed", member, size, 1_000_000, torch.float32)
    lane.mine.fill_(3.0)
    lane.alarm = 0.5
    if member == 0:
        store.wait([f"waits {other}" for other in range(1, size)])
        os.kill(os.getpid(), signal.SIGKILL)
    store.set(f"waits {member}", "")
    try:
        lane.mix(0, Into.EVERY)
    except TimeoutError as error:
        said = str(error)
    links = [os.readlink(entry) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry)]
    return said, [link for link in links if "memfd" in link or "shm" in link], lane.mine.sum().item()


def crowded(store: dist.Store, member: int, size: int, how: str) -> tuple[str, int, int] | str:
    """Memory that cannot be had; returns how a member hears of it, and that nothing stays open."""
    count, before = 1_000_000, len(os.listdir("/proc/self/fd"))
    if how == "file size" and member == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    if how == "address space" and member == 1:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 4_000_000, resource.RLIM_INFINITY))
    count = {"absurd": 10**15, "different": count + 10_000 * member}.get(how, count)
    try:
        Lane.open(store, "crowded", member, size, count, torch.float32)
    except Unshared as error:
        assert len(os.listdir("/proc/self/fd")) == before
        return f"{type(error).__name__}: {error}", getattr(error, "needed", 0), getattr(error, "available", 0)
    return "opened"


def loads(store: dist.Store, member: int, size: int, kind: kernel.Kind, dtype: torch.dtype) -> list[int]:
    """Sources of all kinds, some of them bad; returns the index that load found in each case."""
    kernel.force(kind)
    lane = Lane.open(store, "loads", member, size, 100, dtype, cuts=(40,))
    found, matrix = [], torch.arange(12.0).view(3, 4)
    good = [torch.ones(4, dtype=dtype), matrix.T, torch.arange(24, dtype=torch.int64)]
    found.append(lane.load(0, good, 0.5))
    _close(lane.mine[:40], torch.cat([one.reshape(-1).to(dtype) for one in good]) * 0.5, exact=False)
    found.append(lane.load(1, [torch.full((30,), 2.0, dtype=dtype), torch.full((30,), torch.nan, dtype=dtype)]))
    found.append(lane.load(1, [torch.full((59,), 2.0, dtype=dtype), torch.tensor(-torch.inf, dtype=dtype)]))
    found.append(lane.load(1, [torch.full((60,), torch.finfo(dtype).max, dtype=dtype)], 4.0))  # too large once scaled
    found.append(lane.load(1, [torch.full((6, 10), torch.inf).T]))
    lane.mine[40:] = 7.0
    found.append(lane.load(1, [lane.mine[40:50], lane.mine[50:]]))
    lane.mine[60] = torch.nan
    found.append(lane.load(1, [lane.mine[40:50], lane.mine[50:]]))
    assert lane.mine[40:60].eq(7.0).all()
    found.append(lane.load(0, [lane.mine[:40].fill_(2.0)], 3.0))
    assert lane.mine[:40].eq(6.0).all()
    return found


def allocated(store: dist.Store, member: int, size: int, kind: kernel.Kind) -> int:
    """Bytes that torch allocated in five steps of 4 MB, after the first."""
    kernel.force(kind)
    source = torch.ones(1_000_000)
    lane = Lane.open(store, "allocated", member, size, source.numel(), torch.float32, (1000,), shared=True)

    def step() -> None:
        for bucket, part in enumerate((source[:1000], source[1000:])):
            lane.load(bucket, [part], 0.5)
            lane.mix(bucket, Into.EVERY)
            lane.mix(bucket, Into.ONCE, [0.5] * size)

    step()
    with profile(profile_memory=True) as seen:
        for _ in range(5):
            step()
    return sum(max(0, event.self_device_memory_usage, event.cpu_memory_usage) for event in seen.events())


def misused(store: dist.Store, member: int, size: int, kind: kernel.Kind) -> list[str]:
    """Calls that cannot be meant; returns what each is told."""
    kernel.force(kind)
    lane = Lane.open(store, "misused", member, size, 10, torch.float32)
    calls: list[Callable[[], Any]] = [
        lambda: lane.settle(0),
        lambda: lane.reduce(0, Into.EVERY),
        lambda: (lane.announce(0), lane.announce(0)),
        lambda: lane.reduce(0, Into.ONCE),
        lambda: lane.reduce(0, Into.EVERY, [0.5, 0.5]),
        lambda: lane.load(0, [torch.ones(9)]),
    ]
    said = []
    for call in calls:
        try:
            call()
        except (RuntimeError, ValueError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return said
