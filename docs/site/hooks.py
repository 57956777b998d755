"""The site's pages that lie outside docs/: the README is the start page, and examples can be opened.

Links are written as they work in the repository. What points outside docs/ is translated here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
"""Files of the repository and the pages that they become."""
SOURCES = {page: name for name, page in PAGES.items()}
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")


def on_files(files: Files, config: Any) -> Files:
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file():
            files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return LINK.sub(lambda found: site_link(found[0], page.file.src_uri), markdown)


def site_link(target: str, page: str) -> str:
    """A relative link of the repository as a relative link of the site."""
    source = PurePosixPath(SOURCES.get(page, f"docs/{page}"))
    place = os.path.normpath(source.parent / target)
    return os.path.relpath(PAGES.get(place, place.removeprefix("docs/")), PurePosixPath(page).parent)
