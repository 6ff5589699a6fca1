"""`gossamer.prepare`: the user's models, optimizers and loaders, made to train together with the other workers'."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Never
from weakref import WeakKeyDictionary, WeakSet

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.utils.data import DataLoader

from gossamer.engine.loop.fit import SCALERS, bare, belong, known, scaling
from gossamer.engine.loop.gathering import come
from gossamer.engine.loop.leaving import refusals_in_one_line
from gossamer.engine.loop.loader import said, shared_out
from gossamer.engine.loop.opening import open_session
from gossamer.engine.loop.order import by_itself
from gossamer.engine.loop.place import Place, asked, join
from gossamer.engine.loop.session import Session
from gossamer.engine.loop.tell import tell
from gossamer.parts.refusal import Refused, whole
from gossamer.strategy import AnyStrategy, Exchange, Strategy, as_strategy, named, parse

_sessions: WeakKeyDictionary[nn.Module, Session] = WeakKeyDictionary()
PLAIN = Strategy((Exchange(),))  # gradients averaged over all workers at every step
KEYWORDS = ("strategy", "world", "fabric", "seed", "journal", "truth")
_stepped: WeakSet[torch.optim.Optimizer] = WeakSet()


def prepare(
    *things: Any,
    strategy: str | Exchange | AnyStrategy = PLAIN,
    world: dist.ProcessGroup | DeviceMesh | None = None,
    fabric: str = "auto",
    seed: int = 0,
    journal: str | Path | None = None,
    truth: int = 0,
    **mistaken: Never,
) -> Any:
    """Models, optimizers, loaders, schedulers and a scaler, in any order, come back in that order, ready to train.

    After `loss.backward()` outside `model.no_sync()` gradients are mixed as the strategy says; `optimizer.step()` plays
    the rest of the step. A loader's batch size is the global one. Outside a launcher it is a world of one.
    Where a GradScaler is given, its scale is off while codecs see gradients, and on again in `p.grad`.
    Every `truth` steps a lossy exchange is compared with the exact average, in the journal; a drift is said aloud.
    """
    refusals_in_one_line()
    known(tuple(mistaken), KEYWORDS)
    _refuse(things)
    whole("prepare", "truth", truth, 0, 10**9)
    models = [thing for thing in things if isinstance(thing, nn.Module)]
    optimizers = [thing for thing in things if isinstance(thing, torch.optim.Optimizer)]
    belong(models, optimizers)
    come()
    place = join()
    _whole(world, place)
    text = asked("strategy") or strategy
    played = parse(text) if isinstance(text, str) else as_strategy(text)
    session = open_session(
        place, models, optimizers, played, fabric=asked("fabric") or fabric, seed=seed, truth=truth,
        scaler=scaling(things, optimizers, played),
    )  # fmt: skip
    given = tuple(_shared(thing, session, seed) if isinstance(thing, DataLoader) else thing for thing in things)
    session.loaders = [thing for thing in given if isinstance(thing, DataLoader)]
    session.record(asked("journal") or journal)
    _sessions.update(dict.fromkeys(models, session))
    _stepped.update(optimizers)
    if place.member == 0:
        tell(
            f"{place.size} worker{'s' * (place.size > 1)}, {text if isinstance(text, str) else named(played)}, "
            f"fabric: {session.carried}"
        )
        for line in _loading(session.loaders, place.size):
            tell(line)
    return given[0] if len(given) == 1 else given


def _loading(loaders: list[DataLoader[Any]], size: int) -> list[str]:
    """How batches are shared out over several members, or that none are."""
    if size > 1 and not loaders:
        return ["no loader was prepared: every worker reads what yours gives it"]
    return [said(loader, size) for loader in loaders] if size > 1 else []


def session_of(model: nn.Module) -> Session:
    """The session a model was prepared in."""
    found = _sessions.get(model)
    if found is None:
        raise Refused("this model was not prepared", "model, optimizer = gossamer.prepare(model, optimizer)")
    return found


def models_of(model: nn.Module) -> list[nn.Module]:
    """All models that were prepared together with this one, in their order; none if it was not."""
    found = _sessions.get(model)
    return [] if found is None else [each for each, session in _sessions.items() if session is found]


def _whole(world: dist.ProcessGroup | DeviceMesh | None, place: Place) -> None:
    """Refuse a world that leaves processes out."""
    if world is None:
        return
    if not isinstance(world, dist.ProcessGroup | DeviceMesh):
        raise Refused(f"prepare: world is a {type(world).__name__}", "world=None, a ProcessGroup or a DeviceMesh")
    if isinstance(world, DeviceMesh) and world.ndim != 1:
        raise Refused(
            f"prepare: world is a DeviceMesh of {world.ndim} dimensions", "world=None, or one dimension of it"
        )
    if world.size() != place.size:
        raise Refused(f"prepare: world holds {world.size()} of {place.size} processes", "world=None, for all of them")


def _refuse(things: tuple[Any, ...]) -> None:
    known = (nn.Module, torch.optim.Optimizer, DataLoader, LRScheduler, ReduceLROnPlateau, *SCALERS)
    for thing in things:
        if not isinstance(thing, known):
            raise Refused(
                f"prepare: cannot prepare a {type(thing).__name__}",
                "a model, optimizer, DataLoader, scheduler or GradScaler",
            )
        if thing in _sessions if isinstance(thing, nn.Module) else thing in _stepped:
            raise Refused(f"prepare: this {type(thing).__name__} is prepared already", "preparing it once")
        if isinstance(thing, nn.Module):
            bare(thing)


def _shared(loader: DataLoader[Any], session: Session, seed: int) -> DataLoader[Any]:
    """This member's share of a loader; in a world of one the loader itself."""
    place = session.place
    if place.size == 1:
        return loader

    def told(order: Tensor | None) -> Tensor:
        come()
        length = torch.tensor([0 if order is None else order.numel()])
        dist.broadcast(length, 0)
        whole = torch.empty(int(length), dtype=torch.int64) if order is None else order
        dist.broadcast(whole, 0)
        return whole

    return shared_out(loader, place.member, place.size, seed, by_itself if session.survives else told)
