"""Doors to models that others made: ONNX graphs, and exported folders whose checksums fit what was forged."""

from __future__ import annotations

import functools
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .forged import forge_weights, forged_coded_mask, forged_mask
from .graphs import Made
from .harness import Door
from .rubbish import TEXTS, changed, damage, rewrite
from .valid import BACKBONE, CODED, SUBNETWORK, VALID, Maker, facts_of, seal, stored, stored_key, write_task

KINDS = ("merged", "shrunk", "onnx")
MANIFEST, OF_SUBNETWORK = "srnet.json", "subnetwork.json"
WORDS, LABELS = 101, 2
"""At least as many as the tokenizer has, and those of the task."""


@functools.cache
def exported(kind: str) -> Path:
    """A model of the store in one format."""
    import srnet
    from srnet.core.progress import Reporter
    from srnet.experiment.engine import Engine
    from srnet.experiment.store import Store

    out = Path(tempfile.mkdtemp(prefix="srnet-fuzz-export-")) / kind
    engine = Engine(Store(stored()), Reporter(quiet=True))
    return srnet.export_model(stored_key("Prune"), out, format=kind, engine=engine)


def command(name: str, folder: Path) -> list[str]:
    """A command that reads the model in `folder`; other names are formats to export it to."""
    task = ["--task", str(write_task(folder))]
    exported = ["export", "model", "--format", name, "--out", "made.npy" if name == "smp" else "made"]
    return {
        "evaluate": ["evaluate", "model", *task],
        "audit": ["audit", "model", *task, "--out", "page", "-q"],
        "speed": ["speed", "model", "--rounds", "2", "--lengths", "8", "--batch", "2", "--no-memory"],
    }.get(name, exported)


COMMANDS = ("evaluate", "audit", "speed")
OF_SUBNETWORKS = ("evaluate", "evaluate", "evaluate", "merged", "subnetwork", "smp", "audit", "speed")


# --- graphs --------------------------------------------------------------------------------------------------------


def graphs(rng: random.Random, folder: Path) -> list[str]:
    """ONNX graphs that declare and give what no classifier does, in a sealed folder or with a plain configuration."""
    model = _copied(exported("onnx"), folder)
    _mutated(rng).write(model / "model.onnx")
    if rng.random() < 0.15:
        rewrite(model / "model.onnx", functools.partial(damage, rng))
    if rng.random() < 0.3:
        (model / MANIFEST).unlink()
        config = {"id2label": {"0": "no", "1": "yes"}, "max_length": 32, "pad_token_id": 0}
        (model / "config.json").write_text(json.dumps(changed(rng, config) if rng.random() < 0.5 else config))
        return command("audit", folder)
    seal(model / MANIFEST, facts_of(model / MANIFEST))
    return command(rng.choice(COMMANDS), folder)


def plain_graph() -> Made:
    return Made(np.linspace(-1, 1, WORDS * LABELS, dtype=np.float32).reshape(WORDS, LABELS))


def _mutated(rng: random.Random) -> Made:
    made = plain_graph()
    for change in rng.sample(CHANGES, rng.choice([1, 1, 2])):
        made = change(rng, made)
    return made


TYPES = ("INT64", "INT32", "INT8", "UINT16", "FLOAT", "FLOAT16", "BOOL", "DOUBLE")
SIZES = ("rows", "tokens", None, -1, 0, 1, 2, 3, 7, 8, 64, 2**31, 2**62)


def _inputs(rng: random.Random, made: Made) -> Made:
    inputs = {name: rng.choice(TYPES) for name in made.inputs}
    if rng.random() < 0.4:
        inputs[rng.choice(["token_type_ids", "position_ids", "", "x" * 300, "../evil", "labels"])] = rng.choice(TYPES)
    if rng.random() < 0.3:
        inputs.pop(rng.choice(["attention_mask", "nothing"]), None)
    return replace(made, inputs=inputs)


def _sizes(rng: random.Random, made: Made) -> Made:
    return replace(made, rows=rng.choice(SIZES), length=rng.choice(SIZES), declared=rng.choice([None, made.declared]))


def _table(rng: random.Random, made: Made) -> Made:
    words, labels = rng.choice([0, 1, 5, WORDS, 1000]), rng.choice([0, 1, 2, 3, 1000])
    value = rng.choice([0.0, 1.0, float("nan"), float("inf"), -3e38])
    table = np.full((words, labels), value, dtype=np.float32)
    if table.size and rng.random() < 0.3:
        table[-1] = np.nan
    return replace(made, table=table, declared=rng.choice([None, ("rows", labels)]))


def _outputs(rng: random.Random, made: Made) -> Made:
    declared = rng.choice([None, (), ("rows",), ("rows", 3), (2**62, 2), ("rows", 2**40), (0, 0), ("rows", "x", 2)])
    kinds = ("STRING", "FLOAT16", "DOUBLE", "INT64", "BOOL", "BFLOAT16", "FLOAT")
    return replace(made, output=rng.choice(kinds), declared=declared, others=rng.choice([(), ("a",), ("a", "b")]))


def _sums(rng: random.Random, made: Made) -> Made:
    return replace(made, sums=rng.choice([(), (0,), (2,), (0, 1), (1, 2), (0, 1, 2), (7,), (-9,)]), declared=None)


