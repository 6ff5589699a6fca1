"""Where runs are kept: a folder for a new one, and which one is meant when a run is to go on. Writes no journal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from gossamer.cli.perform import slug
from gossamer.cli.train_file import read, written
from gossamer.cli.train_settings import NEWEST, Settings
from gossamer.parts.refusal import Refused
from gossamer.parts.spelling import nearest

if TYPE_CHECKING:
    from gossamer.cli.train_request import Request

SETTINGS, JOB, CHECKPOINTS = "run.toml", "job.json", "checkpoints"


@dataclass(frozen=True)
class Kept:
    """A run that is on disk; `step` is the checkpoint it goes on from, if that is not the newest."""

    folder: Path
    step: int | None = None

    @property
    def settings(self) -> Path:
        """Its resolved settings, a run file like any other."""
        return self.folder / SETTINGS

    def said(self) -> dict[str, Any]:
        """What its settings say; versions before wrote a batch beside batches, which it did not have."""
        said = read(self.settings)
        if "batches" in said:
            said.pop("batch", None)
        return said

    @property
    def checkpoints(self) -> Path:
        """Where its checkpoints are."""
        return self.folder / CHECKPOINTS

    @property
    def resumes(self) -> Path:
        """Where it goes on from: the newest of its checkpoints, or one of them."""
        return self.checkpoints if self.step is None else self.checkpoints / f"step-{self.step}"

    @property
    def saved(self) -> list[int]:
        """The steps of its whole checkpoints, in order; one that is still being written has no manifest."""
        found = [
            (re.fullmatch(r"step-(\d+)", each.parent.name)) for each in self.checkpoints.glob("step-*/manifest.json")
        ]
        return sorted(int(name[1]) for name in found if name)

    @property
    def name(self) -> str:
        """The folder as one would type it here."""
        here = Path.cwd()
        return str(self.folder.relative_to(here) if self.folder.is_relative_to(here) else self.folder)

    @property
    def command(self) -> str:
        """What to type to go on from the last checkpoint, or from the beginning where there is none."""
        name = self.name if self.saved else str(Path(self.name) / SETTINGS)
        return f"gossamer train {'--resume ' if self.saved else ''}{quote(name)}"

    @contextmanager
    def keeping(self, settings: Settings, where: Sequence[str]) -> Iterator[None]:
        """Write the resolved settings down, with where a task of the user's own was looked for first.

        Settings with which a run is refused are not its own: it has those of before again.
        """
        before = self.settings.read_text(encoding="utf-8") if self.settings.exists() else None
        own = ":" in settings.task
        self._write(written(replace(settings, path=where[0]) if own else settings))
        try:
            yield
        except Refused:
            if before is not None:
                self._write(before)
            raise

    def _write(self, text: str) -> None:
        fresh = self.settings.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.settings)  # a run killed meanwhile keeps what it had

    def journal(self, member: int) -> Path:
        """The journal of one member."""
        return self.folder / f"journal-{member}.jsonl"


def make(under: str, strategy: str) -> Kept:
    """A new folder for a run, named by the time and its strategy, unlike any that is there."""
    home = Path(under)
    if home.exists() and not home.is_dir():
        raise Refused(f"folder: {under} is not a folder", "another --folder")
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"folder: {under} cannot be made: {error.strerror}", "another --folder") from None
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{slug(strategy)}"
    for number in count(1):
        folder = (home / (name if number == 1 else f"{name}-{number}")).absolute()
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise Refused(f"folder: {under} cannot be written: {error.strerror}", "another --folder") from None
        folder.chmod(0o755)  # whatever the umask: others may look on
        return Kept(folder)
    raise AssertionError


def found(which: str, under: str) -> Kept:
    """The run that is meant by a folder, by its name there, by one of its checkpoints, or as the newest."""
    runs = sorted((each.parent for each in Path(under).glob(f"*/{SETTINGS}")), key=_age)
    if which == NEWEST:
        if not runs:
            raise Refused(f"resume: there is no run in {under}", "gossamer train, or --folder FOLDER")
        return _goes_on(runs[-1], runs)
    for folder in (Path(which), Path(under) / which):
        if (folder / SETTINGS).is_file():
            return _goes_on(folder, runs)
        run, step = folder.absolute().parent.parent, re.fullmatch(r"step-(\d+)", folder.name)
        if step and (run / SETTINGS).is_file() and int(step[1]) in Kept(run).saved:
            return Kept(run, int(step[1]))
    if Path(which).is_dir():
        raise Refused(f"resume: {which} holds no {SETTINGS}, so it is no run's folder", _last(runs))
    named = nearest(which, [each.name for each in reversed(runs)])
    raise Refused(f"resume: there is no run {which!r}, here or in {under}", named or _last(runs))


def unfinished(run: Kept, request: Request) -> int:
    """The step a run goes on from; one that has no step left is refused."""
    last = run.saved[-1] if run.step is None else run.step
    if last >= request.steps:
        reason = f"resume: {run.name} has done its {request.steps} steps"
        raise Refused(reason, f"--resume {run.name} {request.longer(last)}")
    return last


def _age(folder: Path) -> tuple[int, str]:
    return (folder / SETTINGS).stat().st_mtime_ns, folder.name


def _last(runs: list[Path]) -> str | None:
    return next((str(each) for each in reversed(runs) if Kept(each).saved), None)


def _goes_on(folder: Path, runs: list[Path]) -> Kept:
    run = Kept(folder.absolute())
    if not run.saved:
        raise Refused(f"resume: {folder} has no checkpoint to go on from", _last(runs))
    return run
