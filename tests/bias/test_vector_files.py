"""Files of word vectors: every format comes back, every defect is a line that says where."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from srnet.bias.vectors import WordVectors, read_vectors
from srnet.core.errors import UserError

WORDS = ["the", "Über", "at name@domain.com", "日本", "7"]
VECTORS = np.array([[0.5, -1.0, 2.0], [1.0, 0.0, 0.25], [3.0, 3.0, 3.0], [-0.125, 8.0, 1e-3], [1, 2, 3]], np.float32)


def lines(words: list[str] = WORDS, vectors: np.ndarray = VECTORS, end: str = "\n") -> bytes:
    rows = (f"{word} {' '.join(map(str, row.tolist()))}{end}" for word, row in zip(words, vectors, strict=True))
    return "".join(rows).encode()


def binary(words: list[bytes], vectors: np.ndarray = VECTORS, end: bytes = b"\n") -> bytes:
    rows = (word + b" " + row.astype("<f4").tobytes() + end for word, row in zip(words, vectors, strict=True))
    return f"{len(words)} {vectors.shape[1]}\n".encode() + b"".join(rows)


def file(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(folder / name)


def npy(folder: Path, names: str, vectors: np.ndarray = VECTORS) -> str:
    np.save(folder / "vectors.npy", vectors)
    return f"{folder / 'vectors.npy'},{folder / names}"


def of_kind(kind: str, folder: Path) -> str:
    """A file with WORDS and VECTORS."""
    encoded = [word.encode() for word in WORDS]
    match kind.split():
        case ["header", name]:
            return file(folder, name, b"5 3\n" + lines(end=" \n"))  # fastText ends its lines with a space
        case ["plain", name]:
            return file(folder, name, lines())
        case ["binary", name]:
            return file(folder, name, binary(encoded))
        case ["unbroken", name]:
            return file(folder, name, binary(encoded, end=b""))
        case ["npz"]:
            np.savez_compressed(folder / "all.npz", words=np.array(WORDS), vectors=VECTORS)
            return str(folder / "all.npz")
        case ["npy", "txt"]:
            file(folder, "words.txt", "\n".join(WORDS).encode())
        case ["npy", "json"]:
            file(folder, "words.json", json.dumps(WORDS).encode())
        case ["npy", "parquet"]:
            pq.write_table(pa.table({"word": WORDS}), folder / "words.parquet")
    return npy(folder, f"words.{kind.split()[1]}")


TEXT = [f"{head} v.{ending}" for head in ("header", "plain") for ending in ("vec", "txt", "vec.gz", "txt.gz")]
BINARY = ["binary v.bin", "unbroken v.bin", "binary v.bin.gz"]


@pytest.mark.parametrize("kind", [*TEXT, *BINARY, "npz", "npy txt", "npy json", "npy parquet"])
@pytest.mark.parametrize("keep", [None, {"日本", "über", "nowhere"}])
def test_every_format_comes_back(kind: str, keep: set[str] | None, tmp_path: Path) -> None:
    # a binary word ends at the first space
    names = ["the", "über", "日本", "7"] if kind in BINARY else [word.lower() for word in WORDS]
    if kind in BINARY:
        words, rows = [WORDS[i] for i in (0, 1, 3, 4)], VECTORS[[0, 1, 3, 4]]
        end = b"" if kind.startswith("unbroken") else b"\n"
        source = file(tmp_path, kind.split()[1], binary([word.encode() for word in words], rows, end))
    else:
        source, rows = of_kind(kind, tmp_path), VECTORS
    vectors = WordVectors.read(source, keep)
    expected = [row if keep is None or name in keep else 0 * row for name, row in zip(names, rows, strict=True)]
    np.testing.assert_array_equal(vectors.of(names), np.stack(expected))
    assert len(vectors) == (len(names) if keep is None else 2)
    assert vectors.dim == 3


@pytest.mark.parametrize("order", [["The", "THE", "the"], ["the", "The", "THE"], ["The", "the", "THE"]])
def test_the_lower_case_entry_wins(order: list[str], tmp_path: Path) -> None:
    source = file(tmp_path, "v.txt", lines([*order, "Paris", "PARIS"]))
    vectors = WordVectors.read(source, {"The", "paris"})
    assert vectors.of(["the"])[0].tolist() == VECTORS[order.index("the")].tolist()
    assert vectors.of(["paris"])[0].tolist() == VECTORS[3].tolist(), "else the first that is there"


def test_rows_of_parquet_words_may_be_numbered(tmp_path: Path) -> None:
    shuffled = [3, 0, 4, 1, 2]
    table = {"count": [9, 9, 9, 9, 9], "word": [WORDS[i] for i in shuffled], "row": shuffled}
    pq.write_table(pa.table(table), tmp_path / "words.parquet")
    vectors = WordVectors.read(npy(tmp_path, "words.parquet"))
    np.testing.assert_array_equal(vectors.of([word.lower() for word in WORDS]), VECTORS)


def test_stray_bytes_in_word2vec(tmp_path: Path) -> None:
    source = file(tmp_path, "v.bin", binary([b"caf\xe9", b"fine"], VECTORS[:2]))
    assert WordVectors.read(source, {"fine"}).of(["fine"])[0].tolist() == VECTORS[1].tolist()


def test_a_binary_file_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.bias.vectors._BLOCK", 7)
    words = ["the", "of", "longer"]
    source = file(tmp_path, "v.bin", binary([word.encode() for word in words], VECTORS[:3]))
    np.testing.assert_array_equal(WordVectors.read(source).of(words), VECTORS[:3])


# --- defects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.vec", b"2 3\na 1 2 3\nb 1 2\n", r"v\.vec, line 3: 2 values instead of 3; give"),
        ("v.txt", b"a 1 2 3\nb 1 2 3 4\n", r"v\.txt, line 2: 4 values instead of 3; give"),
        ("v.txt", b"a 1 2 3\nb 1 2  3\nc 1  3\n", r"v\.txt, line 3: 2 values instead of 3"),
        ("v.txt", b"a 1 2 3\nb\n", r"v\.txt, line 2: 0 values instead of 3"),
        ("v.txt", b"hello\n", r"v\.txt, line 1: 0 values instead of some"),
        ("v.txt", b"a 1 2 3\nb 1 two 3\n", r"v\.txt, line 2: 'two' is not a number"),
        ("v.txt", b"a 1 2 3\nb 1 nan 3\n", r"v\.txt: the vector of 'b' has a non-finite value"),
        ("v.txt", b"a 1 2\nb\xff 1 2\n", r"v\.txt, line 2: not UTF-8; save"),
        ("v.txt", b"", r"v\.txt is empty"),
        ("v.vec", b"0 3\n", r"v\.vec has no word vectors"),
        ("v.vec.gz", b"", r"no word vectors"),
        ("v.bin", b"", r"v\.bin is empty"),
        ("v.bin", b"\xba\x16\x4f\x2f\x0c\x00", r"v\.bin is a fastText model, .*give the \.vec file"),
        ("v.bin", b"hello\n", r"v\.bin, line 1: not 'count dimensions'"),
        (
            "v.bin",
            binary([b"a", b"b"], VECTORS[:2])[:-3],
            r"v\.bin ends or is damaged at word 2 of 2; .*download it again",
        ),
        ("v.bin", b"3 3\n" + b"x" * 70000, r"damaged at word 1 of 3"),
        ("v.npz", b"nonsense", r"v\.npz is not an archive"),
        ("v.npy", b"x", r"v\.npy has no words; .*after a comma: .*v\.npy,words\.txt"),
        ("v.model", b"x", r"no word vectors can be read from '.*v\.model'; give a \.vec"),
    ],
)
def test_defects(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as error:
        WordVectors.read(file(tmp_path, name, content))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["plain v.txt.gz", "binary v.bin.gz", "npz"])
def test_truncated_archives(kind: str, tmp_path: Path) -> None:
    path = Path(of_kind(kind, tmp_path))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="download it again"):
        WordVectors.read(str(path))


def test_not_gzip_at_all(tmp_path: Path) -> None:
    (tmp_path / "v.vec.gz").write_bytes(lines())
    with pytest.raises(UserError, match=r"cannot unpack .*v\.vec\.gz"):
        WordVectors.read(str(tmp_path / "v.vec.gz"))


@pytest.mark.parametrize("source", ["v.vec", "v.bin.gz", "v.npz", "v.npy,words.txt"])
def test_missing_files(source: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no file '.*v\.[a-z.]+'; give the path"):
        WordVectors.read(f"{tmp_path}/{source}")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "v.vec").mkdir()
    with pytest.raises(UserError, match=r"v\.vec is a folder"):
        WordVectors.read(str(tmp_path / "v.vec"))


@pytest.mark.parametrize("source", ["pipe.vec", "v.npy,pipe.txt"])
def test_a_pipe_is_not_waited_for(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.ones((2, 3)))
    os.mkfifo("pipe.vec")
    os.mkfifo("pipe.txt")
    with pytest.raises(UserError, match="is a pipe or a device"):
        read_vectors(source, None)


def test_other_words_than_the_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no vector for any word of the data"):
        WordVectors.read(file(tmp_path, "v.txt", lines()), {"zebra"})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("words.txt", b"one\ntwo\n", r"vectors\.npy: 5 vectors for 2 words; give"),
        ("words.txt", b"one\n\xff\n", r"words\.txt, line 2: not UTF-8"),
        ("words.json", b"{", r"words\.json is not JSON"),
        ("words.json", b'{"a": 1}', r"words\.json is not a list of words"),
        ("words.parquet", b"PAR", r"words\.parquet is not a Parquet file"),
        ("words.csv", b"a", r"no words can be read from '.*words\.csv'"),
    ],
)
def test_words_that_do_not_fit(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    file(tmp_path, name, content)
    with pytest.raises(UserError, match=message):
        WordVectors.read(npy(tmp_path, name))


def test_a_table_without_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"row": [0, 1]}), tmp_path / "words.parquet")
    with pytest.raises(UserError, match="has no column of text"):
        WordVectors.read(npy(tmp_path, "words.parquet"))


@pytest.mark.parametrize("array", [np.zeros(5), np.array(["a"] * 10).reshape(5, 2)])
def test_arrays_that_are_no_vectors(array: np.ndarray, tmp_path: Path) -> None:
    file(tmp_path, "words.txt", b"a\nb\nc\nd\ne\n")
    with pytest.raises(UserError, match="give numbers, a row for each word"):
        WordVectors.read(npy(tmp_path, "words.txt", array))


def test_archives_of_other_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", names=np.array(WORDS), vectors=VECTORS)
    with pytest.raises(UserError, match="no arrays 'words' and 'vectors'"):
        WordVectors.read(str(tmp_path / "v.npz"))
    np.savez(tmp_path / "v.npz", words=np.array(WORDS, dtype=object), vectors=VECTORS)
    with pytest.raises(UserError, match="Python objects"):
        WordVectors.read(str(tmp_path / "v.npz"))
    np.savez(tmp_path / "v.npz", words=np.array(WORDS), vectors=np.asfortranarray(VECTORS))
    with pytest.raises(UserError, match="by column"):
        WordVectors.read(str(tmp_path / "v.npz"))


# --- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["txt", "txt.gz", "bin", "npy", "npz"])
def test_only_what_is_wanted_is_held(kind: str, tmp_path: Path) -> None:
    size, dim = 100_000, 20  # all of them would be 8 MB
    words = [f"w{number}" for number in range(size)]
    if kind.startswith("txt"):
        row = " 0.25" * dim + "\n"
        source = file(tmp_path, f"v.{kind}", "".join(word + row for word in words).encode())
    else:
        matrix = np.full((size, dim), 0.25, np.float32)
        if kind == "bin":
            source = file(tmp_path, "v.bin", binary([word.encode() for word in words], matrix))
        elif kind == "npz":
            np.savez(tmp_path / "v.npz", words=np.array(words), vectors=matrix)
            assert zipfile.is_zipfile(tmp_path / "v.npz")
            source = str(tmp_path / "v.npz")
        else:
            file(tmp_path, "words.txt", "\n".join(words).encode())
            source = npy(tmp_path, "words.txt", matrix)
        del matrix
    keep = set(words[::1000])
    names = 200 * size  # a list of all words, which only arrays without words of their own need
    tracemalloc.start()
    vectors = WordVectors.read(source, keep)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(vectors) == 100
    assert (vectors.of(sorted(keep)) == 0.25).all()
    assert held < 1e6
    assert peak < (names if kind in ("npy", "npz") else 6e6)
