"""Namespaced hosts: several hosts with links of a chosen rate, on one machine. Knows no strategy and no torch."""

from __future__ import annotations

from gossamer.lab.lab import Lab
from gossamer.lab.meter import Disagreement
from gossamer.lab.rate import bits_per_second
from gossamer.lab.tools import missing
from gossamer.lab.wiring import Host, Traffic

__all__ = ["Disagreement", "Host", "Lab", "Traffic", "bits_per_second", "missing"]
