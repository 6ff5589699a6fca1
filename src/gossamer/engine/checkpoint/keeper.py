"""Saves that cannot stop a run: trouble with the disk becomes one warning, and the next save tries again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.engine.checkpoint.draft import Draft
from gossamer.engine.checkpoint.names import folder_of, latest
from gossamer.engine.lost import MemberLost
from gossamer.parts.refusal import whole

Digests = Mapping[str, str]
Share = Callable[[str], list[str]]  # tell every member a word and hear everybody's, in the order of members


@dataclass(frozen=True)
class Role:
    """Which member this one is, and which is the first of those that save."""

    member: int = 0
    speaker: int = 0

    @property
    def first(self) -> bool:
        """Whether it is the one that makes the folder and seals it."""
        return self.member == self.speaker


def nothing(draft: Draft) -> Digests:
    """No more files."""
    return {}


def alone(word: str) -> list[str]:
    """What a world of one hears."""
    return [word]


class Keeper:
    """Keeps the newest checkpoints of a run in `root`; every member has one, and all save together."""

    def __init__(self, root: Path, keep: int = 2, warn: Callable[[str], None] = warnings.warn) -> None:
        whole("checkpoint", "keep", keep, 2)
        self.root, self.keep = Path(root), keep
        self._warn = warn
        self._told: set[str] = set()

    def save(
        self,
        step: int,
        write: Callable[[Draft], Digests],
        facts: dict[str, Any],
        role: Role = Role(),
        share: Share = alone,
        gather: Callable[[Draft], Digests] = nothing,
    ) -> Path | None:
        """Let every member `write` its files, and the first seal them with its `facts`: the same answer on all of them.

        `write` puts into the draft and returns the digests by name; it waits for nobody. Once all have, the first may
        `gather` more files from theirs. If the disk, or anything else, fails one member,
        all give this save up: the first removes the draft and warns, once per kind of trouble until a save succeeds.
        """
        draft, digests = Draft(self.root, step, role.member), dict[str, str]()
        acts: list[Callable[[], Digests]] = [lambda: self._begin(draft, role), lambda: write(draft)]
        acts += [] if gather is nothing else [lambda: gather(draft) if role.first else {}]
        acts.append(lambda: self._seal(draft, facts, digests) if role.first else {})
        for act in acts:
            words = [json.loads(word) for word in share(json.dumps(self._tried(act, role.member)))]
            troubles = [word for word in words if "trouble" in word]
            if troubles:
                if role.first:
                    self._give_up(draft, troubles[0])
                return None
            for word in words:
                digests.update(word["digests"])
        self._told.clear()
        return folder_of(self.root, step)

    def _begin(self, draft: Draft, role: Role) -> Digests:
        if role.first:
            Draft.begin(self.root, draft.step, 0)
        return {}

    def _seal(self, draft: Draft, facts: dict[str, Any], digests: Digests) -> Digests:
        draft.seal(facts, digests, self.keep)
        return {}

    def _tried(self, act: Callable[[], Digests], member: int) -> dict[str, Any]:
        """What an act came to, as a word for the others."""
        try:
            return {"digests": dict(act())}
        except (OSError, RuntimeError) as error:
            if isinstance(error, MemberLost):
                raise
            return {"trouble": f"member {member}: {error}", "kind": f"{type(error).__name__} {_number(error)}"}

    def _give_up(self, draft: Draft, trouble: dict[str, str]) -> None:
        """Leave the disk as it was before, and say so unless that was said already."""
        newest = None
        with suppress(OSError):  # what cannot be removed now goes before the next save
            newest = latest(self.root)
            draft.discard()
        if trouble["kind"] not in self._told:
            self._told.add(trouble["kind"])
            left = "there is no earlier one" if newest is None else f"the newest is step {newest}"
            where = f"step {draft.step} is not saved in {self.root}"
            self._warn(f"{where} ({trouble['trouble']}); training goes on, {left}, the next save will try again")


def _number(error: OSError | RuntimeError) -> int | None:
    return error.errno if isinstance(error, OSError) else None
