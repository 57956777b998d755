"""The documentation builds without network and without a warning, asks for nothing from elsewhere, and is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from processes import HERE, PATIENCE, environment
from served import chromium

import srnet

ROOT = HERE.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` builds it; a process that uses the network or writes elsewhere is refused."""
    folder = tmp_path_factory.mktemp("site").resolve()
    path = os.pathsep.join([str(HERE / "guarded"), str(ROOT)])
    guarded = {"GUARDED": str(folder), "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1", "TMPDIR": str(folder)}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / "site")]
    done = subprocess.run(
        words, cwd=ROOT, env=environment() | guarded, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert not (folder / "refused").exists(), (folder / "refused").read_text()
    return folder / "site"


class Requests(HTMLParser):
    """What a browser asks for when it shows a page, and where the page leads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "link" and given.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(given.get("href", ""))
        elif "src" in given:
            self.loaded.append(given["src"])
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Requests]:
    return {path: Requests(path) for path in site.rglob("*.html") if path.name != "404.html"}


ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//|^https?:|^/")


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Requests], site: Path) -> None:
    loaded = {(path, each) for path, page in pages.items() for each in page.loaded if not each.startswith("data:")}
    assert len(loaded) > len(pages)
    assert [each for each in loaded if ELSEWHERE.match(each[1])] == []
    assert [each for each in loaded if not (each[0].parent / each[1].split("?")[0]).is_file()] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert [each for each in re.findall(r"url\(([^)]*)\)", styles) if ELSEWHERE.match(each.strip("'\""))] == []


def test_links_lead_to_files_and_headings_that_exist(pages: dict[Path, Requests]) -> None:
    """mkdocs checks what is written; this also checks what the theme, the reference and the hooks make."""
    broken = []
    for path, page in pages.items():
        for link in page.links:
            if ELSEWHERE.match(link) or link.startswith(("mailto:", "javascript:")):
                continue
            target, _, anchor = link.partition("#")
            place = (path.parent / target).resolve() if target else path.resolve()
            if not place.exists() or (place in pages and anchor not in pages[place].anchors):
                broken.append((path.name, link))
    assert broken == []


def test_links_outside_the_site_are_https(pages: dict[Path, Requests]) -> None:
    outside = {link for page in pages.values() for link in page.links if ELSEWHERE.match(link)}
    assert {link for link in outside if not link.startswith("https://")} == set()


def test_search_works_in_pages_opened_as_files(site: Path) -> None:
    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.get_by_role("textbox", name="Search").press_sequentially("prune_once")
        page.locator(".md-search-result__item h1", has_text="Your own loop").first.wait_for(timeout=1000 * PATIENCE)
    assert {url.split(":")[0] for url in asked} <= {"file", "data", "blob"}


def entries(nav: object) -> list[str]:
    """The pages of a navigation."""
    if isinstance(nav, str):
        return [nav]
    assert isinstance(nav, list | dict)
    return [page for each in (nav.values() if isinstance(nav, dict) else nav) for page in entries(each)]


def test_every_page_is_in_the_navigation_once(site: Path) -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = entries(config["nav"])
    assert [page for page, times in Counter(listed).items() if times > 1] == []
    assert [page for page in listed if not (site / page).with_suffix(".html").is_file()] == []
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert written - set(listed) == set()


# --- the reference -------------------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_reference_once(pages: dict[Path, Requests]) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    described = Counter(re.findall(r"^::: srnet\.(\w+)$", text, re.MULTILINE))
    assert described == Counter(srnet.__all__)
    anchors = set().union(*(page.anchors for page in pages.values()))
    assert {name for name in srnet.__all__ if f"srnet.{name}" not in anchors} == set()
