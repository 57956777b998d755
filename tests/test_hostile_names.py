"""Names that users choose become names of files: nothing is written outside the folder that was named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import refused
from fuzz.valid import write_task
from hypothesis import given, settings
from hypothesis import strategies as st

from srnet.core.errors import UserError
from srnet.core.names import file_name
from srnet.tasks.files import FilesTask
from srnet.tasks.squad import SquadTask

BAD = (
    "../../../evil", "a/b", "a\\b", "/evil", "..", ".", ".hidden", "", " ", "a ", "a.", "-x", "C:evil", "a\nb", "a\0b",
    "file", "allow_pickle", "FILE", "con", "NUL.txt", "\u202e", "\ufeff", "\ud800", "x" * 101, "日" * 40, "<b>", "a*b",
)  # fmt: skip


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_a_name_that_is_no_file_name_is_refused_wherever_it_stands(name: str) -> None:
    said = "cannot be called"
    with pytest.raises(UserError, match=said):
        FilesTask(name, ("no", "yes"), "t.csv", "d.csv")
    with pytest.raises(UserError, match=said):
        FilesTask("mine", ("no", "yes"), "t.csv", "d.csv", ((name, "o.csv"),))
    with pytest.raises(UserError, match=said):
        FilesTask("mine", ("no", "yes"), "t.csv", "d.csv", id_tests=((name, "o.csv"),))
    with pytest.raises(UserError, match=said):
        SquadTask("t.json", "d.json", ((name, "o.json"),))
    with pytest.raises(UserError, match=said):
        SquadTask("t.json", "d.json", name=name)


@settings(max_examples=100)
@given(st.text(min_size=1, max_size=30))
def test_what_is_accepted_is_a_file_of_its_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    try:
        file_name("a name", name)
    except UserError:
        return
    folder = tmp_path_factory.mktemp("names")
    (folder / f"{name}.csv").write_text("")
    assert [path.name for path in folder.iterdir()] == [f"{name}.csv"]


@pytest.mark.parametrize("name", ["hard", "hans 2", "PAWS-QQP", "v1.1", "日本", "été_2"])
def test_usual_names_pass(name: str) -> None:
    assert file_name("a test set", name) == name


@pytest.mark.parametrize("name", ["../../../evil", "file", "allow_pickle"])
def test_a_test_set_with_such_a_name_stops_every_command(
    name: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    path = write_task(folder, ood={name: "ood.csv"})
    for words in (("data", "check", path), ("data", "write", path, "--out", folder / "out"), ("bias", "--task", path)):
        assert "cannot be called" in refused(monkeypatch, capsys, *words)
    assert not [each for each in tmp_path.rglob("*") if "evil" in each.name]


def test_a_recipe_whose_name_leads_elsewhere(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: ../../../evil\ntask: inference\nlines: [{label: full}]\n")
    said = refused(monkeypatch, capsys, "run", recipe, "--out", tmp_path / "out", "--store", tmp_path / "store")
    assert "a recipe cannot be called '../../../evil'" in said


def test_described_files_are_checked_before_the_description_is_written(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    write_task(tmp_path)
    files = ("--train", tmp_path / "train.csv", "--dev", tmp_path / "dev.csv", "--out", tmp_path / "mine.yaml")
    said = refused(monkeypatch, capsys, "data", "describe", *files, "--ood", f"../x={tmp_path / 'ood.csv'}")
    assert "a test set cannot be called '../x'" in said
    assert not (tmp_path / "mine.yaml").exists()
