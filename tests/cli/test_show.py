"""`gossamer show`: numbers one can check by hand, on the screen and as JSON."""

from __future__ import annotations

from time import perf_counter

import pytest
from tests.cli.ask import ask, refused, told

from gossamer.strategy import CATALOG, parse

HOUSE = {
    "strategy",
    "position",
    "rounds",
    "bytes_sent_per_member",
    "spectral_gap",
    "pays",
    "pays_below_bits_per_second",
}


def test_json_of_a_ring() -> None:
    found = told("show", "allreduce(ring)", "--workers", "8", "--bytes", "100MB", "--link", "1Gbit")
    assert set(found) >= HOUSE
    assert parse(found["strategy"]) == parse("allreduce(ring)")
    assert (found["rounds"], found["bytes_sent_per_member"]) == (14, 175_000_000)
    assert (found["spectral_gap"], found["model_bytes"]) == (1.0, 100_000_000)
    assert found["pays"] is None and found["pays_below_bits_per_second"] is None
    assert found["pays_note"] == "nothing is written in fewer bytes"
    assert found["exchanges"][0]["seconds_on_link"] == pytest.approx(14 * 1e-4 + 175e6 / 125e6)


def test_it_says_whether_a_codec_pays_and_where() -> None:
    words = ("show", "dgc(density=0.01)", "--workers", "4", "--bytes", "8MB")
    slow, fast = (told(*words, "--link", link) for link in ("10Mbit", "100Gbit"))
    assert (slow["pays"], fast["pays"]) == (True, False)
    for found, link in ((slow, 10e6), (fast, 100e9)):
        bound, cost = found["pays_below_bits_per_second"], found["exchanges"][0]["cost"]
        assert 10e6 < bound < 100e9 and found["pays"] == (link < bound)
        assert cost["pays_below_bits_per_second"] == pytest.approx(bound, rel=0.2)  # small tensors cost, too
        assert found["pays"] == (cost["seconds_with_codec"] < cost["seconds_dense"])
        assert cost["seconds_with_codec"] > cost["encode_seconds"] + cost["decode_seconds"] > 0
    plain = told(*words)
    assert plain["pays"] is None and "--link" in plain["pays_note"] and plain["exchanges"][0]["cost"] is None
    task = told("show", "one_bit", "--task", "digits", "--workers", "2")
    assert task["task"] == "digits" and task["model_bytes"] < 100_000 and task["pays_below_bits_per_second"] > 0


def test_the_screen_says_it_in_words() -> None:
    words = ("--workers", "4", "--bytes", "8MB", "--link")
    dear = ask("show", "one_bit", *words, "100Gbit").stdout
    assert "it pays on links slower than" in dear and "here it does not: send the numbers as they are" in dear
    long = ask("show", "Exchange(codec=TopK(keep=1.0))", *words, "1Mbit").stdout
    assert "it pays on no link: it sends no less than every number as it is" in long


def test_json_tells_bytes_of_the_step_and_of_the_average_step() -> None:
    found = told("show", "local_sgd(every=8)", "--workers", "4", "--bytes", "4e6")
    assert found["bytes_sent_per_member"] == 6_000_000
    assert found["bytes_sent_per_member_per_step"] == 750_000
    assert found["period"] == 8
    assert [(row["first"], row["last"]) for row in found["steps"]] == [(0, 6), (7, 7)]
    assert found["steps"][1]["phases"] == ["Compute", "Update", "Send", "Settle"]


def test_two_exchanges_add_up_and_two_stages_do_not() -> None:
    both = told("show", "allreduce + allreduce", "--workers", "4", "--bytes", "4e6")
    assert both["bytes_sent_per_member"] == 12_000_000
    staged = told("show", "Staged(first=allreduce(), step=10, then=local_sgd(every=2))", "--workers", "4")
    assert staged["bytes_sent_per_member"] == 150_000_000
    assert [(load["first_step"], load["last_step"]) for load in staged["exchanges"]] == [(0, 9), (10, None)]


