"""Short words that all members tell each other through the store they met at. Knows not what they say."""

from __future__ import annotations

from datetime import timedelta

from gossamer.engine.loop.place import Place

PATIENCE = timedelta(minutes=30)  # a disk may be slow


class Words:
    """Rounds of words: every member tells one and hears everybody's, so a round is also a place where all meet."""

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._name, self._round = place, name, 0

    def share(self, word: str) -> list[str]:
        """Tell a word, hear everybody's in the order of members. All call it alike."""
        place, store = self._place, self._place.store
        if place.size == 1:
            return [word]
        store.set(self._key(self._round, place.member), word)
        keys = [self._key(self._round, member) for member in range(place.size)]
        store.wait(keys, PATIENCE)
        heard = [store.get(key).decode() for key in keys]
        if self._round:  # whoever told its word of this round has heard all of the last one
            store.delete_key(self._key(self._round - 1, place.member))
        self._round += 1
        return heard

    def _key(self, round: int, member: int) -> str:
        return f"{self._name}/{round}/{member}"
