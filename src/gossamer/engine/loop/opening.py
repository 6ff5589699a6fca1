"""How a session is opened: agree with the other workers, start alike, take the best fabric there is, put hooks on."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from gossamer.engine import freed
from gossamer.engine.fabrics import Fabric
from gossamer.engine.loop import carried
from gossamer.engine.loop.agreement import agree, facts
from gossamer.engine.loop.carried import Named
from gossamer.engine.loop.course import Course
from gossamer.engine.loop.gathering import opened
from gossamer.engine.loop.lookout import Lookout
from gossamer.engine.loop.masters import Masters
from gossamer.engine.loop.place import Place, alone, tell_kept, tell_launchers
from gossamer.engine.loop.roll import calling
from gossamer.engine.loop.serving import serve
from gossamer.engine.loop.session import Session, watch_for_failure
from gossamer.engine.loop.silence import Silence
from gossamer.engine.loop.strand import Strand
from gossamer.engine.loop.tell import tell
from gossamer.engine.shared import Unshared
from gossamer.engine.turns import Turns
from gossamer.engine.watch import Post
from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.recipes import Borrowed, refuse_odd
from gossamer.strategy import AnyStrategy, fits, slots


def open_session(
    place: Place,
    models: Sequence[nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
    strategy: AnyStrategy,
    *,
    fabric: str = "auto",
    seed: int = 0,
    ours: bool = False,
    clip: float | None = None,
    truth: int = 0,
    scaler: torch.amp.GradScaler | None = None,
) -> Session:
    """All workers call it alike. `ours`: the loop is ours, and nobody looks at gradients between backward and step.

    `truth`: every so many steps lossy exchanges are compared with the exact average; 0: never. `scaler`: scales losses.
    """
    world = World(place.size, seed)
    if not models or not optimizers:
        raise Refused("prepare: needs at least one model and its optimizer", "prepare(model, optimizer, loader)")
    fits(strategy, world, len(place.servers))
    freed.keep()
    known = [_named(number, optimizer, models) for number, optimizer in enumerate(optimizers)]
    _refuse_twice(known)
    masters = [Masters(optimizer) for optimizer in optimizers]
    named = [held.named(each) for held, each in zip(masters, known, strict=True)]
    given = [*models, *optimizers, *([] if scaler is None else [scaler])]
    optimizers = [held.inner for held in masters]
    for optimizer, each in zip(optimizers, named, strict=True):
        refuse_odd(optimizer)
        Borrowed(optimizer, [tensor for _, tensor in each]).suits(strategy)
    mine = facts(repr(strategy), seed, fabric, truth, given, [*named, *_others(models, named)])
    if place.serves:
        agree(place, mine)
        serve(place, optimizers, [_kinds(each) for each in named], strategy, world)
    with calling(place.store, "roll", place.member, place.size) as come:
        come("the comparison of what all were given")
        agree(place, mine)
        if place.size > 1 and threading.current_thread() is threading.main_thread():
            Post(place.store, place.member)  # where others ask what this member is doing
        silence = None if place.one_host else Silence(place)
        try:
            come("the first parameters")
            _start_alike(place, models, named)
            found, strands = _carried(place, fabric, optimizers, named, (strategy, world, ours), come)
            courses = [
                _course(held, each, found, place, clip, weights)
                for held, each, weights in zip(masters, strands, known, strict=True)
            ]
        except BaseException:
            if silence is not None:
                silence.close()
            raise
    session = Session(courses, found, place, strategy, world)
    session.scaler = scaler
    session.hook(models)
    for strand in [strand for each in strands for strand in each]:
        strand.replica.looks.every = truth
    if place.size > 1:
        if place.member == 0:
            tell_launchers(place, session.survives)
        if kept := ", ".join(filter(None, (strand.stepper.kept() for each in strands for strand in each))):
            tell_kept(place, kept)
        watch_for_failure()
        session.lookout = Lookout(session, silence)
        opened(session)
        atexit.register(session.part)
    return session


def _carried(
    place: Place,
    fabric: str,
    optimizers: Sequence[torch.optim.Optimizer],
    named: Sequence[Named],
    played: tuple[AnyStrategy, World, bool],
    come: Callable[[str], None],
) -> tuple[Fabric, list[list[Strand]]]:
    """The best fabric there is, and each optimizer's strands on it."""
    for number, candidate in enumerate(carried.fabrics(place, fabric, named)):
        try:
            come("the making of a fabric")
            found = candidate()
            come("the layout of its memory")
            strands = [
                _strands(place, c, o, n, found, *played, keyed=carried.keyed(place, fabric))
                for c, (o, n) in enumerate(zip(optimizers, named, strict=True))
            ]
            strands[0][0].leads = True
            carried.all_alike(place, number, None)
            if place.servers and place.size > 1:
                dist.barrier()  # the first member has laid its parameters down with the servers
            return found, strands
        except Unshared as error:
            if not isinstance(error, carried.Elsewhere):
                carried.all_alike(place, number, error)
            if fabric == "shared" or place.servers:  # servers have met the members already, once
                raise Refused(f"prepare: {error}", "fabric torch, or auto") from None
            if place.member == 0:
                tell(f"{error}; going on over torch")
    raise AssertionError("torch carries everything")


