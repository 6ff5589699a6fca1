"""Which tensors a selection picks from a model one can see."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Bytes, Dims, Everything, Except, Matrices, Named, Part, Selection, Tag
from gossamer.parts.topology import Hub
from gossamer.parts.world import World
from gossamer.replica import Chosen, Layout, Replica, carried
from gossamer.strategy import Exchange, Send, as_strategy

MODEL = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(4, 3), nn.Linear(3, 2, bias=False))
TAGS = Layout(MODEL).tags  # 0.weight 72 B, 0.bias 8 B, 1.weight 48 B, 1.bias 12 B, 2.weight 24 B


@pytest.mark.parametrize(
    ("selection", "places"),
    [
        (Everything(), (0, 1, 2, 3, 4)),
        (Named("*.weight"), (0, 2, 4)),
        (Named("1.*"), (2, 3)),
        (Named("*.WEIGHT"), ()),
        (Named("[02].*"), (0, 1, 4)),
        (Dims(least=2), (0, 2, 4)),
        (Dims(most=1), (1, 3)),
        (Dims(least=3), (0,)),
        (Matrices(), ()),
        (Matrices(least=12), (0, 2)),
        (Except(Matrices(least=0)), (1, 3)),
        (Bytes(most=12), (1, 3)),
        (Bytes(least=12, most=48), (2, 3, 4)),
        (Part(0, 2), (0, 2, 4)),
        (Part(1, 2), (1, 3)),
        (Part(0, 1), (0, 1, 2, 3, 4)),
        (Except(Dims(least=2)), (1, 3)),
        (Except(Everything()), ()),
        (Except(Except(Part(2, 3))), (2,)),
    ],
    ids=repr,
)
def test_picks(selection: Selection, places: tuple[int, ...]) -> None:
    assert selection.pick(TAGS) == places


def test_parts_share_the_model_out() -> None:
    for of in range(1, 8):
        picked = [place for index in range(of) for place in Part(index, of).pick(TAGS)]
        assert sorted(picked) == list(range(len(TAGS)))


def test_a_tag_counts_the_bytes_of_its_type() -> None:
    assert [tag.bytes for tag in TAGS] == [72, 8, 48, 12, 24]
    assert [tag.bytes for tag in Layout(nn.Linear(4, 3).double()).tags] == [96, 24]
    assert Tag("scale", ()).bytes == 4


@pytest.mark.parametrize("selection", [Everything(), Named("*.weight"), Part(1, 2), Dims(most=1)], ids=repr)
def test_what_is_taken_is_put_back_where_it_was(selection: Selection) -> None:
    layout = Layout(MODEL)
    chosen, flat = Chosen(layout.tags, selection), layout.start.clone()
    taken = chosen.take(flat).clone()
    assert len(taken) == chosen.count == sum(p.numel() for i, p in enumerate(MODEL.parameters()) if i in chosen.places)
    chosen.put(flat, taken * 2)
    doubled = [place for place, (a, b) in enumerate(zip(layout.views(flat), layout.views(layout.start), strict=True))
               if torch.equal(a, 2 * b)]  # fmt: skip
    assert tuple(doubled) == chosen.places
    assert [view.shape for view in chosen.views(taken)] == [torch.Size(shape) for shape in chosen.shapes]


def test_a_selection_that_chooses_nothing_is_refused_by_the_model() -> None:
    with pytest.raises(Refused, match="chooses none") as caught:
        carried(Exchange(where=Named("*.WEIGHT")), TAGS)
    assert caught.value.nearest == "where=Everything()"
    with pytest.raises(Refused, match="chooses none"):
        carried(Exchange(where=Dims(least=9), topology=Hub()), TAGS)


def test_an_exchange_of_shapes_that_a_model_has_not_rests() -> None:
    resting, layout = Exchange(where=Dims(least=9)), Layout(MODEL)
    assert carried(resting, TAGS).places == ()
    storage = torch.empty_like(layout.start), torch.empty_like(layout.start)
    played = Replica(0, World(2), resting + Exchange(where=Except(Dims(least=9))), layout, storage)
    assert [phase for phase in played.phases(0) if isinstance(phase, Send)] == [Send(1)]
    with pytest.raises(Refused, match="chooses none of the model's tensors"):
        Replica(0, World(2), as_strategy(resting), layout, storage)


@pytest.mark.parametrize("bad", [lambda: Named(""), lambda: Named(5), lambda: Except("x"), lambda: Dims(3, 2),
                                 lambda: Part(2, 2), lambda: Bytes(5, 4)])  # fmt: skip
def test_a_selection_that_cannot_be_is_refused(bad) -> None:
    with pytest.raises(Refused):
        bad()
