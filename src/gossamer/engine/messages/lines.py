"""Asks and replies over the messages fabric: keyed, between members of any hosts; one's death is not another's."""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty, SimpleQueue

from torch import Tensor
from torch.distributed.distributed_c10d import Store

from gossamer.engine.lines import LOST, REPLIES, Said, padded
from gossamer.engine.messages.card import Card, Meeting
from gossamer.engine.messages.frame import Realm, job_of
from gossamer.engine.messages.here import Here
from gossamer.engine.messages.office import Office

PATIENCE = 1800.0  # seconds for a reply of a member that lives


class Messages:
    """One member's lines to all others of one generation of a job."""

    name: str | None = "keyed messages"
    survives = True

    def __init__(self, office: Office, member: int, size: int, servers: int = 0, host: int = 0) -> None:
        self.member, self.size, self.office, self._host = member, size, office, host
        self.servers: Sequence[int] = range(size - servers, size)
        self._asks: SimpleQueue[Said] = SimpleQueue()
        self._replies: list[SimpleQueue[Said]] = [SimpleQueue() for _ in range(size)]

    @classmethod
    def open(
        cls, store: Store, job: str, member: int, size: int, limit: int, here: Here | None = None, servers: int = 0
    ) -> Messages:
        """Meet the other members through the store; all call it alike. No body may have more than `limit` bytes.

        The last of them, as many as there are `servers`, keep hubs and do nothing else.
        """
        here = here or Here.found(size)
        secret = here.secret(store, job, member, size)
        meeting = Meeting(store, secret, job, here.generation, size)
        office = Office(here.address)
        try:
            lines = cls(office, member, size, servers, here.host)
            meeting.lay_down(Card(member, here.host, office.address, office.keys[0].decode()))
            cards = meeting.pick_up()
            office.listen(Realm(job_of(secret, job), here.generation, size, limit), cards, lines._sort)
            meeting.ready(member)
            office.connect(member, cards)
        except BaseException:
            office.close()
            raise
        return lines

    def far(self, member: int) -> bool:
        """Whether its card names another host."""
        return member != self.member and self.office.peers[member].card.host != self._host

    def gone(self, member: int) -> bool:
        """Whether its connection has broken, or it said goodbye."""
        peer = self.office.peers[member]
        return bool(peer.gone) or peer.parted

    def serve(self, unheard: int) -> None:
        """A service begins; replies are kept by the office until they have left."""

    def ask(self, member: int, kind: int, slot: int = 0, *numbers: int, body: Tensor | None = None) -> None:
        """Say something to a member's service; on return the body is the caller's again.

        Waits while the service has not taken up what was asked before: nobody fills another's memory.
        """
        peer = self.office.peers[member]
        peer.enter()
        peer.wait(peer.send(kind, slot, padded(numbers), body))

    def heard(self, member: int) -> Said:
        """The next reply of a member; waits, and raises MemberLost when there will be none."""
        try:
            said = self._replies[member].get(timeout=PATIENCE)
        except Empty:
            raise TimeoutError(f"member {member} is there, but has not replied within {PATIENCE:.0f} s") from None
        if said.kind == LOST:
            self._replies[member].put(said)  # for whoever asks next
            self.office.peers[member].check()
        return said

    def asked(self) -> Said:
        """The next thing that anybody asks; waits."""
        said = self._asks.get()
        if said.kind != LOST:
            self.office.peers[said.sender].take()
        return said

    def reply(self, member: int, kind: int, slot: int = 0, *numbers: int, body: Tensor | None = None) -> None:
        """Begin to answer; never waits, so the body must stay as it is."""
        self.office.peers[member].send(kind, slot, padded(numbers), body)

    def rest(self) -> None:
        """The service is over; what was said leaves by itself, at the latest when the office closes."""

    def close(self) -> None:
        """Nobody asks or hears any more."""
        self.office.close()

    def end(self) -> None:
        """Nothing is left."""

    def _sort(self, said: Said) -> None:
        """Called by the reading thread."""
        if said.kind in REPLIES or said.kind == LOST:
            self._replies[said.sender].put(said)
        if said.kind not in REPLIES:
            self._asks.put(said)
