"""Where memory cannot be shared, one line says what was needed, and the next fabric is taken; or it was asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.processes.living import left, shared

ROOT = str(Path(__file__).parent.parent.parent)
LIMITED = (  # bytes that a file may have: as good as a host whose memory is full, for this process and its workers
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n"
    "from gossamer.cli.main import main; main()"
)
NEEDED = re.compile(r"shared memory needs ([\d,]+) bytes where 30,000 are available")


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
