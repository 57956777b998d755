"""The page in a real browser, without network: filters, search, hostile texts, a narrow window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audited import Scripted, audit_of, split_of, task_of

from srnet.audit.writing import write_audit

TEXTS = [
    ("<img src=x onerror=document.title='broken'>", "<b>bold</b>"),
    ("the doctor slept", "the pilot slept"),
    ("🙂 " * 5000, "🙂"),
    ("", ""),
    *((f"row {number} is here", f"number {number}") for number in range(60)),
]


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        pytest.skip("there is no Chromium on this machine")
    dev = split_of(TEXTS, [number % 2 for number in range(len(TEXTS))])
    models = [Scripted(lambda a, b: (0.0, 1.0)), Scripted(lambda a, b: (0.0, float(len(b) % 2) - 0.5))]
    write_audit(audit_of(task_of(dev), *models), tmp_path / "audit")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        window = browser.new_context(viewport={"width": 420, "height": 800}, color_scheme="dark", offline=True)
        opened = window.new_page()
        opened.problems = []
        opened.on("pageerror", lambda error: opened.problems.append(str(error)))
        opened.goto((tmp_path / "audit" / "audit.html").as_uri())
        yield opened
        browser.close()


def test_rows_can_be_filtered_and_searched(page: Any) -> None:
    count = page.locator("#count")
    assert count.inner_text() == "64 of 64 rows"
    assert page.locator("#list article").count() == 40
    page.click("#more")
    assert page.locator("#list article").count() == 64
    page.fill("#search", "doctor PILOT")
    page.get_by_text("1 of 64 rows", exact=True).wait_for()
    assert page.locator("#list mark").all_inner_texts() == ["the", "slept"]
    page.fill("#search", "")
    page.get_by_label("rows", exact=True).select_option("both")
    both = sum(number % 2 == 0 and len(b) % 2 == 1 for number, (_, b) in enumerate(TEXTS))
    page.get_by_text(f"{both} of 64 rows", exact=True).wait_for()
    assert page.locator("#list .right").count() == 0
    page.get_by_label("label", exact=True).select_option("yes")
    page.get_by_text("0 of 64 rows", exact=True).wait_for()
    assert page.problems == []


def test_hostile_texts_and_a_narrow_window(page: Any) -> None:
    assert page.title() == "Audit: made-up"
    page.fill("#search", "onerror")
    page.get_by_text("1 of 64 rows", exact=True).wait_for()
    assert "<img src=x" in page.locator("#list article").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"
    assert page.problems == []
