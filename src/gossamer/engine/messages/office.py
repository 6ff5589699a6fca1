"""One member's sockets: one hears everybody, one speaks to each peer, and a thread reads and watches them.

A connection that breaks is a peer that is gone: what was on its way may be lost, and nothing is said twice. It knows
pieces and peers, and nothing of what is said.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from gossamer.engine.lines import BYE, GOT, LOST, Said
from gossamer.engine.messages import sockets
from gossamer.engine.messages.card import Card
from gossamer.engine.messages.frame import Head, Realm, read
from gossamer.engine.messages.parcels import Parcels
from gossamer.engine.messages.peer import Peer
from gossamer.engine.messages.strangers import Strangers
from gossamer.parts.refusal import Refused

GREETING = 20.0  # seconds for all handshakes, on a busy machine too; a wrong key is heard of at once
GRACE = 0.5  # seconds after a connection broke in which a goodbye may still be read
GLANCE = 100  # milliseconds between two looks at a connection that broke
BURST = 64  # pieces read before anything else is looked at


class Office:
    """`deliver` is called by the reading thread with every message, and with LOST for a peer that is gone."""

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self.keys = zmq.curve_keypair()
        self.dropped: Counter[str] = Counter()  # pieces and callers that were turned away, by reason
        self._strangers = Strangers()
        self._gate = sockets.gatekeeper(self._context)
        self._router, self.address = sockets.listener(self._context, self.keys, address)
        self._failures = self._router.get_monitor_socket(sockets.FAILED)
        self.peers: dict[int, Peer] = {}
        self._parcels = Parcels()
        self._welcome: dict[bytes, int] = {}
        self._watched: dict[sockets.Socket, Peer] = {}
        self._coming: SimpleQueue[Peer] = SimpleQueue()
        self._changed = threading.Condition()
        self._closing = False
        self._bell, self._rope = os.pipe()
        self._poller = zmq.Poller()
        for source in (self._router, self._gate, self._failures, self._bell):
            self._poller.register(source, zmq.POLLIN)
        self._thread = threading.Thread(target=self._read, name="gossamer-messages", daemon=True)

    def listen(self, realm: Realm, cards: Mapping[int, Card], deliver: Callable[[Said], None]) -> None:
        """Begin to let in whoever holds the key of a card."""
        self.realm, self._deliver = realm, deliver
        self._cards, self._welcome = cards, {z85.decode(card.key): member for member, card in cards.items()}
        self._thread.start()

    def connect(self, member: int, cards: Mapping[int, Card]) -> None:
        """Meet every other member; refused, by name, unless all prove to be who their cards say."""
        for other in cards.keys() - {member}:
            peer = self.peers[other] = Peer(self._context, self.keys, cards[other], self.realm, member)
            self._coming.put(peer)
            peer.connect()
        self._ring()
        with self._changed:
            self._changed.wait_for(lambda: all(p.met or p.gone for p in self.peers.values()), GREETING)
        for peer in self.peers.values():
            if not peer.met:
                how = peer.gone or f"has not answered within {GREETING:g} s"
                raise Refused(f"messages: {peer.card.name} {how}", "--interface, if that is the wrong way to it")

    def close(self) -> None:
        """Let what was said leave, as far as anybody hears it, and end all connections; once is enough."""
        if self._context.closed:
            return
        self._closing = True
        if self._thread.is_alive():
            self._ring()
            self._thread.join()
        for peer in self.peers.values():
            peer.hang_up()
        self._router.disable_monitor()
        for socket in (self._failures, self._router, self._gate):
            socket.close()
        os.close(self._bell)
        os.close(self._rope)
        self._context.term()

    def _ring(self) -> None:
        os.write(self._rope, b".")

    def _read(self) -> None:
        try:
            while not self._closing:
                self._look()
        except BaseException as error:
            for peer in list(self.peers.values()):
                self._lose(peer, f"is not heard any more, for reading failed: {error!r}")
            raise

    def _look(self) -> None:
        """Wait until something happens, and see to it."""
        broken = [peer for peer in self._watched.values() if peer.broke is not None]
        happened = dict(self._poller.poll(GLANCE if broken else None))
        if self._bell in happened:
            os.read(self._bell, 512)
            self._adopt()
        if self._gate in happened:
            self._let_in()
        if self._failures in happened:
            self._failures.recv_multipart()
            self.dropped["no handshake"] += 1
        for watch in happened.keys() & self._watched.keys():
            self._see(self._watched[watch], parse_monitor_message(watch.recv_multipart())["event"])
        if self._router in happened:
            self._drain()
        for peer in broken:
            if time.monotonic() - (peer.broke or 0.0) > GRACE:
                self._lose(peer, "has left" if peer.parted else "is gone: its connection broke without a goodbye")

    def _adopt(self) -> None:
        with suppress(Empty):
            while True:
                peer = self._coming.get_nowait()
                self._watched[peer.watch] = peer
                self._poller.register(peer.watch, zmq.POLLIN)

    def _let_in(self) -> None:
        """Answer libzmq (ZAP 1.0): a caller whose key is on a card of this job gets in, under its member's number."""
        version, request, _, address, _, mechanism, *credentials = self._gate.recv_multipart()
        member = self._welcome.get(credentials[0]) if mechanism == b"CURVE" and credentials else None
        if member is None:
            self.dropped["unknown key"] += 1
            self._strangers.turned_away(f"a caller at {address.decode(errors='replace')}", "unknown key")
        word = (b"400", b"unknown key", b"") if member is None else (b"200", b"", str(member).encode())
        self._gate.send_multipart([version, request, *word, b""])

    def _see(self, peer: Peer, event: int) -> None:
        with self._changed:
            if event == sockets.BEGUN:
                peer.met = True
            elif event == sockets.ENDED and peer.met:
                peer.broke = time.monotonic()
            elif event & sockets.FAILED and not peer.met:
                peer.gone = "does not hold the key on its card, or does not know this member's"
            self._changed.notify_all()

    def _drain(self) -> None:
        for _ in range(BURST):
            try:
                self._hear(self._router.recv(zmq.NOBLOCK, copy=False))
            except zmq.Again:
                return

    def _hear(self, first: zmq.Frame) -> None:
        """Read one piece straight to where it belongs; what follows a header that is dropped is not looked at."""
        head = read(self.realm, self._router.recv(copy=False).buffer) if first.more else "no header"
        if isinstance(head, str):
            self._strangers.turned_away(self._cards[int(first.get("User-Id"))].name, head)
        if isinstance(head, Head) and str(head.sender) != first.get("User-Id"):
            head = "another's name"
        room = self._parcels.room(head) if isinstance(head, Head) else None
        if room is None or not self._router.get(zmq.RCVMORE):
            self._drop(head if isinstance(head, str) else "out of order")
            return
        assert isinstance(head, Head)
        came = self._router.recv_into(room) if len(room) else len(self._router.recv())
        if came != head.piece or self._router.get(zmq.RCVMORE):
            self._parcels.drop(head.sender)
            self._drop("another length")
            return
        said = self._parcels.filled(head)
        if said is not None:
            self._pass_on(said)

    def _drop(self, reason: str) -> None:
        self.dropped[reason] += 1
        while self._router.get(zmq.RCVMORE):
            self._router.recv(copy=False)

    def _pass_on(self, said: Said) -> None:
        peer = self.peers.get(said.sender)
        if peer is not None and said.kind == LOST:
            self._lose(peer, "does not hear this member any more")
        elif peer is not None and said.kind == GOT:
            peer.left(said.numbers[0])
        elif said.kind not in (LOST, GOT):
            if peer is not None:
                peer.parted |= said.kind == BYE
            self._deliver(said)

    def _lose(self, peer: Peer, how: str) -> None:
        """A peer is gone: who asks it hears so, and nobody else."""
        if self._watched.pop(peer.watch, None) is None:  # known already
            return
        self._poller.unregister(peer.watch)
        peer.lose(how)
        self._parcels.drop(peer.card.member)
        self._deliver(Said(peer.card.member, LOST, why=peer.told))
