"""Files of word vectors, read as a stream: only the requested words are held in memory."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from srnet.core.arrays import read_npy_header
from srnet.core.errors import UserError
from srnet.core.files import open_data, open_file, read_bytes, require_readable
from srnet.models.backbones import load_backbone

ENDINGS = (".vec", ".txt", ".bin", ".npy", ".npz")
FORMATS = "a .vec, .txt or .bin file (also .gz), .npz, or vectors.npy,words.txt"
_FASTTEXT_MODEL = (793712314).to_bytes(4, "little")
_BLOCK = 2**20
_LONGEST_WORD = 2**16
_TRUNCATED = "it is truncated or damaged, so download it again"

Entries = Iterator[tuple[str, np.ndarray]]


def is_vector_file(source: str) -> bool:
    """Whether `source` is a file and not a backbone's name, by its ending: the file need not exist."""
    return files_of(source)[0].removesuffix(".gz").endswith(ENDINGS)


def files_of(source: str) -> tuple[str, ...]:
    """The files of a source. An .npy file has its words after a comma; any other comma is part of a path."""
    pair = re.fullmatch(r"(.+\.npy),(.+)", source)
    return (pair[1], pair[2]) if pair else (source,)


def absolute(source: str, folder: Path = Path()) -> str:
    """The same source with absolute paths; relative ones start at `folder`. The name of a backbone stays as it is."""
    return ",".join(str((folder / file).resolve()) for file in files_of(source)) if is_vector_file(source) else source


class _Choice:
    """Which words are read: those of `keep`, in lower case. Of 'The' and 'the' the latter is used."""

    def __init__(self, keep: Collection[str] | None) -> None:
        self._keep = None if keep is None else {word.lower() for word in keep}
        self._exact: dict[str, bool] = {}

    def takes(self, word: str) -> bool:
        lower = word.lower()
        if self._keep is not None and lower not in self._keep:
            return False
        better = lower not in self._exact or (word == lower and not self._exact[lower])
        if better:
            self._exact[lower] = word == lower
        return better


def read_vectors(source: str, keep: Collection[str] | None) -> dict[str, np.ndarray]:
    """Vectors by lower-case word. Only the vectors that are kept are checked."""
    path, reader = _reader(source)
    choice = _Choice(keep)
    try:
        for each in files_of(source):
            require_readable(Path(each))
        _not_empty(path)
        found = {word.lower(): _checked(vector, word, path) for word, vector in reader(choice)}
    except FileNotFoundError as error:
        raise UserError(f"no file '{error.filename}'", "give the path of a file with word vectors") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise UserError(f"cannot unpack {path}", _TRUNCATED) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", f"give {FORMATS}") from error
    except UserError:
        raise
    except Exception as error:  # NumPy, Arrow and zipfile have no common exception for damaged files
        raise UserError(f"cannot read {path}: {type(error).__name__}", _TRUNCATED) from error
    if not found:
        problem = "has no word vectors" if not keep else "has no vector for any word of the data"
        raise UserError(f"{path} {problem}", "give another file")
    return found


def _reader(source: str) -> tuple[Path, Any]:
    """The file, and a function of a choice that yields its words and vectors."""
    path, *names = map(Path, files_of(source))
    if names:
        return path, lambda choice: _npy_entries(path, names[0], choice)
    if path.suffix == ".npy":
        raise UserError(f"{path} has no words", f"name the file of its words after a comma: {path},words.txt")
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    readers = {".vec": _text_entries, ".txt": _text_entries, ".bin": _binary_entries, ".npz": _npz_entries}
    if kind not in readers or (kind == ".npz" and path.suffix == ".gz"):
        raise UserError(f"no word vectors can be read from '{source}'", f"give {FORMATS}")
    return path, lambda choice: readers[kind](path, choice)


def _checked(vector: np.ndarray, word: str, path: Path) -> np.ndarray:
    with np.errstate(over="ignore"):
        numbers = np.array(vector, dtype=np.float32)  # a copy, so that its block can be freed
    if not np.isfinite(numbers).all():
        raise UserError(f"{path}: the vector of '{word}' has a non-finite value", "correct it")
    return numbers


# --- text ----------------------------------------------------------------------------------------------------------


def _text_entries(path: Path, choice: _Choice) -> Entries:
    with open_data(path) as file:
        dim, promised, count = 0, None, 0
        for number, line in enumerate(file, start=1):
            where, line = f"{path}, line {number}", line.rstrip()
            if number == 1 and (header := _header(line)):
                promised, dim = header
                continue
            if not line:
                continue
            count += 1
            dim = dim or _width(line)
            name, values = _split_line(line, dim, where)
            if choice.takes(word := _decoded(name, where)):
                yield word, _numbers(values.split(), dim, where)
    if promised is not None and count < promised:
        raise UserError(f"{path} ends after {count:,} of {promised:,} words", _TRUNCATED)


