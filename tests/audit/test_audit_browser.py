"""The page of an audit in a real browser, without network: filters, search, hostile texts, a narrow window."""

from __future__ import annotations

from pathlib import Path

from audited import Scripted, audit_of, split_of, task_of
from served import HOSTILE, chromium

from srnet.audit.writing import write_audit

TEXTS = [
    (HOSTILE, "<b>bold</b>"),
    ("the doctor slept", "the pilot slept"),
    ("🙂 " * 5000, "🙂"),
    ("", ""),
    *((f"row {number} is here", f"number {number}") for number in range(60)),
]


def test_rows_can_be_filtered_and_searched(tmp_path: Path) -> None:
    dev = split_of(TEXTS, [number % 2 for number in range(len(TEXTS))])
    models = [Scripted(lambda a, b: (0.0, 1.0)), Scripted(lambda a, b: (0.0, float(len(b) % 2) - 0.5))]
    write_audit(audit_of(task_of(dev), *models), tmp_path / "audit")
    with chromium() as browser:
        window = browser.new_context(viewport={"width": 420, "height": 800}, color_scheme="dark", offline=True)
        page, problems = window.new_page(), []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((tmp_path / "audit" / "audit.html").as_uri())
        assert page.locator("#count").inner_text() == "64 of 64 rows"
        assert page.locator("#list article").count() == 40
        page.click("#more")
        assert page.locator("#list article").count() == 64
        page.fill("#search", "doctor PILOT")
        page.get_by_text("1 of 64 rows", exact=True).wait_for()
        assert page.locator("#list mark").all_inner_texts() == ["the", "slept"]
        page.fill("#search", "onerror")
        page.get_by_text(HOSTILE, exact=True).wait_for()
        page.fill("#search", "")
        page.get_by_label("rows", exact=True).select_option("both")
        both = sum(number % 2 == 0 and len(b) % 2 == 1 for number, (_, b) in enumerate(TEXTS))
        page.get_by_text(f"{both} of 64 rows", exact=True).wait_for()
        assert page.locator("#list .right").count() == 0
        page.get_by_label("label", exact=True).select_option("yes")
        page.get_by_text("0 of 64 rows", exact=True).wait_for()
        assert page.title() == "Audit: made-up"
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"
        assert problems == []
