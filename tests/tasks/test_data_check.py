"""Looking at data before training on them: what `srnet data check` finds, and what is done about leaks and bad rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srnet.cli import main
from srnet.errors import UserError
from srnet.recipes.tasks import load_task_file
from srnet.tasks.check import SplitCheck, check_data
from srnet.tasks.describe import describe_files
from srnet.tasks.files import DataFile, FilesTask
from srnet.tasks.leaks import Shared, leaked, shared_with, text_keys
from srnet.tasks.splits import Example, Split
from srnet.tasks.synthetic import SyntheticTask

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


def test_a_label_of_many_lines_and_words_stays_one_short_line(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('text_a,text_b,label\na,b,"' + "word\n" * 1000 + '"\n')
    with pytest.raises(UserError) as error:
        FilesTask("mine", ("no", "yes"), str(path), str(path)).load()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


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
    with pytest.raises(
        UserError, match=r"dev\.tsv holds no rows that can be read; line 2: label 'x' was never.*labels$"
    ):
        spec(tmp_path, dev=[("a", "b", "x")], bad_rows="skip").load()


def test_the_embedded_benchmark_can_be_checked(tmp_path: Path) -> None:
    task = SyntheticTask("inference", train_size=60, dev_size=20, ood_size=20)
    found = check_data(task)
    assert {split.name: split.rows for split in found.splits} == {
        name: len(split) for name, split in task.load().splits.items()
    }
    assert found.fingerprint == task.load().fingerprint


# --- leaks ---------------------------------------------------------------------------------------------------------

LEAKING: Rows = [*many("dev", 8), ("a cat, sat", "IT ATE!", "yes"), ("He sat down, on a chair", "he sat", "no")]


def test_leaks_are_refused_and_the_fix_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        spec(tmp_path, dev=LEAKING).load()
    words = ("2 of 10 rows of 'dev' are also in train", "leaks: drop", "--leaks drop", "leaks: keep")
    assert [word for word in words if word not in str(error.value)] == []
    assert check_data(spec(tmp_path, dev=LEAKING)).splits[1].in_train == 2


def test_dropping_leaks_drops_exactly_those_rows(tmp_path: Path) -> None:
    task = spec(tmp_path, dev=LEAKING, leaks="drop").load()
    assert task.train.text_a == ("A dog ran.", "a DOG ran")
    assert task.train.labels.tolist() == [1, 0]
    assert len(task.dev) == 10
    assert task.notes == ("train: 2 rows that are also in a test set were not trained on",)


def test_every_copy_of_a_leaked_row_is_dropped(tmp_path: Path) -> None:
    task = spec(tmp_path, dev=[("a dog ran", "It: ran", "yes")], leaks="drop").load()
    assert task.train.text_a == ("A cat sat.", "He sat down on a chair.")


def test_keeping_leaks_is_told_to_the_reader(tmp_path: Path) -> None:
    task = spec(tmp_path, dev=LEAKING, leaks="keep").load()
    assert len(task.train) == 4
    assert task.notes == ("dev: 2 of 10 rows are also in train",)


def test_one_row_in_a_hundred_is_let_pass_and_told(tmp_path: Path) -> None:
    train = many("train", 50)
    allowed = spec(tmp_path, train, [*many("dev", 198), *train[:2]]).load()
    assert allowed.notes == ("dev: 2 of 200 rows are also in train",)
    with pytest.raises(UserError, match="3 of 200 rows of 'dev'"):
        spec(tmp_path, train, [*many("dev", 197), *train[:3]]).load()


def test_a_small_test_set_does_not_hide_the_leaks_of_a_large_one(tmp_path: Path) -> None:
    train = many("train", 50)
    small = tsv(tmp_path / "small.tsv", [*many("small", 9), train[0]])  # one row is let pass, though it is 10 %
    large = tsv(tmp_path / "large.tsv", [*many("large", 950), *train])
    with pytest.raises(UserError, match="50 of 1,000 rows of 'large' are also in train"):
        spec(tmp_path, train, ood=(("small", small), ("large", large))).load()


def test_ood_training_data_must_not_leak_either(tmp_path: Path) -> None:
    rows = many("ood", 10)
    challenge, extra = tsv(tmp_path / "ood.tsv", rows), tsv(tmp_path / "extra.tsv", [*many("extra", 5), *rows[:4]])
    task = spec(tmp_path, ood=(("challenge", challenge),), ood_train=extra)
    with pytest.raises(UserError, match="4 of 10 rows of 'challenge' are also in ood_train"):
        task.load()
    loaded = replace(task, leaks="drop").load()
    assert loaded.ood_train is not None
    assert loaded.ood_train.text_a == tuple(f"extra {n}" for n in range(5))


def test_nothing_is_left_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="every row of train is in a test set; give other files"):
        spec(tmp_path, dev=TRAIN, leaks="drop").load()


WORDS = st.lists(st.sampled_from(["Ein", "großes", "Haus", "ÜBER", "2", "1990", "日本", "🙂"]), min_size=1)


@given(WORDS, WORDS, st.sampled_from([" ", "  ", "\t", ", ", " - ", "_", "! ", "。", " «"]), st.booleans())
def test_leaks_are_found_whatever_case_spaces_and_punctuation(a: list[str], b: list[str], gap: str, up: bool) -> None:
    changed = [gap.join(words) + gap for words in (a, b)]
    changed = [text.upper() if up else text.lower() for text in changed]
    train = Split.of("train", "ID", [Example("0", "x", "y", 0), Example("1", " ".join(a), " ".join(b), 0)])
    dev = Split.of("dev", "ID", [Example("0", *changed, 1)])  # type: ignore[arg-type]
    assert leaked(text_keys(train), [text_keys(dev)]) == [1]
    assert shared_with(text_keys(train), text_keys(dev)).rows == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It is good 🙂", "It is good 🙁"),
        ("कि", "का"),  # the same consonant with another vowel
        ("!", "?"),
        ("a 1", "a 2"),
        ("5 €", "5 £"),
    ],
)
def test_texts_that_are_not_the_same(one: str, other: str) -> None:
    splits = [Split.of(name, "ID", [Example("0", text, "b", 0)]) for name, text in (("train", one), ("dev", other))]
    train, dev = map(text_keys, splits)
    assert leaked(train, [dev]) == []
    assert shared_with(train, dev) == Shared(rows=0, first=0, second=1)


def test_moving_a_word_between_the_texts_makes_another_row() -> None:
    train = Split.of("train", "ID", [Example("0", "a b", "c", 0)])
    dev = Split.of("dev", "ID", [Example("0", "a", "b c", 0)])
    assert leaked(text_keys(train), [text_keys(dev)]) == []


# --- samples, punctuation, groups ----------------------------------------------------------------------------------


def test_at_most_so_many_rows_always_the_same_and_told(tmp_path: Path) -> None:
    whole = spec(tmp_path, many("train", 3000), many("dev", 40))
    task = replace(whole, rows=(("train", 1200), ("dev", 50)))
    loaded = task.load()
    assert (len(loaded.train), len(loaded.dev)) == (1200, 40)
    assert loaded.notes == ("train: 1,200 of 3,000 rows",)
    assert loaded.fingerprint == task.load().fingerprint != whole.load().fingerprint
    assert check_data(task).splits[0].rows == 3000, "the check is of the files"


def test_rows_of_ood_training_data_count_all_its_files(tmp_path: Path) -> None:
    parts = tuple(tsv(tmp_path / f"part{n}.tsv", many(f"part{n}", 30)) for n in range(2))
    loaded = spec(tmp_path, ood_train=parts, rows=(("ood_train", 20),)).load()
    assert loaded.ood_train is not None
    assert len(loaded.ood_train) == len(set(loaded.ood_train.ids)) == 20
    assert {text.split()[0] for text in loaded.ood_train.text_a} == {"part0", "part1"}
    assert loaded.notes == ("ood_train: 20 of 60 rows",)


def test_rows_are_dropped_before_a_sample_is_drawn(tmp_path: Path) -> None:
    train = many("train", 20)
    loaded = spec(tmp_path, train, train[:10], leaks="drop", rows=(("train", 10),)).load()
    assert loaded.train.text_a == tuple(text for text, _, _ in train[10:])


@pytest.mark.parametrize(
    ("rows", "message"), [({"gone": 5}, "unknown split under rows 'gone'"), ({"dev": 0}, "0 rows of 'dev'")]
)
def test_senseless_numbers_of_rows(rows: dict[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        spec(tmp_path, rows=tuple(rows.items()))


def test_final_punctuation_can_be_stripped_from_both_texts(tmp_path: Path) -> None:
    rows = [("A dog ran .", "It ran?!", "yes"), ("Mr. T. sat", "He: sat…", "no"), ("...", "It is 1.5", "no")]
    task = spec(tmp_path, rows, strip_final_punctuation=True).load()
    assert task.train.text_a == ("A dog ran", "Mr. T. sat", "..."), "a text of nothing but signs stays"
    assert task.train.text_b == ("It ran", "He: sat", "It is 1.5")


def test_group_columns_that_only_some_files_have(tmp_path: Path) -> None:
    path = tmp_path / "ood.tsv"
    path.write_text("text_a\ttext_b\tlabel\tcase\tkind\na\tb\tyes\tone\tx\nc\td\tno\ttwo\t\ne\tf\tno\t\t\n")
    loaded = spec(tmp_path, group=("case", "kind"), ood=(("ood", str(path)),)).load()
    assert loaded.ood["ood"].groups == ("one > x", "two", "")
    assert set(loaded.train.groups) == {""}


def test_a_group_column_that_no_file_has(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="task 'mine': no column 'subcase' for groups in any file"):
        spec(tmp_path, group="subcase").load()


def test_test_sets_may_be_called_almost_anything(tmp_path: Path) -> None:
    path = tsv(tmp_path / "ood.tsv", many("ood", 3))
    loaded = spec(tmp_path, ood=(("ood_training_is_not_this", path), ("train2", path))).load()
    assert loaded.scored == ("dev", "ood_training_is_not_this", "train2")
    assert loaded.ood_train is None
    for ood in ((("ood_train1", path),), (("one", path), ("one", path))):
        with pytest.raises(UserError, match="a test file cannot be called"):
            spec(tmp_path, ood=ood)


def test_a_two_way_file_may_spell_its_classes(tmp_path: Path) -> None:
    path = tmp_path / "two.tsv"
    path.write_text("text_a\ttext_b\tlabel\na\tb\t0\nc\td\tother\n")
    classes = (("yes", "same"), ("no", "other"), ("maybe", "other"))
    two = DataFile(str(path), classes=classes, spellings=(("0", "same"),))
    loaded = replace(spec(tmp_path), labels=("no", "maybe", "yes"), ood=(("two", two),)).load()
    assert [loaded.classes_of(loaded.ood["two"])[label] for label in loaded.ood["two"].labels] == ["same", "other"]
    with pytest.raises(UserError, match="'0' is a spelling of 'yes', which is not a label; labels: same, other"):
        replace(spec(tmp_path), ood=(("two", replace(two, spellings=(("0", "yes"),))),))


# --- a million rows ------------------------------------------------------------------------------------------------

LOAD = """
import sys
from pathlib import Path
from srnet.tasks.files import FilesTask
task = FilesTask("big", ("no", "yes"), sys.argv[1], sys.argv[2], leaks="check").load()
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(len(task.train), int(status["VmHWM"].split()[0]) // 1024)  # ru_maxrss includes the peak of the parent process
"""


def test_a_million_rows_load_within_a_gibibyte(tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    with train.open("w") as file:
        file.write("text_a\ttext_b\tlabel\n")
        file.writelines(
            f"premise {n:07d} with words up to fifty letters\thypothesis {n:07d} with as many as the other one\tyes\n"
            for n in range(1_000_000)
        )
    dev = tsv(tmp_path / "dev.tsv", many("dev", 100))
    ran = subprocess.run([sys.executable, "-c", LOAD, train, dev], capture_output=True, text=True, check=True)
    rows, megabytes = map(int, ran.stdout.split())
    assert rows == 1_000_000
    assert megabytes < 1024


# --- the commands --------------------------------------------------------------------------------------------------

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    tsv(tmp_path / "train.tsv", TRAIN)
    tsv(tmp_path / "dev.tsv", DEV)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["srnet", "data", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return int(exit.value.code or 0), captured.out, captured.err

    return run


DESCRIBE = ("describe", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "mine.yaml")


def test_describe_then_check(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell(*DESCRIBE)
    assert code == 0
    assert "srnet data check mine.yaml" in out
    code, out, _ = shell("check", "mine.yaml")
    assert code == 0
    words = ("ID train", "ID dev", "no: 2", "yes: 2", "5/8/8", spec(tmp_path).load().fingerprint)
    assert [word for word in words if word not in out] == []


def test_a_check_as_json_is_all_that_is_known(shell: Shell) -> None:
    shell(*DESCRIBE)
    with Path("train.tsv").open("a") as file:
        file.writelines("a\tb\tmaybe\n" for _ in range(30))
    code, out, _ = shell("check", "mine.yaml", "--json")
    found = json.loads(out)
    assert code == 1
    assert [problem["line"] for problem in found["splits"][0]["problems"]] == list(range(6, 36))
    assert found["splits"][0]["labels"] == {"no": 2, "yes": 2}
    assert found["fingerprint"] is None
    assert "line 6" in found["obstacle"]


def test_data_that_are_not_ready(shell: Shell) -> None:
    shell(*DESCRIBE)
    with Path("train.tsv").open("a") as file:
        file.writelines("a\tb\tmaybe\n" for _ in range(30))
    code, out, _ = shell("check", "mine.yaml")
    assert code == 1
    assert "not ready: " in out
    assert "train.tsv, line 15: label 'maybe'" in out
    assert "line 16:" not in out
    assert "20 more bad rows (--json lists them)" in out
    assert "fingerprint" not in out
    code, out, _ = shell("check", "mine.yaml", "--bad-rows", "skip")
    assert code == 0
    assert "train: 30 rows that cannot be read were left out" in out


def test_leaks_on_the_command_line(shell: Shell) -> None:
    shell(*DESCRIBE)
    tsv(Path("dev.tsv"), LEAKING)
    code, out, _ = shell("check", "mine.yaml")
    assert code == 1
    assert "2 (20.0 %)" in out
    assert "not ready: task 'mine': 2 of 10 rows of 'dev' are also in train" in out
    code, out, _ = shell("check", "mine.yaml", "--leaks", "drop")
    assert code == 0
    assert "2 rows that are also in a test set were not trained on" in out
    assert shell("check", "mine.yaml", "--leaks", "keep")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "gone.yaml"), "gone.yaml cannot be read"),
        (("check", "snli", "--data", "gone"), "gone is not a folder"),
        (("check", "mnli", "--data", "."), "it must be called dev_matched.*"),
        (("check", "mine.yaml", "--leaks", "some"), "unknown value 'some'"),
        (("check", "mine.yaml", "--rows", "train=many"), "is not a whole number"),
        ((*DESCRIBE[:-1], "mine.txt"), "a name that ends in .yaml"),
        (DESCRIBE, "mine.yaml exists already; remove it or choose another name"),
        (
            (*DESCRIBE[:-1], "new.yaml", "--label", "lable"),
            "no column 'lable' with labels; columns here: text_a, text_b",
        ),
        ((*DESCRIBE[:-1], "new.yaml", "--label", "text_a", "--text-b", "gone"), "no column 'gone'"),
        ((*DESCRIBE[:-1], "new.yaml", "--labels", "yes,maybe", "--ood", "x=gone.tsv"), "gone.tsv does not exist"),
        ((*DESCRIBE[:-1], "new.yaml", "--ood", "x"), "'x' is not NAME=VALUE"),
        ((*DESCRIBE[:-1], "new.yaml", "--ood", "x=dev.tsv", "--ood", "x=dev.tsv"), "'x' is given twice"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], message: str, shell: Shell) -> None:
    assert shell(*DESCRIBE)[0] == 0
    before = Path("mine.yaml").read_text()
    code, _, err = shell(*words)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert Path("mine.yaml").read_text() == before
    assert not Path("new.yaml").exists()


def test_names_that_look_like_markup_are_printed_as_they_are(shell: Shell) -> None:
    for name in ("train", "dev"):
        tsv(Path(f"{name}.tsv"), [(f"{name} a", "b", "[/red]"), (f"{name} c", "d", "[b]x")])
    shell(*DESCRIBE)
    code, out, _ = shell("check", "mine.yaml")
    assert code == 0
    assert "[/red]:" in out
    assert "[b]x:" in out


def test_nothing_is_cut_at_80_columns(shell: Shell) -> None:
    labels = ("SUPPORTS_THE_CLAIM", "REFUTES_THE_CLAIM", "NOT ENOUGH INFO", "a_label_of_" + 60 * "x")
    rows = [(f"premise {n} of some length.", f"hypothesis {n}", labels[n % 4]) for n in range(4444)]
    tsv(Path("train.tsv"), rows)
    tsv(Path("dev.tsv"), [(a, f"other {b}", label) for a, b, label in rows[:1200]])
    name = "a-challenge-set-with-a-name-of-its-own-" + 40 * "y"
    tsv(Path("ood.tsv"), [("x", "hypothesis 3", labels[0])])
    assert shell(*DESCRIBE, "--ood", f"{name}=ood.tsv")[0] == 0
    code, out, _ = shell("check", "mine.yaml")
    assert code == 0
    assert "…" not in out
    said = [f"{label}: 1,111 (25.0 %)" for label in labels] + [f"{label}: 300 (25.0 %)" for label in labels]
    said += ["dev, in train  rows: 0 (0.0 %), first texts: 1,200 (100.0 %), second texts: 0 (0.0 %)"]
    said += [f"{name}, in train  rows: 0 (0.0 %), first texts: 0 (0.0 %), second texts: 1 (100.0 %)", "4,444"]
    assert [each for each in said if each not in out] == []
    table = [line for line in out.splitlines() if line[:1] in "┏┃┡│└"]
    assert {len(line) for line in table if line} == {len(table[0])}
    assert len(table[0]) <= 80


# --- describing ----------------------------------------------------------------------------------------------------


def test_a_description_loads_again_to_the_same_task(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "tasks").mkdir()
    task = spec(tmp_path / "data")
    ood = (("challenge", tsv(tmp_path / "data" / "ood.tsv", many("ood", 4))),)
    extra = tsv(tmp_path / "data" / "extra.tsv", many("extra", 4))
    wanted = replace(
        task, ood=ood, ood_train=extra, id_tests=(("more", tsv(tmp_path / "data" / "more.tsv", many("more", 3))),),
        metric="f1", shortcut="claim", spellings=(("1", "yes"), ("0", "no")), rows=(("dev", 1),), unlabelled=("-",),
        leaks="drop", bad_rows="skip", strip_final_punctuation=True, ood_copies=3,
    )  # fmt: skip
    options = {
        name: getattr(wanted, name)
        for name in (
            "id_tests", "metric", "shortcut", "spellings", "rows", "unlabelled", "leaks", "bad_rows",
            "strip_final_punctuation", "ood_copies",
        )
    }  # fmt: skip
    path = tmp_path / "tasks" / "mine.yaml"
    describe_files(path, task.files["train"].path, task.files["dev"].path, ood, ood_train=extra, **options)
    again = load_task_file(path)
    assert again == wanted
    assert again.load().fingerprint == wanted.load().fingerprint
    assert str(tmp_path) not in path.read_text(), "paths are relative, so that the folder can be moved"
    tmp_path.rename(moved := tmp_path.with_name(f"{tmp_path.name}_moved"))
    assert load_task_file(moved / "tasks" / "mine.yaml").load().fingerprint == again_fingerprint(wanted, moved)


def again_fingerprint(task: FilesTask, folder: Path) -> str:
    """Of the same files in another folder."""

    def there(path: object) -> str:
        return str(folder / "data" / Path(str(path)).name)

    return (
        replace(
            task,
            train=there(task.train),
            dev=there(task.dev),
            ood_train=there(task.ood_train),
            ood=tuple((name, there(path)) for name, path in task.ood),
            id_tests=tuple((name, there(path)) for name, path in task.id_tests),
        )
        .load()
        .fingerprint
    )


def test_labels_are_those_of_the_training_data_and_stay_text(tmp_path: Path) -> None:
    rows = [("a", "b", "1"), ("c", "d", "no"), ("e", "f", "null"), ("g", "h", "-"), ("i", "j", "")]
    files = tsv(tmp_path / "train.tsv", rows), tsv(tmp_path / "dev.tsv", [("x", "y", "no")])
    path = describe_files(tmp_path / "mine.yml", *files, unlabelled=("-",), bad_rows="skip")
    loaded = load_task_file(path).load()
    assert loaded.labels == ("1", "no", "null")
    assert loaded.train.labels.tolist() == [0, 1, 2]


def test_labels_that_cannot_be_guessed(tmp_path: Path) -> None:
    files = tsv(tmp_path / "train.tsv", [(f"a {n}", "b", str(n)) for n in range(101)]), tsv(tmp_path / "dev.tsv", DEV)
    with pytest.raises(UserError, match="column 'label' holds 101 different values; name the labels yourself"):
        describe_files(tmp_path / "mine.yaml", *files)
    with pytest.raises(UserError, match="holds 1 different values"):
        describe_files(tmp_path / "mine.yaml", tsv(tmp_path / "train.tsv", DEV[:1]), files[1])


def test_groups_single_texts_and_labels_by_option(shell: Shell) -> None:
    for name in ("train", "dev"):
        Path(f"{name}.csv").write_text(f"review,stars,shop,town\n{name} good,5,a,x\n{name} bad,1,b,y\n")
    code, _, err = shell(
        "describe", "--train", "train.csv", "--dev", "dev.csv", "--out", "here/mine.yaml", "--text-a", "review",
        "--text-b", "", "--label", "stars", "--labels", "5, 1", "--group", "town, shop",
    )  # fmt: skip
    assert (code, err) == (0, "")
    loaded = load_task_file(Path("here/mine.yaml")).load()
    assert loaded.labels == ("5", "1")
    assert loaded.train.text_b == ("", "")
    assert loaded.train.groups == ("x > a", "y > b")
