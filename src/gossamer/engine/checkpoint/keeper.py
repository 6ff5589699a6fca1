"""Saves that cannot stop a run: trouble with the disk becomes one warning, and the next save tries again."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gossamer.engine.checkpoint.draft import Draft
from gossamer.engine.checkpoint.names import folder_of, latest
from gossamer.parts.refusal import whole

Digests = Mapping[str, str]
Share = Callable[[str], list[str]]  # tell every member a word and hear everybody's, in the order of members


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
        member: int = 0,
        share: Share = alone,
        gather: Callable[[Draft], Digests] = nothing,
    ) -> Path | None:
        """Let every member `write` its files, and member 0 seal them with its `facts`: the same answer on every member.

        `write` puts into the draft and returns the digests by name; it talks to nobody. Once all have, member 0 may
        `gather` more files from theirs. If the disk fails one member,
        all give this save up: member 0 removes the draft and warns, once per kind of trouble until a save succeeds.
        """
        draft, digests = Draft(self.root, step, member), dict[str, str]()
        acts: list[Callable[[], Digests]] = [lambda: self._begin(draft), lambda: write(draft)]
        acts += [] if gather is nothing else [lambda: gather(draft) if member == 0 else {}]
        acts.append(lambda: self._seal(draft, facts, digests))
        for act in acts:
            words = [json.loads(word) for word in share(json.dumps(self._tried(act, member)))]
            troubles = [word for word in words if "trouble" in word]
            if troubles:
                self._give_up(draft, troubles[0])
                return None
            for word in words:
                digests.update(word["digests"])
        self._told.clear()
        return folder_of(self.root, step)

    def _begin(self, draft: Draft) -> Digests:
        if draft.member == 0:
            Draft.begin(self.root, draft.step, 0)
        return {}

    def _seal(self, draft: Draft, facts: dict[str, Any], digests: Digests) -> Digests:
        if draft.member == 0:
            draft.seal(facts, digests, self.keep)
        return {}

    def _tried(self, act: Callable[[], Digests], member: int) -> dict[str, Any]:
        """What an act came to, as a word for the others."""
        try:
            return {"digests": dict(act())}
        except OSError as error:
            return {"trouble": f"member {member}: {error}", "kind": f"{type(error).__name__} {error.errno}"}

    def _give_up(self, draft: Draft, trouble: dict[str, str]) -> None:
        """Leave the disk as it was before, and say so unless that was said already."""
        if draft.member != 0:
            return
        newest = None
        with suppress(OSError):  # what cannot be removed now goes before the next save
            newest = latest(self.root)
            draft.discard()
        if trouble["kind"] not in self._told:
            self._told.add(trouble["kind"])
            left = "there is no earlier one" if newest is None else f"the newest is step {newest}"
            where = f"step {draft.step} is not saved in {self.root}"
            self._warn(f"{where} ({trouble['trouble']}); training goes on, {left}, the next save will try again")
