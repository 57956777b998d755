"""The door to word vectors: text, and archives of arrays."""

from __future__ import annotations

import functools
import gzip
import io
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

from .rubbish import damage, rewrite
from .valid import WORDS, read_vectors

HEADS = ("5 3", "5 3", "5 2", "9 3", "-1 3", "5 -3", "5 99999999999", "99999999999 3", "x y", "", "5")
"""First lines of a text: words and dimensions."""


def vectors(rng: random.Random, folder: Path) -> list[str]:
    """Word vectors in every format."""
    name = rng.choice([_text, _text, _archive, _unfit_archive, _unfit_archive])(rng, folder)
    if rng.random() < 0.3:
        rewrite(folder / name, functools.partial(damage, rng))
    if rng.random() < 0.1:
        packed = folder / f"{name}.gz"
        packed.write_bytes(damage(rng, gzip.compress((folder / name).read_bytes())))
        name = packed.name
    return read_vectors(folder, name, rng.choice(["overlap", "claim"]))


def _text(rng: random.Random, folder: Path) -> str:
    name, head = rng.choice([("v.vec", [rng.choice(HEADS)]), ("v.txt", [])])
    lines = [" ".join([word, *(_entry(rng) for _ in range(3))]) for word in WORDS]
    (folder / name).write_text("\n".join([*head, *lines]))
    return name


def _entry(rng: random.Random) -> str:
    return rng.choice(["0.5", "1e999", "nan", "x", "", "-1"] if rng.random() < 0.1 else ["0.1"])


# --- archives of arrays --------------------------------------------------------------------------------------------


def _archive(rng: random.Random, folder: Path) -> str:
    """Arrays that are no vectors, perhaps under other names."""
    import numpy as np

    arrays = [np.ones((5, 3)), np.ones((4, 3)), np.ones(5), np.ones((5, 0)), np.full((5, 3), np.nan)]
    arrays += [np.array(["x"] * 5), np.ones((5, 3), complex)]
    names = rng.choice(["vectors", "vectors", "x"]), rng.choice(["words", "words", "y"])
    np.savez(folder / "v.npz", **dict(zip(names, (rng.choice(arrays), np.array(WORDS)), strict=True)))
    return "v.npz"


def _unfit_archive(rng: random.Random, folder: Path) -> str:
    """Parts that do not fit each other."""
    import numpy as np

    words = np.array(WORDS)
    if rng.random() < 0.2:
        words = rng.choice([words[:3], np.array([b"\xff"] * 5), np.arange(5), np.array([])])
    array = rng.choice([np.ones((5, 3)), np.ones((5, 3), ">f2"), np.ones((5, 3), order="F"), np.ones((5, 3), "i1")])
    parts = {"words.npy": _npy(words), "vectors.npy": _npy(array)}
    name = rng.choice(["vectors.npy", "vectors.npy", "words.npy"])
    parts[name] = rng.choice([_shorter, _shorter, _forged, damage])(rng, parts[name])
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(folder / "v.npz", "w", method) as archive:
        for part, data in parts.items():
            archive.writestr(part, data)
    if rng.random() < 0.2:
        rewrite(folder / "v.npz", functools.partial(_flags, rng))
    return "v.npz"


def _npy(array: Any) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _shorter(rng: random.Random, data: bytes) -> bytes:
    """Shorter than its header says; the archive itself is in order."""
    return data[: -rng.choice([1, 8, 24, 40, 200])]


def _forged(rng: random.Random, data: bytes) -> bytes:
    shape = rng.choice(["(5, 3)", "(5, 10**9)", "(10**12,)", "(5,)", "(-5, 3)", "(5, 3, 0)", "(" * 300, "(True, 3)"])
    kind = rng.choice(["<f8", "<f4", "|O", "<U3", "<U999999999", "|V3", "x", "<M8[s]"])
    header = f"{{'descr': {kind!r}, 'fortran_order': {rng.choice(['False', 'True', '0'])}, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data[128:]


def _flags(rng: random.Random, data: bytes) -> bytes:
    """Said to be encrypted, or packed by an unknown method, in the directory and beside each part."""
    flags, method = rng.choice([(1, 0), (0, 99), (8, 0), (0, 12)])
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(mark)
        while start >= 0:
            data = data[: start + place] + struct.pack("<HH", flags, method) + data[start + place + 4 :]
            start = data.find(mark, start + 4)
    return data
