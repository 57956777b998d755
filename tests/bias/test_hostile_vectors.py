"""Word vectors that a disk has damaged: one line, or the vectors, and never more memory than the file has."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from srnet.bias.vectors import WordVectors
from srnet.core.errors import UserError

WORDS = ["the", "of"]


def npy(folder: Path, content: bytes) -> str:
    (folder / "v.npy").write_bytes(content)
    (folder / "words.txt").write_text("\n".join(WORDS))
    return f"{folder / 'v.npy'},{folder / 'words.txt'}"


def test_every_flipped_bit_of_a_header_is_one_line_or_vectors(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.ones((2, 3), np.float32))
    whole = (tmp_path / "whole.npy").read_bytes()
    for bit in range(8 * (len(whole) - 24)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with suppress(UserError):
            assert WordVectors.read(npy(tmp_path, bytes(changed))).dim >= 1


@pytest.mark.parametrize("shape", [(10**12, 3), (2, 10**12), (-2, 3), (2, 3, 4)])
def test_a_header_that_promises_more_than_the_file_has(shape: tuple[int, ...], tmp_path: Path) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + np.ones(6, "<f4").tobytes()
    with pytest.raises(UserError):
        WordVectors.read(npy(tmp_path, content))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("v.vec", b"9 3\nthe 1 2 3\nof 1 2 3\n", "ends after 2 of 9 words"),
        ("v.vec", b"2 3\nthe 1 2 1e999\nof 1 2 3\n", "has a non-finite value"),
        ("v.vec", b"2 3\nthe 1 2 1e39\nof 1 2 3\n", "has a non-finite value"),  # beyond float32
        ("v.vec", b"2 3\nthe 1 2 3e38\nof 1 2 3\n", "too large"),  # its square is
        ("v.vec", b"9" * 5000 + b" 3\nthe 1 2 3\n", "cannot read"),
        ("v.bin", b"2 99999999999\nthe " + b"\0" * 12, "ends or is damaged at word 1 of 2"),
        ("v.bin", b"99999999999 3\nthe " + b"\0" * 12, "ends or is damaged at word 2 of 99999999999"),
        ("v.bin", b"2 3\nthe " + np.full(3, np.inf, "<f4").tobytes() + b"of " + b"\0" * 13, "non-finite value"),
    ],
)
def test_short_and_overflowing_files(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        WordVectors.read(str(tmp_path / name))


def test_words_nested_too_deep(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.ones((2, 3), np.float32))
    (tmp_path / "words.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="cannot read"):
        WordVectors.read(f"{tmp_path / 'v.npy'},{tmp_path / 'words.json'}")


def test_a_backbone_whose_embeddings_are_no_numbers() -> None:
    with pytest.raises(UserError, match="non-finite"):
        WordVectors({"the": 0}, np.array([[1.0, np.nan]]))


@pytest.mark.parametrize("cut", [1, 4, 12, 20])
@pytest.mark.parametrize("part", ["words", "vectors"])
def test_an_archive_whose_arrays_are_shorter_than_their_headers(part: str, cut: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", words=np.array(WORDS), vectors=np.ones((2, 3), np.float32))
    with zipfile.ZipFile(tmp_path / "whole.npz") as whole, zipfile.ZipFile(tmp_path / "v.npz", "w") as short:
        for name in whole.namelist():
            content = whole.read(name)
            short.writestr(name, content[:-cut] if name == f"{part}.npy" else content)
    with pytest.raises(UserError, match="truncated or damaged"):
        WordVectors.read(str(tmp_path / "v.npz"))
