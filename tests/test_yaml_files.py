"""YAML files: plain data come back, and what no person writes is refused in one line. The fuzz has more of these."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.config.yaml_files import read_yaml, yaml_text


def bomb(levels: int) -> str:
    """Aliases that stand for nine times as much on every level."""
    names = [chr(97 + level) for level in range(levels + 1)]
    lines = [f"{each}: &{each} [{', '.join([f'*{before}'] * 9)}]" for before, each in pairwise(names)]
    return "\n".join(["a: &a [x, x]", *lines])


HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "aliases that multiply": (bomb(6), "50,000"),
    "an alias of itself": ("a: &a {b: *a}", "50,000"),
    "nested brackets": ("task: " + "[" * 3000 + "]" * 3000, "recursion"),
    "nested braces": ("{a: " * 3000, "recursion"),
    "a number of 5,000 digits": (f"seeds: {'9' * 5000}", "digits"),
    "a key twice": ("name: a\nname: b", "'name'"),
    "a tag": ("name: !!python/object/apply:os.system [id]", "os.system"),
    "a key that is a list": ("? [a]\n: b", "key"),
    "two documents": ("a: 1\n---\nb: 2", "document"),
    "no YAML": ("task: [", "line 1"),
    "bytes": (b"\xff\xfe\x00", "decode"),
    "a long file": ("#" * (2**20 + 1), "1,048,576"),
}


@pytest.mark.parametrize(("text", "named"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_yaml_is_refused_in_one_line(text: str | bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with refused(path, named):
        read_yaml(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with refused(tmp_path / "gone.yaml", "No such file"):
        read_yaml(tmp_path / "gone.yaml")


def test_dates_are_texts_numbers_need_no_dot_and_aliases_are_read(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("dates: [2024-13-01, 2024-12-01]\nrates: [5e-5, 1E3, -2e+1]\na: &a {x: 1}\nb: {<<: *a, x: 2}\n")
    assert read_yaml(path) == {
        "dates": ["2024-13-01", "2024-12-01"],
        "rates": [5e-5, 1000.0, -20.0],
        "a": {"x": 1},
        "b": {"x": 2},
    }


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
    path.write_text(yaml_text(value), encoding="utf-8")
    assert json.dumps(read_yaml(path)) == json.dumps(value)
