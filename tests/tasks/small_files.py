"""Small files of rows, and a task of them."""

from __future__ import annotations

from pathlib import Path

from srnet.tasks.files import FilesTask

Rows = list[tuple[str, str, str]]
TRAIN: Rows = [
    ("A dog ran.", "It ran.", "yes"),
    ("a DOG ran", "it ran", "no"),  # the same but for case and signs
    ("A cat sat.", "It ate", "no"),
    ("He sat down on a chair.", "He sat!", "yes"),
]
DEV: Rows = [("Two birds", "A bird?", "yes"), ("Three fish", "A fish", "no")]


def tsv(path: Path, rows: Rows, more: str = "") -> str:
    path.write_text("text_a\ttext_b\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows) + more)
    return str(path)


def spec(folder: Path, train: Rows = TRAIN, dev: Rows = DEV, more: str = "", **changes: object) -> FilesTask:
    files = {"train": tsv(folder / "train.tsv", train, more), "dev": tsv(folder / "dev.tsv", dev)}
    return FilesTask("mine", ("no", "yes"), **files, **changes)  # type: ignore[arg-type]


def many(name: str, count: int) -> Rows:
    return [(f"{name} {n}", "text", "yes" if n % 2 else "no") for n in range(count)]


LEAKING: Rows = [*many("dev", 8), ("a cat, sat", "IT ATE!", "yes"), ("He sat down, on a chair", "he sat", "no")]
"""A dev set with two rows of TRAIN."""
