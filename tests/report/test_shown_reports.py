"""What `run_recipe` and `reproduce` return, as a notebook shows it."""

from __future__ import annotations

from typing import Any

from srnet.report.results import Results


def test_results_have_a_row_per_model_and_begin_as_the_report(results: Results, ran: Any) -> None:
    frame = results.to_pandas()
    assert list(frame["model"]) == [summary.name for summary in results.summaries]
    assert list(frame["dev.mean"]) == [summary.scores["dev"].mean for summary in results.summaries]
    assert set(frame["dev.seeds"]) == {2}
    page = ran.page(results)
    assert results.sentence == page.first_lines[0]
    for shown in (results, page):
        assert len(repr(shown)) < 400
        assert repr(shown).isprintable()
        assert results.sentence[:20] in shown._repr_html_()
