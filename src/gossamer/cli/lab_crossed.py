"""The bytes that journals say have left a host. Reads what is there and passes over what it does not understand."""

from __future__ import annotations

import json
from pathlib import Path


def crossed(folder: Path) -> int | None:
    """The sum of `crossed` over all steps of all members in a host's folder; nothing where no record has it."""
    found = [count for path in sorted(folder.rglob("*.jsonl")) for count in _counts(path)]
    return sum(found) if found else None


def _counts(path: Path) -> list[int]:
    counts = []
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # torn, as a killed worker leaves it
        by_slot = record.get("crossed") if isinstance(record, dict) else None
        if isinstance(by_slot, dict):
            counts += [int(count) for count in by_slot.values() if isinstance(count, int | float)]
    return counts
