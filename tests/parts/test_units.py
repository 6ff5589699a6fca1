"""Units as people write them, and as they are told."""

from __future__ import annotations

import math

import pytest

from gossamer.parts import units
from gossamer.parts.refusal import Refused


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [
        ("1Gbit", 125e6),
        ("100Mbit/s", 12.5e6),
        ("10Gbps", 1.25e9),
        ("10 Gb/s", 1.25e9),
        ("125MB/s", 125e6),
        ("1GB", 1e9),
        ("1MiB/s", 1048576.0),
        ("8bit/s", 1.0),
        ("125e6B/s", 125e6),
        ("2.5kbit", 312.5),
    ],
)
def test_rates(text: str, bytes_per_second: float) -> None:
    assert units.rate(text) == bytes_per_second


@pytest.mark.parametrize("text", ["fast", "", "10", "125e6", "1parsec", "Gbit", "1Gbit/h", "1 2", "0x10", "1e", "--3"])
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(Refused, match="link"):
        units.rate(text)


@pytest.mark.parametrize(
    ("text", "count"), [("100MB", 10**8), ("1GiB", 2**30), ("4e6", 4 * 10**6), ("1kB", 1000), ("7", 7), ("12B", 12)]
)
def test_bytes(text: str, count: int) -> None:
    assert units.nbytes(text) == count


@pytest.mark.parametrize("text", ["nan", "inf", "1zb", "many", "1Gbit"])
def test_bytes_that_are_none(text: str) -> None:
    with pytest.raises(Refused, match="bytes"):
        units.nbytes(text)


@pytest.mark.parametrize(
    ("text", "span"), [("0.01", 0.01), ("10ms", 0.01), ("100us", 1e-4), ("2s", 2.0), ("3µs", 3e-6)]
)
def test_seconds(text: str, span: float) -> None:
    assert units.seconds("compute", text) == span


def test_not_a_number_is_left_to_the_part_that_owns_it() -> None:
    assert math.isnan(units.rate("nan"))
    assert math.isnan(units.seconds("latency", "nan"))


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (999.9, "1 kB"), (175e6, "175 MB"), (1.25e9, "1.25 GB"), (2e18, "2e+03 PB")],
)
def test_told_bytes(count: float, words: str) -> None:
    assert units.told_bytes(count) == words


@pytest.mark.parametrize(
    ("span", "words"), [(0, "0 s"), (12.345, "12.3 s"), (0.45, "450 ms"), (8e-5, "80 µs"), (3600, "3600 s")]
)
def test_told_seconds(span: float, words: str) -> None:
    assert units.told_seconds(span) == words


def test_told_rate_is_in_bits() -> None:
    assert units.told_rate(125e6) == "1 Gbit/s"


def test_long_spans_are_told_in_the_unit_that_suits() -> None:
    spans = {
        0.0: "0 s",
        0.05: "50 ms",
        119.0: "119 s",
        120.0: "2 min",
        7100.0: "118 min",
        7200.0: "2 h",
        3e5: "3.47 days",
    }
    assert {span: units.told_span(span) for span in spans} == spans
    assert units.told_span(1e9) == "11,574 days"