def _header(line: bytes) -> tuple[int, int] | None:
    """The number of words and of dimensions, if the line is a header."""
    return (int(match[1]), int(match[2])) if (match := re.fullmatch(rb"(\d+)\s+([1-9]\d*)", line.strip())) else None


def _width(line: bytes) -> int:
    """How many numbers are at the end of a file's first line; the word itself may be a number, too."""
    fields = line.split()
    width = 0
    while width < len(fields) - 1 and _is_number(fields[-1 - width]):
        width += 1
    return width


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _split_line(line: bytes, dim: int, where: str) -> tuple[bytes, bytes]:
    """Word and values. A word may contain spaces, so the values are counted from the right."""
    if line.count(b" ") == dim and dim:  # the common case, without splitting a line that is not used
        name, _, values = line.partition(b" ")
        return name, values
    name, *rest = line.rsplit(None, dim) if dim else [line]
    pieces = name.split()
    too_many = len(pieces) > 1 and _is_number(pieces[-1])
    if len(rest) != dim or not dim or too_many:
        raise _wrong_count(len(line.split()) - 1, dim, where)
    return name, b" ".join(rest)


def _wrong_count(found: int, dim: int, where: str) -> UserError:
    return UserError(f"{where}: {found} values instead of {dim or 'some'}", "give every word the same number of values")


def _decoded(name: bytes, where: str) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8", "save the file in UTF-8") from error


def _numbers(values: list[bytes], dim: int, where: str) -> np.ndarray:
    if len(values) != dim:
        raise _wrong_count(len(values), dim, where)
    bad = next((value for value in values if not _is_number(value)), None)
    if bad is not None:
        raise UserError(f"{where}: '{bad.decode(errors='replace')}' is not a number", "correct it")
    return np.array([float(value) for value in values])


# --- word2vec's binary format --------------------------------------------------------------------------------------


def _binary_entries(path: Path, choice: _Choice) -> Entries:
    with open_data(path) as file:
        first = file.readline(100)
        if first.startswith(_FASTTEXT_MODEL):
            raise UserError(f"{path} is a fastText model, not a list of vectors", "give the .vec file of it")
        if (header := _header(first)) is None:
            raise UserError(f"{path}, line 1: not 'count dimensions'", "give a .bin file in word2vec's format")
        count, dim = header
        block, at = b"", 0
        for number in range(1, count + 1):
            while (space := block.find(b" ", at)) < 0 or len(block) <= space + 4 * dim:
                more = file.read(_BLOCK)
                if not more or (space < 0 and len(block) - at > _LONGEST_WORD):
                    raise UserError(f"{path} ends or is damaged at word {number} of {count}", _TRUNCATED)
                block, at = block[at:] + more, 0
            word = block[at:space].lstrip(b"\n").decode(errors="replace")  # Google's own file has invalid bytes
            if choice.takes(word):
                yield word, np.frombuffer(block, "<f4", dim, space + 1)
            at = space + 1 + 4 * dim


# --- NumPy's formats -----------------------------------------------------------------------------------------------


def _npz_entries(path: Path, choice: _Choice) -> Entries:
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path} is not an archive of arrays", _TRUNCATED)
    with np.load(path, allow_pickle=False) as arrays:
        if not {"words", "vectors"} <= set(arrays.files):
            raise UserError(f"{path} has no arrays 'words' and 'vectors'", "name them so")
        try:
            words = [str(word) for word in arrays["words"].ravel()]
        except ValueError as error:
            if "pickle" not in str(error):  # the array is shorter than its header says
                raise
            raise UserError(f"{path}: 'words' are Python objects, not text", "save it as an array of str") from error
    with zipfile.ZipFile(path) as archive, archive.open("vectors.npy") as file:
        # an archive cannot be mapped to memory, so its rows are read one by one
        shape, fortran, dtype = read_npy_header(file, f"{path}: 'vectors'")
        _check_shape(path, shape, dtype, words)
        if fortran:
            raise UserError(f"{path}: 'vectors' is stored by column", "save np.ascontiguousarray(vectors)")
        for word in words:
            row = file.read(dtype.itemsize * shape[1])
            if len(row) < dtype.itemsize * shape[1]:
                raise UserError(f"{path}: 'vectors' ends before the vector of '{word}'", _TRUNCATED)
            if choice.takes(word):
                yield word, np.frombuffer(row, dtype)


