"""How a part says no: the reason and the nearest legal choice. Knows no part in particular."""

from __future__ import annotations

import math
from collections.abc import Callable

ABSURD = 10**12  # no count in this field comes near it; a larger one is a typing mistake


class Refused(ValueError):
    """A value or combination that cannot work, with the reason and the nearest one that can.

    The nearest choice may be given as a function: looking for it can cost more than saying no.
    """

    def __init__(self, reason: str, nearest: str | Callable[[], str | None] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self._nearest = nearest

    @property
    def nearest(self) -> str | None:
        """The nearest choice that works, if one is known."""
        if callable(self._nearest):
            self._nearest = self._nearest()
        return self._nearest

    def __str__(self) -> str:
        return self.reason if self.nearest is None else f"{self.reason}; nearest that works: {self.nearest}"


def whole(owner: str, name: str, value: object, least: int = 1, most: int = ABSURD) -> None:
    """Refuse `value` unless it is an integer in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"{owner}: {name} must be a whole number, not {told(value)}", f"{name}={least}")
    if not least <= value <= most:
        edge = least if value < least else most
        raise Refused(f"{owner}: {name} must be from {least} to {most}, not {told(value)}", f"{name}={edge}")


def real(
    owner: str, name: str, value: object, low: float, high: float, *, open_low: bool = False, open_high: bool = False
) -> None:
    """Refuse `value` unless it is a finite number between low and high; an open end excludes the edge."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{owner}: {name} must be a number, not {told(value)}")
    inside = not math.isnan(value) if isinstance(value, float) else True
    inside = inside and low <= value <= high
    if not inside or (open_low and value == low) or (open_high and value == high):
        upto = "to below" if open_high else "up to" if open_low else "to"
        span = f"{'above' if open_low else 'from'} {low:g} {upto} {high:g}"
        edge = low if value < low and not open_low else high if value > high and not open_high else None
        raise Refused(
            f"{owner}: {name} must lie {span}, not {told(value)}", edge if edge is None else f"{name}={edge:g}"
        )


def flag(owner: str, name: str, value: object) -> None:
    """Refuse `value` unless it is True or False."""
    if not isinstance(value, bool):
        raise Refused(f"{owner}: {name} must be True or False, not {told(value)}")


def kind(owner: str, name: str, value: object, wanted: type) -> None:
    """Refuse `value` unless it is an instance of `wanted`."""
    if not isinstance(value, wanted):
        raise Refused(f"{owner}: {name} must be a {wanted.__name__}, not {told(value)}")


def told(value: object) -> str:
    """How a refused value is printed; a number too long to read is only described."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"a number of {value.bit_length()} bits"
    try:
        return repr(value)
    except ValueError:  # of one that stands in a list
        return f"a {type(value).__name__} with a number too long to print"
