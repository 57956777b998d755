"""The site's pages that lie outside docs/: the README is the start page, the notebook a guide, examples can be opened.

Links are written as they work in the repository. What points outside docs/ is translated here.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/quick_tour.ipynb": "guides/quick-tour.md",
}
"""Files of the repository and the pages that they become."""
SOURCES = {page: name for name, page in PAGES.items()}
LINK = re.compile(r"\[(?P<text>[^\]\[]*)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    for name, page in PAGES.items():
        for made, content in pages_of(name, page):
            files.append(File.generated(config, made, content=content))
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return LINK.sub(lambda link: site_link(link, page.file.src_uri), markdown)


def site_link(link: re.Match[str], page: str) -> str:
    """A relative link of the repository as one of the site; a file's name that it shows becomes the page's title."""
    source = PurePosixPath(SOURCES.get(page, f"docs/{page}"))
    place = os.path.normpath(source.parent / link["target"])
    text = title_of(ROOT / place) if link["text"].endswith(".md") else link["text"]
    target = os.path.relpath(PAGES.get(place, place.removeprefix("docs/")), PurePosixPath(page).parent)
    return f"[{text}]({target}{link['anchor'] or ''})"


def title_of(path: Path) -> str:
    """The first heading of a file; the name of one that does not exist, which mkdocs then reports."""
    first = path.read_text(encoding="utf-8").partition("\n")[0] if path.is_file() else path.name
    return first.removeprefix("# ")


def pages_of(name: str, page: str) -> Iterator[tuple[str, str | bytes]]:
    """A page and its pictures, by their names on the site."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if not name.endswith(".ipynb"):
        yield page, text
        return
    parts: list[str] = []
    for number, cell in enumerate(json.loads(text)["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                picture = f"../examples/{Path(name).stem}-{number}.png"  # as a link of the notebook's folder
                yield f"examples/{Path(name).stem}-{number}.png", base64.b64decode(data["image/png"])
                parts.append(f"![]({picture})")
            else:
                parts.append(fenced("".join(data["text/plain"]), "text"))
    yield page, "\n\n".join(parts)


def fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"
