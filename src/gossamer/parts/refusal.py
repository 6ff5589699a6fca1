"""How a part says no: the reason and the nearest legal choice. Knows no part in particular."""

from __future__ import annotations

import math

ABSURD = 10**12  # no count in this field comes near it; a larger one is a typing mistake


class Refused(ValueError):
    """A value or combination that cannot work, with the reason and the nearest one that can."""

    def __init__(self, reason: str, nearest: str | None = None) -> None:
        self.reason = reason
        self.nearest = nearest
        super().__init__(reason if nearest is None else f"{reason}; nearest that works: {nearest}")


def whole(owner: str, name: str, value: object, least: int = 1, most: int = ABSURD) -> None:
    """Refuse `value` unless it is an integer in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"{owner}: {name} must be a whole number, not {value!r}", f"{name}={least}")
    if not least <= value <= most:
        edge = least if value < least else most
        raise Refused(f"{owner}: {name} must be from {least} to {most}, not {value}", f"{name}={edge}")


def real(
    owner: str,
    name: str,
    value: object,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Refuse `value` unless it is a finite number between low and high; an open end excludes the edge."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{owner}: {name} must be a number, not {value!r}")
    inside = math.isfinite(value) and low <= value <= high
    if not inside or (open_low and value == low) or (open_high and value == high):
        span = f"{'above' if open_low else 'from'} {low:g} {'to below' if open_high else 'to'} {high:g}"
        raise Refused(f"{owner}: {name} must lie {span}, not {value!r}")


def flag(owner: str, name: str, value: object) -> None:
    """Refuse `value` unless it is True or False."""
    if not isinstance(value, bool):
        raise Refused(f"{owner}: {name} must be True or False, not {value!r}")


def kind(owner: str, name: str, value: object, wanted: type) -> None:
    """Refuse `value` unless it is an instance of `wanted`."""
    if not isinstance(value, wanted):
        raise Refused(f"{owner}: {name} must be a {wanted.__name__}, not {value!r}")
