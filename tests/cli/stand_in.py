"""A worker that trains nothing: it writes the journal such a worker writes, and misbehaves as STAND_IN says."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from gossamer.engine.job import TrainJob
from gossamer.records import Evaluation, Event, Header, Journal, StepRecord


def main() -> None:
    """Play the job that GOSSAMER_JOB names as member RANK: 10 ms a step in its records, and no time at all."""
    import msgspec

    job = msgspec.json.decode(Path(os.environ["GOSSAMER_JOB"]).read_bytes(), type=TrainJob)
    rank, how = int(os.environ["RANK"]), os.environ.get("STAND_IN", "")
    assert int(os.environ["WORLD_SIZE"]) == job.workers
    first = _saved(job) if job.resume else 0
    with Journal(Path(job.folder) / f"journal-{rank}.jsonl") as journal:
        assert journal._file is not None
        journal.write(_header(job))
        for step in range(first, job.steps):
            _trouble(how, rank, step, Path(job.folder))
            loss = float("nan") if how == "diverge" and step > 4 else 2.0 / (step + 1)
            spans = {"compute": 0.006, "send": 0.001, "wait": 0.002, "data": 0.001}
            sent = {0: 1000}
            journal.write(StepRecord(rank, step, (step - first + 1) * 0.01, loss, spans, sent, sent))
            if rank == 0 and ((step + 1) % job.evaluate_every == 0 or step + 1 == job.steps):
                steps, now = (step + 1) * job.workers, (step - first + 1) * 0.01
                journal.write(Evaluation(now, steps, 1.0, loss, 1 - 1 / (step + 2), 0.0))
                journal._file.flush()
            if rank == 0 and (step + 1) % job.save_every == 0:
                _save(job, step + 1)
            if how == "slow":
                journal._file.flush()
                time.sleep(0.02)
        journal.write(Event(job.steps * 0.01, "the end was near", rank, {0: 24}))


def _header(job: TrainJob) -> Header:
    settings = {"fabric": "stand-in", "kernel": "none"}
    return Header(
        "engine", job.strategy, job.workers, job.seed, job.task, job.optimizer, job.batch, job.steps, settings
    )


def _trouble(how: str, rank: int, step: int, folder: Path) -> None:
    if how == "print" and step == 0:
        print(f"rank {rank} says hello")
    if how == "raise" and rank == 1 and step == 7:
        until = time.monotonic() + 3.0  # not before member 0 is asleep
        while not (folder / "checkpoints" / "step-9" / "manifest.json").exists() and time.monotonic() < until:
            time.sleep(0.01)
        raise RuntimeError("the stand-in was told to fail")
    if how == "raise" and step == 9:
        time.sleep(60)


def _save(job: TrainJob, step: int) -> None:
    folder = Path(job.folder) / "checkpoints" / f"step-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"step": step}))


def _saved(job: TrainJob) -> int:
    """The last step saved before this job was given: another member may be saving already."""
    assert job.resume is not None
    given = Path(os.environ["GOSSAMER_JOB"]).stat().st_mtime_ns
    saved = [each for each in Path(job.resume).glob("step-*/manifest.json") if each.stat().st_mtime_ns < given]
    return max(int(each.parent.name.removeprefix("step-")) for each in saved)


if __name__ == "__main__":
    sys.exit(main())
