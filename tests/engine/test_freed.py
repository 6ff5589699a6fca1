"""Memory that a step frees is there for the next one, and a user's own word to malloc stands."""

import os
import platform
import subprocess
import sys

import pytest

STEPS = """
import resource, torch
from gossamer.engine import freed
kept = freed.keep()
def step():
    made = [torch.ones(1_500_000) for _ in range(10)]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
before = faults()
for _ in range(5):
    step()
print(kept, (faults() - before) // 5)
"""


def run(**env: str) -> tuple[bool, int]:
    plain = {name: value for name, value in os.environ.items() if "MALLOC" not in name and "malloc" not in value}
    said = subprocess.run(
        [sys.executable, "-c", STEPS], env={**plain, **env}, capture_output=True, text=True, check=True
    )
    kept, faults = said.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_a_step_faults_in_nothing_that_the_last_one_freed() -> None:
    kept, faults = run()
    assert kept and faults < 100


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_what_the_user_told_malloc_stands() -> None:
    """Told to give everything back, it does, and every step faults in the 14,600 pages of its tensors anew."""
    kept, faults = run(MALLOC_TRIM_THRESHOLD_="131072")
    assert not kept and faults > 5_000
    assert not run(GLIBC_TUNABLES="glibc.malloc.arena_max=2")[0]
