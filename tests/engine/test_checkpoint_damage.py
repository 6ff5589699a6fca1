"""Damaged, foreign, future and malicious checkpoints: refused with file and reason before any tensor is used."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engine.specimen import write

from gossamer.engine.checkpoint import BadCheckpoint, load
from gossamer.parts.refusal import Refused

FILES = ["manifest.json", "model.safetensors", "member-0.safetensors", "member-1.safetensors"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two checkpoints, of steps 1 and 2."""
    write(tmp_path, 1)
    write(tmp_path, 2)
    return tmp_path


def refusal(place: Path) -> BadCheckpoint:
    """How it is refused; an error or an acceptance fails the test."""
    with pytest.raises(BadCheckpoint) as no:
        load(place)
    assert isinstance(no.value, Refused)
    return no.value


def test_a_thousand_bit_flips_and_truncations(root: Path) -> None:
    chance, cut = random.Random(5), 0
    for _ in range(1000):
        path = root / "step-2" / chance.choice(FILES)
        whole = path.read_bytes()
        bad = bytearray(whole)
        if chance.random() < 0.3:
            del bad[chance.randrange(len(bad)) :]
            cut += 1
        else:
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        path.write_bytes(bad)
        no = refusal(root)
        assert path.name in no.reason
        assert no.nearest == str(root / "step-1")
        path.write_bytes(whole)
    assert load(root).step == 2
    assert 200 < cut < 400


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file(root: Path, file: str) -> None:
    (root / "step-2" / file).unlink()
    assert f"{file} is missing" in refusal(root).reason
    saved = load(root, fallback=True)
    assert saved.step == 1
    assert len(saved.skipped) == 1
    assert file in saved.skipped[0]


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_another_step(root: Path, file: str) -> None:
    shutil.copy(root / "step-1" / file, root / "step-2" / file)
    assert "step-2" in refusal(root).reason
    assert load(root, fallback=True).step == 1


def test_a_file_of_another_member(root: Path) -> None:
    shutil.copy(root / "step-2/member-0.safetensors", root / "step-2/member-1.safetensors")
    assert "member-1.safetensors is damaged, or of another checkpoint" in refusal(root).reason


def test_a_stranger_in_the_folder(root: Path) -> None:
    shutil.copy(root / "step-1/model.safetensors", root / "step-2/member-7.safetensors")
    assert "member-7.safetensors is not in the manifest.json" in refusal(root).reason
    (root / "step-2/member-7.safetensors").rename(root / "step-2/.left-by-a-file-system")
    assert load(root).step == 2


def test_a_whole_folder_under_another_step(root: Path) -> None:
    (root / "step-2").rename(root / "step-9")
    assert "step-9 holds step 2" in refusal(root).reason
    (root / "step-9").rename(root / "best")
    assert load(root / "best").step == 2


def test_when_none_is_whole(root: Path) -> None:
    for step in (1, 2):
        (root / f"step-{step}/model.safetensors").write_bytes(b"")
    assert refusal(root).nearest is None
    with pytest.raises(BadCheckpoint, match=r"no checkpoint in .* is whole.*step-2.*step-1"):
        load(root, fallback=True)


def test_foreign_folders(root: Path, tmp_path: Path) -> None:
    assert "there is no folder" in refusal(tmp_path / "nowhere").reason
    assert "there is no folder" in refusal(root / "step-2/manifest.json").reason
    (tmp_path / "empty").mkdir()
    assert "holds no checkpoint" in refusal(tmp_path / "empty").reason
    (tmp_path / "other").mkdir()
    (tmp_path / "other/manifest.json").write_text('{"name": "some web page"}')
    assert "no manifest of a checkpoint" in refusal(tmp_path / "other").reason
    (root / "step-3").mkdir()
    assert "manifest.json is missing" in refusal(root).reason
    with pytest.raises(BadCheckpoint, match="no checkpoint of step 8; nearest that works: step 1 or 2 or 3"):
        load(root, 8)


def resealed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and seal it rightly, as somebody who knows how would."""
    path = folder / "manifest.json"
    body = json.loads(path.read_bytes())
    del body["sha256"]
    change(body)
    text = json.dumps(body, indent=1)
    path.write_text(f'{{\n "sha256": "{hashlib.sha256(text.encode()).hexdigest()}",{text[1:]}\n')


def test_a_resealed_manifest_is_read(root: Path) -> None:
    resealed(root / "step-2", lambda body: body["facts"].update(more=1))
    assert load(root).facts["more"] == 1


def test_a_future_format(root: Path) -> None:
    resealed(root / "step-2", lambda body: body.update(format=2, novelty=True))
    assert "is of format 2; this version reads up to 1" in refusal(root).reason


@pytest.mark.parametrize(
    "name", ["../step-1/model.safetensors", "/etc/passwd", "..", "a/b.safetensors", ".x.safetensors"]
)
def test_a_manifest_that_names_paths(root: Path, name: str) -> None:
    resealed(root / "step-2", lambda body: body["files"].update({name: body["files"]["model.safetensors"]}))
    assert "is no name for one" in refusal(root).reason


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(format=0),
        lambda body: body.update(format="1"),
        lambda body: body.update(step=-2),
        lambda body: body.update(files=[]),
        lambda body: body.update(unknown=1),
        lambda body: body.pop("facts"),
        lambda body: body["files"]["model.safetensors"].update(bytes=-1),
        lambda body: body["files"]["model.safetensors"].update(bytes=10**15),
        lambda body: body["files"]["model.safetensors"].update(sha256="0"),
        lambda body: body["files"]["model.safetensors"].update(sha256="../" * 21 + "a"),
    ],
)
def test_a_sealed_manifest_that_is_none(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    resealed(root / "step-2", change)
    refusal(root)


def test_a_manifest_nested_without_end(root: Path) -> None:
    path, deep = root / "step-2/manifest.json", b"{" + b'"a":[' + b"[" * 100_000 + b"}"
    path.write_bytes(b'{\n "sha256": "%s",' % hashlib.sha256(deep).hexdigest().encode() + deep[1:] + b"\n")
    assert "no manifest" in refusal(root).reason


@pytest.mark.parametrize(
    "data",
    [
        b"12345678",
        (10**15).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}more",
        (55).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}',
        (61).to_bytes(8, "little") + b'{"a":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]}}   x',
    ],
)
def test_a_sealed_file_that_holds_no_tensors(root: Path, data: bytes) -> None:
    (root / "step-2/model.safetensors").write_bytes(data)
    note = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    resealed(root / "step-2", lambda body: body["files"].update({"model.safetensors": note}))
    saved = load(root)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors is sealed, but no safetensors file"):
        saved.tensors("model")


def test_links_pipes_and_folders_are_not_followed(root: Path) -> None:
    path, aside = root / "step-2/model.safetensors", root / "aside"
    path.rename(aside)
    path.symlink_to(aside)
    assert "is a link" in refusal(root).reason
    path.unlink()
    os.mkfifo(path)
    assert "is no regular file" in refusal(root).reason
    path.unlink()
    path.mkdir()
    assert "is no regular file" in refusal(root).reason


def test_a_file_changed_after_it_was_verified(root: Path) -> None:
    saved = load(root)
    shutil.copy(root / "step-1/model.safetensors", root / "step-2/model.safetensors")
    with pytest.raises(BadCheckpoint, match="changed after it had been verified"):
        saved.tensors("model")
    with pytest.raises(BadCheckpoint, match="holds no stranger"):
        saved.tensors("stranger")
    with pytest.raises(BadCheckpoint, match="no tree"):
        load(root / "step-1").tree("model")
