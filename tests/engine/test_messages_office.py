"""Members that meet over real sockets: what is said arrives, strangers do not get in, and nonsense harms nobody."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import zmq
from msgspec import structs

from gossamer.engine.lines import ANSWER, BYE, DTYPES, LOST, PUSH, TELL, Said
from gossamer.engine.lost import MemberLost
from gossamer.engine.messages import card, office, secret, sockets
from gossamer.engine.messages.frame import HEADER, PIECE, VERSION, Head, written
from gossamer.engine.messages.here import Here
from gossamer.engine.messages.lines import Messages
from gossamer.engine.messages.peer import UNTAKEN
from gossamer.parts.refusal import Refused

LIMIT = 4 << 20


@pytest.fixture
def meet(tmp_path: Path) -> Iterator[Callable[..., list[Messages]]]:
    """Opens the lines of several members at once; they are closed in the end."""
    secret.made(tmp_path / "key")
    opened: list[Messages] = []

    def open_(size: int, keys: dict[int, Path] | None = None, **how: int) -> list[Messages]:
        store = dist.HashStore()  # type: ignore[attr-defined]
        here = Here(0, "127.0.0.1", how.get("generation", 0), str(tmp_path / "key"))

        def one(member: int) -> Messages:
            mine = replace(here, host=member, key_file=str((keys or {}).get(member, tmp_path / "key")))
            opened.append(Messages.open(store, "job", member, size, LIMIT, mine))
            return next(lines for lines in opened if lines.member == member)

        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(one, range(size)))

    yield open_
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Messages.close, opened))


def until(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether something comes true in time."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


class Intruder:
    """A socket of one's own to a member's door, with any pair of keys."""

    def __init__(self, to: Messages, keys: tuple[bytes, bytes], server: bytes | None = None) -> None:
        self._context = zmq.Context()
        address = to.office.address
        self.socket = sockets.speaker(self._context, keys, server or to.office.keys[0], address)
        self.socket.connect(address)

    def __enter__(self) -> sockets.Socket:
        return self.socket

    def __exit__(self, *_: object) -> None:
        self.socket.close(0)
        self._context.term()


@pytest.mark.parametrize("length", [0, 1, PIECE // 4, 15 * PIECE // 4 + 1, 1_000_000])
def test_a_tensor_goes_there_and_back(meet: Callable[..., list[Messages]], length: int) -> None:
    zero, one = meet(2)
    body = torch.randn(length)
    kept = body.clone()
    zero.ask(1, PUSH, 3, 7, -8, body=body)
    body.fill_(-1.0)  # it is ours again
    asked = one.asked()
    assert (asked.sender, asked.kind, asked.slot, asked.numbers) == (0, PUSH, 3, (7, -8, 0, 0))
    assert asked.body is not None and torch.equal(asked.body, kept)
    one.reply(0, ANSWER, 3, 1, body=asked.body * 2)
    heard = zero.heard(1)
    assert heard.body is not None and torch.equal(heard.body, kept * 2)
    assert not zero.office.dropped and not one.office.dropped


def test_every_type_of_number_travels(meet: Callable[..., list[Messages]]) -> None:
    zero, one = meet(2)
    for dtype in DTYPES:
        body = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0]).to(dtype)
        zero.ask(1, TELL, body=body)
        heard = one.asked().body
        assert heard is not None and heard.dtype is dtype and heard.view(torch.uint8).equal(body.view(torch.uint8))


def test_what_nobody_would_hear_is_not_sent(meet: Callable[..., list[Messages]]) -> None:
    zero, _ = meet(2)
    with pytest.raises(ValueError, match=rf"{LIMIT + 4} bytes; member 1 .* hears up to {LIMIT}"):
        zero.ask(1, PUSH, body=torch.zeros(LIMIT // 4 + 1))


def test_many_speak_to_one_at_once(meet: Callable[..., list[Messages]]) -> None:
    lines = meet(4)

    def speak(member: int) -> None:
        for n in range(20):
            lines[member].ask(0, PUSH, n, body=torch.full((100_000,), float(member * 100 + n)))

    with ThreadPoolExecutor(3) as pool:
        said = pool.map(speak, [1, 2, 3])
        due = {1: 0, 2: 0, 3: 0}
        for _ in range(60):
            asked = lines[0].asked()
            assert asked.body is not None and asked.slot == due[asked.sender]
            assert asked.body.eq(asked.sender * 100 + asked.slot).all()
            due[asked.sender] += 1
        assert list(said) == [None] * 3


def test_who_asks_a_slow_service_waits_until_it_has_taken_up_what_was_asked(
    meet: Callable[..., list[Messages]],
) -> None:
    zero, one = meet(2)
    asked: list[int] = []

    def ask(count: int) -> None:
        for n in range(count):
            zero.ask(1, TELL, n, body=torch.full((100_000,), float(n)))
            asked.append(n)

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, 30)
        assert until(lambda: len(asked) == UNTAKEN)
        assert not until(lambda: len(asked) > UNTAKEN, 0.5)  # nothing more leaves before something is taken up
        for n in range(30):
            said = one.asked()
            assert said.slot == n and said.body is not None and said.body.eq(n).all()
            assert len(asked) <= n + 1 + UNTAKEN
        asking.result(10.0)
        waiting = pool.submit(ask, 30)
        assert until(lambda: len(asked) >= 30 + UNTAKEN - 1)
        one.ask(0, TELL, 9)  # who is not served is still heard
        assert zero.asked().slot == 9
        one.close()
        with pytest.raises(MemberLost, match=r"member 1 .* is gone"):
            waiting.result(10.0)


def test_another_secret_is_named(meet: Callable[..., list[Messages]], tmp_path: Path) -> None:
    secret.made(tmp_path / "wrong")
    began = time.monotonic()
    with pytest.raises(Refused, match=r"member \d \(host \d, 127.0.0.1:\d+\) does not hold this job's key.*--key-file"):
        meet(2, {1: tmp_path / "wrong"})
    assert time.monotonic() - began < 5.0


def test_a_store_that_lies_is_not_believed() -> None:
    meeting = card.Meeting(dist.HashStore(), b"s" * 32, "job", 0, 1)  # type: ignore[attr-defined]
    mine = card.Card(0, 0, "tcp://127.0.0.1:5", "k" * 40)
    meeting.lay_down(mine)
    assert replace_seal(meeting.pick_up()[0]) == mine
    told = meeting._store.get("messages/job/0/0").decode()
    for lie in (told.replace(":5", ":6"), told.replace("kkk", "jjj"), told.replace('"host":0', '"host":1'),
                told.replace('"seal":"', '"seal":"é'), "{", "[]", "x" * 5000):  # fmt: skip
        meeting._store.set("messages/job/0/0", lie)
        with pytest.raises(Refused, match=r"does not hold this job's key|no card that can be read"):
            meeting.pick_up()
    for other in (
        card.Meeting(meeting._store, b"s" * 32, "job", 1, 1),
        card.Meeting(meeting._store, b"s" * 32, "jobs", 0, 1),
    ):
        assert other.seal(mine) != meeting.seal(mine)


def test_a_card_of_another_version_or_job_is_refused_and_its_member_named() -> None:
    meeting = card.Meeting(dist.HashStore(), b"s" * 32, "job", 0, 2)  # type: ignore[attr-defined]
    store, first = meeting._store, card.Card(0, 0, "tcp://10.0.0.1:5", "k" * 40)
    other = card.Card(1, 1, "tcp://10.0.0.2:7", "j" * 40)
    name = r"messages: member 1 \(host 1, 10\.0\.0\.2:7\) "
    meeting.lay_down(first)
    meeting.lay_down(structs.replace(other, version=VERSION + 1))
    with pytest.raises(
        Refused, match=rf"{name}speaks version {VERSION + 1} of the messages, here it is {VERSION}; .*the"
    ):
        meeting.pick_up()
    for scope in (("another", 0, 2), ("job", 1, 2), ("job", 0, 3)):  # the name, the attempt, the number of members
        store.delete_key("messages/job/0/1")
        card.Meeting(store, b"s" * 32, *scope).lay_down(other)
        strange = store.get(f"messages/{scope[0]}/{scope[1]}/1").decode()
        store.set("messages/job/0/1", strange)
        with pytest.raises(Refused, match=rf"{name}does not hold this job's key, or is of another job; nearest"):
            meeting.pick_up()


def replace_seal(given: card.Card) -> card.Card:
    return card.Card(given.member, given.host, given.address, given.key)


def test_who_answers_with_another_key_is_named_and_nobody_hangs(
    meet: Callable[..., list[Messages]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener at an address is not the one on the card, as if somebody else had taken its port."""
    impostor = sockets.listener

    def with_other_keys(context: zmq.Context[bytes], keys: tuple[bytes, bytes], address: str) -> object:
        return impostor(context, zmq.curve_keypair(), address)  # type: ignore[arg-type]

    monkeypatch.setattr(office.sockets, "listener", with_other_keys)
    close, ended = office.Office.close, list[office.Office]()
    monkeypatch.setattr(
        office.Office, "close", lambda self: ended.append(self)
    )  # the second to knock finds the first still there
    began = time.monotonic()
    with pytest.raises(Refused, match=r"member \d \(host \d.*does not hold the key on its card"):
        meet(2)
    assert time.monotonic() - began < office.GREETING
    for one in ended:
        close(one)


