"""Commands that take files instead of a task: what is read is said, and mistakes are one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Shell

import srnet
from srnet.recipes.tasks import DataOptions

SHORT = ("--steps", "2", "--eval-every", "2", "--batch-size", "8")
READS = "reads review as the text and sentiment as the label (2 labels: bad 20, good 20)"


def reviews(path: Path, start: int = 0, stop: int = 40, header: str = "review,sentiment,source") -> str:
    kinds = ("dull,bad,s0", "fine,good,s1")
    rows = (f"the film {n} was {kinds[n % 2]}" for n in range(start, stop))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


@pytest.fixture
def files(shell: Shell) -> tuple[str, ...]:
    """Options for three files in the folder of the shell."""
    train, dev, ood = (
        reviews(Path("imdb") / name, *rows)
        for name, rows in (("train.csv", (0, 40)), ("dev.csv", (40, 50)), ("hard.csv", (50, 60)))
    )
    return "--train", train, "--dev", dev, "--ood", f"hard={ood}"


def test_every_command_with_a_task_takes_files(shell: Shell, files: tuple[str, ...]) -> None:
    new = ("--backbone", shell.backbone)
    full = shell("finetune", *files, *new, *SHORT, "--key")
    assert READS in full.err
    assert len(full.out.strip()) == 16
    others = {
        "check": shell("data", "check", *files),
        "bias": shell("bias", *files, "--folds", "2"),
        "find": shell("find", *files, *new, "--dry-run"),
        "prune": shell("prune", *files, *new, *SHORT, "--sparsity", "0.5"),
        "shortcuts": shell("shortcuts", *files),
        "evaluate": shell("evaluate", shell("export", full.out.strip(), "--out", "model").out.strip(), *files),
        "audit": shell("audit", "model", *files, "--folds", "2"),
        "write": shell("data", "write", *files, "--out", "written"),
    }
    assert {name: ended.code for name, ended in others.items()} == dict.fromkeys(others, 0), others
    assert [name for name, ended in others.items() if READS not in ended.err] == []
    assert "imdb: data as the files have them" in others["check"].out


def test_json_is_json_and_quiet_is_quiet(shell: Shell, files: tuple[str, ...]) -> None:
    checked = shell("data", "check", *files, "--json")
    assert [each["name"] for each in json.loads(checked.out)["splits"]] == ["train", "dev", "hard"]
    assert READS in checked.err
    assert shell("bias", *files, "--folds", "2", "--quiet").err == ""


def test_a_task_of_files_is_the_one_that_is_described(shell: Shell, files: tuple[str, ...]) -> None:
    described = shell("data", "describe", *files, "--out", "imdb.yaml")
    assert READS in described.out
    by_files, by_yaml = DataOptions(train="imdb/train.csv").task(), DataOptions().task("imdb.yaml")
    assert (by_files.name, by_yaml.name) == ("imdb", "imdb")
    found = [shell("data", "check", *words, "--json").json["fingerprint"] for words in (files, ["imdb.yaml"])]
    assert found[0] == found[1] is not None


def test_a_description_is_replaced_only_by_force(shell: Shell, files: tuple[str, ...]) -> None:
    words = ("data", "describe", *files, "--out", "mine.yaml")
    assert shell(*words).code == 0
    assert "--force" in shell.fails(*words)
    assert shell(*words, "--force", "--metric", "f1").code == 0
    assert "f1" in Path("mine.yaml").read_text()


def test_without_dev(shell: Shell, files: tuple[str, ...]) -> None:
    said = shell("data", "check", *files[:2]).out
    assert "dev: 8 of the 40 rows of the training file" in said
    assert shell("data", "describe", *files[:2], "--dev-share", "0.5", "--out", "mine.yaml").code == 0
    assert len(srnet.DataOptions().task("mine.yaml").load().dev) == 20


def test_stored_models_know_their_files_from_any_folder(
    shell: Shell, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = shell("finetune", *files, "--backbone", shell.backbone, *SHORT, "--key").out.strip()
    monkeypatch.chdir("imdb")
    assert shell("evaluate", key).code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("find", ("no task", "--train FILE")),
        ("data check", ("no task", "--train FILE")),
        ("find inference --train a.csv", ("--train", "'inference'")),
        ("finetune --task inference --train a.csv", ("--train", "'inference'")),
        ("data check inference --text review", ("--text", "'inference'")),
        ("data check --text review", ("no task", "--train FILE")),
        ("evaluate nowhere --label sentiment", ("--train FILE",)),
        ("data check --train gone.csv", ("gone.csv", "does not exist")),
        ("data check --train=", ("--train", "empty")),
        ("data check --train a.csv --dev=", ("--dev", "empty")),
        ("data check --train a.csv --label=", ("--label", "empty")),
        ("data check --train a.csv --text review --label review", ("'review'", "label", "text")),
        ("data check --train a.csv --text-a review --text-b review", ("'review'", "both texts")),
        ("data check --train a.csv --text gone", ("a.csv", "'gone'", "review, sentiment, source")),
        ("data check --train a.csv --text review --text-b source", ("--text", "--text-a")),
        ("data check --train a.csv --data folder", ("--data",)),
        ("data check --train a.csv --ood hard=b.csv", ("b.csv", "'sentiment'", "review, stars, source")),
        ("data check --train a.csv --dev b.csv", ("b.csv", "'sentiment'")),
        ("data check --train a.csv --metric bleu", ("'bleu'", "accuracy")),
        ("data check --train a.csv --labels good,fine", ("'bad'",)),
        ("data check --train a.csv --ood train=a.csv", ("'train'",)),
        ("reproduce fig2 --train a.csv --dry-run", ("OOD", "--ood")),
    ],
)
def test_mistakes(words: str, named: tuple[str, ...], shell: Shell) -> None:
    reviews(Path("a.csv"))
    reviews(Path("b.csv"), header="review,stars,source")
    ended = shell(*words.split())
    text = ended.err or ended.out  # a check prints what it found
    assert ended.code in (1, 2), ended
    assert [name for name in named if name not in text + ended.out] == []


def test_figures_on_files(shell: Shell, files: tuple[str, ...]) -> None:
    planned = shell("reproduce", "fig2", *files, "--backbone", shell.backbone, "--dry-run")
    assert (planned.code, planned.err.count(READS)) == (0, 1)