def test_a_hub_is_as_slow_as_its_link_is_crowded() -> None:
    def seconds(workers: int) -> float:
        found = told("show", "ssp", "--workers", str(workers), "--link", "100MB/s", "--latency", "1ms")
        return float(found["exchanges"][0]["seconds_on_link"])

    assert seconds(1) == pytest.approx(0.002 + 200 / 100)
    assert seconds(8) == pytest.approx(0.002 + 8 * 200 / 100)


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_every_entry_shows(entry: object) -> None:
    name = entry.name  # type: ignore[attr-defined]
    result = ask("show", name, "--workers", "6", "--link", "1Gbit", "--bytes", "4MB")
    assert result.exit_code == 0, result.stderr
    for word in (name, "Where it stands", "What a step does", "What it sends", "How it mixes", "Compute", "1 Gbit/s"):
        assert word in result.stdout
    assert repr(entry.make()) in result.stdout.replace("\n", "")  # type: ignore[attr-defined]


def test_a_torus_of_a_prime_is_a_ring() -> None:
    assert "7 is a prime, so its only grid is a ring" in ask("show", "allreduce(torus)", "--workers", "7").stdout
    assert told("show", "allreduce(torus)", "--workers", "7")["rounds"] == 12
    square = ask("show", "allreduce(torus)", "--workers", "16").stdout
    assert "a grid of 4 x 4" in square
    assert "ring" not in square


def test_a_route_says_what_its_numbers_mean() -> None:
    tree = told("show", "firecaffe", "--workers", "8", "--bytes", "1MB", "--link", "1MB/s", "--latency", "1ms")
    assert (tree["rounds"], tree["bytes_sent_per_member"]) == (6, 1_750_000)  # 2 (p-1) n sent by p members
    assert tree["exchanges"][0]["seconds_on_link"] == pytest.approx(6 * 0.001 + 6 * 1.0)  # six messages in turn
    assert "not all send alike: the busiest member sends 3 MB" in tree["notes"]
    blocks = told("show", "allreduce(binary_blocks)", "--workers", "600", "--bytes", "1MB")
    assert (blocks["rounds"], blocks["bytes_sent_per_member"]) == (36, round(2e6 * 599 / 600))


def test_a_hybrid_says_which_way_a_wire_takes() -> None:
    for size, way, rounds in (("64KB", "Hierarchical()", 2 + 2 + 2), ("1MB", "Ring()", 14)):
        found = told("show", "tencent", "--workers", "8", "--bytes", size)
        assert found["rounds"] == rounds
        assert any(note.endswith(f"travels by {way}") for note in found["notes"])


@pytest.mark.parametrize(
    "route",
    ["ring", "torus", "halving_doubling", "doubling", "binary_blocks", "tree", "hierarchical", "sharded_hub", "direct"],
)
def test_thousands_of_workers_are_shown_at_once(route: str) -> None:
    began = perf_counter()
    found = told("show", f"allreduce({route})", "--workers", "4095", "--link", "10Gbit")
    assert perf_counter() - began < 2
    assert found["rounds"] > 0


def test_the_matrix_is_drawn_for_few_and_left_out_for_many() -> None:
    text = "Exchange(payload=PARAMETERS, topology=Cycle())"
    few, many = told("show", text, "--workers", "4"), told("show", text, "--workers", "9")
    third = pytest.approx(1 / 3)
    assert few["exchanges"][0]["mixing_matrix"][0] == [third, third, 0, third]
    assert many["exchanges"][0]["mixing_matrix"] is None
    assert many["spectral_gap"] == pytest.approx(0.15597, abs=1e-4)
    assert "0.333" in ask("show", text, "--workers", "4").stdout
    assert "spectral gap 0.156" in ask("show", text, "--workers", "9").stdout
    assert told("show", "allreduce", "--workers", "4")["exchanges"][0]["mixing_matrix"] is None


