"""YAML that no person writes, or writes by mistake: one line, at once, whatever the file stands for."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from fuzz.valid import BACKBONE, write_published, write_task
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import command_refused

from srnet.config.yaml_files import read_yaml
from srnet.core.errors import UserError
from srnet.recipes.files import load_recipe
from srnet.recipes.tasks import load_task_file

RECIPE = f"""
task: task.yaml
backbone: {BACKBONE}
seeds: 1
finetuning: {{steps: 1}}
pruning: {{steps: 1}}
lines:
  - {{label: masks, paradigm: a, pruner: mask, prune: ce, sparsities: [0.5]}}
""".replace("task: task.yaml", "task: inference")


def bomb(levels: int) -> str:
    """Aliases that stand for nine times as much on every level."""
    names = [chr(97 + level) for level in range(levels + 1)]
    lines = [f"{each}: &{each} [{', '.join([f'*{before}'] * 9)}]" for before, each in pairwise(names)]
    return "\n".join(["a: &a [x, x]", *lines])


HOSTILE = {
    "aliases that multiply": (bomb(6), "more than 50,000 values"),
    "an alias of itself": ("a: &a {b: *a}", "an alias that contains itself"),
    "nested brackets": ("task: " + "[" * 3000 + "]" * 3000, "more than 40 levels"),
    "nested braces": ("{a: " * 3000, "more than 40 levels"),
    "a number of 5,000 digits": (f"seeds: {'9' * 5000}", "a number out of range"),
    "a NUL": ('name: "a\\0b"', "a text with a NUL character"),
    "a key twice": ("name: a\nname: b", "the key 'name' occurs twice"),
    "a tag": ("name: !!python/object/apply:os.system [id]", "could not determine a constructor"),
    "a key that is a list": ("? [a]\n: b", "unhashable key"),
    "two documents": ("a: 1\n---\nb: 2", "expected a single document"),
    "bytes": (b"\xff\xfe\x00", "cannot be read"),
    "a long file": ("#" * (2**20 + 1), "more than 1,048,576 bytes"),
}


@pytest.mark.parametrize("command", [("run",), ("data", "check")], ids=["run", "check"])
@pytest.mark.parametrize(("text", "said"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_yaml_is_refused_in_one_line(
    command: tuple[str, ...], text: str | bytes, said: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert said in command_refused(monkeypatch, capsys, *command, path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_device_that_never_ends_is_refused(monkeypatch: Any, capsys: Any) -> None:
    assert "is a pipe or a device" in command_refused(monkeypatch, capsys, "run", "/dev/zero", "--dry-run")


def test_what_looks_like_an_impossible_date_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("name: 2024-13-01\nother: 2024-12-01\n")
    assert read_yaml(tmp_path / "r.yaml") == {"name": "2024-13-01", "other": "2024-12-01"}


def test_merge_keys_are_no_twins(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: &a {x: 1}\nb: {<<: *a, x: 2}\n")
    assert read_yaml(tmp_path / "r.yaml")["b"] == {"x": 2}


# PyYAML writes these three line breaks as they are, and reading turns them into spaces
_TEXT = st.text(st.characters(exclude_characters="\x85\u2028\u2029", exclude_categories=["Cs"]), max_size=8)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=60)
@given(value=_PLAIN)
def test_plain_data_comes_back(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("yaml") / "v.yaml"
    text = yaml.safe_dump(value, allow_unicode=True)
    if "\0" in json.dumps(value, ensure_ascii=False).encode().decode("unicode_escape", errors="ignore"):
        return  # NUL is refused, which has its own test
    path.write_text(text, encoding="utf-8")
    assert read_yaml(path) == value


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("pruner: mask", "pruner: [mask]", "pruner: ['mask'] is not"),
        ("seeds: 1", "seeds: 10000000", "10000000 seeds are too many; give at most 1,000"),
        ("seeds: 1", f"seeds: {list(range(1001))}", "1001 seeds are too many"),
        ("seeds: 1", "seeds: 1\nname: [mask]", "name: ['mask'] is not"),
        ("{steps: 1}", "{steps: 1, max_grad_norm: .nan}", "max_grad_norm nan is out of range"),
        ("{steps: 1}", "{steps: 1, learning_rate: .inf}", "learning_rate inf is out of range"),
        ("{steps: 1}", f"{{steps: 1{'0' * 400}}}", "is out of range; give a number from 1 to 1000000000"),
        ("[0.5]", f"[1{'0' * 400}]", "is not a number"),
        ("[0.5]", "[.nan]", "sparsity nan is out of range"),
        ("task: inference", 'task: {name: x, train: "a\\0b"}', "a text with a NUL character"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_values_out_of_range(old: str, new: str, said: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE)
    load_recipe(tmp_path / "r.yaml")  # what is changed below is all that is wrong
    (tmp_path / "r.yaml").write_text(RECIPE.replace(old, new, 1))
    assert said in command_refused(monkeypatch, capsys, "run", tmp_path / "r.yaml", "--dry-run")


def test_a_message_repeats_no_more_than_a_line_of_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE.replace("seeds: 1", f"seeds: {'x' * 100_000}"))
    with pytest.raises(UserError) as error:
        load_recipe(tmp_path / "r.yaml")
    assert len(str(error.value)) < 1500


# --- a published dataset with a file that is described ---------------------------------------------------------------


def described(folder: Path, ood: Any) -> Any:
    write_published(folder)
    (folder / "d.yaml").write_text(json.dumps({"dataset": "snli", "data": "data", "ood": ood}))
    return load_task_file(folder / "d.yaml")


def test_a_file_of_a_published_dataset_may_be_described(tmp_path: Path) -> None:
    spec = described(tmp_path, {"hans": {"path": "hans.csv", "group": "text_b"}})
    task = spec.load()
    assert task.ood["hans"].groups == ("g",), "the group is the one that is named"
    assert task.ood["hans"].coarse is not None, "the classes are those that the dataset knows"


@pytest.mark.parametrize(
    ("ood", "said"),
    [(["hans"], "is not a mapping"), ({"hans": 3}, "is not a mapping"), ({"hans": {"file": "x"}}, "unknown key")],
    ids=str,
)
def test_what_is_no_description_is_said(ood: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        described(tmp_path, ood)


def test_described_files_of_ones_own_still_work(tmp_path: Path) -> None:
    spec = load_task_file(write_task(tmp_path, ood={"hard": {"path": "ood.csv", "group": "label"}}))
    assert spec.load().ood["hard"].groups == ("no", "yes")  # type: ignore[union-attr]
