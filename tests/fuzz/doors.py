"""The doors: what reads files and words that others wrote."""

from __future__ import annotations

import contextlib
import functools
import gc
import gzip
import hashlib
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from .harness import Door
from .rubbish import NAMES, TEXTS, changed, damage, rewrite, value

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1"
BACKBONE, SUBNETWORK = FIXTURE / "backbone", FIXTURE / "subnetwork"
CODED = [FIXTURE.parent / "format-2" / dtype for dtype in ("float32", "bfloat16")]
ROWS = [("a b c", "a b", "yes"), ("b c", "c d", "no"), ("d a", "a d", "yes"), ("c c", "d", "no"), ("e a b", "b", "yes")]


def prepare() -> None:
    """Import what the cases need by running one of each door: a fork is then all that a case costs."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    import torch

    torch.set_num_threads(1)
    _stored()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, (name, door) in enumerate(DOORS.items()):
            work = Path(folder) / str(number)
            work.mkdir()
            with contextlib.chdir(work):
                _run_here(door(random.Random(name), work))
    gc.collect()
    gc.freeze()


def _run_here(argv: list[str]) -> None:
    from srnet.cli import main

    before, sys.argv = sys.argv, ["srnet", *argv]
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
        contextlib.suppress(BaseException),
    ):
        main()
    sys.argv = before


# --- files to damage -----------------------------------------------------------------------------------------------


def csv_text(rows: list[tuple[str, ...]] = ROWS, header: tuple[str, ...] = ("text_a", "text_b", "label")) -> str:
    return "\n".join(",".join(row) for row in (header, *rows)) + "\n"


def write_task(folder: Path, **more: Any) -> Path:
    """A task of a few rows, described in YAML (JSON is YAML)."""
    (folder / "train.csv").write_text(csv_text(ROWS * 4))
    (folder / "dev.csv").write_text(csv_text([("f g", "g", "yes"), ("g h", "h i", "no"), ("h", "h", "yes")]))
    (folder / "ood.csv").write_text(csv_text([("i a", "a i", "no"), ("i b", "b", "yes")]))
    path = folder / "task.yaml"
    path.write_text(json.dumps({**TASK, **more}))
    return path


TASK = {
    "name": "mine", "train": "train.csv", "dev": "dev.csv", "ood": {"swapped": "ood.csv"}, "labels": ["no", "yes"],
    "text_a": "text_a", "text_b": "text_b", "label": "label", "metric": "accuracy", "shortcut": "overlap",
    "rows": {"train": 18}, "leaks": "keep", "spellings": {"0": "no"},
}  # fmt: skip
RECIPE = {
    "name": "mine", "task": TASK, "backbone": "srnet-tiny", "seeds": [0, 1], "axis": "sparsity", "title": "Mine",
    "finetuning": {"steps": 2, "learning_rate": 1e-3, "max_grad_norm": 1.0, "warmup": 0.1},
    "pruning": {"steps": 2}, "pruning_of": {"imp": {"steps": 3}}, "bias": {"shortcut": "overlap"}, "control": True,
    "lines": [
        {"label": "full model (CE)"},
        {"label": "masks", "paradigm": "a", "pruner": "mask", "objective": "poe", "sparsities": [0.5],
         "options": {"init": "soft"}},
        {"label": "imp", "paradigm": "b", "pruner": "imp", "objective": "ce", "sparsities": [0.5], "isolated": "ce"},
    ],
}  # fmt: skip


@functools.cache
def _stored() -> Path:
    """A store with a bias model in it."""
    from srnet import api
    from srnet.experiment import BiasSpec, Engine, Store
    from srnet.progress import Reporter
    from srnet.recipes import DataOptions

    folder = Path(tempfile.mkdtemp(prefix="srnet-fuzz-store-"))
    task = DataOptions().task(str(write_task(folder)))
    api.bias_model(task, BiasSpec(), engine=Engine(Store(folder / "store"), Reporter(quiet=True)))
    return folder / "store"


# --- the doors -----------------------------------------------------------------------------------------------------


def command_line(rng: random.Random, folder: Path) -> list[str]:
    """Words in the wrong places."""
    write_task(folder)
    name, options, arguments = rng.choice(_commands())
    argv = list(name)
    argv += [rng.choice([*TEXTS, "task.yaml", "mine", "fig2"]) for _ in range(arguments if rng.random() < 0.9 else 2)]
    for option, takes_value in rng.sample(options, min(len(options), rng.randrange(5))):
        argv += [option, _word(rng, option)] if takes_value else [option]
    return [word.replace("\0", "") for word in argv] + _SHORT.get(name, [])


_SHORT = {
    ("demo",): ["--dry-run"],
    ("run",): ["--dry-run"],
    ("reproduce",): ["--dry-run"],
    ("claims",): ["--until-answered", "--budget", "1s"],
    ("finetune",): ["--backbone", str(BACKBONE), "--task", "task.yaml", "--steps", "1"],
    ("prune",): ["--backbone", str(BACKBONE), "--task", "task.yaml", "--steps", "1"],
    ("pretrain",): ["--mlm-steps", "1", "--pair-steps", "1", "--compare-steps", "1", "--hidden-size", "32"],
}
"""What keeps a case short when everything else happens to be right."""


def _word(rng: random.Random, option: str) -> str:
    files = {"--task": "task.yaml", "--backbone": str(BACKBONE), "--data": ".", "--out": "out", "--store": "store"}
    return files[option] if option in files and rng.random() < 0.5 else rng.choice(TEXTS)


@functools.cache
def _commands() -> list[tuple[tuple[str, ...], list[tuple[str, bool]], int]]:
    """(command, its options and whether they take a value, number of arguments)"""
    import typer.main

    from srnet.cli import app

    found = []

    def walk(command: Any, name: tuple[str, ...]) -> None:
        if hasattr(command, "commands"):
            for each, child in command.commands.items():
                walk(child, (*name, each))
            return
        command.make_context("", [], resilient_parsing=True)  # options are made when a command is parsed
        options = [(p.opts[0], not p.is_flag) for p in command.params if p.param_type_name == "option"]
        found.append((name, options, sum(p.param_type_name == "argument" for p in command.params)))

    walk(typer.main.get_command(app), ())
    return found


def yaml_files(rng: random.Random, folder: Path) -> list[str]:
    """Recipes and tasks that are not what they say."""
    import yaml

    write_task(folder)
    is_recipe = rng.random() < 0.6
    tree = changed(rng, RECIPE if is_recipe else TASK)
    text = json.dumps(tree) if rng.random() < 0.5 else yaml.safe_dump(tree, allow_unicode=True)
    text = _yaml_trick(rng, text) if rng.random() < 0.25 else text
    data = text.encode(errors="surrogatepass")
    (folder / "hostile.yaml").write_bytes(damage(rng, data) if rng.random() < 0.15 else data)
    return ["run", "hostile.yaml", "--dry-run"] if is_recipe else ["data", "check", "hostile.yaml"]


def _yaml_trick(rng: random.Random, text: str) -> str:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20)
    )
    return rng.choice(
        [
            bomb, "task: " + "[" * 3000 + "]" * 3000, "{" * 3000, f"seeds: {'9' * 5000}\n", "name: 2024-13-01\n",
            text + "\nname: twice\nname: twice\n", "a: &a {b: *a}\n", "<<: {name: x}\n" + text,
            "- a\n- b\n", "? [a]\n: b\n",
            "name: !!python/object/apply:os.system [id]\n", "%YAML 9.9\n---\n" + text, text + "\n---\n" + text,
            "task: {name: mine\0}", "name: \"\\0\"\n", "seeds: 10000000\n", "name: .nan\n", "&a " + text,
            "\ufeff" + text,
        ]
    )  # fmt: skip


def data_files(rng: random.Random, folder: Path) -> list[str]:
    """Examples of every kind of file, damaged."""
    write = rng.choice([_table, _table, _json_lines, _gzipped, _parquet])
    name = write(rng, folder)
    where = rng.choice(["train", "dev", "ood"])
    path = write_task(folder, **({"ood": {rng.choice(NAMES + ("x",) * 20): name}} if where == "ood" else {where: name}))
    return ["data", "check", str(path), *rng.choice([[], ["--bad-rows", "skip"], ["--json"], ["--rows", "train=3"]])]


def _table(rng: random.Random, folder: Path) -> str:
    name = f"x{rng.choice(['.csv', '.tsv', '.txt'])}"
    separator = "," if name.endswith("csv") else "\t"
    rows = [[rng.choice([*TEXTS, "yes", "no", "yes"]) for _ in range(rng.choice([3, 3, 3, 2, 4, 0]))] for _ in range(6)]
    text = "\n".join(separator.join(row) for row in (["text_a", "text_b", "label"], *rows))
    data = text.encode(rng.choice(["utf-8", "utf-16", "latin-1"]), errors="replace")
    (folder / name).write_bytes(damage(rng, data) if rng.random() < 0.5 else data)
    return name


def _json_lines(rng: random.Random, folder: Path) -> str:
    row = {"text_a": "a b", "text_b": "c", "label": "yes"}
    lines = [json.dumps(changed(rng, row) if rng.random() < 0.4 else row) for _ in range(5)]
    lines += rng.choice([[], ["[" * 5000 + "]" * 5000], ['{"text_a": ' * 3000], ["9" * 5000], ["{}"], ["NaN"]])
    data = "\n".join(lines).encode()
    (folder / "x.jsonl").write_bytes(damage(rng, data) if rng.random() < 0.3 else data)
    return "x.jsonl"


def _gzipped(rng: random.Random, folder: Path) -> str:
    data = gzip.compress(csv_text().encode())
    (folder / "x.csv.gz").write_bytes(damage(rng, data))
    return "x.csv.gz"


def _parquet(rng: random.Random, folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [list(column) for column in zip(*ROWS, strict=True)]
    kinds: list[Any] = [None, [None] * len(ROWS), list(range(len(ROWS))), [[1]] * len(ROWS), [b"\xff"] * len(ROWS)]
    columns = [rng.choice([column] * 5 + [kind for kind in kinds if kind]) for column in columns]
    pq.write_table(pa.table(dict(zip(("text_a", "text_b", "label"), columns, strict=True))), folder / "x.parquet")
    if rng.random() < 0.6:
        rewrite(folder / "x.parquet", functools.partial(damage, rng))
    return "x.parquet"


def mask_files(rng: random.Random, folder: Path) -> list[str]:
    """Published masks, in both formats."""
    import numpy as np
    import torch

    if rng.random() < 0.5:
        size = rng.choice([98, 98, 97, 0, 10_000])
        array = np.frombuffer(rng.randbytes(size), np.uint8)
        dtype = rng.choice(["u1", "u1", "f4", "i8", "?", "c16", "S3"])
        np.save(folder / "mask.npy", array if dtype == "u1" else np.zeros(98, dtype))
        rewrite(folder / "mask.npy", rng.choice([lambda data: data, functools.partial(damage, rng), _header(rng)]))
        return ["import", "smp", "mask.npy", "--backbone", str(BACKBONE), "--labels", "no,yes", "--out", "made"]
    name = rng.choice(
        ["bert.encoder.layer.0.attention.self.query", "classifier", "x", "../../../evil", "module.module."]
    )
    tensor = rng.choice(
        [
            torch.ones(8, 8),
            torch.full((8, 8), float("nan")),
            torch.ones(8),
            torch.ones(0),
            torch.zeros(8, 8, dtype=torch.complex64),
        ]
    )
    held: Any = {f"{name}{rng.choice(['.weight', '.mask', ''])}": tensor, rng.choice(TEXTS): value(rng)}
    if rng.random() < 0.1:
        held["self"] = held
    elif rng.random() < 0.2:
        held = rng.choice([value(rng), {"state_dict": held}, [held], {3: tensor}, {"a": {"b": held}}])
    torch.save(held, folder / "mask.pt")
    if rng.random() < 0.5:
        rewrite(folder / "mask.pt", functools.partial(damage, rng))
    return ["import", "srnet-reference", "mask.pt", "--backbone", str(BACKBONE), "--labels", "no,yes", "--out", "made"]


def _header(rng: random.Random) -> Any:
    """An `.npy` file with a header of our own."""
    shape = rng.choice(
        ["(98,)", "(-98,)", "(10**12,)", "(98, 10**9)", "()", "(" * 500, "(9" + "9" * 5000 + ",)", "None", "(1.5,)"]
    )
    kind = rng.choice(["|u1", "|O", "<f8", "x", [("a", "|O")]])
    fields = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}"
    header = fields.encode() + b"\n"
    return lambda data: b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) % 65536) + header + data[128:]


def subnetworks(rng: random.Random, folder: Path) -> list[str]:
    """Folders of saved subnetworks, with checksums that fit what was forged."""
    made = folder / "subnetwork"
    source, mask, forge = rng.choice(
        [(SUBNETWORK, "mask.bits", _forged_mask), (rng.choice(CODED), "mask.coded", _forged_coded_mask)]
    )
    shutil.copytree(source, made)
    card = json.loads((made / "subnetwork.json").read_text())
    card["backbone"] = str(BACKBONE)
    kind = rng.randrange(4)
    if kind == 0:
        forged = changed(rng, card)
        card = forged if isinstance(forged, dict) else {"format": 1}
    elif kind == 1:
        (made / mask).write_bytes(forge(rng, (made / mask).read_bytes()))
    elif kind == 2:
        _forge_weights(rng, made / "weights.safetensors")
    else:
        rewrite(made / rng.choice([mask, "weights.safetensors", "subnetwork.json"]), functools.partial(damage, rng))
    if rng.random() < 0.9 and isinstance(card.get("files"), dict):
        card["files"] |= {
            n: hashlib.sha256((made / n).read_bytes()).hexdigest() for n in card["files"] if n in os.listdir(made)
        }
    card.pop("sha256", None)
    card["sha256"] = hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()
    if kind != 3 or rng.random() < 0.5:
        (made / "subnetwork.json").write_text(json.dumps(card))
    path = write_task(folder)
    command = rng.choice(["evaluate", "evaluate", "merged", "subnetwork", "smp"])
    if command == "evaluate":
        return ["evaluate", "subnetwork", "--task", str(path)]
    return ["export", "subnetwork", "--format", command, "--out", "made.npy" if command == "smp" else "made"]


def _forged_mask(rng: random.Random, data: bytes) -> bytes:
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


def _forged_coded_mask(rng: random.Random, data: bytes) -> bytes:
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


def _forge_weights(rng: random.Random, path: Path) -> None:
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


def vectors(rng: random.Random, folder: Path) -> list[str]:
    """Word vectors in every format."""
    import numpy as np

    path = write_task(folder)
    words = ["a", "b", "c", "d", "yes"]
    kind = rng.choice([".vec", ".txt", ".bin", ".npz", ".npy"])
    name = f"v{kind}"
    if kind in (".vec", ".txt"):
        head = rng.choice(
            ["5 3", "5 3", "5 2", "9 3", "-1 3", "5 -3", "5 99999999999", "99999999999 3", "x y", "", "5"]
        )
        lines = [
            f"{w} "
            + " ".join(
                rng.choice(["0.5", "1e999", "nan", "x", "", "-1"] if rng.random() < 0.1 else ["0.1"]) for _ in range(3)
            )
            for w in words
        ]
        (folder / name).write_text("\n".join(([head] if kind == ".vec" else []) + lines))
    elif kind == ".bin":
        head = rng.choice(["5 3", "5 3", "5 2", "6 3", "-1 3", "5 -3", "5 99999999999", "99999999999 3", "x y"])
        (folder / name).write_bytes(
            head.encode() + b"\n" + b"".join(w.encode() + b" " + struct.pack("3f", 1, 2, 3) for w in words)
        )
    else:
        array = rng.choice(
            [
                np.ones((5, 3)),
                np.ones((4, 3)),
                np.ones(5),
                np.ones((5, 0)),
                np.full((5, 3), np.nan),
                np.array(["x"] * 5),
                np.ones((5, 3), complex),
            ]
        )
        if kind == ".npz":
            np.savez(
                folder / name,
                **{
                    rng.choice(["vectors", "vectors", "x"]): array,
                    rng.choice(["words", "words", "y"]): np.array(words),
                },
            )
        else:
            np.save(folder / name, array)
            (folder / "words.txt").write_text("\n".join(words[: rng.choice([5, 5, 4, 0])]))
            name = f"{name},{rng.choice(['words.txt', 'words.txt', 'none.txt', ''])}"
    if rng.random() < 0.4:
        rewrite(folder / name.split(",")[0], functools.partial(damage, rng))
    if rng.random() < 0.2:
        packed = folder / (name.split(",")[0] + ".gz")
        packed.write_bytes(damage(rng, gzip.compress((folder / name.split(",")[0]).read_bytes())))
        name = packed.name
    return ["bias", "--task", str(path), "--vectors", name, "--shortcut", rng.choice(["overlap", "claim"]), "-q"]


def stores(rng: random.Random, folder: Path) -> list[str]:
    """A store that a disk or a person damaged."""
    shutil.copytree(_stored(), folder / "store")
    path = write_task(folder)
    artifacts = sorted((folder / "store" / "artifacts").iterdir())
    for artifact in rng.sample(artifacts, min(len(artifacts), rng.choice([1, 1, 2]))):
        if artifact.is_dir():
            _damage_artifact(rng, artifact)
    (folder / "store" / "artifacts" / rng.choice([".new-x", "x", "[x]", "a b", ".old-y", "é"])).mkdir(exist_ok=True)
    commands = [
        ["store", "ls"],
        ["store", "verify"],
        ["store", "gc"],
        ["store", "gc", "--older-than", rng.choice(["-1", "0", "nan", "1e308", "30"])],
    ]
    commands += [["store", "show", artifacts[0].name[: rng.choice([0, 3, 16])]], ["evaluate", artifacts[0].name]]
    commands += [
        ["bias", "--task", str(path), "-q"],
        ["export", artifacts[0].name, "--format", "merged", "--out", "made"],
    ]
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
        manifest.write_text(
            rng.choice(
                ["[" * 100_000, "null", "[]", "{}", '{"files": null}', "9" * 10_000, '{"files": {"../../../../x": {}}}']
            )
        )
    else:
        manifest.write_text(json.dumps(changed(rng, json.loads(manifest.read_text()))))


DOORS: dict[str, Door] = {
    "command-line": command_line,
    "yaml": yaml_files,
    "data": data_files,
    "masks": mask_files,
    "subnetworks": subnetworks,
    "vectors": vectors,
    "store": stores,
}
