"""Another member, as this one knows it: a socket to speak to it, whether it was met, and whether it is gone.

Any thread may speak, one at a time; only the one that watches says that it is gone. It knows nothing of what is said.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
import zmq
import zmq.utils.garbage  # now, not at the first send: its exit handler, which frees lent memory, must run after ours
from torch import Tensor

from gossamer.engine.lines import GOT, LOST, Numbers, number_of
from gossamer.engine.lost import MemberLost
from gossamer.engine.messages import sockets
from gossamer.engine.messages.card import Card
from gossamer.engine.messages.frame import NO_BODY, PIECE, Head, Realm, written

NAP = 0.2  # seconds between two looks at whether a peer is still there
UNTAKEN = 4  # asks that may wait for a peer's service; who has more to ask waits itself


class Peer:
    """One line to one member, of which `me` makes use."""

    def __init__(self, context: zmq.Context[Any], keys: tuple[bytes, bytes], card: Card, realm: Realm, me: int) -> None:
        self.card, self._realm, self._me = card, realm, me
        self._speaker: Callable[[], sockets.Socket] = lambda: sockets.speaker(
            context, keys, card.key.encode(), card.address
        )
        self._socket = self._speaker()
        self.watch = self._socket.get_monitor_socket(sockets.BEGUN | sockets.FAILED | sockets.ENDED)
        self.met = False
        self.gone: str | None = None  # how, once it is
        self.broke: float | None = None  # when its connection did
        self.parted = False  # its last word was a goodbye
        self._serial = 0
        self._room = threading.Semaphore(UNTAKEN)
        self._taken = 0  # asks of its that were taken up here, and not yet told
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Begin to meet it."""
        self._socket.connect(self.card.address)

    def send(self, kind: int, slot: int, numbers: Numbers, body: Tensor | None) -> zmq.MessageTracker:
        """Let a message leave in pieces; never waits. The body's memory is lent until the tracker is done."""
        dtype = NO_BODY if body is None else number_of(body.dtype)
        data, lent = _bytes_of(body), []
        if len(data) > self._realm.limit:
            raise ValueError(f"a body of {len(data)} bytes; {self.card.name} hears up to {self._realm.limit}")
        with self._lock:
            self.check()
            self._serial += 1
            for offset in range(0, max(1, len(data)), PIECE):
                head = Head(self._me, kind, slot, dtype, self._serial, len(data), offset, numbers)
                self._socket.send(written(self._realm, head), zmq.SNDMORE)
                lent.append(self._socket.send(data[offset : offset + PIECE], copy=False, track=True))
        return zmq.MessageTracker(*lent)  # all of them: a short last piece is copied, and done before the others are

    def enter(self) -> None:
        """Wait until one more ask may go to its service, which has taken up enough of those before."""
        self.check()
        while not self._room.acquire(timeout=NAP):
            self.check()

    def left(self, count: int) -> None:
        """It has taken up so many asks of this member."""
        if 0 < count <= UNTAKEN:
            self._room.release(count)

    def take(self) -> None:
        """This member's service has taken up an ask of it, which is told now and then."""
        self._taken += 1
        if 2 * self._taken >= UNTAKEN:
            count, self._taken = self._taken, 0
            with suppress(MemberLost):  # who is gone asks no more
                self.send(GOT, 0, (count, 0, 0, 0), None)

    def wait(self, tracker: zmq.MessageTracker) -> None:
        """Wait until memory that was lent is free again."""
        while not tracker.done:
            with suppress(zmq.NotDone):
                tracker.wait(NAP)
                return
            self.check()

    def check(self) -> None:
        """Raise MemberLost if it is gone."""
        if self.gone:
            raise MemberLost(self.told, [self.card.member])

    @property
    def told(self) -> str:
        """Who is gone, and how."""
        return f"{self.card.name} {self.gone}"

    def lose(self, how: str) -> None:
        """It is gone: nothing more is sent. Unless it said goodbye it is told, should it live after all.

        On a connection of its own, as what the old one still held may have been written over by now.
        """
        self.gone, self.broke = self.gone or how, None
        self.hang_up(0)
        if not self.parted:
            socket = self._speaker()
            socket.connect(self.card.address)
            head = Head(self._me, LOST, 0, NO_BODY, 0, 0, 0, (0, 0, 0, 0))
            socket.send_multipart([written(self._realm, head), b""])
            socket.close(sockets.LINGER)

    def hang_up(self, linger: int = sockets.LINGER) -> None:
        """End the connection; what was said may leave for so many milliseconds."""
        with self._lock:
            if not self._socket.closed:
                self._socket.disable_monitor()
                self.watch.close()
                self._socket.close(linger)


def _bytes_of(body: Tensor | None) -> memoryview:
    """A body's memory, as it lies."""
    return memoryview(b"") if body is None or not body.numel() else body.view(torch.uint8).numpy().data
