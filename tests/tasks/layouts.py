"""Folders of the papers' datasets, in the layouts their authors publish, and what is expected of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from srnet.tasks.base import Task
from srnet.tasks.splits import Split

Cells = dict[str, str]
PARSES = ("sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse")
GLUE_MNLI = ("index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2")
NLI = [
    ("entailment", "A dog ran.", "It ran."),
    ("neutral", "A cat sat.", "It ate."),
    ("contradiction", "He sat.", "He ran."),
]


def table(path: Path, columns: tuple[str, ...], rows: list[Cells]) -> str:
    """A file with tabs; what a row does not say is filled in, quotes and brackets and all."""
    lines = ["\t".join(columns)] + ["\t".join(row.get(name, f'"{name} (') for name in columns) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def jsonl(path: Path, rows: list[dict[str, object]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def nli(name: str, rows: list[tuple[str, str, str]] = NLI) -> list[Cells]:
    """The rows under the authors' names, each file with texts of its own."""
    return [{"gold_label": label, "sentence1": f"{name} {a}", "sentence2": f"{name} {b}"} for label, a, b in rows]


def content(split: Split, task: Task) -> list[tuple[str, str, str]]:
    names = [task.classes_of(split)[label] for label in split.labels]
    return list(zip(names, split.text_a, split.text_b, strict=True))


def expected(name: str, rows: list[tuple[str, str, str]] = NLI) -> list[tuple[str, str, str]]:
    return [(label, f"{name} {a}", f"{name} {b}") for label, a, b in rows]


def left_out(task: Task) -> list[str]:
    """What is noted about rows, not about test sets that these folders do not have."""
    return [note for note in task.notes if "not scored" not in note]


# --- MNLI and SNLI -------------------------------------------------------------------------------------------------


def glue_mnli(folder: Path) -> Path:
    table(folder / "train.tsv", (*GLUE_MNLI, "label1", "gold_label"), nli("train"))
    several = tuple(f"label{n}" for n in range(1, 6))
    for name in ("dev_matched", "dev_mismatched"):
        table(folder / f"{name}.tsv", (*GLUE_MNLI, *several, "gold_label"), nli(name))
    return folder


def snli_txt(folder: Path, extra: list[tuple[str, str, str]]) -> Path:
    columns = ("gold_label", *PARSES, "sentence1", "sentence2", "captionID", "pairID", "label1", "label2")
    for name in ("train", "dev", "test_hard"):
        table(folder / f"snli_1.0_{name}.txt", columns, nli(name, NLI + extra))
    return folder


# --- HANS ----------------------------------------------------------------------------------------------------------

HANS_COLUMNS = ("gold_label", *PARSES, "sentence1", "sentence2", "pairID", "heuristic", "subcase", "template")
HANS: list[Cells] = [
    {"gold_label": label, "sentence1": f"{n} a .", "sentence2": f"{n} b .", "heuristic": heuristic, "subcase": subcase}
    for n, (label, heuristic, subcase) in enumerate(
        [
            ("entailment", "lexical_overlap", "le_relative_clause"),
            ("non-entailment", "lexical_overlap", "ln_passive"),
            ("non-entailment", "lexical_overlap", "ln_preposition"),
            ("non-entailment", "constituent", "cn_adverb"),
        ]
    )
]


def hans_txt(folder: Path) -> str:
    return table(folder / "heuristics_evaluation_set.txt", HANS_COLUMNS, HANS)


# --- QQP and PAWS --------------------------------------------------------------------------------------------------

QQP = [("not_duplicate", "How old is he?", "How is he?"), ("duplicate", "Who is he?", "Who's he?")]


def qqp(folder: Path) -> Path:
    for name in ("train", "dev"):
        rows = [
            {"question1": f"{name} {a}", "question2": f"{name} {b}", "is_duplicate": str(n)}
            for n, (_, a, b) in enumerate(QQP)
        ]
        table(folder / f"{name}.tsv", ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"), rows)
    return folder


def paws(path: Path, a: str = "Is a b ?", b: str = "Is b a ?") -> str:
    return table(path, ("id", "sentence1", "sentence2", "label"), [{"sentence1": a, "sentence2": b, "label": "0"}])


# --- counterfactual IMDB and NLI -----------------------------------------------------------------------------------

REVIEWS = {
    "train": [("Negative", "Dull, dull."), ("Positive", "What a joy!")],
    "dev": [("Negative", "Flat."), ("Positive", "Fun.")],
    "test": [("Negative", "So bad."), ("Positive", 'A "great" film.')],
}
REVISED = [("Positive", "So good."), ("Negative", 'A "bad" film.')]
PAIRED = [
    (label, text, n)
    for versions, n in zip(zip(REVIEWS["test"], REVISED, strict=True), ("13", "46"), strict=True)
    for label, text in versions
]


def _written(path: Path, columns: tuple[str, ...], rows: list[tuple[str, ...]], between: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=between).writerows([columns, *rows])


def imdb_repository(folder: Path) -> Path:
    """The clone of the authors' repository; texts with quotes are quoted."""
    columns, home = ("Sentiment", "Text"), folder / "sentiment"
    for name, texts in REVIEWS.items():
        _written(home / "orig" / f"{name}.tsv", columns, [*texts], "\t")
    _written(home / "new" / "test.tsv", columns, [*REVISED], "\t")
    _written(home / "combined" / "paired" / "test_paired.tsv", (*columns, "batch_id"), [*PAIRED], "\t")
    return folder


def imdb_csv(folder: Path) -> Path:
    """One folder of csv files."""
    columns = ("review", "sentiment")
    for name, texts in {**REVIEWS, "revised": REVISED}.items():
        _written(folder / f"{name}.csv", columns, [(text, label.lower()) for label, text in texts])
    pairs = [(text, label.lower(), pair) for label, text, pair in PAIRED]
    _written(folder / "pairs.csv", (*columns, "pair"), pairs)
    return folder


def cad_nli(folder: Path, name: str) -> str:
    """A test file of counterfactual NLI, with texts of its own."""
    return table(folder / f"{name}.tsv", ("sentence1", "sentence2", "gold_label"), nli(name))


# --- FEVER ---------------------------------------------------------------------------------------------------------


def fever(folder: Path) -> Path:
    train: list[dict[str, object]] = [
        {"claim": "c1", "evidence": "e1", "gold_label": "SUPPORTS"},
        {"claim": "c2", "evidence_sentence": "e2", "label": "REFUTES"},
        {"claim": "c3", "evidence": [["Page", 0, "e3"], ["Page", 4, "e4"]], "label": "NOT ENOUGH INFO"},
        {"claim": "c4", "evidence": "e5", "label": "NOTENOUGHINFO"},
    ]
    jsonl(folder / "fever.train.jsonl", train)
    jsonl(folder / "fever.dev.jsonl", [{"claim": "d1", "evidence": "e6", "label": "REFUTES"}])
    return folder


def symmetric(folder: Path) -> None:
    jsonl(
        folder / "fever_symmetric_generated.jsonl",
        [{"id": 1, "claim": "v1 c", "evidence_sentence": "v1 e", "label": "SUPPORTS"}],
    )
    for name in ("test", "dev"):
        row: dict[str, object] = {"id": 1, "claim": f"{name} c", "evidence": f"{name} e", "gold_label": "REFUTES"}
        jsonl(folder / f"fever_symmetric_{name}.jsonl", [{**row, "sentence1": "other", "sentence2": "other"}])
