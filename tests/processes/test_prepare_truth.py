"""A prepared loop that looks at the truth: bucket by bucket, in the journal, the same numbers as without."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from tests.processes.pool import Member, everywhere
from tests.processes.user import cycle, loader, loss_of, net
from torch import nn

from gossamer.parts.refusal import Refused
from gossamer.records import StepRecord, Truth, read

STEPS = 4


def trained(member: Member, truth: int, strategy: str) -> tuple[nn.Module, list[Truth]]:
    """A model of several buckets, and what was seen beside its exchanges."""
    model = net(torch.float32, inner=100_000)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        model, optimizer, batches = member.prepare(
            model, optimizer, loader(24, 8, torch.float32), strategy=strategy, journal=folder, truth=truth
        )
        for part in cycle(batches, STEPS):
            optimizer.zero_grad()
            loss_of(model, part).backward()
            optimizer.step()
        records = list(read(Path(folder) / f"journal-{member.rank}.jsonl"))
    return model, [look for record in records if isinstance(record, StepRecord) for look in record.truth]


@everywhere(strategy=("half", "one_bit(where=Everything())"))
def test_each_bucket_is_looked_at_and_nothing_changes(member: Member, strategy: str) -> None:
    model, looks = trained(member, 2, strategy)
    plain, none = trained(member, 0, strategy)
    assert not none and len(looks) == 2 * (1 + max(look.bucket for look in looks))
    assert (max(look.bucket for look in looks) > 0) == (strategy == "half")  # what is remembered is not cut
    assert all((look.cosine > 0.9999) == (strategy == "half") and look.cosine > 0.1 for look in looks)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)


@everywhere(worlds=(2,), fabrics=("shared",))
def test_a_drift_is_said_aloud_once_by_the_first(member: Member) -> None:
    trained(member, 1, "Exchange(codec=TopK(keep=0.01))")
    assert ("short of the exact one, and nothing is kept" in member.said.getvalue()) == (member.rank == 0)
    assert member.said.getvalue().count("short of the exact one") == (member.rank == 0)


@everywhere(worlds=(2,), fabrics=("shared",))
def test_a_truth_that_is_no_count_or_not_the_same_is_refused(member: Member) -> None:
    for truth, words in ((-1, "truth"), (member.rank, "truth is 1, not 0")):
        try:
            trained(member, truth, "half")
        except Refused as error:
            assert words in str(error)
        else:
            raise AssertionError("it was taken")
