"""How an all-reduce travels: schedules as data."""

from gossamer.parts.route.routes import Auto, Native, Ring, Torus
from gossamer.parts.route.schedule import Move, Route, counted, span

__all__ = ["Auto", "Move", "Native", "Ring", "Route", "Torus", "counted", "span"]
