"""Doors of a user's own data: guessed columns, shortcuts in columns and files, rows in memory, predictions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .harness import Command, Door
from .rubbish import CHOICES, NUMBERS, TEXTS, damage, value
from .valid import Maker

LABELS = ("no", "yes")
SIZES = {"train": 24, "dev": 8, "hard": 8}
FILES = ["--train", "train.jsonl", "--dev", "dev.jsonl", "--ood", "hard=hard.jsonl", "--leaks", "keep"]
Row = dict[str, Any]


def _rows(split: str) -> list[Row]:
    words = ("fine", "dull")
    return [
        {"review": f"the film {n} of {split} was {words[n % 2]}", "y": LABELS[n % 2], "source": "ab"[n % 2], "p": 0.5}
        for n in range(SIZES[split])
    ]


def _write(folder: Path, change: Callable[[list[Row]], list[Row]] = list, only: str = "") -> None:
    for split in SIZES:
        rows = change(_rows(split)) if split == only else _rows(split)
        text = "".join(json.dumps(row, default=str) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_bytes(text.encode(errors="surrogatepass"))


def _hostile(rng: random.Random) -> Callable[[list[Row]], list[Row]]:
    """Some cells, or all of a column, are anything; columns are renamed, and rows are missing."""

    def change(rows: list[Row]) -> list[Row]:
        for _ in range(rng.choice([1, 1, 2, 4])):
            column, cell = rng.choice(list(rows[0])), value(rng)
            for row in rows if rng.random() < 0.4 else rng.sample(rows, 2):
                row[column] = cell
        if rng.random() < 0.3:
            column, name = rng.choice(list(rows[0])), rng.choice(TEXTS)
            rows = [{name if key == column else key: cell for key, cell in row.items()} for row in rows]
        return rows[: rng.choice([0, 1, 2, 5, 99, 99, 99])]

    return change


def own_files(rng: random.Random, folder: Path) -> list[str]:
    """Files whose columns are guessed, for a survey of shortcuts or a bias model."""
    _write(folder, _hostile(rng), rng.choice(list(SIZES)))
    words = ("review", "y", "source", "p", *TEXTS, *CHOICES)
    options = rng.sample(("--text", "--text-a", "--text-b", "--label", "--labels", "--columns"), rng.randrange(3))
    given = [word for option in options for word in (option, rng.choice(words).replace("\0", ""))]
    if rng.random() < 0.5:
        return ["shortcuts", *FILES, *given, *rng.choice([[], ["--json"], ["--out", "made"]])]
    kind = rng.choice(["", "columns:", "scores:", "words,", "length,"])
    return ["bias", "-q", *FILES, *given, "--shortcut", kind + rng.choice(words).replace("\0", "")]


def scores(rng: random.Random, folder: Path) -> list[str]:
    """Probabilities in an archive or a table that are none, or of other rows."""
    import numpy as np

    _write(folder)
    arrays: dict[str, Any] = {split: np.full((size, 2), 0.5) for split, size in SIZES.items()}
    split = rng.choice(list(SIZES))
    kinds = ["O", "U3", "c16", "f2", "i8", "b1", "S2"]
    shapes = [(), (0,), (SIZES[split],), (SIZES[split], 1), (SIZES[split], 3), (SIZES[split], 2, 2), (3, 2)]
    arrays[rng.choice([split, split, "file", "other"])] = rng.choice(
        [
            np.zeros((SIZES[split], 2), rng.choice(kinds)),
            np.ones(rng.choice(shapes)),
            np.full((SIZES[split], 2), rng.choice([float(n) for n in NUMBERS if abs(n) < 1e308])),
        ]
    )
    if rng.random() < 0.5:
        with (folder / "s.npz").open("wb") as file:
            np.savez(file, **{name.replace("file", "file_"): array for name, array in arrays.items()})
        if rng.random() < 0.4:
            (folder / "s.npz").write_bytes(damage(rng, (folder / "s.npz").read_bytes()))
        return ["bias", "-q", *FILES, "--shortcut", "scores:s.npz"]
    rows = [[split, "0.5", "0.5"] for split, size in SIZES.items() for _ in range(size)]
    rng.choice(rows)[rng.randrange(3)] = rng.choice(TEXTS)
    text = "\n".join(",".join(row) for row in (["split", *LABELS], *rows))
    data = text.encode()
    (folder / "s.csv").write_bytes(damage(rng, data) if rng.random() < 0.4 else data)
    return ["bias", "-q", *FILES, "--shortcut", rng.choice(["scores:s.csv", "scores:s.csv,words", "features:s.csv"])]


def in_memory(rng: random.Random, folder: Path) -> Command:
    """Rows and columns of any values, which end in a task or in one line."""
    rows = _hostile(rng)(_rows("train"))
    columns: dict[Any, Any] = {key: [row.get(key) for row in rows] for row in rows[:1] for key in row}
    if rng.random() < 0.2:
        columns[rng.choice([3, None, ("a", "b"), b"c", 1.5])] = [value(rng)] * len(rows)
    odd: list[Any] = [value(rng), [value(rng)], {"review": value(rng)}, {"train": value(rng)}]
    train = rng.choice([rows, rows, columns, columns, rng.choice(odd)])
    options = {rng.choice(["text", "label", "text_b", "labels", "name", "metadata", "rows", "dev"]): value(rng)}
    return lambda: _taken(train, options if rng.random() < 0.4 else {}, folder)


def _taken(train: Any, options: dict[str, Any], folder: Path) -> None:
    def take(srnet: Any) -> None:
        from srnet.core.progress import Reporter

        engine = srnet.Engine(srnet.Store(folder / "store"), Reporter(quiet=True))
        srnet.task_from(train, **options, engine=engine).load()

    _refusing(take)


def _refusing(call: Callable[[Any], Any]) -> None:
    """A call that ends in a result or in one line."""
    import srnet

    try:
        call(srnet)
    except srnet.UserError as error:
        if "\n" in str(error):
            raise


def _predictions() -> list[Row]:
    cells = [
        (s, seed, split, n)
        for s in ("full", "mine")
        for seed in range(2)
        for split in ("dev", "hard")
        for n in range(12)
    ]
    return [
        {"system": s, "seed": seed, "split": split, "id": n, "label": LABELS[n % 2], "prediction": LABELS[n % 3 == 0]}
        | {"group": "ab"[n % 2], "p:no": 0.5, "p:yes": 0.5}
        for s, seed, split, n in cells
    ]


def predictions(rng: random.Random, folder: Path) -> Command:
    """Tables of predictions with any cells, in files or in memory."""
    rows = _hostile(rng)(_predictions())
    words = ("full", "dev", "hard", "f1", "pearson", "0.5", *TEXTS)
    options = rng.sample(("--reference", "--id", "--ood", "--metric", "--keep-id"), rng.randrange(3))
    given = [word for option in options for word in (option, rng.choice(words).replace("\0", ""))]
    if rng.random() < 0.2:
        return lambda: _refusing(lambda srnet: srnet.verdict(rng.choice([rows, value(rng), {"system": rows}])))
    if rng.random() < 0.5:
        text = "".join(json.dumps(row, default=str) + "\n" for row in rows)
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = [names, *([row.get(name, "") for name in names] for row in rows)]
        text = "\n".join(",".join(str(cell).replace("\n", " ") for cell in cells) for cells in table)
    data, name = text.encode(errors="surrogatepass"), "p.jsonl" if text.startswith("{") else "p.csv"
    (folder / name).write_bytes(damage(rng, data) if rng.random() < 0.3 else data)
    return ["verdict", name, *given, *rng.choice([[], ["--json"], ["--out", "made"], ["--subcases"]])]


# --- what the cases damage -------------------------------------------------------------------------------------------


def _valid(*words: str) -> Maker:
    def make(folder: Path) -> list[str]:
        _write(folder)
        return [*words, *FILES]

    return make


def _valid_scores(folder: Path) -> list[str]:
    import numpy as np

    _write(folder)
    np.savez(folder / "s.npz", **{split: np.full((size, 2), 0.5) for split, size in SIZES.items()})  # type: ignore[arg-type]
    return ["bias", "-q", *FILES, "--shortcut", "scores:s.npz"]


def _valid_rows(folder: Path) -> Command:
    return lambda: _taken(_rows("train"), {}, folder)


def _valid_predictions(folder: Path) -> list[str]:
    (folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _predictions()))
    return ["verdict", "p.jsonl", "--out", "made"]


OWN_DOORS: dict[str, Door] = {
    "own-files": own_files,
    "scores": scores,
    "memory": in_memory,
    "predictions": predictions,
}
VALID_OWN: dict[str, list[Maker]] = {
    "own-files": [_valid("shortcuts"), _valid("bias", "-q", "--shortcut", "source")],
    "scores": [_valid_scores],
    "memory": [_valid_rows],
    "predictions": [_valid_predictions],
}
