"""Doors to what looks like a file: pipes, sockets, devices and folders; and to archives of arrays."""

from __future__ import annotations

import io
import os
import random
import shutil
import socket
import struct
import zipfile
from pathlib import Path
from typing import Any

from .rubbish import damage, rewrite
from .valid import BACKBONE, CODED, IMPORTED, SUBNETWORK, WORDS, csv_text, write_subnetwork, write_task


def special_files(rng: random.Random, folder: Path) -> list[str]:
    """Something else in the place of a file, wherever a command reads one."""
    name, argv = rng.choice(_READERS)(folder)
    if rng.random() < 0.95:
        _replace(rng, folder / name)
    return argv


_DEVICES = ("/dev/zero", "/dev/null", "/dev/full", "/dev/urandom", "/dev/stdin", "/dev/tty")
_PLACES = ("absent", "/", "/proc/self/mem", "/proc/self/fd/0", "task.yaml")


def _replace(rng: random.Random, path: Path) -> None:
    path.unlink(missing_ok=True)
    rng.choice(
        [
            os.mkfifo,
            _listen,
            Path.mkdir,
            lambda path: path.symlink_to(rng.choice(_DEVICES)),
            lambda path: path.symlink_to(rng.choice([*_PLACES, path])),
        ]
    )(path)


def _listen(path: Path) -> None:
    """A socket. Their names may have 107 bytes at most, so it gets a relative one."""
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(before)


def _task(folder: Path) -> tuple[str, list[str]]:
    write_task(folder)
    return "task.yaml", ["data", "check", "task.yaml"]


def _recipe(folder: Path) -> tuple[str, list[str]]:
    (folder / "recipe.yaml").write_text("{}")
    return "recipe.yaml", ["run", "recipe.yaml", "--dry-run"]


def _data(name: str) -> Any:
    def data(folder: Path) -> tuple[str, list[str]]:
        (folder / name).write_text(csv_text())
        return name, ["data", "check", str(write_task(folder, ood={"x": name}))]

    return data


def _squad(folder: Path) -> tuple[str, list[str]]:
    (folder / "train-v1.1.json").write_text('{"data": []}')
    return "train-v1.1.json", ["data", "check", "squad", "--data", "."]


def _audit(folder: Path, *more: str, model: str = str(BACKBONE)) -> list[str]:
    return ["audit", model, "--task", str(write_task(folder)), "--out", "audit", "-q", *more]


def _vectors(name: str) -> Any:
    def vectors(folder: Path) -> tuple[str, list[str]]:
        write_npz(folder / "v.npz")
        (folder / "v.vec").write_text("\n".join(["5 3", *(f"{word} 0.1 0.2 0.3" for word in WORDS)]))
        return name, ["bias", "--task", str(write_task(folder)), "--vectors", name, "-q"]

    return vectors


def _mask(format: str, name: str) -> Any:
    return lambda folder: (name, ["import", format, name, *IMPORTED])


def _part(source: Path, name: str) -> Any:
    """A file of a model's folder."""

    def part(folder: Path) -> tuple[str, list[str]]:
        shutil.copytree(source, folder / "model")
        return f"model/{name}", _audit(folder, model="model")

    return part


def _subnetwork(name: str) -> Any:
    def subnetwork(folder: Path) -> tuple[str, list[str]]:
        write_subnetwork(folder, CODED[0] if name == "mask.coded" else SUBNETWORK)
        return f"subnetwork/{name}", ["evaluate", "subnetwork", "--task", str(write_task(folder))]

    return subnetwork


_READERS = (
    _task, _recipe, _squad,
    *(_data(name) for name in ("x.csv", "x.tsv", "x.jsonl", "x.csv.gz", "x.parquet")),
    *(_vectors(name) for name in ("v.npz", "v.vec")),
    _mask("smp", "mask.npy"), _mask("srnet-reference", "mask.pt"),
    *(_part(BACKBONE, name) for name in ("config.json", "model.safetensors", "tokenizer.json", "README.md", "more")),
    *(_part(BACKBONE, name) for name in ("adapter_config.json", "generation_config.json", "model.onnx", "srnet.json")),
    *(_subnetwork(name) for name in ("subnetwork.json", "weights.safetensors", "mask.bits", "mask.coded")),
)  # fmt: skip


def checked_task(folder: Path) -> list[str]:
    return _task(folder)[1]


# --- archives of arrays --------------------------------------------------------------------------------------------


def npz_files(rng: random.Random, folder: Path) -> list[str]:
    """Archives whose parts do not fit each other."""
    import numpy as np

    words = np.array(WORDS)
    if rng.random() < 0.2:
        words = rng.choice([words[:3], np.array([b"\xff"] * 5), np.arange(5), np.array([])])
    vectors = rng.choice([np.ones((5, 3)), np.ones((5, 3), ">f2"), np.ones((5, 3), order="F"), np.ones((5, 3), "i1")])
    parts = {"words.npy": _npy(words), "vectors.npy": _npy(vectors)}
    name = rng.choice(["vectors.npy", "vectors.npy", "words.npy"])
    parts[name] = rng.choice([_shorter, _shorter, _forged, damage])(rng, parts[name])
    write_parts(folder / "v.npz", parts, rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
    if rng.random() < 0.2:
        rewrite(folder / "v.npz", lambda data: rng.choice([damage, _flags])(rng, data))
    return ["bias", "--task", str(write_task(folder)), "--vectors", "v.npz", "-q"]


def read_npz(folder: Path) -> list[str]:
    write_npz(folder / "v.npz")
    return ["bias", "--task", str(write_task(folder)), "--vectors", "v.npz", "-q"]


def write_npz(path: Path) -> None:
    import numpy as np

    write_parts(path, {"words.npy": _npy(np.array(WORDS)), "vectors.npy": _npy(np.ones((5, 3)))})


def write_parts(path: Path, parts: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


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
