"""What a member notes down while it plays a step: where its seconds went, and its bytes. Knows no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from gossamer.records.record import StepRecord, Truth


def _spans() -> dict[str, float]:
    return {"compute": 0.0, "send": 0.0, "wait": 0.0}


@dataclass
class Note:
    """One member's notes of the step it is in; bytes may be added while others make it send."""

    spans: dict[str, float] = field(default_factory=_spans)
    sent: dict[int, int] = field(default_factory=dict)
    heard: dict[int, int] = field(default_factory=dict)
    staleness: int = 0
    dropped: int = 0
    loss: float = 0.0
    crossed: dict[int, int] = field(default_factory=dict)
    torn: int = 0
    truth: list[Truth] = field(default_factory=list)
    spoilt: bool = False  # a hub stepped with nobody's gradients of this step, for somebody's were no numbers

    def send(self, slot: int, nbytes: int) -> None:
        """Bytes that left."""
        if nbytes:
            self.sent[slot] = self.sent.get(slot, 0) + nbytes

    def hear(self, slot: int, nbytes: int) -> None:
        """Bytes that came in."""
        if nbytes:
            self.heard[slot] = self.heard.get(slot, 0) + nbytes

    def cross(self, slot: int, nbytes: int) -> None:
        """Bytes, of those that left, that left the host."""
        if nbytes:
            self.crossed[slot] = self.crossed.get(slot, 0) + nbytes

    def aged(self, staleness: int) -> None:
        """Something this old was used."""
        self.staleness = max(self.staleness, staleness)

    def join(self, other: Note) -> None:
        """Bytes and ages noted elsewhere for the same step."""
        for slot, nbytes in other.sent.items():
            self.send(slot, nbytes)
        for slot, nbytes in other.heard.items():
            self.hear(slot, nbytes)
        for slot, nbytes in other.crossed.items():
            self.cross(slot, nbytes)
        self.aged(other.staleness)

    def passed(self, seconds: float, transfer: float) -> None:
        """Seconds went by in an exchange: transfer as far as the transfer took, and waiting for the rest."""
        self.spans["send"] += min(transfer, seconds)
        self.spans["wait"] += max(0.0, seconds - transfer)

    def record(self, member: int, step: int, time: float) -> StepRecord:
        """The notes of a finished step."""
        return StepRecord(
            member,
            step,
            time,
            self.loss,
            self.spans,
            self.sent,
            self.heard,
            self.staleness,
            self.dropped,
            self.crossed,
            self.torn,
            self.truth,
        )
