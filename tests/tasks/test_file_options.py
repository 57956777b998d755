"""What may be said about a task's files: samples, punctuation, groups, names; and the YAML file that says it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused
from small_files import DEV, many, spec, tsv

from srnet.core.errors import UserError
from srnet.recipes.tasks import load_task_file
from srnet.tasks.check import check_data
from srnet.tasks.describe import describe_files
from srnet.tasks.files import DataFile, FilesTask

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


def test_rows_of_a_split_that_is_not_there(tmp_path: Path) -> None:
    with refused("rows", "gone"):
        spec(tmp_path, rows=(("gone", 5),))


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
