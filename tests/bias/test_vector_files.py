"""Files of word vectors: every format is read, every defect is one line that names its place."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from srnet.bias.vectors import WordVectors

WORDS = ["the", "Über", "at name@domain.com", "日本", "7"]
VECTORS = np.array([[0.5, -1.0, 2.0], [1.0, 0.0, 0.25], [3.0, 3.0, 3.0], [-0.125, 8.0, 1e-3], [1, 2, 3]], np.float32)


def lines(words: list[str] = WORDS, end: str = "\n") -> bytes:
    rows = (f"{word} {' '.join(map(str, row.tolist()))}{end}" for word, row in zip(words, VECTORS, strict=True))
    return "".join(rows).encode()


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **({"words": np.array(WORDS), "vectors": VECTORS} | arrays))
    return buffer.getvalue()


def file(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(folder / name)


HEADER = b"5 3\n" + lines(end=" \n")
"""fastText ends its lines with a space."""
FILES = {
    **{
        f"{head}.{ending}": text for head, text in (("header", HEADER), ("plain", lines())) for ending in ("vec", "txt")
    },
    "header.vec.gz": HEADER,
    "plain.txt.gz": lines(),
    "all.npz": npz(),
    "by_column.npz": npz(vectors=np.asfortranarray(VECTORS)),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("keep", [None, {"日本", "über", "nowhere"}])
def test_every_format_is_read(name: str, keep: set[str] | None, tmp_path: Path) -> None:
    names = [word.lower() for word in WORDS]
    vectors = WordVectors.read(file(tmp_path, name, FILES[name]), keep)
    expected = [row if keep is None or name in keep else 0 * row for name, row in zip(names, VECTORS, strict=True)]
    np.testing.assert_array_equal(vectors.of(names), np.stack(expected))
    assert len(vectors) == (len(names) if keep is None else 2)
    assert vectors.dim == 3


@pytest.mark.parametrize("order", [["The", "THE", "the"], ["the", "The", "THE"], ["The", "the", "THE"]])
def test_the_lower_case_entry_wins(order: list[str], tmp_path: Path) -> None:
    source = file(tmp_path, "v.txt", lines([*order, "Paris", "PARIS"]))
    vectors = WordVectors.read(source, {"The", "paris"})
    assert vectors.of(["the"])[0].tolist() == VECTORS[order.index("the")].tolist()
    assert vectors.of(["paris"])[0].tolist() == VECTORS[3].tolist(), "else the first that is there"


# --- defects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("v.vec", b"2 3\na 1 2 3\nb 1 2\n", ("line 3", 2, 3)),
        ("v.txt", b"a 1 2 3\nb 1 2 3 4\n", ("line 2", 4, 3)),
        ("v.txt", b"a 1 2 3\nb 1 2  3\nc 1  3\n", ("line 3", 2, 3)),
        ("v.txt", b"a 1 2 3\nb\n", ("line 2", 0, 3)),
        ("v.txt", b"hello\n", ("line 1", "0 values")),
        ("v.txt", b"a 1 2 3\nb 1 two 3\n", ("line 2", "'two'")),
        ("v.txt", b"a 1 2 3\nb 1 nan 3\n", ("'b'", "non-finite")),
        ("v.vec", b"2 3\nthe 1 2 1e999\nof 1 2 3\n", ("'the'", "non-finite")),
        ("v.vec", b"2 3\nthe 1 2 1e39\nof 1 2 3\n", ("'the'", "non-finite")),  # beyond float32
        ("v.txt", b"a 1 2\nb\xff 1 2\n", ("line 2", "UTF-8")),
        ("v.txt", b"", ("empty",)),
        ("v.vec", b"0 3\n", ("no word vectors",)),
        ("v.vec.gz", b"", ("no word vectors",)),
        ("v.vec", b"9 3\nthe 1 2 3\nof 1 2 3\n", (2, 9)),
        ("v.vec", b"9" * 5000 + b" 3\nthe 1 2 3\n", ()),
        ("v.npz", b"nonsense", ("archive",)),
        ("v.npz", npz()[:-20], ("archive",)),
        ("v.npz", npz(words=np.array(["one", "two"])), (5, 2)),
        ("v.npz", npz(words=np.array(WORDS, dtype=object)), ("allow_pickle=False",)),
        ("v.npz", npz(vectors=np.zeros(5)), ("'vectors'",)),
        ("v.npz", npz(vectors=np.array(["a"] * 10).reshape(5, 2)), ("'vectors'",)),
        ("v.bin", b"2 3\n", ("docs/recipes.md",)),
        ("v.npy", b"x", ("docs/recipes.md",)),
        ("v.model", b"x", (".vec", ".txt", ".npz")),
    ],
)
def test_defects(name: str, content: bytes, named: tuple[object, ...], tmp_path: Path) -> None:
    with refused(tmp_path / name, *named):
        WordVectors.read(file(tmp_path, name, content))


def test_values_whose_squares_overflow(tmp_path: Path) -> None:
    with refused("too large"):
        WordVectors.read(file(tmp_path, "v.vec", b"2 3\nthe 1 2 3e38\nof 1 2 3\n"))
    with refused("non-finite"):
        WordVectors({"the": 0}, np.array([[1.0, np.nan]]))  # the embeddings of a backbone


def test_archives_that_are_truncated_or_not_gzip(tmp_path: Path) -> None:
    for content in (gzip.compress(lines())[:-20], lines()):
        (tmp_path / "v.txt.gz").write_bytes(content)
        with refused(tmp_path / "v.txt.gz", "unpack"):
            WordVectors.read(str(tmp_path / "v.txt.gz"))


@pytest.mark.parametrize("cut", [1, 12])
@pytest.mark.parametrize("part", ["words", "vectors"])
def test_an_archive_whose_arrays_are_shorter_than_their_headers(part: str, cut: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(npz())) as whole, zipfile.ZipFile(tmp_path / "v.npz", "w") as short:
        for name in whole.namelist():
            content = whole.read(name)
            short.writestr(name, content[:-cut] if name == f"{part}.npy" else content)
    with refused(tmp_path / "v.npz", "truncated"):
        WordVectors.read(str(tmp_path / "v.npz"))


@pytest.mark.parametrize("name", ["missing.vec", "missing.npz", "folder.vec", "pipe.vec"])
def test_what_is_no_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.vec").mkdir()
    os.mkfifo(tmp_path / "pipe.vec")  # which is not waited for
    with refused(tmp_path / name):
        WordVectors.read(str(tmp_path / name))


def test_other_words_than_the_data(tmp_path: Path) -> None:
    with refused("v.txt", "of the data"):
        WordVectors.read(file(tmp_path, "v.txt", lines()), {"zebra"})


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["txt", "txt.gz"])
def test_only_what_is_wanted_is_held(ending: str, tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(100_000)]  # 8 MB of vectors
    source = file(tmp_path, f"v.{ending}", "".join(word + " 0.25" * 20 + "\n" for word in words).encode())
    keep = set(words[::1000])
    tracemalloc.start()
    vectors = WordVectors.read(source, keep)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(vectors) == 100
    assert (vectors.of(sorted(keep)) == 0.25).all()
    assert held < 1e6
    assert peak < 6e6
