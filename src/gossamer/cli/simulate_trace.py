"""The first steps of a simulation as trace events, which Perfetto and Chrome show: who waits for whom.

A process for each host and a thread for each member; one process more for the links of all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gossamer.cli.simulate_report import Answer
from gossamer.cli.simulate_request import Question
from gossamer.sim.scene import LINKS, Span

Event = dict[str, Any]
MICRO = 1e6  # their unit of time is the microsecond


def write(answer: Answer, path: Path) -> None:
    """Write the file: the first strategy on the most workers."""
    row = answer.last[0]
    events = list(trace(row.forecast.played.spans, answer.question.cluster.per_host))
    cluster, workload = answer.question.places
    told = {"strategy": row.part.text, "workers": row.forecast.workers, "cluster": cluster, "workload": workload}
    told |= {"steps": answer.question.drawn(), "note": note(answer.question) or ""}
    text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": told}, separators=(",", ":"))
    path.write_text(text, "utf-8")


def note(question: Question) -> str | None:
    """What is not in the file, if it is too short for an exchange."""
    missing = question.undrawn()
    if not missing:
        return None
    told = " and ".join(f"exchange {slot}" for slot in missing)
    return f"the trace ends after {question.drawn()} steps, and {told} of {question.parts[0].text} comes later"


def trace(spans: Sequence[Span], per_host: int) -> Iterator[Event]:
    """Names of tracks, an event for each span, and an arrow from each member that was waited for to who waited."""
    yield from _tracks(sorted({span.member for span in spans}), per_host)
    for span in spans:
        told = {"step": span.step} if span.whom is None else {"step": span.step, "waits for member": span.whom}
        yield {**_at(span.member, per_host), "name": span.what, "cat": span.what.split()[0].rstrip(","), "ph": "X",
               "ts": _micro(span.start), "dur": _micro(span.stop - span.start), "args": told}  # fmt: skip
    yield from _arrows(spans, per_host)


def _at(member: int, per_host: int) -> Event:
    return {"pid": 0, "tid": 0} if member == LINKS else {"pid": member // per_host + 1, "tid": member + 1}


def _tracks(members: Sequence[int], per_host: int) -> Iterator[Event]:
    hosts = set[int]()
    for member in members:
        at, links = _at(member, per_host), member == LINKS
        if at["pid"] not in hosts:
            hosts.add(at["pid"])
            host = "links" if links else f"host {member // per_host}"
            yield {**at, "ph": "M", "name": "process_name", "args": {"name": host}}
            yield {**at, "ph": "M", "name": "process_sort_index", "args": {"sort_index": at["pid"]}}
        yield {**at, "ph": "M", "name": "thread_name", "args": {"name": "all" if links else f"member {member}"}}
        yield {**at, "ph": "M", "name": "thread_sort_index", "args": {"sort_index": at["tid"]}}


def _arrows(spans: Sequence[Span], per_host: int) -> Iterator[Event]:
    """From the end of what the other last did before the wait was over, to the end of the wait."""
    did: dict[int, list[Span]] = {}
    for span in spans:
        did.setdefault(span.member, []).append(span)
    waits = [span for span in spans if span.whom is not None and span.whom != span.member and span.whom in did]
    for number, wait in enumerate(waits):
        before = [each for each in did[wait.whom or 0] if each.start < wait.stop and each.whom is None]
        if before:
            source = max(before, key=lambda each: each.start)
            leaves, comes = min(source.stop, wait.stop), wait.stop
            common = {"name": "waited for", "cat": "waited", "id": number}
            yield {**common, **_at(source.member, per_host), "ph": "s", "ts": _inside(source, leaves)}
            yield {**common, **_at(wait.member, per_host), "ph": "f", "bp": "e", "ts": _inside(wait, comes)}


def _inside(span: Span, moment: float) -> float:
    """A little before the end of a span: an arrow is drawn only if it touches one."""
    return _micro(moment - (span.stop - span.start) * 1e-3)


def _micro(seconds: float) -> float:
    """To the picosecond: more digits would make the file long."""
    return round(seconds * MICRO, 6)
