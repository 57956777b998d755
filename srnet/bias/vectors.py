"""Word vectors: of a text file, of an .npz archive, or the input embeddings of a backbone."""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from srnet.bias.numbers import LARGEST
from srnet.core.errors import UserError, reason
from srnet.core.files import open_data, require_readable
from srnet.core.lazy import torch
from srnet.models.backbones import load_backbone

_FORMATS = "a .vec or .txt file (also .gz), or .npz; a .bin or .npy file is converted first: docs/recipes.md"
_TEXTS = (".vec", ".txt", ".vec.gz", ".txt.gz")
_CONVERTED = (".bin", ".bin.gz", ".npy")
_TRUNCATED = "it may be truncated or damaged: download or save it again"

_Entries = Iterator[tuple[str, np.ndarray]]
_Wanted = Callable[[str], bool]
"""Whether the vector of a word is used."""


def is_vector_file(source: str) -> bool:
    """Whether `source` is a file and not a backbone's name, by its ending: the file need not exist."""
    return source.endswith((".npz", *_TEXTS, *_CONVERTED))


def absolute(source: str, folder: Path = Path()) -> str:
    """A file's absolute path; a relative one starts at `folder`. The name of a backbone stays as it is."""
    return str((folder / source).resolve()) if is_vector_file(source) else source


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
        """The vectors of a file in the format of fastText or GloVe, or of the arrays `words` and `vectors` of an .npz.

        Words are looked up in lower case. Only the vectors of words in `keep` are checked and kept.
        """
        found = _read(Path(source), keep)
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


# --- from a file to words and vectors ------------------------------------------------------------------------------


def _read(path: Path, keep: Collection[str] | None) -> dict[str, np.ndarray]:
    """Vectors by lower-case word."""
    entries = _npz_entries if path.suffix == ".npz" else _text_entries
    if not path.name.endswith((".npz", *_TEXTS)):
        raise UserError(f"no word vectors can be read from '{path}'", f"give {_FORMATS}")
    try:
        require_readable(path)
        if path.stat().st_size == 0:
            raise UserError(f"{path} is empty", _TRUNCATED)
        found = {word.lower(): _checked(vector, word, path) for word, vector in entries(path, _choice(keep))}
    except FileNotFoundError as error:
        raise UserError(f"no file '{error.filename}'", "give the path of a file with word vectors") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise UserError(f"cannot unpack {path}", _TRUNCATED) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", f"give {_FORMATS}") from error
    except UserError:
        raise
    except Exception as error:  # NumPy and zipfile have no common exception for damaged files
        raise UserError(f"cannot read {path}: {reason(error)}", _TRUNCATED) from error
    if not found:
        problem = "has no word vectors" if not keep else "has no vector for any word of the data"
        raise UserError(f"{path} {problem}", "give another file")
    return found


def _choice(keep: Collection[str] | None) -> _Wanted:
    """The choice of words in `keep`, in lower case. Of 'The' and 'the' the latter is used."""
    kept = None if keep is None else {word.lower() for word in keep}
    exact: dict[str, bool] = {}

    def wanted(word: str) -> bool:
        lower = word.lower()
        if kept is not None and lower not in kept:
            return False
        better = lower not in exact or (word == lower and not exact[lower])
        if better:
            exact[lower] = word == lower
        return better

    return wanted


def _checked(vector: np.ndarray, word: str, path: Path) -> np.ndarray:
    with np.errstate(over="ignore"):
        numbers = np.array(vector, dtype=np.float32)  # a copy, so that the archive's matrix can be freed
    if not np.isfinite(numbers).all():
        raise UserError(f"{path}: the vector of '{word}' has a non-finite value", "correct it")
    return numbers


def _npz_entries(path: Path, wanted: _Wanted) -> _Entries:
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path} is not an archive of arrays", _TRUNCATED)
    with np.load(path, allow_pickle=False) as arrays:
        if not {"words", "vectors"} <= set(arrays.files):
            raise UserError(f"{path} has no arrays 'words' and 'vectors'", "name them so")
        words, vectors = (arrays[name] for name in ("words", "vectors"))
    if words.dtype.kind != "U" or vectors.dtype.kind not in "fiu" or vectors.ndim != 2 or not vectors.shape[1]:
        raise UserError(f"{path}: 'words' is not text or 'vectors' not a matrix of numbers", "save it again")
    if len(vectors) != words.size:
        raise UserError(f"{path}: {len(vectors)} vectors for {words.size} words", "give as many words as vectors")
    yield from ((word, vector) for word, vector in zip(words.ravel().tolist(), vectors, strict=True) if wanted(word))


# --- text, read as a stream: only the wanted words are held in memory ----------------------------------------------


def _text_entries(path: Path, wanted: _Wanted) -> _Entries:
    with open_data(path) as file:
        dim, promised, count = 0, None, 0
        for number, line in enumerate(file, start=1):
            where, line = f"{path}, line {number}", line.rstrip()
            if number == 1 and (header := re.fullmatch(rb"(\d+)\s+([1-9]\d*)", line.strip())):
                promised, dim = int(header[1]), int(header[2])
                continue
            if not line:
                continue
            count += 1
            dim = dim or _width(line)
            name, values = _split_line(line, dim, where)
            if wanted(word := _decoded(name, where)):
                yield word, _numbers(values.split(), dim, where)
    if promised is not None and count < promised:
        raise UserError(f"{path} ends after {count:,} of {promised:,} words", _TRUNCATED)


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
