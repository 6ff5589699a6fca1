"""A member's card: where it listens and by which key, sealed by the job secret, so that a store can be lied to in vain.

Only public keys go through the store. Who hears a card checks its seal before it believes a word of it.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

import msgspec
from torch.distributed.distributed_c10d import Store

from gossamer.engine.messages.frame import VERSION
from gossamer.parts.refusal import Refused

LONGEST = 1024  # bytes of a card
PATIENCE = 60.0  # seconds for all cards to come


class Card(msgspec.Struct, frozen=True):
    """Who, on which host, listens where, by which public key (Z85)."""

    member: int
    host: int
    address: str
    key: str
    version: int = VERSION
    seal: str = ""

    @property
    def name(self) -> str:
        """How the member is named to a reader."""
        return f"member {self.member} (host {self.host}, {self.address.removeprefix('tcp://')})"


class Meeting:
    """Where the members of one generation of one job lay down their cards and pick up the others'."""

    def __init__(self, store: Store, secret: bytes, job: str, generation: int, size: int) -> None:
        self._store, self._secret, self._size = store, secret, size
        self._scope = (job, generation, size)
        self._prefix = f"messages/{job}/{generation}"

    def lay_down(self, card: Card) -> None:
        """Tell the others where this member listens."""
        sealed = msgspec.structs.replace(card, seal=self.seal(card))
        self._store.set(f"{self._prefix}/{card.member}", msgspec.json.encode(sealed).decode())

    def pick_up(self) -> dict[int, Card]:
        """Everybody's card, by member; refused unless each carries this job's seal."""
        names = [f"{self._prefix}/{member}" for member in range(self._size)]
        self._wait(names, "laid down its card")
        return {member: self._checked(member, self._store.get(name)) for member, name in enumerate(names)}

    def ready(self, member: int) -> None:
        """Wait until everybody knows everybody's key; whoever is met before would refuse."""
        self._store.set(f"{self._prefix}/ready/{member}", "1")
        self._wait([f"{self._prefix}/ready/{other}" for other in range(self._size)], "picked up the others' cards")

    def seal(self, card: Card) -> str:
        """HMAC-SHA256 by the secret over all that a card says, and the job and generation it is said in."""
        said = msgspec.json.encode(
            [*self._scope, card.version, card.member, card.host, card.address, card.key]  # a list: no two read alike
        )
        return hmac.new(self._secret, said, hashlib.sha256).hexdigest()

    def _checked(self, member: int, told: bytes) -> Card:
        try:
            card = msgspec.json.decode(told[:LONGEST], type=Card)
        except msgspec.DecodeError:
            said = f"messages: member {member} left no card that can be read"
            raise Refused(said, "the same gossamer on every host") from None
        if card.version != VERSION:
            raise Refused(
                f"messages: {card.name} speaks version {card.version} of the messages, here it is {VERSION}",
                "the same gossamer on every host",
            )
        if card.member != member or not hmac.compare_digest(card.seal.encode(), self.seal(card).encode()):
            raise Refused(
                f"messages: {card.name} does not hold this job's key, or is of another job",
                "the same --key-file (GOSSAMER_KEY_FILE) on every host",
            )
        return card

    def _wait(self, names: list[str], what: str) -> None:
        try:
            self._store.wait(names, timedelta(seconds=PATIENCE))
        except RuntimeError:
            missing = [str(member) for member, name in enumerate(names) if not self._store.check([name])]
            members = f"member{'s' * (len(missing) > 1)} {', '.join(missing)}"
            raise TimeoutError(f"messages: {members} had not {what} after {PATIENCE:.0f} s") from None
