"""Traces of many members: whoever is waited for is drawn, whatever its rank, and arrows say so; exchanges are seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.ask import ask, told

from gossamer import simulate
from gossamer.cli.simulate_trace import trace
from gossamer.sim.scene import Span
from gossamer.strategy import parse_trouble

PER_HOST = 4  # of abci
CYCLE = "Exchange(payload=PARAMETERS, topology=Cycle(), where=Dims(2))"
PEER = "topology=RandomPeer(), synchrony=Synchrony(staleness={})"


def arrows(spans: list[Span]) -> list[tuple[Span, Span]]:
    """What was waited for, and the wait, of each arrow."""
    found: dict[int, dict[str, Span]] = {}
    events: list[dict[str, Any]] = list(trace(spans, PER_HOST))
    for event in (each for each in events if each["ph"] in "sf"):
        on = [span for span in spans if span.member == event["tid"] - 1 and _holds(span, event["ts"] / 1e6)]
        assert len(on) == 1, event
        found.setdefault(event["id"], {})[event["ph"]] = on[0]
    return [(each["s"], each["f"]) for each in found.values()]


def _holds(span: Span, moment: float) -> bool:
    return span.start < moment < span.stop


@pytest.mark.parametrize(
    ("strategy", "workers", "trouble"),
    [
        ("allreduce", 2048, ""),
        ("sgp", 2048, ""),
        ("Exchange(synchrony=Synchrony(delay=1))", 256, "slow(rank=200, factor=3)"),
        ("two_levels", 256, "slow(rank=200, factor=3)"),
        (f"Exchange(payload=PARAMETERS, {PEER.format(1)})", 256, "slow(rank=200, factor=99)"),
        (f"{CYCLE} + Exchange(payload=PARAMETERS, where=Dims(0, 1), {PEER.format(None)})", 128, ""),
    ],
)
def test_an_arrow_leads_from_what_another_did_to_the_wait_for_it(strategy: str, workers: int, trouble: str) -> None:
    script = {"trouble": parse_trouble(trouble)} if trouble else {}
    found = simulate(strategy, "abci", "resnet50", workers, steps=4, drawn=4, interval=False, **script)
    drawn = arrows(found.played.spans)
    assert all(wait.whom == did.member and did.whom is None and did.start < wait.stop for did, wait in drawn)
    waits = {span.step for span in found.played.spans if span.whom is not None}
    assert waits == {wait.step for _, wait in drawn} and len(waits) >= (1 if trouble else 3)
    assert any(did.member >= 64 for did, _ in drawn)
    assert len({span.member for span in found.played.spans}) < 64 + 4 * 64


def test_a_trace_holds_a_period_or_says_what_comes_later(tmp_path: Path) -> None:
    """And it is no long file."""
    asked = ("simulate", "--cluster", "abci", "--workload", "resnet50", "--workers", "16", "--from", "16", "--trace")
    for every, note in (
        (8, None),
        (100, "the trace ends after 64 steps, and exchange 0 of local_sgd(every=100) comes"),
    ):
        path = tmp_path / f"{every}.json"
        shown = told(*asked, str(path), f"local_sgd(every={every})")
        events = json.loads(path.read_text())["traceEvents"]
        assert any(event["name"] == "exchange 0" for event in events) is (note is None)
        assert {e["args"]["step"] for e in events if e["ph"] == "X"} == set(range(min(every, 64)))
        assert shown["trace_note"] is None if note is None else shown["trace_note"].startswith(note)
        assert path.stat().st_size < 2e6
    assert "comes later" in " ".join(ask(*asked, str(path), "local_sgd(every=100)", "--force").stdout.split())
