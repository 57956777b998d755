"""The page of an audit in a real browser, without network: filters, search, hostile texts, a narrow window."""

from __future__ import annotations

from pathlib import Path

from audited import Scripted, audit_of, split_of, task_of
from served import HOSTILE, chromium

from srnet.audit.writing import write_audit
from srnet.tasks.splits import SplitKind

TEXTS = [
    (HOSTILE, "<b>bold</b>"),
    ("the doctor slept", "the pilot slept"),
    ("🙂 " * 5000, "🙂"),
    ("", ""),
    *((f"row {number} is here", f"number {number}") for number in range(60)),
]

SPLITS: list[tuple[str, SplitKind]] = [("dev", "ID"), *((f"a_long_name_of_an_ood_set_{n}", "OOD") for n in range(4))]  # type: ignore[list-item]


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


CUT = "[...document.querySelectorAll('.blocks')].filter((t) => t.scrollWidth > t.parentElement.clientWidth).length"


def test_conclusion_chart_and_main_tables_fit_any_window(tmp_path: Path) -> None:
    """Nothing that decides is behind a scroll bar, in a wide window and in a narrow one."""
    pairs = [(f"the doctor number {row}", "the doctor" if row % 3 else "a pilot") for row in range(60)]
    splits = [split_of(pairs, [row % 2 for row in range(60)], name, kind) for name, kind in SPLITS]
    models = [Scripted(lambda a, b: (0.0, 1.0), name="m" * 90), Scripted(lambda a, b: (0.0, float(len(a) % 2) - 0.5))]
    write_audit(audit_of(task_of(splits[0], splits[1:]), *models), tmp_path / "audit")
    with chromium() as browser:
        for width in (1280, 420):
            page = browser.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
            page.goto((tmp_path / "audit" / "audit.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CUT) == 0
            assert page.locator(".lead p").first.bounding_box()["y"] < 100, "the conclusion is at the top"
            assert page.locator("svg[role=img]").count() == 4
            box = page.locator("svg[role=img]").first.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
