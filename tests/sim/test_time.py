"""Virtual time: what a step costs follows from compute, links and trouble, and nothing else."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.parity import small

from gossamer.parts.trouble import Fail, Script, Slow
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records import summary
from gossamer.sim import Machines, Outcome, Plan
from gossamer.sim.rehearse import Rehearsal, rehearse
from gossamer.strategy import parse

LINKS = Machines(compute=(0.02,), rate=1e5, latency=1e-3)
NBYTES = 57 * 8  # the small task's parameters, float64


def run(
    expression: str, size: int = 4, steps: int = 10, machines: Machines = LINKS, trouble: Script = Script()
) -> Outcome:
    plan = Plan(small.task(), parse(expression), World(size), Optimizer(rate=0.1), 5, steps, machines, trouble)
    return rehearse(plan)


def test_a_ring_step_takes_its_closed_form() -> None:
    outcome = run("allreduce(ring)")
    ring = 2 * 3 * 1e-3 + 2 * 3 / 4 * NBYTES / 1e5
    assert outcome.seconds == pytest.approx(10 * (0.02 + ring), rel=1e-12)
    split = summary.seconds_per_step(outcome.steps)
    assert split["send"] == pytest.approx(ring, rel=1e-12)
    assert split["wait"] == pytest.approx(0.0, abs=1e-12)
    assert summary.scaling_efficiency(outcome.steps) == pytest.approx(0.02 / (0.02 + ring))


def test_a_torus_has_fewer_rounds_than_a_ring() -> None:
    torus, ring = run("allreduce(torus)", 9).seconds, run("allreduce(ring)", 9).seconds
    assert ring - torus == pytest.approx(10 * (16 - 8) * 1e-3, rel=1e-9)


def test_a_hub_serves_one_push_after_the_other() -> None:
    outcome = run("parameter_server()", 4, 1)
    assert outcome.seconds == pytest.approx(0.02 + 2 * 1e-3 + (4 + 4) * NBYTES / 1e5, rel=1e-12)


def test_local_steps_pay_for_links_only_when_they_mix() -> None:
    every, all_the_time = run("local_sgd(every=5)").seconds, run("local_sgd(every=1)").seconds
    mix = 2 * 3 * 1e-3 + 2 * 3 / 4 * NBYTES / 1e5
    assert all_the_time - every == pytest.approx(8 * mix, rel=1e-9)


def test_a_slow_member_holds_up_who_waits_for_it_and_nobody_else() -> None:
    slow = Script((Slow(rank=1, factor=5.0),))
    fast_links = Machines(compute=(0.02,), rate=1e12, latency=0.0)
    assert run("allreduce()", machines=fast_links, trouble=slow).seconds == pytest.approx(10 * 0.1, rel=1e-3)
    free = run("gossip_pull()", 4, 40, fast_links, slow)
    rates = 3 + 1 / 5  # worker-rates the members can give
    assert free.seconds == pytest.approx(160 * 0.02 / rates, rel=0.05)
    done = [sum(1 for s in free.steps if s.member == m) for m in range(4)]
    assert done[1] == pytest.approx(done[0] / 5, abs=1)


def test_backup_workers_do_not_wait_for_the_slowest() -> None:
    slow = Script((Slow(rank=1, factor=5.0),))
    fast_links = Machines(compute=(0.02,), rate=1e12, latency=0.0)
    outcome = run("backup_workers(backups=1)", 4, 20, fast_links, slow)
    waiting = run("parameter_server()", 4, 20, fast_links, slow)
    assert outcome.seconds < 0.35 * waiting.seconds
    late = [s for s in outcome.steps if s.dropped]
    assert late and {s.member for s in late} == {1}


def test_bounded_staleness_is_kept_reached_and_blocks() -> None:
    """When a member starts step c, c minus the fewest steps pushed by any member is at most s (C14)."""
    bound = 3
    trouble = Script(tuple(Slow(rank=step // 8 % 4, factor=8.0, start=step, stop=step + 4) for step in range(0, 96, 8)))
    plan = Plan(small.task(), parse(f"ssp({bound})"), World(4), Optimizer(rate=0.1), 5, 96, LINKS, trouble)
    rehearsal = Rehearsal(plan)
    leads: list[int] = []
    asked = rehearsal.gradients.ask

    def ask(member: int, step: int, indices: object) -> None:
        done = Counter(record.member for record in rehearsal.outcome.steps)  # from the journal, not from the hub
        leads.append(step - min(done[other] for other in range(4)))
        asked(member, step, indices)  # type: ignore[arg-type]

    rehearsal.gradients.ask = ask  # type: ignore[method-assign,assignment]
    outcome = rehearsal.run()
    assert max(leads) == bound
    assert max(s.spans["wait"] for s in outcome.steps) > 0.05, "the gate never blocked"


def test_asynchronous_staleness_is_about_the_number_of_others() -> None:
    outcome = run("downpour()", 8, 60, Machines(compute=(0.05,), rate=1e9, latency=1e-5, jitter=0.1))
    mean = sum(s.staleness for s in outcome.steps) / len(outcome.steps)
    assert mean == pytest.approx(7, rel=0.1)


def test_a_death_stops_the_synchronous_and_not_the_others() -> None:
    death = Script((Fail(rank=2, step=3),))
    stopped = run("allreduce()", trouble=death)
    assert len(stopped.steps) < 40
    told = " / ".join(event.what for event in stopped.events)
    assert "member 2 died as it began step 3" in told
    assert "members 0, 1, 3 wait for member 2, which died" in told
    for expression in ("gossip_pull()", "downpour()", "ssp(2)", "parameter_server()"):
        going_on = run(expression, trouble=death)
        assert len(going_on.steps) == 40, expression
        assert max(s.step for s in going_on.steps if s.member == 2) == 2


def test_what_a_dead_member_had_under_way_is_not_missed() -> None:
    death = Script((Fail(rank=2, step=3),))
    outcome = run("Exchange(topology=Hub(), synchrony=Synchrony(delay=1))", trouble=death)
    assert len(outcome.steps) == 40


@pytest.mark.parametrize("delay", [1, 2, 3])
@pytest.mark.parametrize("slow", [1, 2])
def test_a_delayed_hub_outlives_a_death_and_drops_nobody(delay: int, slow: int) -> None:
    trouble = Script((Fail(rank=2, step=4), Slow(rank=slow, factor=8.0)))
    outcome = run(f"Exchange(topology=Hub(), synchrony=Synchrony(delay={delay}))", 3, 20, trouble=trouble)
    assert len(outcome.steps) == 60
    assert summary.dropped(outcome.steps) == 0


def test_when_all_die_their_last_model_is_still_looked_at() -> None:
    outcome = run("gossip_pull()", 2, 10, trouble=Script((Fail(rank=0, step=3), Fail(rank=1, step=4))))
    assert len(outcome.steps) == 7
    assert outcome.evaluations and "members 0, 1, which died" in outcome.events[-1].what


def test_the_same_seed_gives_the_same_run() -> None:
    jittery = Machines(compute=(0.02, 0.03), rate=1e5, latency=1e-3, jitter=0.3)
    one, two = (run("gossip_pull()", 5, 30, jittery) for _ in range(2))
    assert one.replicas.equal(two.replicas)
    assert one.steps == two.steps
    other = rehearse(Plan(small.task(), parse("gossip_pull()"), World(5, seed=1), Optimizer(rate=0.1), 5, 30, jittery))
    assert not other.replicas.equal(one.replicas)
