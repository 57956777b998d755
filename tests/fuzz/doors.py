"""The doors: what reads files and words that others wrote."""

from __future__ import annotations

import contextlib
import functools
import gc
import gzip
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from .forged import mask_files, stores
from .harness import Case, Door, execute, run
from .model_doors import MODEL_DOORS, subnetworks
from .own_doors import OWN_DOORS, VALID_OWN
from .page_door import honest_visits, page_requests
from .rubbish import NAMES, TEXTS, changed, damage
from .special_files import special_files
from .valid import (
    BACKBONE,
    HEADER,
    PUBLISHED,
    RECIPE,
    ROWS,
    TASK,
    VALID,
    checked_task,
    csv_text,
    parquet,
    write_published,
    write_task,
)
from .vectors import vectors


def prepare() -> list[str]:
    """Run every valid command, which imports what the cases need: a fork is then all that a case costs.

    Returns those that do not succeed.
    """
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    import torch
    import typer.main

    torch.set_num_threads(1)
    typer.main.get_command = functools.cache(typer.main.get_command)  # not built again in every fork
    failed, with_threads = [], []
    makers = [(door, make) for door, makes in VALID.items() for make in makes]
    with tempfile.TemporaryDirectory() as folder:
        for number, (door, make) in enumerate(makers):
            work = Path(folder) / str(number)
            work.mkdir()
            command = make(work)
            if callable(command):  # it starts threads, which no fork survives
                with_threads.append(Case(door, number, make))
            elif code := _exit_code(command, work):
                failed.append(f"{door}: srnet {' '.join(command)} ends with {code}")
    gc.collect()
    gc.freeze()
    return failed + [str(outcome) for outcome in run(with_threads) if outcome.problem]


def _exit_code(command: list[str], work: Path) -> int:
    """That of a command, run in this process and in its folder."""
    before = sys.argv
    os.environ["SRNET_STORE"] = str(work / "store")
    try:
        with (
            contextlib.chdir(work),
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            execute(command)
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        sys.argv = before
    return 0


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
    ("find",): ["--dry-run"],
    ("claims",): ["--until-answered", "--budget", "1s"],
    ("finetune",): ["--backbone", str(BACKBONE), "--task", "task.yaml", "--steps", "1"],
    ("prune",): ["--backbone", str(BACKBONE), "--task", "task.yaml", "--steps", "1"],
    ("pretrain",): ["--mlm-steps", "1", "--pair-steps", "1", "--compare-steps", "1", "--hidden-size", "32"],
}
"""What keeps a case short when everything else happens to be right."""


def _word(rng: random.Random, option: str) -> str:
    files = {"--task": "task.yaml", "--backbone": str(BACKBONE), "--data": ".", "--out": "out", "--store": "store"}
    if option in files and rng.random() < 0.5:
        return files[option]
    word = rng.choice(TEXTS)
    # these name a folder to write to, and a user may name any: only a name inside can show what is written elsewhere
    return "elsewhere" if option in ("--out", "--store", "--picture") and ".." in word else word


@functools.cache
def _commands() -> list[tuple[tuple[str, ...], list[tuple[str, bool]], int]]:
    """(command, its options and whether they take a value, number of arguments)"""
    import typer.main

    from srnet.cli.program import app

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


def names(rng: random.Random, folder: Path) -> list[str]:
    """Names of tasks, test sets and recipes that no file can have."""
    name = rng.choice([*NAMES, "$x_{$", "é"])
    fields: dict[str, Any] = rng.choice([{"name": name}, {"ood": {name: "ood.csv"}}, {"id_tests": {name: "ood.csv"}}])
    path = str(write_task(folder, **fields))
    (folder / "recipe.yaml").write_text(json.dumps({**RECIPE, "name": name}))
    files = ["--train", "train.csv", "--dev", "dev.csv", "--ood", f"{name}=ood.csv".replace("\0", "")]
    commands = [["data", "check", path], ["data", "write", path, "--out", "made"], ["bias", "--task", path, "-q"]]
    commands += [["run", "recipe.yaml", "--dry-run"], ["data", "describe", *files, "--out", "made.yaml"]]
    return rng.choice(commands)


