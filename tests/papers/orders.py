"""Orders of turns that a system allows, each drawn from a seed: who may move next is worked out here, by the paper."""

from __future__ import annotations

import numpy as np

Order = tuple[int, ...]


def in_rounds(size: int, rounds: int, seed: int) -> Order:
    """Each member once a round, in another order every time."""
    dice = np.random.default_rng(seed)
    return tuple(int(member) for _ in range(rounds) for member in dice.permutation(size))


def paced(paces: tuple[int, ...], turns: int, seed: int) -> Order:
    """Nobody waits: members move at random, `paces[m]` times as often as a pace of 1."""
    dice = np.random.default_rng(seed)
    share = np.array(paces) / sum(paces)
    return tuple(int(member) for member in dice.choice(len(paces), turns, p=share))


def bounded(paces: tuple[int, ...], turns: int, bound: int, seed: int) -> Order:
    """As paced, but a member whose clock is more than `bound` ahead of the slowest has no turn."""
    dice, clock, order = np.random.default_rng(seed), [0] * len(paces), []
    for _ in range(turns):
        share = np.array([pace * (clock[m] - min(clock) <= bound) for m, pace in enumerate(paces)], float)
        order.append(int(dice.choice(len(paces), p=share / share.sum())))
        clock[order[-1]] += 1
    return tuple(order)


def with_backups(paces: tuple[int, ...], turns: int, backups: int, seed: int) -> Order:
    """As paced, but a member whose gradient was in time has no turn until its version is complete."""
    dice, size, order = np.random.default_rng(seed), len(paces), []
    behind, inside = [False] * size, set[int]()
    for _ in range(turns):
        share = np.array([0 if m in inside else pace for m, pace in enumerate(paces)], float)
        member = int(dice.choice(size, p=share / share.sum()))
        order.append(member)
        if behind[member]:
            behind[member] = False
            continue
        inside.add(member)
        if len(inside) == size - backups:
            behind = [late or m not in inside for m, late in enumerate(behind)]
            inside = set()
    return tuple(order)
