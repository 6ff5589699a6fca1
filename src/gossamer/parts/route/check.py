"""The proof of a schedule: everybody ends with what it claims, each contribution once. Knows no values, only who is in
a sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gossamer.parts.route.schedule import Hop, Move, Schedule

Sums = list[list[int]]  # by member and chunk, the contributions in a sum: bit m stands for member m's


def flaw(schedule: Schedule, size: int) -> str | None:
    """What is wrong with the schedule for `size` members, or None when all it claims comes true."""
    count, rounds = schedule.chunks(size), schedule.rounds(size)
    held = [[1 << member] * count for member in range(size)]
    plans = [list(schedule.moves(member, size)) for member in range(size)]
    if any(len(plan) != rounds for plan in plans):
        return f"members disagree on the number of rounds, which should be {rounds}"
    for number, moves in enumerate(zip(*plans, strict=True)):
        wrong = next(_mismatches(moves), None) or next(_play(moves, held), None)
        if wrong:
            return f"round {number}: {wrong}"
    lacking = [member for member in range(size) if not _kept(schedule, member, size, held[member])]
    return f"members {lacking} end without what was claimed" if lacking else None


def _mismatches(moves: Sequence[Move]) -> Iterator[str]:
    """Messages without an other end, or that write over what the same member is sending."""
    for member, (send, receive, add) in enumerate(moves):
        if send is not None and moves[send.member].receive != Hop(member, send.chunks):
            yield f"member {member} sends {send.chunks} to {send.member}, which expects something else"
        if receive is not None and moves[receive.member].send != Hop(member, receive.chunks):
            yield f"member {member} expects {receive.chunks} from {receive.member}, which sends something else"
        if send is None or receive is None or add:
            continue
        if max(send.chunks[0], receive.chunks[0]) < min(send.chunks[1], receive.chunks[1]):
            yield f"member {member} writes over what it is sending"


def _play(moves: Sequence[Move], held: Sums) -> Iterator[str]:
    """Let the messages of a round arrive; whatever is added twice is a flaw."""
    sent = [[] if move.send is None else held[member][slice(*move.send.chunks)] for member, move in enumerate(moves)]
    for member, (_, receive, add) in enumerate(moves):
        if receive is None:
            continue
        mine = held[member]
        for chunk, news in zip(range(*receive.chunks), sent[receive.member], strict=True):
            if add and mine[chunk] & news:
                yield f"member {member} adds a contribution to chunk {chunk} twice"
            mine[chunk] = mine[chunk] | news if add else news


def _kept(schedule: Schedule, member: int, size: int, held: Sequence[int]) -> bool:
    claims = schedule.claim(member, size)
    return all(held[chunk] == sum(1 << other for other in wanted) for chunk, wanted in claims.items())
