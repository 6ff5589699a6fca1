"""Where memory cannot be shared, one line says what was needed, and the next fabric is taken; or it was asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes.living import left, shared

ROOT = str(Path(__file__).parent.parent.parent)
LIMITED = (  # bytes that a file may have: as good as a host whose memory is full, for this process and its workers
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n"
    "from gossamer.cli.main import main; main()"
)
NEEDED = re.compile(r"shared memory needs ([\d,]+) bytes where 30,000 are available")


HUB = re.compile(
    r"shared memory needs ([\d,]+) bytes where 180,000 are available "
    r"\(2 replicas of 35,880; a hub's centre and what its optimizer remembers, ([\d,]+)\)"
)


@pytest.mark.long
def test_a_hub_without_memory_for_what_its_optimizer_remembers_says_so_in_bytes(tmp_path: Path) -> None:
    """Where the centre alone fits, one that also remembers two numbers for each parameter does not."""
    before, pipe, limited = shared(), subprocess.PIPE, LIMITED.replace("30_000", "180_000")
    words = ["--strategy", "hogwild", "--task-option", "hidden=64", "--workers", "2", "--batch", "8", "--steps", "3"]
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", limited, "train", *words, "--save-every", "9", "--json", *more],
            stdout=pipe, stderr=pipe, text=True, cwd=tmp_path,
        )
        for more in ([], ["--optimizer", "adam"], ["--optimizer", "adam", "--fabric", "shared"])
    ]  # fmt: skip
    (fits, quiet), (falls, told), (nothing, refused) = [process.communicate(timeout=300) for process in begun]
    assert [process.returncode for process in begun] == [0, 0, 2], (quiet, told, refused)
    assert json.loads(fits)["fabric"].startswith("shared memory") and "memory needs" not in quiet
    assert json.loads(falls)["fabric"] == "torch (gloo)" and json.loads(falls)["steps"] == 3
    (line,) = [line for line in told.splitlines() if "shared memory" in line]
    found = HUB.search(line)
    assert found and line.endswith("; going on over torch")
    needed, hub = (int(each.replace(",", "")) for each in found.groups())
    assert needed > 180_000 and 3 * 35_880 <= hub < 4 * 35_880
    last = refused.splitlines()[-1]
    assert nothing == "" and HUB.search(last) and last.endswith("; nearest that works: fabric torch, or auto")
    assert "Traceback" not in refused and not left(before)


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    before, pipe = shared(), subprocess.PIPE
    words = ["--task", "tests.processes.faulty:task", "--path", ROOT, "--workers", "2", "--batch", "8", "--steps", "3"]
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", LIMITED, "train", *words, "--fabric", fabric, "--json"],
            stdout=pipe, stderr=pipe, text=True, cwd=tmp_path,
        )
        for fabric in ("auto", "shared")
    ]  # fmt: skip
    (out, err), (nothing, refused) = [process.communicate(timeout=300) for process in begun]
    assert begun[0].returncode == 0, err
    assert json.loads(out)["fabric"] == "torch (gloo)" and json.loads(out)["steps"] == 3
    (line,) = [line for line in err.splitlines() if "shared memory" in line]
    found = NEEDED.search(line)
    assert found and int(found[1].replace(",", "")) > 30_000 and line.endswith("; going on over torch")
    assert (begun[1].returncode, nothing) == (2, ""), refused
    last = refused.splitlines()[-1]
    assert NEEDED.search(last) and last.endswith("; nearest that works: fabric torch, or auto")
    assert "Traceback" not in refused
    assert not left(before)
