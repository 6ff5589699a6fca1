"""`gossamer.save`, `load` and `averaged`: checkpoints and the exact average of all workers, for the user's own loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from torch.utils.data import DataLoader

from gossamer.engine.checkpoint import steps
from gossamer.engine.loop import average
from gossamer.engine.loop.checkpoints import Checkpoints
from gossamer.engine.loop.gathering import come
from gossamer.engine.loop.prepare import models_of, session_of
from gossamer.engine.loop.session import Session
from gossamer.engine.loop.shared import SharedOut
from gossamer.engine.loop.tell import tell
from gossamer.parts.refusal import Refused, whole

_known: WeakKeyDictionary[Session, dict[Path, Checkpoints]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Loaded:
    """Where a loop goes on: the step its checkpoint was saved at, and this worker's `extra` of then."""

    step: int
    extra: dict[str, Any]


def save(
    folder: str | Path,
    *things: Any,
    step: int | None = None,
    extra: Mapping[str, Any] | None = None,
    keep: int = 2,
) -> Path | None:
    """Keep a checkpoint `folder/step-N`: all workers call it alike, between `optimizer.step()` and the next forward.

    `things` are what was prepared and whatever else has a `state_dict` (schedulers, GradScaler, an average of weights).
    `step` is how many steps were made if not said. The newest `keep` stay. A disk that fails stops nobody: None is
    returned, and one line says so. Exchanges under way are heard out, and used when they are due.
    """
    session, models = _session("save", things)
    checkpoints = _checkpoints(session, models, folder, keep)
    beside = {"things": [_state(session, thing) for thing in things], "extra": dict(extra or {})}
    done = session.courses[0].step if step is None else step
    whole("save", "step", done, 0)
    return checkpoints.save(done, beside, [_kind(thing) for thing in things])


def load(folder: str | Path, *things: Any, step: int | None = None, start: bool = False) -> Loaded:
    """Go on from the newest checkpoint in `folder`, or that of `step`: all workers call it alike, after `prepare`.

    `things` are those of `save`, in the same order. With as many workers as saved it, all goes on to the bit; with
    more or fewer, all start from the average. One that is damaged, or of another run, is refused with the reason. With
    `start`, a folder without a checkpoint is a beginning: step 0.
    """
    session, models = _session("load", things)
    checkpoints = _checkpoints(session, models, folder, 2)
    if start and not any(checkpoints.share("there" if steps(checkpoints.root) else "")):
        return Loaded(0, {})
    found, beside = checkpoints.load(step, [_kind(thing) for thing in things])
    for thing, state in zip(things, beside["things"], strict=True):
        if isinstance(thing, SharedOut) and state is not None:
            thing.resume(state)
        elif isinstance(thing, DataLoader):
            if session.place.member == 0:
                tell("a DataLoader that is not shared out begins an epoch: nobody knows where its loop was")
        elif state is not None:
            thing.load_state_dict(state)
    return Loaded(found, beside["extra"])


@contextmanager
def averaged(*models: nn.Module) -> Iterator[None]:
    """Within, models are the exact average of all workers' (where a hub steps them, the hub's); then their own again.

    All workers enter and leave it alike. Buffers of floating numbers are averaged, too.
    """
    session, every = _session("averaged", models)
    with average.averaged(session, every):
        yield


def _session(caller: str, things: Sequence[Any]) -> tuple[Session, list[nn.Module]]:
    """The one session of all that was prepared, with all its models."""
    prepared = [thing for thing in things if isinstance(thing, nn.Module) and models_of(thing)]
    if not prepared:
        raise Refused(f"{caller}: no prepared model was given", "model, optimizer = gossamer.prepare(model, optimizer)")
    session, models = session_of(prepared[0]), models_of(prepared[0])
    if caller != "averaged" and {id(m) for m in models} - {id(m) for m in prepared}:
        raise Refused(f"{caller}: {len(models)} models were prepared together, and not all are given", "all of them")
    if any(session_of(other) is not session for other in prepared):
        raise Refused(f"{caller}: the models were prepared by different calls", "one prepare(...) for all of them")
    return session, models


def _checkpoints(session: Session, models: Sequence[nn.Module], folder: str | Path, keep: int) -> Checkpoints:
    """One for each folder, so that trouble with a disk is told once. Where one is made or used, all meet."""
    come()
    known, root = _known.setdefault(session, {}), Path(folder).absolute()
    if root not in known:
        known[root] = Checkpoints(session, models, root, keep, warn=session.say)
    known[root].keeper.keep = keep
    return known[root]


def _kind(thing: Any) -> str:
    return "DataLoader" if isinstance(thing, DataLoader) else type(thing).__name__


def _state(session: Session, thing: Any) -> Any:
    """What a thing keeps beside the session; None where the session keeps it, or nobody can."""
    ours = isinstance(thing, nn.Module) and models_of(thing) != []
    if ours or any(course.owner is thing for course in session.courses):
        return None
    if isinstance(thing, DataLoader):
        return thing.state() if isinstance(thing, SharedOut) else None
    if not callable(getattr(thing, "state_dict", None)) or not callable(getattr(thing, "load_state_dict", None)):
        raise Refused(f"save: a {type(thing).__name__} has no state_dict", "models, optimizers, loaders, schedulers")
    return thing.state_dict()
