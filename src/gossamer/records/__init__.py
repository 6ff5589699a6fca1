"""What happened: records, the journal that keeps them, and what they say in sum."""

from gossamer.records.journal import Journal, read
from gossamer.records.note import Note
from gossamer.records.record import SERVED, STILL, Evaluation, Event, Header, Noise, Record, StepRecord, Truth

__all__ = [
    "SERVED",
    "STILL",
    "Evaluation",
    "Event",
    "Header",
    "Journal",
    "Noise",
    "Note",
    "Record",
    "StepRecord",
    "Truth",
    "read",
]