def test_whole_weights_have_no_point() -> None:
    words = ("show", "gossip_pull", "--workers", "2", "--seed", "1")
    assert told(*words)["exchanges"][0]["mixing_matrix"] == [[0.5, 0.5], [0.0, 1.0]]
    rows = [line.split() for line in ask(*words).stdout.splitlines()]
    assert ["0", "0.5", "0.5"] in rows and ["1", "·", "1"] in rows


def test_a_period_that_is_cut_short_says_so() -> None:
    cut = "local_sgd(every=2) + local_sgd(every=97)"
    assert told("show", cut)["steps_left_out"] is True
    screen = ask("show", cut).stdout
    assert "more rows of this period, left out" in screen and "and so on" not in screen
    assert told("show", "local_sgd(every=8)")["steps_left_out"] is False
    assert "and so on" in ask("show", "local_sgd(every=8)").stdout


def test_large_worlds_get_no_gap() -> None:
    found = told("show", "sgp", "--workers", "512")
    assert found["spectral_gap"] is None
    assert "not worked out above 256 workers" in ask("show", "sgp", "--workers", "512").stdout


def test_a_selection_that_fits_no_stand_in_is_said_not_guessed() -> None:
    found = told("show", 'Exchange(where=Named("fc[12].*"))')
    assert found["bytes_sent_per_member"] == 0
    assert any("takes none of the stand-in's tensors" in note for note in found["notes"])
    assert "fc[12]" in ask("show", 'Exchange(where=Named("fc[12].*"))').stdout


def test_wires_that_vary_are_told_with_their_bounds() -> None:
    load = told("show", "dgc(warmup=100)", "--workers", "4")["exchanges"][0]
    low, high = load["bytes_sent_per_member_bounds"]
    assert low == load["bytes_sent_per_member"] < high


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["localsgd"], "nearest that works: local_sgd"),
        (["local_sgd(every=8"], "never closed"),
        (["local_sgd(every=0)"], "every must be from 1"),
        (["local_sgd(evry=8)"], "nearest that works: every"),
        (["dgc(density=nan)"], "nan is no number"),
        (['__import__("os").system("true")'], "nothing is run"),
        ([""], "empty"),
        (["allreduce", "--workers", "-1"], "workers must be from 1"),
        (["allreduce", "--workers", "0"], "workers must be from 1"),
        (["allreduce", "--workers", "99999999999"], "workers must be from 1"),
        (["allreduce", "--workers", "two"], "--workers must be a whole number, not 'two'"),
        (["allreduce", "--bytes", "nan"], "is not a size"),
        (["allreduce", "--bytes", "-4"], "bytes must be from 4"),
        (["allreduce", "--bytes", "1zb"], "no unit I know"),
        (["allreduce", "--link", "fast"], "1Gbit"),
        (["allreduce", "--link", "0"], "nearest that works: 1Gbit or 8bit/s"),
        (["+".join(["allreduce"] * 600)], "600 exchanges are more than 100"),
        (["(" * 300 + "allreduce" + ")" * 300], "cannot be read"),
        (["allreduce", "--link", "nan"], "rate must lie"),
        (["allreduce", "--latency", "-1"], "latency must lie"),
        (["allreduce", "--seed", "-1"], "seed must be"),
        (["sgp", "--workers", "1"], "gossip needs company"),
        (["allreduce(torus(x=3))", "--workers", "8"], "nearest that works: Torus(x=4)"),
        (["backup_workers(backups=8)", "--workers", "8"], "8 backups of 8 workers"),
        (["allreduce(hierarchical(among=torus(x=3)))", "--workers", "16"], "nearest that works: among=Torus(x=2)"),
        (["allreduce(halving_dubling)"], "nearest that works: HalvingDoubling"),
        (["allreduce(broadcast)"], "there is no 'broadcast'"),
    ],
)
def test_bad_input(words: list[str], said: str) -> None:
    assert said in refused("show", *words)


def test_the_caret_stands_under_the_fault() -> None:
    lines = refused("show", "allreduce + local_sgd(evry=8)").splitlines()
    assert lines[0][lines[1].index("^") : lines[1].rindex("^") + 1] == "evry"
