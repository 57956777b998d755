"""A published dataset from files to report, as a user types it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from srnet.cli.program import app
from srnet.experiment.nodes.bias import BiasModel, BiasSpec
from srnet.recipes.order import Order
from srnet.recipes.tasks import _load_task_file
from srnet.tasks.published import published_task

LABELS = ("entailment", "neutral", "contradiction")


@pytest.fixture
def snli(tmp_path: Path) -> Path:
    """SNLI as its authors publish it, a few rows of it, and HANS beside it."""
    folder = tmp_path / "snli"
    folder.mkdir()
    for name, rows in (("train", 60), ("dev", 12), ("test_hard", 12)):
        lines = [
            {"gold_label": LABELS[n % 3], "sentence1": f"the {name} pilot saw {n} doctors", "sentence2": f"{n} doctors"}
            for n in range(rows)
        ] + [{"gold_label": "-", "sentence1": "nobody agreed", "sentence2": "on this"}]
        (folder / f"snli_1.0_{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    header = "gold_label\tsentence1\tsentence2\tpairID\theuristic\tsubcase\n"
    hans = [
        f"{label}\tthe doctor {n} slept\tthe doctor {n} ran\tex{n}\t{heuristic}\t{label[:1]}_case\n"
        for n, (label, heuristic) in enumerate(
            (label, heuristic)
            for label in ("entailment", "non-entailment")
            for heuristic in ("lexical_overlap", "constituent")
        )
    ]
    (tmp_path / "hans.txt").write_text(header + "".join(hans))
    return folder


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_from_the_authors_files_to_a_report(snli: Path, tiny_backbone: str, tmp_path: Path) -> None:
    out, store = tmp_path / "out", str(tmp_path / "store")
    data = ("--data", str(snli), "--ood", f"hans={snli.parent / 'hans.txt'}")
    printed = invoke(
        *("reproduce", "fig2", "--profile", "cpu", "--tasks", "snli", *data, "--backbone", tiny_backbone),
        *("--sparsities", "0.5", "--scale", "0.02", "--out", str(out), "--store", store, "--quiet"),
    )
    assert "OOD hans" in printed
    assert "OOD hard" in printed
    assert "train: 1 rows without a label were left out" in printed
    assert "hans: answers are counted 2-way by argmax" in printed
    rows = list(csv.DictReader((out / "results.csv").open()))
    cases = {row["metric"] for row in rows if row["split"] == "hans"}
    assert {
        "accuracy[constituent]",
        "accuracy[constituent > entailment]",
        "accuracy[lexical_overlap > non-entailment > n_case]",
        "recall[non-entailment]",
    } <= cases
    assert "lexical_overlap > non-entailment" in (out / "report.md").read_text()
    typed = (out / "report.md").read_text()
    assert f"--data {snli}" in typed, "the command in the report can be typed again"


def test_every_part_of_it_alone(snli: Path, tiny_backbone: str, tmp_path: Path) -> None:
    store, data = ("--store", str(tmp_path / "store")), ("--task", "snli", "--data", str(snli))
    said = invoke("bias", *data, *store, "--quiet")
    assert "a bag of words" in said
    words = tmp_path / "words.vec"
    words.write_text("doctors 1 0\npilot 0 1\nthe 1 1\n")
    assert "max-pooled" not in invoke("bias", *data, "--vectors", str(words), *store, "--quiet")
    key = invoke("finetune", *data, "--backbone", tiny_backbone, "--steps", "2", *store, "--quiet", "--key").strip()
    weak = ("--objective", "poe", "--shortcut", "unknown", "--weak-examples", "12")
    pruned = invoke("prune", key, *weak, "--steps", "2", *store, "--quiet", "--key").strip()
    assert len(pruned) == 16
    assert json.loads(invoke("evaluate", pruned, *store, "--quiet", "--json"))["sparsity"] == pytest.approx(
        0.5, abs=1e-3
    )


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("finetune --task inference --data snli", ("--data", "'inference'")),
        ("finetune --task snli --data nowhere", ("nowhere", "folder")),
        ("reproduce fig2 --tasks snli,qqp --ood hans=x.tsv --dry-run", ("--ood",)),
        ("data check snli --data snli --ood hans=hans.txt --ood hans=hans.txt", ("'hans'", "twice")),
        ("data check snli --data snli --rows dev=3,dev=4", ("'dev'", "twice")),
    ],
)
def test_options_that_do_not_fit(
    command: str, named: tuple[str, ...], snli: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(snli.parent)
    message = str(CliRunner().invoke(app, command.split()).exception)
    assert [each for each in named if each not in message] == []


def test_the_same_data_elsewhere_have_the_same_fingerprint(snli: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    before = published_task("snli", snli).load().fingerprint
    snli.rename(moved)
    assert published_task("snli", moved).load().fingerprint == before


def test_sets_that_were_not_found_are_named(snli: Path) -> None:
    (snli / "snli_1.0_test_hard.jsonl").unlink()
    task = published_task("snli", snli).load()
    assert not task.ood
    assert [note for note in task.notes if "not scored" in note] == [
        f"{name}: not scored, because its file was not found: --ood {name}=FILE"
        for name in ("hard", "hans", "revised_premise", "revised_hypothesis")
    ]
    result = CliRunner().invoke(app, ["reproduce", "fig2", "--tasks", "snli", "--data", str(snli), "--dry-run"])
    assert "task 'snli' has no OOD set; give one: --ood NAME=FILE" in str(result.exception)


def test_a_description_in_a_folder_may_be_named_from_elsewhere(snli: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = snli.parent
    (root / "conf").mkdir()
    (root / "conf" / "task.yaml").write_text("{dataset: snli, data: ../snli, ood: {hans: ../hans.txt}}")
    monkeypatch.chdir(root)
    task = _load_task_file(Path("conf/task.yaml"))
    assert task == _load_task_file(root / "conf" / "task.yaml")
    assert set(task.load().ood) == {"hard", "hans"}


def test_word_vectors_are_found_from_any_folder(snli: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (snli.parent / "words.vec").write_text("doctors 1 0\npilot 0 1\n")
    monkeypatch.chdir(snli.parent)
    spec, absolute = BiasSpec(vectors="words.vec"), str(snli.parent / "words.vec")
    assert absolute in Order(bias=spec).command(), "the command of a report works in any folder"
    task = published_task("snli", snli)
    stored = [spec.node(task, "a backbone"), BiasModel(task, vectors="words.vec")]
    assert {node.vectors for node in stored if isinstance(node, BiasModel)} == {absolute}
    assert BiasModel(task, vectors="a/backbone").vectors == "a/backbone"
    assert BiasSpec(vectors="../words.vec").resolved(Path("snli")).vectors == str(snli.parent / "words.vec")


# --- GLUE ----------------------------------------------------------------------------------------------------------


def glue(folder: Path, header: str, row: str) -> Path:
    folder.mkdir()
    for name, count in (("train", 24), ("dev", 12)):
        rows = [row.format(text=f"the {name} pilot saw {n} doctors", n=n, label=n % 2) for n in range(count)]
        (folder / f"{name}.tsv").write_text("\n".join([header, *rows] if header else rows) + "\n")
    return folder.parent


def test_numbers_as_answers(tiny_backbone: str, tmp_path: Path) -> None:
    data = glue(tmp_path / "STS-B", "index\tsentence1\tsentence2\tscore", "{n}\t{text}\t{n} doctors\t{n}.25")
    told = ("--task", "stsb", "--data", str(data), "--backbone", tiny_backbone, "--store", str(tmp_path / "store"))
    printed = invoke("finetune", *told, "--steps", "2", "--quiet")
    assert "pearson" in printed
    assert "spearman" in printed
    assert "accuracy" not in printed
    assert "majority" not in printed, "a constant answer has no correlation with anything"
    scores = json.loads(invoke("finetune", *told, "--steps", "2", "--quiet", "--json"))["scores"]
    assert set(scores["dev"]["metrics"]) == {"pearson", "spearman"}


def test_single_sentences_without_a_header(tiny_backbone: str, tmp_path: Path) -> None:
    data = glue(tmp_path / "CoLA", "", "gj04\t{label}\t\t{text}")
    told = ("--task", "cola", "--data", str(data), "--backbone", tiny_backbone, "--store", str(tmp_path / "store"))
    key = invoke("finetune", *told, "--steps", "2", "--quiet", "--key").strip()
    printed = invoke("evaluate", key, "--store", str(tmp_path / "store"), "--quiet")
    for name in ("accuracy", "f1", "matthews", "positive"):
        assert name in printed
    assert "majority" in printed


REAL = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.skipif(not REAL.is_dir(), reason="the real data are not here")
@pytest.mark.parametrize("name", ["cola", "sst2", "mrpc", "stsb", "rte"])
def test_real_glue_can_be_checked(name: str) -> None:
    assert "fingerprint" in invoke("data", "check", name, "--data", str(REAL / "glue"))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real data are not here")
@pytest.mark.parametrize(
    ("words", "shortcut"),
    [
        ("snli --data {data}", "claim"),
        ("mnli --data {data}", "overlap"),
        ("qqp --data {data} --leaks drop", "overlap"),
        ("--train {data}/fever/train.csv --dev {data}/fever/dev.csv --text-a evidence --text-b claim", "claim"),
        ("--train {data}/cad_imdb/train.csv --dev {data}/cad_imdb/dev.csv", "words"),
    ],
    ids=["snli", "mnli", "qqp", "fever", "imdb"],
)
def test_the_known_shortcuts_of_real_data(words: str, shortcut: str) -> None:
    rows = "train=4000,dev=1000" if "fever" not in words else "dev=1000"
    printed = invoke("shortcuts", *words.format(data=REAL).split(), "--rows", rows, "--json")
    assert json.loads(printed[printed.index("{") :])["best"] == shortcut
