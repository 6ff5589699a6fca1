"""When compression has drifted from the truth: what several looks in a row say, in words. Knows no codec."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import isfinite
from statistics import median

from gossamer.records.record import Truth

LOOKS = 3  # in a row, of which the median counts: one look alone is chance
CROOKED = 0.1  # cosine: below it hardly anything of a step is in the direction of the exact average
BIASED = 0.25  # of the exact average that is missing, or too much, for good: nothing of it is kept for later
HELD = 20.0  # exact averages' worth of what is not sent yet: what is sent is old


class Trail:
    """The last looks at each bucket of each exchange; what has drifted is said once."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], deque[Truth]] = {}
        self._said: set[str] = set()

    def take(self, looks: Sequence[Truth]) -> list[str]:
        """What these looks show that none before them did, in words."""
        for look in looks:
            self._last.setdefault((look.slot, look.bucket), deque(maxlen=LOOKS)).append(look)
        found = [(kind, words) for look in looks for kind, words in drifts(self._last[look.slot, look.bucket])]
        new = [(kind, words) for kind, words in found if kind not in self._said]
        self._said.update(kind for kind, _ in new)
        return list(dict(new).values())


def drifts(last: Sequence[Truth]) -> list[tuple[str, str]]:
    """What the last looks at one bucket show, by kind and in words; nothing before there are enough of them."""
    where = f"exchange {last[-1].slot}, bucket {last[-1].bucket}"
    if not all(isfinite(each) for each in (last[-1].cosine, last[-1].bias, last[-1].residual)):
        return [("sick", f"the compressed average is no number ({where})")]
    if len(last) < LOOKS:
        return []
    cosine, bias, held = (median(getattr(look, name) for look in last) for name in ("cosine", "bias", "residual"))
    found = []
    if cosine < CROOKED:
        found.append(("cosine", f"the compressed average points elsewhere: cosine {cosine:.2f} ({where})"))
    if abs(bias) > BIASED and not last[-1].keeps:
        much = "short of the exact one" if bias < 0 else "longer than the exact one"
        found.append(("bias", f"the compressed average is {abs(bias):.0%} {much}, and nothing is kept ({where})"))
    if held > HELD:
        found.append(("residual", f"the residual holds {held:.0f} exact averages, more than {HELD:.0f} ({where})"))
    return found