def test_strangers_do_not_get_in(meet: Callable[..., list[Messages]], capfd: pytest.CaptureFixture[str]) -> None:
    zero, one = meet(2)
    with Intruder(zero, zmq.curve_keypair()) as stranger:  # type: ignore[arg-type]
        stranger.send_multipart([b"x" * HEADER, b"body"])
        assert until(lambda: zero.office.dropped["unknown key"] > 0)
    with Intruder(zero, one.office.keys, zmq.curve_keypair()[0]) as confused:
        confused.send(b"hello")
        assert until(lambda: zero.office.dropped["no handshake"] > 0)
    host, _, port = zero.office.address.removeprefix("tcp://").rpartition(":")
    chance = random.Random(1)
    for _ in range(20):
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(chance.randbytes(chance.randrange(1, 5000)))
    one.ask(0, TELL, 9)
    assert zero.asked().slot == 9
    assert set(zero.office.dropped) <= {"unknown key", "no handshake"}
    line = "gossamer: messages: a caller at 127.0.0.1 does not hold a key of this job, and is not let in\n"
    assert capfd.readouterr().err == line  # once, however often it knocks


def test_a_members_own_nonsense_is_dropped_for_its_reason(
    meet: Callable[..., list[Messages]], capfd: pytest.CaptureFixture[str]
) -> None:
    zero, one, _ = meet(3)
    realm, chance = zero.office.realm, random.Random(2)
    head = Head(1, PUSH, 0, 0, 1, 8, 0, (0, 0, 0, 0))
    cases = {
        "another job": [written(replace(realm, job=b"j" * 16), head), b"x" * 8],
        "another generation": [written(replace(realm, generation=5), head), b"x" * 8],
        "too large": [written(realm, replace(head, length=LIMIT + 4)), b"x" * PIECE],
        "another's name": [written(realm, replace(head, sender=2)), b"x" * 8],
        "another length": [written(realm, head), b"x" * 7],
        "out of order": [written(realm, head)],
        "no header": [b"x"],
        "another version": [_aged(written(realm, head)), b"x" * 8],
        "nonsense": [written(realm, replace(head, kind=99)), b"x" * 8],
    }
    with Intruder(zero, one.office.keys) as insider:
        for reason, parts in cases.items():
            insider.send_multipart(parts)
            assert until(lambda reason=reason: zero.office.dropped[reason] == 1), reason  # type: ignore[misc]
        insider.send_multipart([written(realm, head), b"x" * 8, b"more"])
        assert until(lambda: zero.office.dropped["another length"] == 2)
        for _ in range(300):
            insider.send_multipart(
                [chance.randbytes(chance.choice([0, 1, HEADER, 300])) for _ in range(chance.randrange(1, 5))]
            )
        assert until(lambda: zero.office.dropped["no header"] == 301)
        insider.send(b"x" * (2 * PIECE))  # beyond what libzmq takes: it hangs up
        insider.send_multipart([written(realm, head), b"x" * 8])
    one.ask(0, TELL, 9, body=torch.ones(100_000))
    asked = zero.asked()
    assert asked.slot == 9 and asked.body is not None and asked.body.sum() == 100_000
    who = f"gossamer: messages: {one_of(zero, 1)} speaks"
    assert capfd.readouterr().err.splitlines() == [
        f"{who} of another job, and is not heard",
        f"{who} of another attempt at this job, and is not heard",
        f"{who} another version of the messages, and is not heard; install the same gossamer everywhere",
    ]