def _course(
    masters: Masters,
    strands: Sequence[Strand],
    fabric: Fabric,
    place: Place,
    clip: float | None,
    weights: Named,
) -> Course:
    frozen = [(name, tensor) for name, tensor in weights if not tensor.requires_grad]
    course = Course(masters.inner, strands, fabric, place.member, clip, frozen, masters)
    _refuse_warm(course)
    return course


def _refuse_warm(course: Course) -> None:
    """Refuse an optimizer that already remembers something, where somebody else will remember for it."""
    if course.elsewhere is not None and course.optimizer.state:
        raise Refused(
            f"prepare: this {type(course.optimizer).__name__} has made steps already, and {course.elsewhere}",
            "an optimizer that has made none; gossamer.load(...) after prepare goes on",
        )


def _strands(
    place: Place,
    course: int,
    optimizer: torch.optim.Optimizer,
    named: Named,
    fabric: Fabric,
    strategy: AnyStrategy,
    world: World,
    ours: bool,
    *,
    keyed: bool,
) -> list[Strand]:
    """One strand for each kind of tensor, in the order in which they first appear."""
    kinds = _kinds(named)
    served = any(exchange.hub or exchange.meets for exchange in slots(strategy))
    if served:
        alone(place)
    found = []
    for number, each in enumerate(kinds):
        name = f"{course}/{number}"
        carrier = carried.carrier(place, name, each, (strategy, world), fabric, keyed=keyed) if served else None
        turns = _turns(place, course, number)
        found.append(Strand(each, place, world, strategy, fabric, carrier, turns, optimizer, ours=ours))
    return found


def _kinds(named: Named) -> list[list[tuple[str, Tensor]]]:
    """Tensors that train, by dtype and device, in the order in which these first appear."""
    kinds: dict[tuple[torch.dtype, torch.device], list[tuple[str, Tensor]]] = {}
    for name, tensor in named:
        if tensor.requires_grad:
            kinds.setdefault((tensor.dtype, tensor.device), []).append((name, tensor))
    if not kinds:
        raise Refused("prepare: an optimizer has no parameter that trains", "parameters with requires_grad=True")
    return list(kinds.values())


def _turns(place: Place, course: int, strand: int) -> Turns:
    return Turns(place.store, f"turns/{course}/{strand}", place.member, place.size, None)


def _named(number: int, optimizer: torch.optim.Optimizer, models: Sequence[nn.Module]) -> list[tuple[str, Tensor]]:
    """An optimizer's tensors in model order, by the names the models have for them."""
    names: dict[int, str] = {}
    for m, model in enumerate(models):
        for name, p in model.named_parameters():
            names.setdefault(id(p), name if len(models) == 1 else f"{m}.{name}")
    held = [p for each in optimizer.param_groups for p in each["params"]]
    for place, p in enumerate(held):
        names.setdefault(id(p), f"optimizer{number}.{place}")
        if isinstance(p, DTensor) or isinstance(p.data, DTensor):
            raise Refused(f"prepare: parameter {names[id(p)]} is a DTensor", "a model that no other tool has sharded")
    order = {key: n for n, key in enumerate(names)}
    return [(names[id(p)], p) for p in sorted(held, key=lambda p: order[id(p)])]


def _others(models: Sequence[nn.Module], named: Sequence[Named]) -> list[Named]:
    """By model, what no optimizer steps: other parameters, and buffers."""
    held = {id(tensor) for each in named for _, tensor in each}
    return [
        [(name, p) for name, p in model.named_parameters() if id(p) not in held]
        + [(f"buffer {name}", b) for name, b in model.named_buffers()]
        for model in models
    ]


def _refuse_twice(named: Sequence[Named]) -> None:
    """Refuse a parameter that two optimizers step: it would be laid out twice."""
    seen: set[int] = set()
    for each in named:
        for name, tensor in each:
            if id(tensor) in seen:
                raise Refused(
                    f"prepare: parameter {name} is stepped by two optimizers", "each parameter in one of them"
                )
        seen.update(id(tensor) for _, tensor in each)


@torch.no_grad()
def _start_alike(place: Place, models: Sequence[nn.Module], named: Sequence[Named]) -> None:
    """Everybody begins with member 0's parameters and buffers, the frozen ones, too."""
    if place.size == 1:
        return
    tensors = {id(t): t for each in named for _, t in each}
    tensors |= {id(t): t for model in models for t in (*model.parameters(), *model.buffers())}
    for tensor in tensors.values():
        whole = tensor.data.contiguous()
        dist.broadcast(whole, 0)
        if whole.data_ptr() != tensor.data_ptr():
            tensor.data.copy_(whole)
