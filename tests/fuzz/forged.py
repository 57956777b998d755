"""Doors to masks and to the store, and files of models that somebody forged."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

from .rubbish import TEXTS, changed, damage, rewrite, value
from .valid import IMPORTED, QUERY, SMP_BYTES, stored, stored_key, write_task

MANIFESTS = (
    "[" * 100_000, "null", "[]", "{}", '{"files": null}', "9" * 10_000, '{"files": {"../../../../x": {}}}',
)  # fmt: skip


def mask_files(rng: random.Random, folder: Path) -> list[str]:
    """Published masks, in both formats."""
    import numpy as np
    import torch

    if rng.random() < 0.5:
        size = rng.choice([SMP_BYTES, SMP_BYTES, SMP_BYTES - 1, 0, 10_000])
        array = np.frombuffer(rng.randbytes(size), np.uint8)
        dtype = rng.choice(["u1", "u1", "f4", "i8", "?", "c16", "S3"])
        np.save(folder / "mask.npy", array if dtype == "u1" else np.zeros(SMP_BYTES, dtype))
        rewrite(folder / "mask.npy", rng.choice([lambda data: data, functools.partial(damage, rng), _header(rng)]))
        return ["import", "smp", "mask.npy", *IMPORTED]
    name = rng.choice([QUERY, QUERY, QUERY, "classifier", "x", "../../../evil", "module.module."])
    tensor = rng.choice(
        [torch.ones(8, 8), torch.full((8, 8), float("nan")), torch.ones(8), torch.ones(0), torch.zeros(8, 8).cfloat()]
    )
    held: Any = {f"{name}{rng.choice(['.weight', '.mask', ''])}": tensor, rng.choice(TEXTS): value(rng)}
    if rng.random() < 0.1:
        held = rng.choice([held, {}])
        held["self"] = held
    elif rng.random() < 0.2:
        held = rng.choice([value(rng), {"state_dict": held}, [held], {3: tensor}, {"a": {"b": held}}])
    torch.save(held, folder / "mask.pt")
    if rng.random() < 0.5:
        rewrite(folder / "mask.pt", functools.partial(damage, rng))
    return ["import", "srnet-reference", "mask.pt", *IMPORTED]


def _header(rng: random.Random) -> Any:
    """An `.npy` file with a header of our own."""
    shape = rng.choice(
        ["(96,)", "(-96,)", "(10**12,)", "(96, 10**9)", "()", "(" * 500, "(9" + "9" * 5000 + ",)", "None", "(1.5,)"]
    )
    kind = rng.choice(["|u1", "|O", "<f8", "x", [("a", "|O")]])
    fields = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}"
    header = fields.encode() + b"\n"
    return lambda data: b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) % 65536) + header + data[128:]


def forged_coded_mask(rng: random.Random, data: bytes) -> bytes:
    """A coded mask with another header or another body, and the checksum that fits."""
    magic, backbone, body = data[:11], data[43:75], data[75:]
    size = int.from_bytes(body[:4], "little")
    header, rest = body[4 : 4 + size], body[4 + size :]
    if rng.random() < 0.5:
        depths = changed(rng, json.loads(zlib.decompress(header)))
        header = zlib.compress(json.dumps(depths).encode() if rng.random() < 0.9 else b"[" * 5000)
    else:
        rest = damage(rng, rest)
    length = len(header) if rng.random() < 0.8 else rng.choice([0, 2**31, 2**32 - 1, max(0, len(header) - 1)])
    body = backbone + length.to_bytes(4, "little") + header + rest
    return magic + hashlib.sha256(body).digest() + body


def forged_mask(rng: random.Random, data: bytes) -> bytes:
    """A mask with other shapes, and the checksum that fits."""
    magic, body = data[:11], data[43:]
    size = int.from_bytes(body[:8], "little")
    shapes = json.loads(body[8 : 8 + size])
    name = rng.choice(list(shapes))
    shapes[name] = rng.choice(
        [[-8, -8], [10**6, 10**6], [10**9] * 4, [], [0], "x", None, [1.5], [True, 64], [64], {"a": 1}]
    )
    shapes = rng.choice([shapes, shapes, shapes, {}, [], None, {rng.choice(TEXTS): [8, 8]}, changed(rng, shapes)])
    header = json.dumps(shapes).encode() if rng.random() < 0.9 else b"[" * 5000
    length = len(header) if rng.random() < 0.8 else rng.choice([0, 2**63, 2**64 - 1, len(header) - 1])
    body = length.to_bytes(8, "little") + header + body[8 + size :]
    return magic + hashlib.sha256(body).digest() + body


def forge_weights(rng: random.Random, path: Path) -> None:
    """Tensors that are missing, unknown, of another shape or of another type."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    name = rng.choice(list(weights))
    kind = rng.randrange(5)
    if kind == 0:
        del weights[name]
    elif kind == 1:
        weights[rng.choice(TEXTS)] = torch.ones(3)
    elif kind == 2:
        weights[name] = torch.full_like(weights[name].float(), rng.choice([float("nan"), float("inf")]))
    elif kind == 3:
        weights[name] = rng.choice([torch.ones(0), torch.ones(3), torch.ones(2, 2, 2), weights[name].double()])
    else:
        weights[name] = weights[name].to(rng.choice([torch.int64, torch.bool, torch.bfloat16, torch.float16]))
    save_file({n: t.contiguous() for n, t in weights.items()}, path)


def stores(rng: random.Random, folder: Path) -> list[str]:
    """A store that a disk or a person damaged."""
    shutil.copytree(stored(), folder / "store")
    path = write_task(folder)
    artifacts = sorted((folder / "store" / "artifacts").iterdir())
    for artifact in rng.sample(artifacts, min(len(artifacts), rng.choice([1, 1, 2]))):
        if artifact.is_dir():
            _damage_artifact(rng, artifact)
    (folder / "store" / "artifacts" / rng.choice([".new-x", "x", "[x]", "a b", ".old-y", "é"])).mkdir(exist_ok=True)
    model, age = stored_key("Prune"), rng.choice(["-1", "0", "nan", "1e308", "30"])
    commands = [["store", name] for name in ("ls", "verify", "gc")] + [["store", "gc", "--older-than", age]]
    commands += [["store", "show", model[: rng.choice([0, 3, 16])]], ["evaluate", model, "-q"]]
    commands += [["bias", "--task", str(path), "-q"], ["export", model, "--format", "merged", "--out", "made"]]
    return rng.choice(commands)


def _damage_artifact(rng: random.Random, artifact: Path) -> None:
    kind = rng.randrange(5)
    manifest = artifact / "manifest.json"
    if not manifest.is_file():
        return
    if kind == 0:
        rewrite(rng.choice([each for each in artifact.iterdir() if each.is_file()]), functools.partial(damage, rng))
    elif kind == 1:
        shutil.rmtree(artifact)
        artifact.write_text("a file")
    elif kind == 2:
        manifest.write_text(rng.choice(MANIFESTS))
    else:
        manifest.write_text(json.dumps(changed(rng, json.loads(manifest.read_text()))))
