"""What the cases damage: valid files of every kind, and commands that read them."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .harness import Command

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1"
BACKBONE, SUBNETWORK = FIXTURE / "backbone", FIXTURE / "subnetwork"
CODED = [FIXTURE.parent / "format-2" / dtype for dtype in ("float32", "bfloat16")]
HEADER = ("text_a", "text_b", "label")
ROWS = [("a b c", "a b", "yes"), ("b c", "c d", "no"), ("d a", "a d", "yes"), ("c c", "d", "no"), ("e a b", "b", "yes")]
WORDS = ("a", "b", "c", "d", "yes")
TASK = {
    "name": "mine", "train": "train.csv", "dev": "dev.csv", "ood": {"swapped": "ood.csv"}, "labels": ["no", "yes"],
    "text_a": "text_a", "text_b": "text_b", "label": "label", "metric": "accuracy", "shortcut": "overlap",
    "rows": {"train": 18}, "leaks": "keep", "spellings": {"0": "no"},
}  # fmt: skip
PUBLISHED = {
    "dataset": "snli", "data": "data", "leaks": "keep", "decision": "argmax", "rows": {"train": 4},
    "ood": {"hans": {"path": "hans.csv", "group": "text_b"}},
}  # fmt: skip
RECIPE = {
    "name": "mine", "task": TASK, "backbone": str(BACKBONE), "seeds": [0, 1], "axis": "sparsity", "title": "Mine",
    "finetuning": {"steps": 2, "learning_rate": 1e-3, "max_grad_norm": 1.0, "warmup": 0.1},
    "pruning": {"steps": 2}, "pruning_of": {"imp": {"steps": 40}}, "bias": {"shortcut": "overlap"}, "control": True,
    "lines": [
        {"label": "full model (CE)"},
        {"label": "masks", "paradigm": "a", "pruner": "mask", "prune": "poe", "sparsities": [0.5],
         "options": {"init": "soft"}},
        {"label": "imp", "paradigm": "b", "pruner": "imp", "prune": "ce", "sparsities": [0.5], "isolated": "ce"},
    ],
}  # fmt: skip


def csv_text(rows: list[tuple[str, ...]] = ROWS, header: tuple[str, ...] = HEADER) -> str:
    return "\n".join(",".join(row) for row in (header, *rows)) + "\n"


def write_task(folder: Path, **more: Any) -> Path:
    """A task of a few rows, described in YAML (JSON is YAML)."""
    (folder / "train.csv").write_text(csv_text(ROWS * 4))
    (folder / "dev.csv").write_text(csv_text([("f g", "g", "yes"), ("g h", "h i", "no"), ("h", "h", "yes")]))
    (folder / "ood.csv").write_text(csv_text([("i a", "a i", "no"), ("i b", "b", "yes")]))
    path = folder / "task.yaml"
    path.write_text(json.dumps({**TASK, **more}))
    return path


def write_published(folder: Path) -> None:
    """Files as the authors of SNLI and HANS call and write them."""
    (folder / "data").mkdir()
    for name in ("train", "dev"):
        rows = [{"sentence1": f"a {name} {n}", "sentence2": "b", "gold_label": "neutral"} for n in range(5)]
        (folder / "data" / f"snli_1.0_{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    header = ("sentence1", "sentence2", "gold_label", "text_b")
    (folder / "hans.csv").write_text(csv_text([("x y", "y", "entailment", "g")], header))


@functools.cache
def stored() -> Path:
    """A store with a bias model and a pruned model in it."""
    import srnet
    from srnet.core.progress import Reporter
    from srnet.experiment.engine import Engine
    from srnet.experiment.nodes.bias import BiasSpec
    from srnet.experiment.nodes.models import Pretrained
    from srnet.experiment.store import Store
    from srnet.pruners.magnitude import OneShot
    from srnet.recipes.tasks import DataOptions

    folder = Path(tempfile.mkdtemp(prefix="srnet-fuzz-store-"))
    task = DataOptions().task(str(write_task(folder)))
    engine = Engine(Store(folder / "store"), Reporter(quiet=True))
    srnet.bias_model(task, BiasSpec(), engine=engine)
    srnet.prune(Pretrained(str(BACKBONE), task), OneShot(0.5), engine=engine)
    return folder / "store"


def stored_key(kind: str) -> str:
    """The key of the artifact of this type."""
    from srnet.experiment.store import Store

    return next(entry.key for entry in Store(stored()).entries() if entry.type == kind)


# --- commands that succeed -----------------------------------------------------------------------------------------

SMP_BYTES = 96
QUERY = "bert.encoder.layer.0.attention.self.query"
IMPORTED = ["--backbone", str(BACKBONE), "--labels", "no,yes", "--out", "made"]
Maker = Callable[[Path], Command]
"""Writes files into a folder and returns a command that succeeds with them."""


def checked_task(folder: Path) -> list[str]:
    return ["data", "check", str(write_task(folder))]


def written_task(folder: Path) -> list[str]:
    return ["data", "write", str(write_task(folder)), "--out", "made"]


def _checked_dataset(folder: Path) -> list[str]:
    write_published(folder)
    (folder / "task.yaml").write_text(json.dumps(PUBLISHED))
    return ["data", "check", "task.yaml"]


def _checked_squad(folder: Path) -> list[str]:
    answer = {"text": "Ann", "answer_start": 7}
    for name in ("train", "dev"):
        question = {"id": name, "question": f"Who {name}s?", "answers": [answer]}
        paragraph = {"context": f"{name:<7}Ann.", "qas": [question]}
        found = {"data": [{"title": name, "paragraphs": [paragraph]}]}
        (folder / f"{name}-v1.1.json").write_text(json.dumps(found))
    return ["data", "check", "squad", "--data", "."]


def _planned_recipe(folder: Path) -> list[str]:
    write_task(folder)
    (folder / "recipe.yaml").write_text(json.dumps(RECIPE))
    return ["run", "recipe.yaml", "--dry-run"]


def _checked_file(name: str, data: Callable[[], bytes]) -> Maker:
    def make(folder: Path) -> list[str]:
        (folder / name).write_bytes(data())
        return ["data", "check", str(write_task(folder, ood={"x": name}))]

    return make


def json_lines() -> bytes:
    return "".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in ROWS).encode()


def parquet(columns: list[list[Any]] | None = None) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = columns or [list(column) for column in zip(*ROWS, strict=True)]
    buffer = io.BytesIO()
    pq.write_table(pa.table(dict(zip(HEADER, columns, strict=True))), buffer)
    return buffer.getvalue()


def _smp_mask(folder: Path) -> list[str]:
    import numpy as np

    np.save(folder / "mask.npy", np.zeros(SMP_BYTES, np.uint8))
    return ["import", "smp", "mask.npy", *IMPORTED]


def _reference_mask(folder: Path) -> list[str]:
    import torch

    torch.save({f"{QUERY}.weight": torch.ones(8, 8)}, folder / "mask.pt")
    return ["import", "srnet-reference", "mask.pt", *IMPORTED]


def write_subnetwork(folder: Path, source: Path = SUBNETWORK) -> dict[str, Any]:
    """A saved subnetwork; its card without the checksum."""
    shutil.copytree(source, folder / "subnetwork")
    return facts_of(folder / "subnetwork" / "subnetwork.json")


def facts_of(manifest: Path) -> dict[str, Any]:
    """What a manifest says, without its checksum."""
    return {key: value for key, value in json.loads(manifest.read_text()).items() if key != "sha256"}


def seal(manifest: Path, facts: dict[str, Any]) -> None:
    """Write a manifest whose checksums fit it and the files beside it."""
    if isinstance(facts.get("files"), dict):
        beside = [path for path in manifest.parent.iterdir() if path.name in facts["files"]]
        fitting = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in beside}
        facts = {**facts, "files": facts["files"] | fitting}
    sign(manifest, facts)


def sign(manifest: Path, facts: dict[str, Any]) -> None:
    """Write a manifest with the checksum that fits it."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    manifest.write_text(json.dumps({**facts, "sha256": digest}))


