"""Both players of the simulator on one scene, and when every member ended each of its steps. Knows no strategy."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import ndarray

from gossamer.parts.selection import Tag
from gossamer.sim.cluster import Cluster, Tier
from gossamer.sim.freely import Freely
from gossamer.sim.lockstep import Lockstep
from gossamer.sim.scene import Played, Scene
from gossamer.sim.workload import Workload

Array = ndarray[Any, Any]
TAGS = (Tag("first", (300, 400)), Tag("first bias", (400,)), Tag("last", (400, 300)), Tag("last bias", (300,)))
WORK = Workload(TAGS, (2.0, 0.0, 1.0, 0.0), (1,), (1e-3,), update=1e-4)


def cluster(per_host: int = 1, jitter: float = 0.1, **other: Any) -> Cluster:
    """Sixteen hosts whose links take about as long as a step computes."""
    return Cluster(16, per_host, Tier(1e-5, 1e10), Tier(5e-5, 1e9), jitter=jitter, **other)


def in_lockstep(scene: Scene, steps: int) -> tuple[Array, Played]:
    """By step and member, when it ended."""
    player = Lockstep(scene)
    ends = []

    class Ends(list[float]):
        def append(self, mean: float) -> None:
            ends.append(player.now.copy())
            super().append(mean)

    player.played.ends = Ends()
    played = player.run(steps)
    return numpy.array(ends), played


def freely(scene: Scene, steps: int) -> tuple[Array, Played]:
    """The same, event by event; as many steps as all members have done, of a run that is longer than asked for."""
    player = Freely(scene)
    ends: list[list[float]] = [[] for _ in range(scene.world.size)]
    finish = player._finish

    def noted(member: int) -> None:
        ends[member].append(player.now)
        finish(member)

    player._finish = noted  # type: ignore[method-assign]
    played = player.run(steps + 8)
    done = min(steps, *(len(each) for each in ends))
    return numpy.array([each[:done] for each in ends]).T, played
