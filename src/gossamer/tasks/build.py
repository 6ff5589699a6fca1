"""From a reference to a task: one of ours by name, or the user's own function. Refuses what breaks the contract.

What goes wrong inside the user's function is the user's to see, traceback and all; only the call itself is judged here.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, signature
from traceback import extract_tb
from typing import Any

import torch

from gossamer.parts.refusal import Refused
from gossamer.tasks.task import Task, evaluating

OURS = ("digits", "characters", "idx")
CONTRACT = "loss(model, batch) -> (loss, count, metrics)"


def build(reference: str, seed: int, options: dict[str, Any]) -> Task:
    """The task a reference names: one of ours by name, or `module:function` called with seed and options."""
    make = maker(reference)
    _callable(reference, make, {"seed": seed, **options})
    task = make(seed=seed, **options)
    if not isinstance(task, Task):
        raise Refused(f"task: {reference} gave a {type(task).__name__}, not a Task", "gossamer.tasks.Task(...)")
    return task


def maker(reference: str) -> Callable[..., Any]:
    """The function that makes the task."""
    if ":" not in reference and reference not in OURS:
        raise Refused(f"task: there is no {reference!r}", f"{', '.join(OURS)}, or your own module:function")
    module, _, function = reference.partition(":") if ":" in reference else ("gossamer.tasks", "", reference)
    if not all(name.isidentifier() for name in (*module.split("."), function)):
        raise Refused(f"task: {reference!r} is not module:function", "package.module:function")
    found = _imported(f"{module}.{function}" if reference in OURS else module)
    make = getattr(found, function, None)
    if make is None:
        names = [name for name, thing in vars(found).items() if callable(thing)]
        raise Refused(
            f"task: {module} has no function {function!r}", next(iter(get_close_matches(function, names, 1)), None)
        )
    if not callable(make):
        raise Refused(f"task: {reference} is a {type(make).__name__}, and cannot be called")
    return make  # type: ignore[no-any-return]


def usage(name: str, make: Callable[..., Any]) -> str:
    """The options a maker takes, as they may be given; the seed has an option of its own."""
    fields = [field for field in signature(make).parameters.values() if field.name != "seed"]
    return f"{name}({', '.join(str(f.replace(annotation=Parameter.empty)) for f in fields)})"


def _imported(name: str) -> object:
    """The module; one that cannot be loaded is refused with the place and the reason."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Refused(f"task: module {error.name!r} cannot be found", "a module on PYTHONPATH") from None
        raise Refused(_unloaded(name, error)) from None
    except (Exception, SystemExit) as error:
        raise Refused(_unloaded(name, error)) from None


def _unloaded(name: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        place, reason = f"{error.filename}:{error.lineno}", error.msg
    else:
        body = [frame for frame in extract_tb(error.__traceback__) if frame.name == "<module>"]
        place = f"{body[-1].filename}:{body[-1].lineno}" if body else name
        reason = str(error)
    return f"task: module {name!r} cannot be loaded: {place}: {type(error).__name__}: {reason}"


def _callable(reference: str, make: Callable[..., Any], given: dict[str, Any]) -> None:
    """Refuse options the function does not take, without calling it."""
    try:
        taken = signature(make)
    except ValueError:  # something built in, which says nothing of itself
        return
    try:
        taken.bind(**given)
    except TypeError as error:
        raise Refused(f"task: {reference} cannot be called so: {error}", usage(reference, make)) from None


@torch.no_grad()
def tried(reference: str, task: Task) -> None:
    """Ask for the loss of two samples, and refuse an answer of another form: before a run, not in its midst."""
    with evaluating(task.model), torch.random.fork_rng(devices=[]):
        found = task.loss(task.model, tuple(part[:2] for part in task.test))
    if not any(p.requires_grad for p in task.model.parameters()):
        raise Refused(f"task: the model of {reference} has no parameter that trains", "one with requires_grad=True")
    wrong = _amiss(found)
    if wrong is not None:
        raise Refused(f"task: the loss of {reference} gave {wrong}", CONTRACT)


def _amiss(found: object) -> str | None:
    """What is wrong with what a loss gave, or None."""
    if not isinstance(found, tuple) or len(found) != 3:
        return f"{len(found)} values" if isinstance(found, tuple) else f"only a {type(found).__name__}"
    loss, count, metrics = found
    if not isinstance(loss, torch.Tensor) or loss.ndim:
        return f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else f"the loss {loss!r}"
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        return f"the count {count!r}, which is no number of samples"
    return None if isinstance(metrics, dict) else f"metrics that are a {type(metrics).__name__}, not a dict"
