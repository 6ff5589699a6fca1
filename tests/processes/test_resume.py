"""What goes on from a checkpoint ends as if it had never stopped, bit for bit: in our loop, and in the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.processes import own_loop, resuming
from tests.processes.living import shared

import gossamer
from gossamer.engine.checkpoint import load
from gossamer.engine.launch import WorkerFailed, Workers

ROOT = str(Path(__file__).parents[2])
OURS: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "adam-clipped": {"optimizer": "adam", "rate": 0.01, "clip": 0.5},
    "torch": {"fabric": "torch", "momentum": 0.9},
    "fp16": {"precision": "fp16", "momentum": 0.9},
    "paced": {
        "schedule": "Warmup(epochs=0.1, then=Cosine())",
        "batches": "0:8, 0.2:16",
        "epochs": 0.8,
        "optimizer": "lars",
        "momentum": 0.9,
        "trust": 0.1,
        "at_once": 2,
        "smoothing": 0.1,
    },
    "lamb": {"optimizer": "lamb", "rate": 0.01, "schedule": "Polynomial()", "epochs": 0.5},
    "fresh-norms": {"norms": "fresh", "momentum": 0.9, "strategy": "local_sgd(every=3)"},
    "shared-norms": {"norms": "shared", "momentum": 0.9, "decays": "weights", "decay": 0.01},
    "local-sgd": {"strategy": "local_sgd(every=3)", "momentum": 0.9},
    "powersgd": {"strategy": "powersgd"},
    "dgc": {"strategy": "dgc(where=Matrices(0))"},
    "one-bit": {"strategy": "one_bit(where=Matrices(0))", "momentum": 0.9},
    "two-levels": {"strategy": "two_levels(where=Matrices(0))"},
    "diloco": {"strategy": "diloco(every=4)", "fabric": "torch"},
    "easgd": {"strategy": "easgd"},
    "hub": {"strategy": "parameter_server", "optimizer": "adam", "rate": 0.01},
    "late-gradients": {"strategy": "Exchange(synchrony=Synchrony(delay=2))", "momentum": 0.9},
    "late-parameters": {"strategy": "Exchange(PARAMETERS, synchrony=Synchrony(every=3, delay=2))"},
    "late-masses": {"strategy": "osgp(delay=2)", "momentum": 0.9},
}
OWN = {
    "shared": ("allreduce", "shared"),
    "torch": ("allreduce", "torch"),
    "sharded": ("allreduce(sharded)", "shared"),
    "local-sgd": ("local_sgd(every=3)", "auto"),
}


def play(script: str, *words: str, size: int = 2) -> list[list[str]]:
    """Workers run a script to its end; what each printed."""
    with Workers([str(Path(__file__).with_name(script)), *words], size, path=[ROOT]) as workers:
        workers.wait()
        return [list(lines) for lines in workers.lines]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of our own loop's cases, in one start of two workers."""
    home = tmp_path_factory.mktemp("ours")
    (home / "cases.json").write_text(json.dumps(OURS))
    play("resuming.py", str(home))
    return home


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[str]]]:
    """All of the user's loop's cases, in one start of two workers; a checkpoint of one worker is there for them."""
    home = tmp_path_factory.mktemp("own")
    (home / "cases.json").write_text(json.dumps(OWN))
    own_loop.train(home / "one", "allreduce", "auto")
    return home, play("own_loop.py", str(home), "all")


def same(folder: Path) -> None:
    """The files of every checkpoint are those of the run that was not interrupted."""
    first, second = (json.loads((folder / f"{name}.json").read_text()) for name in ("first", "second"))
    assert len(first) == 3
    assert first == second


@pytest.mark.parametrize("case", OURS)
def test_our_loop_goes_on_to_the_bit(case: str, ours: Path) -> None:
    same(ours / case)


def test_what_is_under_way_at_a_save_is_kept(ours: Path) -> None:
    kept = load(ours / "late-gradients" / "checkpoints", resuming.EVERY).tree("member-1")
    assert sorted(kept["courses"][0]["strands"][0]["held"]) == [(0, 3), (0, 4)]


@pytest.mark.parametrize("case", OWN)
def test_the_users_loop_goes_on_to_the_bit(case: str, own: tuple[Path, list[list[str]]]) -> None:
    same(own[0] / case)


def test_the_model_file_is_a_plain_state_dict(ours: Path, own: tuple[Path, list[list[str]]]) -> None:
    model = resuming.dropping().model
    model.load_state_dict(load_file(ours / "local-sgd" / "checkpoints" / "step-10" / "model.safetensors"))
    trees = [load(ours / "local-sgd" / "checkpoints", 10).tree(f"member-{member}") for member in (0, 1)]
    own_weights = [tree["courses"][0]["strands"][0]["parameters"]["0.weight"] for tree in trees]
    assert not torch.equal(*own_weights)  # it lies between two exchanges
    assert torch.equal(model[0].weight, (own_weights[0] + own_weights[1]) * 0.5)


def test_shares_of_an_optimizers_state_are_put_together_by_name(ours: Path) -> None:
    saved = load(ours / "adam-clipped" / "checkpoints", 10)
    shares = [saved.tree(f"member-{member}")["courses"][0]["strands"][0] for member in (0, 1)]
    flat = torch.cat([state["exp_avg"] for share in shares for state in share["steps"]])
    whole = saved.tree("optimizer")["state"]
    names = [name for name, _ in resuming.dropping().model.named_parameters()]
    assert list(whole) == names
    assert torch.equal(flat, torch.cat([whole[name]["exp_avg"].reshape(-1) for name in names]))
    assert {float(state["step"]) for state in whole.values()} == {10.0}