def _npy_entries(path: Path, names: Path, choice: _Choice) -> Entries:
    words = _words_of(names)
    with open_file(path) as file:
        shape, _, dtype = read_npy_header(file, str(path))
    _check_shape(path, shape, dtype, words)
    matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    for row, word in enumerate(words):
        if choice.takes(word):
            yield word, matrix[row]


def _not_empty(path: Path) -> Path:
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty", _TRUNCATED)
    return path


def _check_shape(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], words: list[str]) -> None:
    if len(shape) != 2 or not shape[1] or dtype.kind not in "fiu":
        raise UserError(f"{path}: vectors of shape {shape} and type {dtype}", "give numbers, a row for each word")
    if shape[0] != len(words):
        raise UserError(f"{path}: {shape[0]} vectors for {len(words)} words", "give as many words as vectors")


def _words_of(path: Path) -> list[str]:
    readers = {".txt": _words_of_text, ".json": _words_of_json, ".parquet": _words_of_parquet}
    if path.suffix not in readers:
        raise UserError(f"no words can be read from '{path}'", "give .txt with one word per line, .json or .parquet")
    return readers[path.suffix](path)


def _words_of_text(path: Path) -> list[str]:
    lines = read_bytes(path).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [_decoded(line.removesuffix(b"\r"), f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def _words_of_json(path: Path) -> list[str]:
    try:
        words = json.loads(read_bytes(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", "give a list of words") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{path} is not a list of words", 'write it as ["the", "of"]')
    return words


def _words_of_parquet(path: Path) -> list[str]:
    """The column of text, in the order of the column of row numbers, if there is one."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        table = pq.read_table(_not_empty(path))
    except pa.ArrowInvalid as error:
        raise UserError(f"{path} is not a Parquet file", _TRUNCATED) from error
    texts = [each.name for each in table.schema if pa.types.is_string(each.type) or pa.types.is_large_string(each.type)]
    if not texts:
        raise UserError(f"{path} has no column of text", "give one with the words")
    words = [word or "" for word in table[texts[0]].to_pylist()]
    for column in table.schema:
        if pa.types.is_integer(column.type) and table[column.name].null_count == 0:
            rows = table[column.name].to_numpy()
            if np.array_equal(np.sort(rows), np.arange(len(rows))):
                return [words[place] for place in np.argsort(rows)]
    return words


# --- static word vectors for the bias features ---

LARGEST = 1e15
"""Of a value: sums of squares must not overflow float32."""


class WordVectors:
    """Words with a vector each; an unknown word has the zero vector and is similar only to itself."""

    def __init__(self, vocabulary: Mapping[str, int], matrix: np.ndarray) -> None:
        self._index = vocabulary
        unknown = np.zeros((1, matrix.shape[1]), dtype=np.float32)
        self._matrix = np.concatenate([matrix, unknown], dtype=np.float32)
        if not (np.abs(self._matrix) < LARGEST).all():  # not: NaN is below nothing
            raise UserError("a word vector has a value that is non-finite or too large", "give other word vectors")

    @classmethod
    def from_backbone(cls, name: str) -> WordVectors:
        """The backbone's input embeddings of complete words, which every backbone has."""
        backbone = load_backbone(name, ("a", "b"), seed=0)
        weight = backbone.model.get_input_embeddings().weight.detach().to(torch.float32).numpy()
        return cls(dict(backbone.tokenizer.get_vocab()), weight)

    @classmethod
    def read(cls, source: str, keep: Collection[str] | None = None) -> WordVectors:
        """From a file: fastText's or GloVe's text, word2vec's .bin (each also .gz), .npz, or 'vectors.npy,words.txt'.

        Words are looked up in lower case. Only the vectors of words in `keep` are checked and held in memory.
        """
        found = read_vectors(source, keep)
        return cls({word: row for row, word in enumerate(found)}, np.stack(list(found.values())))

    def __len__(self) -> int:
        return len(self._index)

    @property
    def dim(self) -> int:
        return int(self._matrix.shape[1])

    def of(self, words: Sequence[str]) -> np.ndarray:
        """A row for each word."""
        unknown = len(self._matrix) - 1
        rows = np.array([self._index.get(word, unknown) for word in words], dtype=np.int64)
        return np.asarray(self._matrix.take(rows, axis=0))

    def unit(self, words: Sequence[str]) -> np.ndarray:
        """A row for each word, of length 1 unless the word is unknown."""
        vectors = self.of(words)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(norms > 0, norms, 1.0))
