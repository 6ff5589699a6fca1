"""The position of every entry in the taxonomy follows from its fields."""

from __future__ import annotations

import pytest

from gossamer.strategy import CATALOG, parse, position
from gossamer.strategy.catalog import OURS

POSITIONS = {
    "allreduce": ("centralised", "synchronous", "all-reduce", "gradients", "none"),
    "parameter_server": ("centralised", "synchronous", "parameter server", "gradients", "none"),
    "backup_workers": ("centralised", "synchronous", "parameter server", "gradients", "none"),
    "ssp": ("centralised", "bounded asynchronous", "parameter server", "gradients", "none"),
    "downpour": ("centralised", "asynchronous", "parameter server", "deltas", "none"),
    "easgd": ("decentralised", "synchronous", "parameter server", "parameters", "none"),
    "local_sgd": ("decentralised", "synchronous", "all-reduce", "parameters", "none"),
    "diloco": ("decentralised", "synchronous", "all-reduce", "deltas", "none"),
    "gossip_pull": ("decentralised", "asynchronous", "gossip, random partners", "parameters", "none"),
    "sgp": ("decentralised", "synchronous", "gossip, rotating partners", "parameters", "none"),
    "powersgd": ("centralised", "synchronous", "all-reduce", "gradients", "ErrorFeedback(codec=PowerSGD())"),
    "dgc": ("centralised", "synchronous", "all-reduce", "gradients", "DGC()"),
    "horovod": ("centralised", "synchronous", "all-reduce", "gradients", "none"),
    "firecaffe": ("centralised", "synchronous", "all-reduce", "gradients", "none"),
    "tencent": ("centralised", "synchronous", "all-reduce", "gradients", "Half()"),
    "sony": ("centralised", "synchronous", "all-reduce", "gradients", "Half()"),
    "byteps": ("centralised", "synchronous", "all-reduce", "gradients", "none"),
    "softsync": ("centralised", "asynchronous", "parameter server", "gradients", "none"),
    "hogwild": ("centralised", "asynchronous", "parameter server", "gradients", "none"),
    "dc_asgd": ("centralised", "asynchronous", "parameter server", "gradients", "none"),
    "sparknet": ("decentralised", "synchronous", "parameter server", "parameters", "none"),
    "post_local_sgd": ("centralised + decentralised", "synchronous", "all-reduce", "gradients + parameters", "none"),
    "bmuf": ("decentralised", "synchronous", "all-reduce", "deltas", "none"),
    "crossbow": ("decentralised", "synchronous", "parameter server", "parameters", "none"),
    "async_easgd": ("decentralised", "asynchronous", "parameter server", "parameters", "none"),
    "eamsgd": ("decentralised", "asynchronous", "parameter server", "parameters", "none"),
    "slowmo": ("decentralised", "synchronous", "all-reduce", "deltas", "none"),
    "gossip_push": ("decentralised", "asynchronous", "gossip, random partners", "parameters", "none"),
    "dpsgd": ("decentralised", "synchronous", "gossip, fixed graph", "parameters", "none"),
    "adpsgd": ("decentralised", "asynchronous", "gossip, random partners", "parameters", "none"),
    "osgp": ("decentralised", "bounded asynchronous", "gossip, rotating partners", "parameters", "none"),
    "gossipgrad": ("decentralised", "synchronous", "gossip, rotating partners", "parameters", "none"),
    "gossip_pga": ("decentralised", "synchronous", "gossip, fixed graph + all-reduce", "parameters", "none"),
    "two_levels": (
        "centralised",
        "synchronous",
        "all-reduce, inside hosts + all-reduce + broadcast, inside hosts",
        "gradients",
        "Half() + ErrorFeedback(codec=OneBit())",
    ),
    "gossip_hosts": (
        "centralised + decentralised",
        "synchronous",
        "all-reduce, inside hosts + gossip, rotating partners + broadcast, inside hosts",
        "gradients + parameters",
        "none",
    ),
    "half": ("centralised", "synchronous", "all-reduce", "gradients", "Half()"),
    "random_k": ("centralised", "synchronous", "all-reduce", "gradients", "ErrorFeedback(codec=RandomK())"),
    "one_bit": ("centralised", "synchronous", "all-reduce", "gradients", "ErrorFeedback(codec=OneBit())"),
    "qsgd": ("centralised", "synchronous", "all-reduce", "gradients", "QSGD()"),
    "terngrad": ("centralised", "synchronous", "all-reduce", "gradients", "Ternary()"),
    "strom": ("centralised", "synchronous", "all-reduce", "gradients", "ErrorFeedback(codec=Threshold())"),
    "gradient_dropping": ("centralised", "synchronous", "all-reduce", "gradients", "ErrorFeedback(codec=TopK())"),
    "dryden": ("centralised", "synchronous", "all-reduce", "gradients", "ErrorFeedback(codec=Proportion())"),
    "adacomp": ("centralised", "synchronous", "all-reduce", "gradients", "AdaComp()"),
    "ef_signsgd": ("centralised", "synchronous", "all-reduce", "gradients", "ErrorFeedback(codec=Sign())"),
    "natural": ("centralised", "synchronous", "all-reduce", "gradients", "Natural()"),
    "ako": ("centralised", "bounded asynchronous", "all-reduce", "gradients", "ErrorFeedback(codec=Slice())"),
    "gaia": ("decentralised", "synchronous", "all-reduce", "deltas", "ErrorFeedback(codec=Significant())"),
}


@pytest.mark.parametrize("name", [entry.name for entry in CATALOG if entry.paper != OURS])
def test_every_entry_stands_where_the_literature_puts_it(name: str) -> None:
    found = position(parse(name))
    assert found.parallelism == "data"
    told = (found.optimisation, found.scheduling, found.pattern, found.exchanged, found.compression)
    assert told == POSITIONS[name]


def test_every_entry_has_a_sentence_and_a_paper() -> None:
    for entry in CATALOG:
        assert entry.sentence.endswith(".") and "\n" not in entry.sentence
        assert entry.paper


def test_the_position_is_computed_from_the_fields() -> None:
    slack = position(parse("ssp(staleness=0)"))
    assert slack == position(parse("parameter_server"))
    waits_for_nobody = position(parse("gossip_hosts(graph=RandomPeer())"))
    assert waits_for_nobody.scheduling == "synchronous + asynchronous"
    assert "gossip, random partners" in waits_for_nobody.pattern
    assert position(parse("gossip_hosts(per_host=1)")) == position(parse("sgp"))
    circle = position(parse("Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference())"))
    assert (circle.pattern, circle.compression) == ("gossip, fixed graph", "Difference()")


def test_words_of_several_exchanges_are_told_once_each_in_order() -> None:
    found = position(parse("local_sgd + downpour + local_sgd(every=2)"))
    assert found.scheduling == "synchronous + asynchronous"
    assert found.pattern == "all-reduce + parameter server"
    assert found.exchanged == "parameters + deltas"
    staged = position(parse("Staged(allreduce, 5, local_sgd)"))
    assert staged.optimisation == "centralised + decentralised"