def _aged(header: bytes) -> bytes:
    """A header of the next version."""
    return header[:4] + bytes([VERSION + 1]) + header[5:]


def test_who_says_goodbye_has_left_and_is_not_mourned(meet: Callable[..., list[Messages]]) -> None:
    zero, one = meet(2)
    one.ask(0, BYE)
    assert zero.asked().kind == BYE
    one.close()
    assert zero.asked().kind == LOST
    with pytest.raises(RuntimeError, match=r"member 1 .* has left"):
        zero.ask(1, TELL)
    with pytest.raises(RuntimeError, match=r"member 1 .* has left"):
        zero.heard(1)


def test_a_connection_that_broke_on_one_side_is_over_on_both(meet: Callable[..., list[Messages]]) -> None:
    zero, one, two = meet(3)
    zero.office._see(zero.office.peers[1], sockets.ENDED)
    zero.office._ring()
    assert zero.asked() == Said(1, LOST, why=one_of(zero, 1) + " is gone: its connection broke without a goodbye")
    assert one.asked() == Said(0, LOST, why=one_of(one, 0) + " does not hear this member any more")
    for lines, other in ((zero, 1), (one, 0)):
        with pytest.raises(MemberLost, match=rf"member {other} \(host {other}, ") as lost:
            lines.ask(other, TELL)
        assert lost.value.members == (other,)
        lines.ask(2, TELL, other)
    assert {two.asked().slot, two.asked().slot} == {0, 1}


def one_of(lines: Messages, member: int) -> str:
    return lines.office.peers[member].card.name
