"""The table of benchmarks/links.py, made of the lines that its runs leave. Plays nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

HEADERS, WITHIN = 1.05, 0.10  # what packets add to the bytes in them; how far counted and recorded bytes may differ
SPARE = 25_000_000  # bytes that a host may have under way when a run ends: the parameters
OTHERS, CONTROL = ("DDP", "hivemind"), "alone"


def row_of(name: str, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a table tells of a row: means over seeds, and the range of the time on slow links."""
    slow, fast = ([line for line in lines if line["slow"] == way] for way in (True, False))
    told: dict[str, Any] = {"name": name, "marked": slow[0]["marked"], "step": fmean(line["step"] for line in slow)}
    told["more"] = slow[0]["average"] if slow[0]["settings"]["differ"] else 0.0
    told["fast"] = [line["seconds"] for line in fast]
    for own in ("", "own "):
        ends = [line for line in (fast if told["marked"] else slow) if f"{own}steps" in line]
        told[f"{own}slow"] = [_taken(line, own, told["step"]) for line in ends]
    pairs = {line["seed"] for line in fast}
    told["paired"] = [
        told["slow"][n] for n, line in enumerate(fast if told["marked"] else slow) if line["seed"] in pairs
    ]
    told["steps"] = [line["steps"] for line in (fast if told["marked"] else slow)]
    told["last"] = fmean(line["last"] for line in (fast if told["marked"] else slow))
    told["sent"] = max(fmean(each) for each in zip(*(line["sent"] for line in slow), strict=True))
    told["agrees"] = all(agrees(line) for line in slow if "sent" in line["said"][0])
    return told


def _taken(line: dict[str, Any], own: str, step: float) -> float | None:
    """Seconds to the target on slow links: measured there, or calculated from a run on fast ones."""
    steps: int | None = line[f"{own}steps"]
    return line[f"{own}seconds"] if line["slow"] or steps is None else steps * step


def agrees(line: dict[str, Any]) -> bool:
    """Whether all links together carried what the records say, but for what was under way when the run ended.

    Who visits records what it sends and hears: of a hub's, the share that lies with a worker itself crosses no link.
    """
    said, hosts = line["said"], len(line["said"])
    sent, heard, crossed = (sum(each[name] for each in said) for name in ("sent", "heard", "crossed"))
    recorded = crossed or ((sent + heard) * (hosts - 1) / hosts if said[0]["hub"] else heard)
    counted = sum(line["sent"]) * line["steps played"]
    return abs(counted - HEADERS * recorded) <= WITHIN * recorded + hosts * SPARE


def mean(found: Sequence[float | None]) -> float | None:
    """Of all seeds; None if one has missed the target."""
    sure = [each for each in found if each is not None]
    return fmean(sure) if found and len(sure) == len(found) else None


def written(found: float | None, form: str = ".1f") -> str:
    """A number, or that there is none."""
    return "-" if found is None else format(found, form)


TITLES = {
    "slow s": 9, "lowest..highest": 18, "in hand": 9, "fast s": 9, "slow/fast": 10, "x DDP": 8, "own s": 8, "steps": 7,
    "ms/step": 9, "MB/step": 9, "last %": 8,
}  # fmt: skip


def told(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Print the table; which bars are missed."""
    print(f"\n{'row':26}" + "".join(f"{title:>{width}}" for title, width in TITLES.items()))
    times = {row["name"]: mean([t and t + row["more"] for t in row["slow"]]) for row in rows}
    ratios = dict[str, float]()
    for row in rows:
        slow, fast, ddp = times[row["name"]], mean(row["fast"]), times.get("DDP")
        paired = mean([t and t + row["more"] for t in row["paired"]])
        ratio = paired / fast if paired and fast else None
        ratios |= {row["name"]: ratio} if ratio else {}
        spread = f"{min(row['slow']):.1f}..{max(row['slow']):.1f}" if slow else "-"
        cells = (
            written(mean(row["slow"])), spread, written(slow), written(fast), written(ratio, ".2f"),
            written(ddp / slow if ddp and slow else None), written(mean(row["own slow"])),
            written(mean(row["steps"]), ".0f"), written(1e3 * row["step"], ".0f"), written(row["sent"] / 1e6, ".2f"),
            written(100 * row["last"], ".2f"),
        )  # fmt: skip
        line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, TITLES.values(), strict=True))
        print(f"{row['name'] + ' *' * row['marked']:26}{line}{'' if row['agrees'] else '  BYTES DISAGREE'}")
    return [f"{row['name']}: bytes disagree" for row in rows if not row["agrees"]] + missed(times, ratios)


def missed(times: dict[str, float | None], ratios: dict[str, float]) -> list[str]:
    """Bars: the best of ours 10x as fast as DDP, faster than hivemind, and within 1.5x of itself on fast links."""
    ours = {name: t for name, t in times.items() if t and name not in (*OTHERS, CONTROL)}
    if not ours:
        return ["none of ours has reached the target"]
    best = min(ours, key=lambda name: ours[name])
    print(f"best of ours: {best}, {ours[best]:.1f} s, {ratios.get(best, 0.0):.2f}x of itself on fast links")
    ddp, hivemind = (times.get(name) for name in OTHERS)
    found = [f"{best} is {ddp / ours[best]:.1f}x DDP (bar 10)"] if ddp and ddp < 10 * ours[best] else []
    found += [f"{best} is no faster than hivemind"] if hivemind and hivemind <= ours[best] else []
    return found + ([f"{best}: {ratios[best]:.2f}x of fast links (bar 1.5)"] if ratios.get(best, 0.0) > 1.5 else [])


def kept(path: Path) -> list[dict[str, Any]]:
    """The rows of the table that earlier runs have left."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for text in path.read_text().splitlines():
        lines.setdefault(json.loads(text)["row"], []).append(json.loads(text))
    return [row_of(name, found) for name, found in lines.items()]


def verdict(bars: Sequence[str]) -> bool:
    """Say whether all bars are held; true if not."""
    print("MISSED: " + "; ".join(bars) if bars else "all bars held")
    return bool(bars)