def yaml_files(rng: random.Random, folder: Path) -> list[str]:
    """Recipes and tasks that are not what they say."""
    import yaml

    write_task(folder)
    write_published(folder)
    base = rng.choice([RECIPE, RECIPE, RECIPE, TASK, PUBLISHED])
    tree = changed(rng, base)
    text = json.dumps(tree) if rng.random() < 0.5 else yaml.safe_dump(tree, allow_unicode=True)
    text = _yaml_trick(rng, text) if rng.random() < 0.25 else text
    data = text.encode(errors="surrogatepass")
    (folder / "hostile.yaml").write_bytes(damage(rng, data) if rng.random() < 0.15 else data)
    return ["run", "hostile.yaml", "--dry-run"] if base is RECIPE else ["data", "check", "hostile.yaml"]


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
    path = write_task(folder, **({"ood": {"x": name}} if where == "ood" else {where: name}))
    return ["data", "check", str(path), *rng.choice([[], ["--bad-rows", "skip"], ["--json"], ["--rows", "train=3"]])]


def _table(rng: random.Random, folder: Path) -> str:
    name = f"x{rng.choice(['.csv', '.tsv', '.txt'])}"
    separator = "," if name.endswith("csv") else "\t"
    rows = [[rng.choice([*TEXTS, "yes", "no", "yes"]) for _ in range(rng.choice([3, 3, 3, 2, 4, 0]))] for _ in range(6)]
    text = "\n".join(separator.join(row) for row in (HEADER, *rows))
    data = text.encode(rng.choice(["utf-8", "utf-16", "latin-1"]), errors="replace")
    (folder / name).write_bytes(damage(rng, data) if rng.random() < 0.5 else data)
    return name


def _json_lines(rng: random.Random, folder: Path) -> str:
    row = dict(zip(HEADER, ROWS[0], strict=True))
    lines = [json.dumps(changed(rng, row) if rng.random() < 0.4 else row) for _ in range(5)]
    lines += rng.choice([[], ["[" * 5000 + "]" * 5000], ['{"text_a": ' * 3000], ["9" * 5000], ["{}"], ["NaN"]])
    data = "\n".join(lines).encode()
    (folder / "x.jsonl").write_bytes(damage(rng, data) if rng.random() < 0.3 else data)
    return "x.jsonl"


def _gzipped(rng: random.Random, folder: Path) -> str:
    (folder / "x.csv.gz").write_bytes(damage(rng, gzip.compress(csv_text().encode())))
    return "x.csv.gz"


def _parquet(rng: random.Random, folder: Path) -> str:
    kinds: list[list[Any]] = [[None] * len(ROWS), list(range(len(ROWS))), [[1]] * len(ROWS), [b"\xff"] * len(ROWS)]
    data = parquet([rng.choice([list(column)] * 5 + kinds) for column in zip(*ROWS, strict=True)])
    (folder / "x.parquet").write_bytes(damage(rng, data) if rng.random() < 0.6 else data)
    return "x.parquet"


DOORS: dict[str, Door] = {
    "command-line": command_line,
    "names": names,
    "yaml": yaml_files,
    "data": data_files,
    "masks": mask_files,
    "subnetworks": subnetworks,
    "vectors": vectors,
    "store": stores,
    "page": page_requests,
    "special-files": special_files,
    **OWN_DOORS,
    **MODEL_DOORS,
}
EVERY = dict.fromkeys(MODEL_DOORS, 20)
"""Doors whose cases are long have only every so many, unless they are asked for."""
VALID |= {"page": [honest_visits], "special-files": [checked_task], **VALID_OWN}
