"""How the files of the papers' datasets are found: in folders, by name, with options; and the real files."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from layouts import content, expected, fever, glue_mnli, hans_txt, jsonl, nli, paws, qqp, snli_txt, symmetric, table
from refusals import refused

from srnet.recipes.tasks import DataOptions, task_from
from srnet.tasks.published import PUBLISHED_TASKS, published_task

# --- in a folder ---------------------------------------------------------------------------------------------------


def test_json_lines_are_preferred_where_an_archive_holds_both(tmp_path: Path) -> None:
    snli_txt(tmp_path, [])
    path = jsonl(tmp_path / "snli_1.0_train.jsonl", [dict(row) for row in nli("json")])
    assert published_task("snli", tmp_path).train == path


def test_compressed_files_are_found(tmp_path: Path) -> None:
    snli_txt(tmp_path, [])
    plain = tmp_path / "snli_1.0_train.txt"
    (tmp_path / "snli_1.0_train.txt.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert len(published_task("snli", tmp_path).load().train) == 3


@pytest.mark.parametrize("name", ["mnli", "MNLI"])
def test_a_folder_of_folders(name: str, tmp_path: Path) -> None:
    glue_mnli(tmp_path / name)
    (tmp_path / "qqp").mkdir()
    assert (
        published_task("mnli", tmp_path).load().fingerprint
        == published_task("mnli", tmp_path / name).load().fingerprint
    )


@pytest.mark.parametrize(("gone", "split"), [("train", "train"), ("dev_matched", "dev")])
def test_a_missing_file_is_named_as_it_is_looked_for(gone: str, split: str, tmp_path: Path) -> None:
    (glue_mnli(tmp_path) / f"{gone}.tsv").unlink()
    with refused(tmp_path, f"no {split} file", f"{gone}.* or multinli_1.0_{gone}.*", ".jsonl.gz"):
        published_task("mnli", tmp_path)


def test_folders_and_datasets_that_do_not_exist(tmp_path: Path) -> None:
    with refused(tmp_path / "gone", "snli"):
        published_task("snli", tmp_path / "gone")
    with refused("'anli'", "cola, fever, mnli"):
        published_task("anli")
    with refused("here", "'anli'", "squad"):
        task_from({"dataset": "anli"}, "here")


# --- files given by name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "name"),
    [(dataset, name) for dataset, task in PUBLISHED_TASKS.items() for name in task.ood],
)
def test_an_ood_file_on_the_command_line_is_read_by_its_name(dataset: str, name: str, tmp_path: Path) -> None:
    make = {"mnli": glue_mnli, "snli": lambda folder: snli_txt(folder, []), "qqp": qqp, "fever": fever}
    folder = make[dataset](tmp_path / "data")
    symmetric(tmp_path)
    table(tmp_path / "hard.tsv", ("gold_label", "sentence1", "sentence2"), nli("hard"))
    paths = {
        "hans": lambda: hans_txt(tmp_path),
        "hard": lambda: str(tmp_path / "hard.tsv"),
        "paws_qqp": lambda: paws(tmp_path / "p.tsv", "b'x'", "b'y'"),
        "paws_wiki": lambda: paws(tmp_path / "p.tsv"),
        "symm1": lambda: str(tmp_path / "fever_symmetric_generated.jsonl"),
        "symm2": lambda: str(tmp_path / "fever_symmetric_test.jsonl"),
    }
    task = DataOptions(data=str(folder), ood=((name, paths[name]()),)).task(dataset).load()
    rows = {"hans": 4, "hard": 3}.get(name, 1)
    assert len(task.ood[name]) == rows
    assert task.ood[name].kind == "OOD"
    assert (task.ood[name].coarse is not None) == (name == "hans")
    if name == "paws_qqp":
        assert task.ood[name].text_a == ("x",)


def test_an_ood_file_of_another_name_is_read_like_the_task(tmp_path: Path) -> None:
    path = table(tmp_path / "mine.tsv", ("gold_label", "sentence1", "sentence2"), nli("mine"))
    task = published_task("snli", snli_txt(tmp_path, []), {"mine": path}).load()
    assert content(task.ood["mine"], task) == expected("mine")


def test_ood_training_data_of_a_name_without_such_data(tmp_path: Path) -> None:
    with refused("'hard'", "hans"):
        published_task("snli", snli_txt(tmp_path, []), ood_train={"hard": "x.tsv"})


def test_options_of_a_published_dataset(tmp_path: Path) -> None:
    options = {"metric": "f1", "shortcut": "claim", "ood_copies": 3, "rows": (("train", 2),), "leaks": "keep"}
    spec = published_task("snli", snli_txt(tmp_path, []), **options)
    assert {name: getattr(spec, name) for name in options} == options
    values = {"dataset": "snli", "data": ".", **options, "rows": {"train": 2}}
    assert task_from(values, "here", tmp_path) == spec.resolved(tmp_path)


# --- the real files, where somebody has them -----------------------------------------------------------------------

REAL = Path(__file__).parents[2].parent / "shared" / "data"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"needs the real files in {REAL}")


@real
def test_the_real_snli_and_hans() -> None:
    ood = {"hans": str(REAL / "hans" / "eval_sample.tsv")}
    task = published_task("snli", REAL, ood, {"hans": str(REAL / "hans" / "train.tsv")}).load()
    sizes = {name: len(split) for name, split in task.splits.items()}
    assert sizes == {"train": 69_865, "dev": 9_842, "hard": 3_261, "hans": 6_000, "ood_train": 30_000}
    hans = task.ood["hans"]
    assert np.bincount(hans.labels).tolist() == [3_000, 3_000]
    assert {group.split(" > ")[0] for group in hans.groups} == {"lexical_overlap", "subsequence", "constituent"}
    assert len(set(hans.groups)) == 30


@real
def test_the_real_layout_of_hans() -> None:
    ood = {"hans": str(REAL / "hans" / "original_layout_sample.txt")}
    spec = replace(published_task("snli", REAL, ood), train=str(REAL / "snli" / "test_hard.tsv"), leaks="keep")
    hans = spec.read("hans", collect=False).split
    assert len(hans) == 300
    assert not any("(" in text for text in (*hans.text_a, *hans.text_b)), "a text, not its parse"


@real
def test_the_real_qqp_and_paws() -> None:
    spec = published_task("qqp", REAL, {"paws_qqp": str(REAL / "paws" / "paws_qqp.tsv")})
    assert {name: len(spec.read(name, collect=False).split) for name in spec.files} == {
        "train": 16_153,
        "dev": 10_000,
        "paws_qqp": 677,
    }
    with refused("'dev'", "also in train"):
        spec.load()  # this sample of the training data holds nearly all of dev


@real
def test_the_real_fever_and_symmetric_samples() -> None:
    folder = REAL / "fever"
    files = {name: str(folder / f"symmetric_v0.{n}_sample.jsonl") for n, name in ((1, "symm1"), (2, "symm2"))}
    spec = published_task("fever", None, files)
    spec = replace(spec, train=str(folder / "sample.tsv"), dev=files["symm1"], leaks="keep")
    task = spec.load()
    assert {name: len(split) for name, split in task.splits.items()} == {
        "train": 300, "dev": 100, "symm1": 100, "symm2": 100,
    }  # fmt: skip
    assert set(task.ood["symm1"].labels.tolist()) == set(task.ood["symm2"].labels.tolist()) == {0, 1}
