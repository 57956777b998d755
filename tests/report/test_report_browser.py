"""The report in a real browser: nothing that decides is cut off, in wide and narrow windows, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from altered import altered
from made_up import interval
from served import chromium

from srnet.evaluation.verdict import judge
from srnet.report.evidence import Column
from srnet.report.page import write_report
from srnet.report.results import Results

SETS = tuple(f"adversarial_swap_{number}" for number in range(3))
CUT = "[...document.querySelectorAll('.blocks')].filter((t) => t.scrollWidth > t.parentElement.clientWidth).length"
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 31)"}


@pytest.fixture
def wide(results: Results) -> Results:
    """The same results as if there were three OOD sets."""
    gains = {name: interval(-12.3, 12.3) for name in SETS}
    verdict = judge(50.0, 50.0, interval(-12.3, 12.3), gains)

    def with_sets(summary: Any) -> Any:
        scores = {"dev": summary.scores["dev"], **dict.fromkeys(SETS, summary.scores["challenge"])}
        more = {name: {split: {} for split in scores} for name in ("groups", "recall")}
        return altered(summary, scores=scores, verdict=verdict if summary.verdict else None, **more)

    def spread_out(by_name: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        return {name: {"dev": own["dev"], **dict.fromkeys(SETS, own["challenge"])} for name, own in by_name.items()}

    levels = {name: spread_out(getattr(results, name)) for name in ("constant", "bias_models", "theory")}
    splits = {"dev": "ID dev", **{name: f"OOD {name}" for name in SETS}}
    summaries = [with_sets(each) for each in results.summaries]
    columns = {name: Column(name, results.metric, title) for name, title in splits.items()}
    return altered(results, splits=splits, columns=columns, ood_splits=SETS, summaries=summaries, **levels)


def test_nothing_that_decides_is_cut_off(ran: Any, wide: Results, by_start: Results, tmp_path: Path) -> None:
    write_report(ran.page(wide, by_start), tmp_path)
    with chromium() as browser:
        for width, scheme in ((1280, "light"), (1280, "dark"), (420, "light"), (420, "dark")):
            window = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
            page, problems = window.new_page(), []
            page.on("pageerror", lambda error, seen=problems: seen.append(str(error)))
            page.goto((tmp_path / "report.html").as_uri())
            page.locator(".js-plotly-plot").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(CUT) == 0
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER[scheme]
            drawn = "getComputedStyle(document.querySelector('.js-plotly-plot .main-svg')).backgroundColor"
            assert page.evaluate(drawn) == PAPER[scheme], "a picture has the colour of the page"
            assert page.locator(".verdict.open").first.is_visible()
            assert problems == []
