"""Hooks on the user's own models, tensors and optimizers, that tell a session what their loop does. No numbers here."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor, nn

from gossamer.engine.loop.gathering import turn_to
from gossamer.parts.refusal import Refused

if TYPE_CHECKING:
    from gossamer.engine.loop.course import Course
    from gossamer.engine.loop.masters import Masters
    from gossamer.engine.loop.session import Session
    from gossamer.engine.loop.strand import Strand


def hook_model(session: Session, model: nn.Module) -> None:
    """Tell of forwards that will be followed by a backward; `no_sync()` and `.module` are there, as under DDP."""
    held = {id(p) for p in model.parameters()}
    courses = [c for c in session.courses if any(id(c.masters.weight(t)) in held for s in c.strands for t in s.tensors)]
    model.register_forward_pre_hook(Gate(session, courses, model))
    vars(model)["no_sync"] = NoSync(session)
    vars(model)["module"] = model


def hook_tensor(session: Session, course: Course, strand: Strand, place: int) -> None:
    """Tell of every gradient as it is complete."""

    def arrived(_: Tensor) -> None:
        session.arrived(course, strand, place)

    course.masters.weight(strand.tensors[place]).register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]


class Gate:
    """Called before each forward of the model it was made for; on a copy of the model it does nothing."""

    def __init__(self, session: Session, courses: list[Course], model: nn.Module) -> None:
        self._session, self._courses, self._owner = session, courses, ref(model)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, module: nn.Module, _: object) -> None:
        if module is not self._owner():
            return
        if torch.is_grad_enabled():
            self._session.begin(self._courses)
        else:
            self._session.compute()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _idle, ()


class NoSync:
    """`model.no_sync`; a copy of the model has one that does nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self) -> AbstractContextManager[None]:
        return self._session.no_sync()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _unsynced, ()


def _idle() -> Any:
    """The gate of a copy, or of a model that was saved whole."""
    return _pass


def _pass(*_: object) -> None: ...


def _unsynced() -> type[nullcontext[None]]:
    return nullcontext


def hook_optimizer(session: Session, course: Course) -> None:
    """`step()` plays the rest of a step; whatever would change which tensors are trained is refused."""
    optimizer = course.owner
    inner = optimizer.step
    update = course.masters.step if course.masters.any else inner

    def step(_: torch.optim.Optimizer, closure: object = None) -> None:
        if closure is not None:
            raise Refused("optimizer.step(closure) would compute in the midst of an exchange", "step() without one")
        course.refuse_thawed()
        turn_to(session)
        scaled, overflown = unscale(optimizer, course.masters)
        record = course.finish(update, overflown=overflown)
        session.played(course, record, scaled)
        if session.scaler is not None and scaled:
            tell(session.scaler, optimizer, overflown=course.spoilt)

    def add(_: torch.optim.Optimizer, held: dict[str, Any]) -> None:
        raise Refused("add_param_group: tensors are laid out when prepared", "prepare(...) after the last one is added")

    flag = getattr(inner, "_wrapped_by_lr_sched", None)
    if flag is not None:
        step._wrapped_by_lr_sched = flag  # type: ignore[attr-defined]
    optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]
    optimizer.add_param_group = MethodType(add, optimizer)  # type: ignore[method-assign]
    optimizer._step_supports_amp_scaling = True  # type: ignore[attr-defined]  # a scaler must not skip our step
    refuse_states(course)


def refuse_states(course: Course) -> None:
    """Where every member remembers its share only, or a hub does, the whole is not here to be told or set."""
    reason = course.elsewhere
    if reason is None:
        return
    nearest = "gossamer.save(...) and gossamer.load(...)"

    def state_dict(_: torch.optim.Optimizer) -> dict[str, Any]:
        raise Refused(f"optimizer.state_dict(): {reason}", nearest)

    def load_state_dict(_: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        raise Refused(f"optimizer.load_state_dict(): {reason}", nearest)

    optimizer = course.owner
    optimizer.state_dict = MethodType(state_dict, optimizer)  # type: ignore[method-assign]
    optimizer.load_state_dict = MethodType(load_state_dict, optimizer)  # type: ignore[method-assign]


def unscale(optimizer: torch.optim.Optimizer, masters: Masters) -> tuple[bool, bool]:
    """Where torch's GradScaler left it to us, divide its scale out; whether there is one, and it saw an overflow.

    Gradients of 16 bits are too short for that: their masters do it.
    """
    found = getattr(optimizer, "found_inf", None)
    if found is None:
        return False, False
    scale = getattr(optimizer, "grad_scale", None)
    if scale is not None:
        inverse = scale.double().reciprocal().float()
        if masters.any:
            masters.scaled(float(inverse))
        for held in optimizer.param_groups if not masters.any else ():
            for tensor in held["params"]:
                if tensor.grad is not None:
                    tensor.grad.mul_(inverse.to(tensor.grad.device))
    # the scaler deletes both afterwards; a step that finds them would divide again, or refuse them
    optimizer.grad_scale = optimizer.found_inf = None  # type: ignore[attr-defined]
    return True, float(found) > 0


def tell(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, *, overflown: bool) -> None:
    """An overflow of another's, of which a hub has told, is everybody's, so that scales stay equal. A step before any
    gradient has come (a delay) had none: torch's scaler wants to be told as much."""
    known: dict[torch.device, Tensor] = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
    if overflown or not known:
        known[torch.device(scaler._device)] = torch.full((), float(overflown), device=scaler._device)
