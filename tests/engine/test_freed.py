"""Memory that a step frees is there for the next one, and a user's own word to malloc stands."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.engine import freed
from gossamer.engine.launch.start import environment

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
    assert run(GLIBC_TUNABLES=freed.HUGE)[0]


LARGE = """
import torch
made = torch.ones(30_000_000)
print(sum(int(line.split()[1]) for line in open("/proc/self/smaps") if line.startswith("AnonHugePages")))
"""


def huge(env: dict[str, str]) -> int:
    said = subprocess.run([sys.executable, "-c", LARGE], env=env, capture_output=True, text=True, check=True)
    return int(said.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told")
def test_workers_find_their_memory_in_large_pages() -> None:
    """117 MB of a tensor, by the kernel's own count; where it gives none, or always, there is nothing to ask for."""
    plain = {name: value for name, value in os.environ.items() if "MALLOC" not in name and "malloc" not in value}
    asked = freed.large_pages(plain)
    kernel = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not asked or not kernel.exists() or "[madvise]" not in kernel.read_text():
        pytest.skip("neither malloc nor the kernel can be asked for large pages here")
    assert huge(plain) < 30_000 < 100_000 < huge({**plain, **asked})
    assert environment(0, 1, Path("/tmp"))[freed.TUNABLES] == asked[freed.TUNABLES] or "malloc" in str(os.environ)


def test_who_told_malloc_anything_is_left_alone() -> None:
    assert freed.large_pages({"MALLOC_TOP_PAD_": "0"}) == {}
    assert freed.large_pages({freed.TUNABLES: "glibc.malloc.arena_max=2"}) == {}
    assert freed.large_pages({freed.TUNABLES: freed.HUGE}) == {}
    if freed.large_pages({}):
        assert freed.large_pages({freed.TUNABLES: "glibc.pthread.rseq=0"}) == {
            freed.TUNABLES: f"glibc.pthread.rseq=0:{freed.HUGE}"
        }