def _text_vectors(folder: Path) -> list[str]:
    (folder / "v.vec").write_text("\n".join(["5 3", *(f"{word} 0.1 0.2 0.3" for word in WORDS)]))
    return read_vectors(folder, "v.vec")


def _npz_vectors(folder: Path) -> list[str]:
    import numpy as np

    np.savez(folder / "v.npz", words=np.array(WORDS), vectors=np.ones((5, 3)))
    return read_vectors(folder, "v.npz")


def read_vectors(folder: Path, name: str, shortcut: str = "overlap") -> list[str]:
    return ["bias", "--task", str(write_task(folder)), "--vectors", name, "--shortcut", shortcut, "-q"]


def _with_store(*words: str) -> Maker:
    def make(folder: Path) -> list[str]:
        shutil.copytree(stored(), folder / "store")
        return [word.replace("KEY", stored_key("Prune")) for word in words]

    return make


VALID: dict[str, list[Maker]] = {
    "command-line": [written_task],
    "names": [written_task],
    "yaml": [checked_task, _checked_dataset, _planned_recipe],
    "data": [
        _checked_file("x.tsv", lambda: csv_text().replace(",", "\t").encode()),
        _checked_file("x.jsonl", json_lines),
        _checked_file("x.csv.gz", lambda: gzip.compress(csv_text().encode())),
        _checked_file("x.parquet", parquet),
        _checked_squad,
    ],
    "masks": [_smp_mask, _reference_mask],
    "vectors": [_text_vectors, _npz_vectors],
    "store": [_with_store("store", "ls"), _with_store("evaluate", "KEY")],
}
"""By door; those of models, pages and special files are added beside them."""
