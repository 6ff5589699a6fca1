"""The job secret: made once, read only where nobody else could."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gossamer.engine.messages import secret
from gossamer.engine.messages.here import Here
from gossamer.parts.refusal import Refused


def test_what_was_made_is_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = secret.made(tmp_path / "key")
    finally:
        os.umask(before)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert len(made) == 32 and secret.read(tmp_path / "key") == made
    assert secret.made(tmp_path / "other") != made


def test_a_secret_is_never_written_over(tmp_path: Path) -> None:
    made = secret.made(tmp_path / "key")
    with pytest.raises(Refused, match="is there already"):
        secret.made(tmp_path / "key")
    assert secret.read(tmp_path / "key") == made


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (b"x" * 32, 0o644, "open to other users .mode 644.*chmod 600"),
        (b"x" * 32, 0o620, "open to other users .mode 620"),
        (b"x" * 31, 0o600, "holds 31 bytes, a secret has 32"),
        (b"x" * 33, 0o600, "holds 33 bytes"),
        (b"", 0o600, "holds nothing"),
    ],
)
def test_what_is_no_secret_is_refused(tmp_path: Path, content: bytes, mode: int, reason: str) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(Refused, match=reason):
        secret.read(tmp_path / "key")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read: No such file"):
        secret.read(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Refused, match="is not a file"):
        secret.read(tmp_path / "pipe")
    with pytest.raises(Refused, match="cannot be written"):
        secret.made(tmp_path / "missing" / "key")


def test_other_hosts_are_not_met_without_a_key() -> None:
    here = Here.found(4, {"LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "127.0.0.1"})
    assert here.host == 1
    abroad = Here(here.host, "10.0.0.7", here.generation, here.key_file)
    with pytest.raises(Refused, match=r"10\.0\.0\.7.*no key.*--key-file"):
        abroad.secret(None, "job", 1, 4)  # type: ignore[arg-type]


def test_an_interface_that_is_not_there_is_named() -> None:
    with pytest.raises(Refused, match=r"interface nowhere0 has no address.*lo"):
        Here.found(4, {"LOCAL_WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "nowhere0"})
