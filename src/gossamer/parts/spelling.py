"""How typed words are compared, and the nearest one found. Knows no word in particular."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

LIKE = 0.6  # of 1: a word less like another than that is no slip of the fingers


def folded(text: str) -> str:
    """Without case, spaces and marks, and with one spelling of -ised."""
    return "".join(letter for letter in text.lower() if letter.isalnum()).replace("ized", "ised")


def nearest(text: str, among: Sequence[str]) -> str | None:
    """The word most like this one, in full or as far as this one goes, if any is."""
    typed = folded(text)
    known = {folded(word)[:length]: word for length in (len(typed), None) for word in reversed(among)}
    close = get_close_matches(typed, list(known), n=1, cutoff=LIKE)
    return known[close[0]] if close else None
