"""What a run is known by: a key that ends with its launcher, and a name that no other run has."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.processes.living import all_there, none_runs
from tests.processes.test_run import SCENE, ended, running

from gossamer.engine.messages import secret

NAME = "import sys; from gossamer.engine.loop.place import join; sys.stdout.write(join().name + '\\n')"  # in one piece


def test_the_key_of_a_run_ends_with_its_launcher_even_if_that_is_killed(tmp_path: Path) -> None:
    with running("--nproc-per-node=2", SCENE, str(tmp_path), "sleeps", "9", folder=tmp_path) as launcher:
        found = all_there(tmp_path, 2)
        env = Path(f"/proc/{found[1]}/environ").read_bytes().decode().split("\0")
        path = next(each.partition("=")[2] for each in env if each.startswith("GOSSAMER_KEY_FILE="))
        key = secret.read(path)  # as a worker does
        launcher.kill()
        assert none_runs(found)
        launcher.wait(10)
    assert not Path(path).exists()
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert kept and not [file for file in kept if key in file.read_bytes()]


def test_members_agree_on_a_name_that_is_another_in_every_run(tmp_path: Path) -> None:
    """So that what was sealed in one run is worth nothing in the next, though the key is the same."""
    key = tmp_path / "key"
    secret.made(key)
    command = ["--nproc-per-node=2", "--key-file", str(key), "--no-python", sys.executable, "-c", NAME]
    names = []
    for _ in range(2):
        code, out, err = ended(*command, folder=tmp_path)
        assert code == 0, err
        mine, other = out.split()
        assert mine == other
        names.append(mine)
    assert names[0] != names[1]
