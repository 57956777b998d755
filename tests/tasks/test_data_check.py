"""Looking at data before training on them: what a check finds, and the commands `srnet data check` and `describe`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Shell
from refusals import refused
from small_files import DEV, LEAKING, TRAIN, many, spec, tsv

from srnet.recipes.tasks import _load_task_file
from srnet.tasks.check import SplitCheck, check_data
from srnet.tasks.synthetic import SyntheticTask

# --- what is found -------------------------------------------------------------------------------------------------


def test_what_a_check_counts(tmp_path: Path) -> None:
    task = spec(tmp_path)
    found = check_data(task)
    train, dev = found.splits
    assert train == SplitCheck(
        name="train", kind="ID", source=task.files["train"].path, rows=4, labels={"no": 2, "yes": 2}, scores={},
        repeated=1, in_train=0, first_in_train=0, second_in_train=0, words=(5, 8, 8),
        final_sign={"no": 0.0, "yes": 100.0}, problems=(), notes=(),
    )  # fmt: skip
    assert (dev.rows, dev.labels, dev.words) == (2, {"no": 1, "yes": 1}, (4, 4, 4))
    assert dev.final_sign == {"no": 0.0, "yes": 100.0}
    assert found.obstacle is None
    assert found.fingerprint == task.load().fingerprint


def test_texts_that_are_shared_with_train_though_no_row_is(tmp_path: Path) -> None:
    """A premise that was trained on with another hypothesis has been seen, too."""
    dev = [
        ("a dog RAN", "It slept.", "no"),
        ("A cat sat", "He sat", "yes"),
        ("New", "it ate!", "no"),
        ("New", "x", "no"),
    ]
    train, dev_split = check_data(spec(tmp_path, dev=dev)).splits
    assert (dev_split.in_train, dev_split.first_in_train, dev_split.second_in_train) == (0, 2, 2)
    assert (train.in_train, train.first_in_train, train.second_in_train) == (0, 0, 0)


def test_swapped_texts_are_shared_neither_as_row_nor_as_text(tmp_path: Path) -> None:
    dev = check_data(spec(tmp_path, dev=[(b, a, label) for a, b, label in TRAIN])).splits[1]
    assert (dev.in_train, dev.first_in_train, dev.second_in_train) == (0, 0, 0)


def test_single_texts_and_labels_that_do_not_occur(tmp_path: Path) -> None:
    task = spec(tmp_path, many("train", 9), [("one.", "", "yes"), ("two", "", "yes")], text_b=None)
    dev = check_data(task).splits[1]
    assert dev.labels == {"no": 0, "yes": 2}
    assert dev.final_sign == {"yes": 50.0}


def test_every_bad_row_is_listed_with_its_line(tmp_path: Path) -> None:
    task = spec(tmp_path, more="a\tb\tmaybe\n\none\n \tb\tno\na\tb\tyes\n")
    found = check_data(task)
    assert [problem.line for problem in found.splits[0].problems] == [6, 8, 9]
    assert [problem.what.split(":")[0] for problem in found.splits[0].problems] == [
        "label 'maybe' was never declared",
        "1 cells under 3 columns",
        "an empty text under 'text_a'",
    ]
    assert found.bad_rows == 3
    assert found.splits[0].rows == 5
    assert found.fingerprint is None
    assert found.obstacle is not None
    assert "train.tsv, line 6" in found.obstacle


def test_skipped_rows_are_counted_and_the_check_agrees_with_the_task(tmp_path: Path) -> None:
    task = spec(tmp_path, more="a\tb\tmaybe\n" * 7, bad_rows="skip")
    found = check_data(task)
    assert task.load().notes == found.notes == (
        "train: 7 rows that cannot be read were left out (lines 6, 7, 8, 9, 10, ...)",
    )  # fmt: skip
    assert found.bad_rows == 7
    assert found.obstacle is None
    assert found.fingerprint == task.load().fingerprint == spec(tmp_path).load().fingerprint


def test_a_file_in_which_every_row_is_bad(tmp_path: Path) -> None:
    with refused("dev.tsv", "no rows that can be read", "line 2", "'x'"):
        spec(tmp_path, dev=[("a", "b", "x")], bad_rows="skip").load()


def test_the_embedded_benchmark_can_be_checked(tmp_path: Path) -> None:
    task = SyntheticTask("inference", train_size=60, dev_size=20, ood_size=20)
    found = check_data(task)
    assert {split.name: split.rows for split in found.splits} == {
        name: len(split) for name, split in task.load().splits.items()
    }
    assert found.fingerprint == task.load().fingerprint


# --- the commands --------------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def data(tmp_path: Path, shell: Shell) -> Run:
    """`srnet data ...` in a folder with train.tsv and dev.tsv."""
    tsv(tmp_path / "train.tsv", TRAIN)
    tsv(tmp_path / "dev.tsv", DEV)

    def run(*words: str) -> tuple[int, str, str]:
        ended = shell("data", *words)
        return ended.code, ended.out, ended.err

    return run


DESCRIBE = ("describe", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "mine.yaml")


def test_describe_then_check(data: Run, tmp_path: Path) -> None:
    code, out, _ = data(*DESCRIBE)
    assert code == 0
    assert "srnet data check mine.yaml" in out
    code, out, _ = data("check", "mine.yaml")
    assert code == 0
    words = ("ID train", "ID dev", "no: 2", "yes: 2", "5/8/8", spec(tmp_path).load().fingerprint)
    assert [word for word in words if word not in out] == []


def test_a_check_as_json_is_all_that_is_known(data: Run) -> None:
    data(*DESCRIBE)
    with Path("train.tsv").open("a") as file:
        file.writelines("a\tb\tmaybe\n" for _ in range(30))
    code, out, _ = data("check", "mine.yaml", "--json")
    found = json.loads(out)
    assert code == 1
    assert [problem["line"] for problem in found["splits"][0]["problems"]] == list(range(6, 36))
    assert found["splits"][0]["labels"] == {"no": 2, "yes": 2}
    assert found["fingerprint"] is None
    assert "line 6" in found["obstacle"]


def test_data_that_are_not_ready(data: Run) -> None:
    data(*DESCRIBE)
    with Path("train.tsv").open("a") as file:
        file.writelines("a\tb\tmaybe\n" for _ in range(30))
    code, out, _ = data("check", "mine.yaml")
    assert code == 1
    assert "not ready: " in out
    assert "train.tsv, line 15: label 'maybe'" in out
    assert "line 16:" not in out
    assert "20 more bad rows (--json lists them)" in out
    assert "fingerprint" not in out
    code, out, _ = data("check", "mine.yaml", "--bad-rows", "skip")
    assert code == 0
    assert "train: 30 rows that cannot be read were left out" in out


def test_leaks_on_the_command_line(data: Run) -> None:
    data(*DESCRIBE)
    tsv(Path("dev.tsv"), LEAKING)
    code, out, _ = data("check", "mine.yaml")
    assert code == 1
    assert "2 (20.0 %)" in out
    assert "not ready: task 'mine': 2 of 10 rows of 'dev' are also in train" in out
    code, out, _ = data("check", "mine.yaml", "--leaks", "drop")
    assert code == 0
    assert "2 rows that are also in a test set were not trained on" in out
    assert data("check", "mine.yaml", "--leaks", "keep")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "gone.yaml"), "gone.yaml cannot be read"),
        (("check", "snli", "--data", "gone"), "gone is not a folder"),
        (("check", "mnli", "--data", "."), "it must be called dev_matched.*"),
        (("check", "mine.yaml", "--leaks", "some"), "unknown value 'some'"),
        (("check", "mine.yaml", "--rows", "train=many"), "is not a whole number"),
        ((*DESCRIBE[:-1], "mine.txt"), "a name that ends in .yaml"),
        (DESCRIBE, "mine.yaml exists already; choose another name, or replace it: --force"),
        (
            (*DESCRIBE[:-1], "new.yaml", "--label", "lable"),
            "no column 'lable'; its columns: text_a, text_b, label",
        ),
        ((*DESCRIBE[:-1], "new.yaml", "--label", "text_a", "--text-b", "gone"), "no column 'gone'"),
        ((*DESCRIBE[:-1], "new.yaml", "--labels", "yes,maybe", "--ood", "x=gone.tsv"), "gone.tsv does not exist"),
        ((*DESCRIBE[:-1], "new.yaml", "--ood", "x"), "'x' is not NAME=FILE"),
        ((*DESCRIBE[:-1], "new.yaml", "--ood", "x=dev.tsv", "--ood", "x=dev.tsv"), "'x' is given twice"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], message: str, data: Run) -> None:
    assert data(*DESCRIBE)[0] == 0
    before = Path("mine.yaml").read_text()
    code, _, err = data(*words)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert Path("mine.yaml").read_text() == before
    assert not Path("new.yaml").exists()


def test_names_that_look_like_markup_are_printed_as_they_are(data: Run) -> None:
    for name in ("train", "dev"):
        tsv(Path(f"{name}.tsv"), [(f"{name} a", "b", "[/red]"), (f"{name} c", "d", "[b]x")])
    data(*DESCRIBE)
    code, out, _ = data("check", "mine.yaml")
    assert code == 0
    assert "[/red]:" in out
    assert "[b]x:" in out


def test_nothing_is_cut_at_80_columns(data: Run) -> None:
    labels = ("SUPPORTS_THE_CLAIM", "REFUTES_THE_CLAIM", "NOT ENOUGH INFO", "a_label_of_" + 60 * "x")
    rows = [(f"premise {n} of some length.", f"hypothesis {n}", labels[n % 4]) for n in range(4444)]
    tsv(Path("train.tsv"), rows)
    tsv(Path("dev.tsv"), [(a, f"other {b}", label) for a, b, label in rows[:1200]])
    name = "a-challenge-set-with-a-name-of-its-own-" + 40 * "y"
    tsv(Path("ood.tsv"), [("x", "hypothesis 3", labels[0])])
    assert data(*DESCRIBE, "--ood", f"{name}=ood.tsv")[0] == 0
    code, out, _ = data("check", "mine.yaml")
    assert code == 0
    assert "…" not in out
    said = [f"{label}: 1,111 (25.0 %)" for label in labels] + [f"{label}: 300 (25.0 %)" for label in labels]
    said += ["dev, in train  rows: 0 (0.0 %), first texts: 1,200 (100.0 %), second texts: 0 (0.0 %)"]
    said += [f"{name}, in train  rows: 0 (0.0 %), first texts: 0 (0.0 %), second texts: 1 (100.0 %)", "4,444"]
    assert [each for each in said if each not in out] == []
    table = [line for line in out.splitlines() if line[:1] in "┏┃┡│└"]
    assert {len(line) for line in table if line} == {len(table[0])}
    assert len(table[0]) <= 80


def test_groups_single_texts_and_labels_by_option(data: Run) -> None:
    for name in ("train", "dev"):
        Path(f"{name}.csv").write_text(f"review,stars,shop,town\n{name} good,5,a,x\n{name} bad,1,b,y\n")
    code, _, err = data(
        "describe", "--train", "train.csv", "--dev", "dev.csv", "--out", "here/mine.yaml", "--text-a", "review",
        "--text-b", "", "--label", "stars", "--labels", "5, 1", "--group", "town, shop",
    )  # fmt: skip
    assert (code, err) == (0, "")
    loaded = _load_task_file(Path("here/mine.yaml")).load()
    assert loaded.labels == ("5", "1")
    assert loaded.train.text_b == ("", "")
    assert loaded.train.groups == ("x > a", "y > b")
