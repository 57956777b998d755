"""The one table value: in a terminal and as Markdown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from srnet.core.progress import Terminal
from srnet.core.tables import Table, markdown_text

KEY = "0123456789abcdef"
TABLE = Table(
    ("key", "a long name", "what"),
    [(KEY, "1,234.5", "several words of text"), ("[b]x\x07", "7", "one\ntwo")],
    "a [title]",
    "a note",
    texts=(0, 2),
    soft=(1,),
)


def printed(width: int, kind: type[Console] = Console) -> str:
    console = kind(width=width, file=io.StringIO(), record=True)
    console.print(TABLE)
    return console.export_text()


@pytest.mark.parametrize("kind", [Console, Terminal])
def test_a_wide_terminal_shows_every_cell_as_it_is(kind: type[Console]) -> None:
    text = printed(100, kind)
    for cell in ("a [title]", "a long name", KEY, "1,234.5", "several words of text", "[b]x", "one", "two", "a note"):
        assert cell in text
    assert "\x07" not in text, "a control character is no text"
    assert len({len(line) for line in text.splitlines()[1:-1]}) == 1, "columns are aligned"


def test_a_narrow_terminal_folds_texts_and_headers_but_neither_keys_nor_numbers() -> None:
    text = printed(46)
    assert max(map(len, text.splitlines())) <= 46
    assert KEY in text
    assert "1,234.5" in text
    assert "several words of text" not in text
    assert "a long name" not in text
    assert "…" not in text, "nothing is left out"


def test_markdown() -> None:
    header, line, first, second = TABLE.markdown(bold="what").splitlines()
    assert header == "| key | a long name | what |"
    assert line == "| --- | --- | --- |"
    assert first == f"| {KEY} | 1,234.5 | **several words of text** |"
    assert second.endswith("| 7 | **one<br>two** |")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("*bold* _x_ a_b `c` |", r"\*bold\* \_x\_ a_b \`c\` \|"),
        ("[click](x)", r"[click\](x)"),
        ("<b> & c", "&lt;b> &amp; c"),
    ],
)
def test_markdown_shows_text_unchanged(text: str, shown: str) -> None:
    assert markdown_text(text) == shown
