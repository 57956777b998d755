"""The code blocks of README.md and docs/: fenced and indented, with the page and the line that they are in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    page: str
    """Its path in the repository."""
    line: int
    """Where its text begins, counted from 0."""
    language: str
    """What is behind the fence; "" for an indented block."""
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line + 1}"


def blocks_of(page: Path) -> Iterator[Block]:
    name = page.relative_to(ROOT).as_posix()
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            yield Block(name, token.map[0] + (token.type == "fence"), token.info.strip(), token.content)


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of_language(*languages: str) -> dict[str, list[Block]]:
    """The blocks in these languages, by page."""
    found: dict[str, list[Block]] = {}
    for block in BLOCKS:
        if block.language in languages:
            found.setdefault(block.page, []).append(block)
    return found


EXCEPTIONS = {
    ("docs/deploy.md", "int8: logits differ"): "what a command prints; tests/export/test_onnx.py compares it",
    ("docs/find.md", "the budget of 10 min"): "what a command prints; tests/finding compares it",
    ("docs/guides/own-loop.md", "pruning = srnet.attach(model"): "an outline of the loops below it, which run",
    ("docs/recipes.md", "from gensim.models"): "gensim is no dependency; its syntax is checked",
}
"""Blocks that are neither run nor read, by page and beginning, with the reason."""


def exception(block: Block) -> str | None:
    return next((why for (page, first), why in EXCEPTIONS.items() if is_that(block, page, first)), None)


def is_that(block: Block, page: str, first: str) -> bool:
    return block.page == page and block.text.startswith(first)
