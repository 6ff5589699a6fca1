"""Headers and pieces: what was written is read, anything else is dropped for a reason and costs no memory."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gossamer.engine.lines import DTYPES, KINDS, PUSH
from gossamer.engine.messages.frame import HEADER, NO_BODY, PIECE, Head, Realm, job_of, read, written
from gossamer.engine.messages.parcels import Parcels

REALM = Realm(job_of(b"s" * 32, "job"), 3, 4, 4 * PIECE)
HEAD = Head(1, PUSH, 2, 0, 5, 3 * PIECE, PIECE, (1, -2, 3, 0))


@given(
    st.sampled_from(KINDS), st.integers(0, 3), st.integers(0, PIECE), st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 4)
)
def test_what_is_written_is_read(kind: int, sender: int, count: int, numbers: tuple[int, int, int, int]) -> None:
    head = Head(sender, kind, 7, 0, 9, 4 * count, 0, numbers)
    assert read(REALM, written(REALM, head)) == head


@pytest.mark.parametrize(
    ("realm", "head", "reason"),
    [
        (replace(REALM, job=job_of(b"t" * 32, "job")), HEAD, "another job"),
        (replace(REALM, job=job_of(b"s" * 32, "jobs")), HEAD, "another job"),
        (replace(REALM, generation=2), HEAD, "another generation"),
        (REALM, replace(HEAD, length=5 * PIECE), "too large"),
        (REALM, replace(HEAD, length=2**63), "too large"),
        (REALM, replace(HEAD, sender=4), "nonsense"),
        (REALM, replace(HEAD, kind=16), "nonsense"),
        (REALM, replace(HEAD, dtype=len(DTYPES)), "nonsense"),
        (REALM, replace(HEAD, dtype=NO_BODY), "nonsense"),
        (REALM, replace(HEAD, length=3), "nonsense"),
        (REALM, replace(HEAD, offset=1), "nonsense"),
        (REALM, replace(HEAD, offset=3 * PIECE), "nonsense"),
    ],
)
def test_what_does_not_belong_here_is_dropped(realm: Realm, head: Head, reason: str) -> None:
    assert read(REALM, written(realm, head)) == reason


def test_another_version_is_told_apart() -> None:
    data = bytearray(written(REALM, HEAD))
    data[4] += 1
    assert read(REALM, bytes(data)) == "another version"


@given(st.binary(max_size=2 * HEADER) | st.binary(min_size=HEADER, max_size=HEADER))
def test_random_bytes_are_no_header(data: bytes) -> None:
    assert isinstance(read(REALM, data), str)


@given(st.binary(min_size=HEADER - 28, max_size=HEADER - 28))
def test_with_the_right_beginning_nothing_goes_beyond_the_limit(rest: bytes) -> None:
    head = read(REALM, written(REALM, HEAD)[:28] + rest)
    if isinstance(head, Head):
        assert head.length <= REALM.limit and 0 <= head.piece <= PIECE and head.sender < REALM.size
        tracemalloc.start()
        Parcels().room(head)
        assert tracemalloc.get_traced_memory()[1] <= REALM.limit + 4096
        tracemalloc.stop()


def play(parcels: Parcels, body: torch.Tensor, serial: int) -> torch.Tensor | None:
    data, said = memoryview(body.numpy().tobytes()), None
    for offset in range(0, len(data), PIECE):
        head = Head(1, PUSH, 0, 0, serial, len(data), offset, (0, 0, 0, 0))
        room = parcels.room(head)
        assert room is not None
        room[:] = data[offset : offset + PIECE]
        said = parcels.filled(head)
    return said.body if said is not None else None


def test_pieces_become_the_body_in_memory_that_is_used_again() -> None:
    parcels, places = Parcels(), set()
    body = torch.arange(200_000, dtype=torch.float32)
    for serial in range(10):
        heard = play(parcels, body, serial)
        assert heard is not None and torch.equal(heard, body)
        places.add(heard.data_ptr())
        del heard
    assert len(places) == 1
    held = [play(parcels, body + serial, serial) for serial in range(10, 14)]  # nobody writes on what is held
    assert all(torch.equal(one, body + serial) for serial, one in enumerate(held, 10) if one is not None)
    view = held[0][7:9]  # type: ignore[index]
    del held
    play(parcels, body, 20), play(parcels, body, 21), play(parcels, body, 22), play(parcels, body, 23)
    assert view.tolist() == [17.0, 18.0]


def test_a_piece_that_does_not_follow_is_not_taken() -> None:
    parcels = Parcels()
    first = replace(HEAD, offset=0)
    assert parcels.room(HEAD) is None  # nothing was begun
    assert parcels.room(first) is not None
    parcels.filled(first)
    assert parcels.room(replace(HEAD, serial=6)) is None
    assert parcels.room(first) is not None
    parcels.filled(first)
    assert parcels.room(replace(HEAD, offset=2 * PIECE)) is None
    assert struct.calcsize("<4sBBBx16sIIIIQQQ4q") == HEADER