def test_a_full_disk_stops_nobody(own: tuple[Path, list[list[str]]]) -> None:
    home, lines = own[0] / "full_disk", own[1][0]
    told = [json.loads((home / f"told-{rank}.json").read_text()) for rank in (0, 1)]
    assert told == [[[True, False, False, True], 1]] * 2
    said = [line for line in lines if "is not saved" in line]
    assert len(said) == 1 and "step 2" in said[0] and "member 1" in said[0] and "the newest is step 1" in said[0]


def test_all_workers_refuse_alike_and_say_why(own: tuple[Path, list[list[str]]]) -> None:
    home = own[0] / "refusals"
    one, two = (json.loads((home / f"said-{rank}.json").read_text()) for rank in (0, 1))
    assert one == two
    damaged, missing, strategy, model, things, midst = one
    assert "model.safetensors is damaged" in damaged and damaged.endswith(f"nearest that works: {home / 'step-1'}")
    assert "no checkpoint of step 7; nearest that works: step 1 or 2" in missing
    assert "strategy is 'Exchange()' there, 'Exchange(payload=PARAMETERS" in strategy
    assert "parameter 0.weight is 7 x 6 float32 there, 0.weight is 8 x 6 float32 here" in model
    assert midst.startswith("save: in the midst of a step")
    assert "things is ['Sequential', 'Adam', 'DataLoader', 'StepLR', 'AveragedModel'] there" in things


def test_the_average_is_lent_and_taken_back(own: tuple[Path, list[list[str]]]) -> None:
    told = [json.loads((own[0] / "exactly" / f"mean-{rank}.json").read_text()) for rank in (0, 1)]
    assert told == [[[0.5, 0.5], [0.0, 0.0]], [[0.5, 0.5], [1.0, 1.0]]]


def test_two_workers_go_on_from_ones_checkpoint(own: tuple[Path, list[list[str]]]) -> None:
    model = load_file(own[0] / "one" / "step-11" / "model.safetensors")
    remembered = load(own[0] / "one").tree("optimizer")["state"]
    for rank in (0, 1):
        step, extra, state, steps, loader, rate = json.loads((own[0] / "grown" / f"grown-{rank}.json").read_text())
        assert (step, extra, rate) == (11, {"seen": 11}, 0.02 * 0.5**3)
        assert {name: tensor.tolist() for name, tensor in model.items()} == state
        assert [each["exp_avg"].tolist() for each in remembered.values()] == steps
        assert loader == {"epoch": 0, "given": 0}
    assert any("of 1 workers goes on with 2: all start from the average" in line for line in own[1][0])


@pytest.mark.parametrize("case", ["sharded", "local-sgd"])
def test_one_worker_goes_on_from_twos_checkpoint(case: str, own: tuple[Path, list[list[str]]]) -> None:
    folder, strategy = own[0] / case, OWN[case][0]
    given = own_loop.things(strategy, "auto")
    assert gossamer.load(folder, *given) == gossamer.Loaded(own_loop.STEPS, {"seen": own_loop.STEPS})
    model, optimizer = given[:2]
    plain, saved = load_file(folder / "step-11" / "model.safetensors"), load(folder)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, plain[name]), name
    whole = saved.tree("optimizer")["state"]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert torch.equal(optimizer.state[parameter]["exp_avg_sq"], whole[name]["exp_avg_sq"])


@pytest.mark.parametrize(
    ("case", "memory"),
    [("dgc", "velocity"), ("dgc", "momentum"), ("one-bit", "residual"), ("powersgd", "residual")],
)
def test_what_was_not_sent_keeps_its_sum(case: str, memory: str, ours: Path, tmp_path: Path) -> None:
    """Two workers' residuals become one's: all that both held back is still to be sent, as the mean counts it."""
    kept = ours / case / "checkpoints"
    trees = [load(kept).tree(f"member-{member}") for member in (0, 1)]
    before = [tree["courses"][0]["strands"][0]["desks"][0]["memory"][memory] for tree in trees]
    asked = OURS[case]["strategy"]
    training = resuming.Training(resuming.job(tmp_path, strategy=asked, workers=1, steps=20, resume=str(kept)))
    training.checkpoints.load(root=kept)
    now = training.course.strands[0].replica.desks[0].memory[memory]
    assert torch.allclose(now, before[0] + before[1], atol=1e-6)
    assert before[0].abs().sum() > 0 and training.course.step == resuming.STEPS


def test_a_loop_whose_worker_was_killed_ends_the_same(own: tuple[Path, list[list[str]]], tmp_path: Path) -> None:
    before = shared()
    with pytest.raises(WorkerFailed, match="rank 1 was killed by SIGKILL"):
        play("own_loop.py", str(tmp_path), "train", "allreduce", "shared", "10")
    assert sorted(resuming.sealed(tmp_path)) == ["step-4", "step-8"]
    play("own_loop.py", str(tmp_path), "train", "allreduce", "shared")
    assert resuming.sealed(tmp_path) == json.loads((own[0] / "shared" / "first.json").read_text())
    assert shared() == before


def test_whoever_a_quorum_leaves_behind_gets_to_saves_and_evaluations(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text(json.dumps({"quorum": {"strategy": "backup_workers"}}))
    play("resuming.py", str(tmp_path), size=3)
    assert sorted(resuming.sealed(tmp_path / "quorum" / "checkpoints")) == ["step-10", "step-12", "step-5"]
