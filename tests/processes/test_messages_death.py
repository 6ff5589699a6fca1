"""Members are killed or frozen while all exchange messages or train: the rest name them in time and go on."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gossamer.engine.launch.failure import notes_in
from gossamer.engine.launch.start import environment, start

ROOT = Path(__file__).parent.parent.parent
WORLD = 4
SLACK = 3.0  # seconds that a busy machine takes longer


class Scene:
    """Processes that exchange, and what they say, in order."""

    def __init__(self, folder: Path, script: str, world: int, servers: int = 0) -> None:
        self.said: queue.Queue[tuple[int, str]] = queue.Queue()
        self.processes = []
        for rank in range(world + servers):
            env = environment(rank, world, folder, [str(ROOT)], servers)
            self.processes.append(start(["-m", f"tests.processes.{script}"], env, subprocess.PIPE, subprocess.STDOUT))
            threading.Thread(target=self._listen, args=(rank,), daemon=True).start()

    def _listen(self, rank: int) -> None:
        stdout = self.processes[rank].stdout
        assert stdout is not None
        for line in stdout:
            self.said.put((rank, line.rstrip("\n")))

    def hear(self, words: str, ranks: set[int], seconds: float) -> dict[int, str]:
        """The first line of each of these members that begins with a word; nobody may fail meanwhile."""
        found: dict[int, str] = {}
        until = time.monotonic() + seconds
        while found.keys() < ranks:
            rank, line = self.said.get(timeout=max(0.0, until - time.monotonic()))
            assert re.match("ready|visits|lost|closed|gossamer: ", line), f"member {rank}: {line}"
            if rank in ranks and line.startswith(words):
                found.setdefault(rank, line)
        return found

    def end(self) -> None:
        """No process is left."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


def test_the_rest_name_the_dead_and_go_on(tmp_path: Path) -> None:
    scene, rest = Scene(tmp_path, "exchanging", WORLD), set(range(WORLD))
    try:
        scene.hear("visits", rest, 60.0)
        for victim, how, seconds in ((2, signal.SIGKILL, 5.0), (3, signal.SIGSTOP, 10.0)):
            struck = time.time()
            rest.discard(victim)
            os.kill(scene.processes[victim].pid, how)
            for line in scene.hear("lost", rest, 15.0).values():
                _, when, members = line.split()[:3]
                assert float(when) - struck < seconds
                assert members == f"({victim},)"
                assert re.search(rf"member {victim} \(host 0, 127\.0\.0\.1:\d+\) is gone", line)
            while not scene.said.empty():
                scene.said.get()
            scene.hear("visits", rest, 15.0)  # visits that ended after the loss was told
        for rank in rest:
            scene.processes[rank].stdin.close()  # type: ignore[union-attr]
        scene.hear("closed", rest, 15.0)
        assert [scene.processes[rank].wait(10.0) for rank in sorted(rest)] == [0, 0]
    finally:
        scene.end()


def test_a_member_takes_its_shard_of_the_hub_along(tmp_path: Path) -> None:
    scene, rest = Scene(tmp_path, "outliving", 3), {0, 2}
    try:
        scene.hear("visits", {0, 1, 2}, 120.0)
        scene.processes[1].kill()
        assert all(scene.processes[rank].wait(5.0 + SLACK) for rank in rest)
        told = notes_in(tmp_path)
        for line in [told[scene.processes[rank].pid].message for rank in rest]:
            assert re.search(r"member 1 \(host 0, 127\.0\.0\.1:\d+\) is gone: its connection broke", line)
            assert "it kept shard 1 of 3 of the hub of slot 0, and nobody else has it" in line
    finally:
        scene.end()


@pytest.mark.long
def test_where_a_server_keeps_the_hub_the_others_train_on(tmp_path: Path) -> None:
    scene, rest = Scene(tmp_path, "outliving", 3, servers=1), {0, 2}
    try:
        scene.hear("visits", {0, 1, 2}, 120.0)
        scene.processes[1].kill()
        time.sleep(1.0)
        while not scene.said.empty():
            scene.said.get()
        scene.hear("visits", rest, 15.0)
        for rank in rest:
            scene.processes[rank].stdin.close()  # type: ignore[union-attr]
        scene.hear("closed", rest, 15.0)
        assert [scene.processes[number].wait(15.0) for number in (0, 2, 3)] == [0, 0, 0], "the server ends, too"
    finally:
        scene.end()