def _operator(rng: random.Random, made: Made) -> Made:
    names = ("Magic", "Exp", "Log", "Sqrt", "Softmax", "NonZero", "Shape", "Loop", "Reciprocal", "Round")
    return replace(made, operator=rng.choice(names), domain=rng.choice(["", "", "elsewhere", "com.microsoft"]))


def _external(rng: random.Random, made: Made) -> Made:
    places = ("table.bin", "../../table.bin", "/etc/passwd", "/dev/zero", "", ".", "model.onnx", "nothing")
    return replace(made, external=rng.choice([*places, *TEXTS]))


def _allocation(rng: random.Random, made: Made) -> Made:
    return replace(made, allocates=rng.choice([1, 2**42, 2**50, 2**62, -1]))


Change = Callable[[random.Random, Made], Made]
CHANGES: list[Change] = [_inputs, _sizes, _table, _outputs, _sums, _operator, _external, _allocation]


# --- folders -------------------------------------------------------------------------------------------------------


def exports(rng: random.Random, folder: Path) -> list[str]:
    """Exported folders of every format in which one file says something else."""
    model = _copied(exported(rng.choice(KINDS)), folder)
    _forge_folder(rng, model, facts_of(model / MANIFEST), MANIFEST)
    return command(rng.choice(COMMANDS), folder)


def subnetworks(rng: random.Random, folder: Path) -> list[str]:
    """Saved subnetworks of both formats, and their backbones."""
    model, backbone = _copied(rng.choice([SUBNETWORK, SUBNETWORK, *CODED]), folder), folder / "backbone"
    shutil.copytree(BACKBONE, backbone)
    _forge_folder(rng, model, facts_of(model / OF_SUBNETWORK) | {"backbone": str(backbone)}, OF_SUBNETWORK, backbone)
    return command(rng.choice(OF_SUBNETWORKS), folder)


def _forge_folder(rng: random.Random, model: Path, facts: dict[str, Any], manifest: str, *others: Path) -> None:
    """Change what the manifest says, or one of the files there and in `others`; the checksums fit, as a rule."""
    if rng.random() < 0.3:
        forged = changed(rng, facts)
        facts = forged if isinstance(forged, dict) else {"format": 1}
    else:
        files = [path for place in (model, *others) for path in place.iterdir()]
        _forge(rng, rng.choice([path for path in files if path.name not in (manifest, "README.md")]))
    if rng.random() < 0.9:
        seal(model / manifest, facts)
    else:
        rewrite(model / manifest, functools.partial(damage, rng))


def _forge(rng: random.Random, path: Path) -> None:
    if rng.random() < 0.15 or path.suffix not in FORGERS:
        rewrite(path, functools.partial(damage, rng))
    else:
        rng.choice(FORGERS[path.suffix])(rng, path)


def _forge_json(rng: random.Random, path: Path) -> None:
    path.write_text(json.dumps(changed(rng, json.loads(path.read_text()))))


def _fill_weights(rng: random.Random, path: Path) -> None:
    """Tensors of the right shape whose values no training leaves."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    for name in rng.sample(sorted(weights), rng.choice([1, 1, len(weights)])):
        if weights[name].is_floating_point():
            weights[name] = torch.full_like(weights[name], rng.choice([float("nan"), float("inf"), 3e38, 0.0]))
    save_file(weights, path, metadata={"format": "pt"})


def _forge_header(rng: random.Random, path: Path) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.dumps(changed(rng, json.loads(data[8 : 8 + size]))).encode()
    length = len(header) if rng.random() < 0.8 else rng.choice([0, 2**31, 2**63, max(0, len(header) - 1)])
    path.write_bytes(length.to_bytes(8, "little") + header + data[8 + size :])


FORGERS: dict[str, list[Callable[[random.Random, Path], None]]] = {
    ".json": [_forge_json],
    ".safetensors": [forge_weights, _fill_weights, _fill_weights, _forge_header],
    ".onnx": [lambda rng, path: _mutated(rng).write(path)],
    ".bits": [lambda rng, path: rewrite(path, functools.partial(forged_mask, rng))],
    ".coded": [lambda rng, path: rewrite(path, functools.partial(forged_coded_mask, rng))],
}


def _copied(source: Path, folder: Path) -> Path:
    return Path(shutil.copytree(source, folder / "model"))


# --- commands that succeed -----------------------------------------------------------------------------------------


def _valid_export(kind: str, name: str) -> Maker:
    def make(folder: Path) -> list[str]:
        _copied(exported(kind), folder)
        return command(name, folder)

    return make


def _valid_subnetwork(source: Path, name: str) -> Maker:
    def make(folder: Path) -> list[str]:
        model = _copied(source, folder)
        seal(model / OF_SUBNETWORK, facts_of(model / OF_SUBNETWORK) | {"backbone": str(BACKBONE)})
        return command(name, folder)

    return make


def _valid_graph(folder: Path) -> list[str]:
    model = _copied(exported("onnx"), folder)
    plain_graph().write(model / "model.onnx")
    seal(model / MANIFEST, facts_of(model / MANIFEST))
    return command("evaluate", folder)


MODEL_DOORS: dict[str, Door] = {"graphs": graphs, "exports": exports}
VALID |= {
    "subnetworks": [_valid_subnetwork(SUBNETWORK, "evaluate"), _valid_subnetwork(CODED[0], "merged")],
    "graphs": [_valid_graph],
    "exports": [_valid_export(*each) for each in zip(KINDS, COMMANDS, strict=True)],
}
