"""A session's checkpoints: what each member writes, what must be the same, and how all go on or refuse alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gossamer.engine.checkpoint import Draft, Keeper, Role, Saved, load, rng_state, set_rng_state
from gossamer.engine.loop.agreement import sides
from gossamer.engine.loop.average import Plain, plain
from gossamer.engine.loop.living import Meeting
from gossamer.engine.loop.session import Session
from gossamer.engine.loop.spread import spread
from gossamer.engine.loop.state import Tree, gather, kept, rest, resume, same_shares
from gossamer.engine.loop.steps import Named, gathered
from gossamer.engine.loop.tell import tell
from gossamer.engine.loop.words import Words
from gossamer.engine.lost import MemberLost
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused
from gossamer.strategy import slots


@dataclass
class Checkpoints:
    """Saves and loads all that a session and its models are; `same` is what else must not differ when it goes on."""

    session: Session
    models: Sequence[nn.Module]
    root: Path
    keep: int = 2
    same: dict[str, Any] = field(default_factory=dict)
    warn: Callable[[str], None] = tell

    def __post_init__(self) -> None:
        self.keeper = Keeper(self.root, self.keep, self.warn)
        self._words = None if self.session.survives else Words(self.session.place)
        self.session.ends += [] if self._words is None else [self._words.end]

    def save(self, step: int, beside: object = None, things: Sequence[str] = ()) -> Path | None:
        """All members that are left save together, each with what it has `beside`; None where the disk failed one of
        them, or one dies just then: what was kept before stays."""
        gather(self.session)
        self.session.living.meet()
        rest(self.session)
        self.share("")  # from here on nobody changes anybody else's state
        try:
            met, averages = plain(self.session, self.models)
            return self._save(step, met, averages, beside, things)
        except MemberLost as error:  # all that are left find the same, in the same word
            if not self.session.survives:
                raise
            self.warn(f"step {step}: no checkpoint was kept: {str(error).splitlines()[0]}")
            return None

    def share(self, word: str) -> list[str]:
        """Tell all members a word and hear everybody's; where they go on without each other, that of all who live."""
        return list(self.session.living.say(word).values()) if self._words is None else self._words.share(word)

    def _save(
        self, step: int, met: Meeting, averages: Sequence[Plain], beside: object, things: Sequence[str]
    ) -> Path | None:
        session, member = self.session, self.session.place.member
        first, *others = met.present
        tree: Tree = {}

        def write(draft: Draft) -> dict[str, str]:
            tree.update(kept(session, self.models, first=member == first), beside=beside, rng=rng_state())
            files = {f"member-{member}": draft.put_tree(f"member-{member}", tree)}
            for number, tensors in enumerate(averages if member == first else ()):
                files[numbered("model", number)] = draft.put(numbered("model", number), tensors)
            return files

        def join(draft: Draft) -> dict[str, str]:
            trees = [tree] if self._alike else [tree, *(draft.tree(f"member-{other}") for other in others)]
            named = [self._named(number, trees) for number in range(len(session.courses))]
            return {numbered("optimizer", n): draft.put_tree(numbered("optimizer", n), t) for n, t in enumerate(named)}

        share = partial(session.living.share, met) if self._words is None else self._words.share
        facts = {**self.facts(things), "members": list(met.present)}
        return self.keeper.save(step, write, facts, Role(member, first), share, join)

    def load(self, step: int | None = None, things: Sequence[str] = (), root: Path | None = None) -> tuple[int, Any]:
        """All members go on from a checkpoint, or all refuse alike; its step, and what was saved beside."""
        saved = self._agreed(root or self.root, step, things)
        member, there = self.session.place.member, members(saved)
        mine = saved.tree(f"member-{member if member in there else there[0]}")
        same = there == list(range(saved.facts["world"])) == list(range(self.session.size))
        same = same and same_shares(self.session, mine)
        if not all(word == "same" for word in self.share("same" if same else "")):
            self._spread(saved, mine)
        else:
            resume(self.session, self.models, mine)
        self._put_frozen(saved)
        if member in there:
            set_rng_state(mine["rng"])
        self.share("")  # nobody begins before all are there
        for course in self.session.courses:  # of masters that exist once, everybody has put its share
            course.masters.loaded(course.strands)
        return saved.step, mine["beside"]

    def facts(self, things: Sequence[str]) -> dict[str, Any]:
        """What a checkpoint says of who wrote it; `things` are the kinds of what was saved beside."""
        session = self.session
        tensors = [[n, sides(t)] for c in session.courses for s in c.strands for n, t in _named_tensors(s)]
        optimizers = [type(course.optimizer).__name__ for course in session.courses]
        return {
            "gossamer": version("gossamer"), "torch": str(torch.__version__), "world": session.size,
            "strategy": repr(session.strategy), "seed": session.world.seed, "optimizers": optimizers,
            "tensors": tensors, "things": list(things), "same": self.same,
        }  # fmt: skip

    @property
    def _alike(self) -> bool:
        """Whether all members' optimizers remember the same, so that one of them speaks for all."""
        whole = all(strand.shard is None for course in self.session.courses for strand in course.strands)
        return whole and all(
            ex.payload is Payload.GRADIENTS and not ex.hub and ex.agrees for ex in slots(self.session.strategy)
        )

    def _named(self, number: int, members: Sequence[Tree]) -> Tree:
        """What an optimizer's members remember, as one."""
        state: Named = {}
        for n, strand in enumerate(self.session.courses[number].strands):
            state |= gathered(strand, [tree["courses"][number]["strands"][n] for tree in members])
        return {"state": state, "rates": members[0]["courses"][number]["rates"]}

    def _agreed(self, root: Path, step: int | None, things: Sequence[str]) -> Saved:
        """A checkpoint that every member finds whole and fit; what is wrong on one is said by all."""
        saved, trouble = None, Refused("")
        try:
            saved = load(root, step)
            difference = differs(saved.facts, self.facts(things))
            if difference is not None:
                trouble = Refused(f"{saved.folder} is of another run: {difference}")
        except Refused as refused:
            trouble = refused
        said = next((word for word in self.share(str(trouble)) if word), None)
        if said is not None or saved is None:
            raise Refused(f"load: {said}")
        return saved

    def _spread(self, saved: Saved, mine: Tree) -> None:
        there, now = members(saved), self.session.size
        trees = [saved.tree(f"member-{other}") for other in there]
        named = [saved.tree(numbered("optimizer", n))["state"] for n in range(len(self.session.courses))]
        tensors = [saved.tensors(numbered("model", n)) for n in range(len(self.models))]
        spread(self.session, self.models, tensors, trees, named)
        if self.session.place.member == 0 and not saved.facts["world"] == len(there) == now:
            tell(
                f"step {saved.step} of {len(there)} workers goes on with {now}: all start from the average and the "
                "whole state of the optimizer; what was not sent keeps its sum, other memories begin anew"
            )

    @torch.no_grad()
    def _put_frozen(self, saved: Saved) -> None:
        """Parameters that nobody trains, which are the same everywhere."""
        owned = [(course, tensor) for course in self.session.courses for s in course.strands for tensor in s.tensors]
        trained = {id(course.masters.weight(tensor)) for course, tensor in owned}
        for number, model in enumerate(self.models):
            frozen = {n: p for n, p in model.named_parameters() if id(p) not in trained}
            tensors = saved.tensors(numbered("model", number)) if frozen else {}
            for name, parameter in frozen.items():
                parameter.copy_(tensors[name])


def members(saved: Saved) -> list[int]:
    """Who saved it: all of its world that were left."""
    return list(saved.facts.get("members", range(saved.facts["world"])))


def numbered(name: str, number: int) -> str:
    """The first of its kind has the plain name."""
    return f"{name}-{number}" if number else name


def differs(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """What stands in the way of going on, in words."""
    for name in ("strategy", "seed", "optimizers", "things"):
        if there.get(name) != here[name]:
            return f"{name} is {there.get(name)!r} there, {here[name]!r} here"
    for name, value in here["same"].items():
        if (said := there.get("same", {}).get(name)) != value:
            return f"{name} is {said!r} there, {value!r} here"
    for one, two in zip(there["tensors"], here["tensors"], strict=False):
        if one != two:
            return f"parameter {one[0]} is {one[1]} there, {two[0]} is {two[1]} here"
    old, new = len(there["tensors"]), len(here["tensors"])
    return None if old == new else f"its model has {old} parameters that train, this one {new}"


def _named_tensors(strand: Any) -> Any:
    return zip(strand.layout.names, strand.tensors, strict=True)
