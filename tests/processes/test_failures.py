"""How a crew fails: the first real traceback is told, nobody is left behind, mistakes are refused by name."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path
from queue import Queue

import pytest

from gossamer.engine.crew import Crew, CrewFailed
from gossamer.parts.refusal import Refused

ROOT = str(Path(__file__).parent.parent.parent)


def left_over(crew: Crew) -> list[int]:
    return [worker.pid for worker in crew._workers if worker.poll() is None]


@pytest.mark.parametrize("how, said", [("raises", "the loss of worker 1 went wrong"), ("dies", "code 9")])
@pytest.mark.parametrize(
    "strategy",
    [
        "allreduce()",
        pytest.param("gossip_pull()", marks=pytest.mark.long),
        pytest.param("Exchange(route=Ring(), synchrony=Synchrony(delay=1))", marks=pytest.mark.long),
    ],
)
def test_a_worker_that_fails_ends_the_crew_with_its_own_words(how: str, said: str, strategy: str) -> None:
    began = time.monotonic()
    with pytest.raises(CrewFailed, match="worker"), Crew(2, path=[ROOT]) as crew:
        try:
            crew.run(strategy=strategy, task=f"tests.processes.broken:{how}", batch=5, steps=20)
        except CrewFailed as error:
            assert "worker 1" in str(error)
            assert said in str(error)
            raise
    assert left_over(crew) == []
    assert time.monotonic() - began < 60


def test_a_crew_that_talks_on_still_has_one_deadline() -> None:
    """Words that are not the one waited for do not buy more time."""
    said: Queue[tuple[int, str | None]] = Queue()
    stop = threading.Event()

    def chatter() -> None:
        for _ in range(60):
            said.put((0, "still busy"))
            if stop.wait(0.05):
                return

    crew = Crew.__new__(Crew)  # without workers: only what it hears matters
    crew.size, crew._workers, crew._said, crew._errors = 1, [], said, [deque(maxlen=5)]
    talking, began = threading.Thread(target=chatter), time.monotonic()
    talking.start()
    with pytest.raises(CrewFailed, match="did not say 'done' within"):
        crew._await("done", 0.3)
    assert 0.3 <= time.monotonic() - began < 1.5
    stop.set()
    talking.join()


def test_what_cannot_be_is_refused_and_the_crew_goes_on(four: Crew) -> None:
    with pytest.raises(Refused, match="backups of"):
        four.run(strategy="backup_workers(backups=4)", task="tests.parity.small:task")
    with pytest.raises(Refused, match="momentum"):
        four.run(strategy="dgc()", momentum=0.9, task="tests.parity.small:task")
    with pytest.raises(Refused, match="no_such_module"):
        four.run(strategy="allreduce()", task="no_such_module:task")
    assert len(four.run(strategy="allreduce()", task="tests.parity.small:task", batch=5, steps=2).steps) == 8


@pytest.mark.parametrize("size", [0, -1, True, 1.5, 10_000])
def test_an_absurd_crew_is_refused(size: int) -> None:
    with pytest.raises(Refused, match="crew"):
        Crew(size)


def test_what_a_task_prints_is_not_taken_for_a_word(four: Crew) -> None:
    result = four.run(strategy="allreduce()", task="tests.processes.broken:prints", batch=5, steps=2)
    assert len(result.steps) == 8


def test_an_order_is_played_around_collectives_too(four: Crew) -> None:
    for strategy in ("allreduce()", "gossip_pull() + local_sgd(every=2)"):
        result = four.run(
            strategy=strategy, task="tests.parity.small:task", batch=5, order=[0, 1, 2, 3] * 4, timeout=200
        )
        assert len(result.steps) == 16
    with pytest.raises(Refused, match="order"):
        four.run(strategy="allreduce()", task="tests.parity.small:task", batch=5, order=[0, 1, 2, 7])
