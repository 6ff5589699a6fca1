"""The proof of a route: every rank ends with every contribution exactly once. Knows no values, only who is in a sum."""

from __future__ import annotations

from gossamer.parts.route.schedule import Move, Route


def flaw(route: Route, size: int) -> str | None:
    """What is wrong with the schedule for `size` members, or None when every chunk ends as the exact sum everywhere."""
    count = route.chunks(size)
    held = [[frozenset([member]) for _ in range(count)] for member in range(size)]
    plans = [list(route.moves(member, size)) for member in range(size)]
    if any(len(plan) != route.rounds(size) for plan in plans):
        return f"members disagree on the number of rounds, which should be {route.rounds(size)}"
    for number, moves in enumerate(zip(*plans, strict=True)):
        wrong = _mismatch(moves) or _play(moves, held)
        if wrong:
            return f"round {number}: {wrong}"
    everybody = frozenset(range(size))
    lacking = [m for m in range(size) if any(chunk != everybody for chunk in held[m])]
    return f"members {lacking} end without every contribution" if lacking else None


def _mismatch(moves: tuple[Move, ...]) -> str | None:
    for member, move in enumerate(moves):
        if moves[move.to].source != member or moves[move.to].receive != move.send:
            return f"member {member} sends {move.send} to {move.to}, which expects something else"
    return None


def _play(moves: tuple[Move, ...], held: list[list[frozenset[int]]]) -> str | None:
    sent = [held[member][slice(*move.send)] for member, move in enumerate(moves)]
    for member, move in enumerate(moves):
        for chunk, news in zip(range(*move.receive), sent[move.source], strict=True):
            if not move.add:
                held[member][chunk] = news
            elif held[member][chunk] & news:
                return f"member {member} adds a contribution to chunk {chunk} twice"
            else:
                held[member][chunk] |= news
    return None
