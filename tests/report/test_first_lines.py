"""What stands first in a report: the lines that were given, or its own conclusion; and the words at its end."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from altered import altered
from made_up import interval
from refusals import refused

from srnet.core.prose import html_of, listed, markdown_of, sentences
from srnet.evaluation.verdict import FAILS, HOLDS, OPEN, Verdict, judge
from srnet.report.claims import CLAIMS, Finding
from srnet.report.conclusion import conclude
from srnet.report.glossary import GLOSSARY
from srnet.report.page import _render_markdown, render_page
from srnet.report.results import Results
from srnet.report.tables import results_table, score_table

DOCS = Path(__file__).parents[2] / "docs"


def judged(results: Results, kept: float, gain: float, seeds: int = 3) -> Results:
    """As if the one subnetwork at 90 % sparsity kept so many points of ID and gained so many OOD, give or take one."""

    def verdict(summary: Any) -> Verdict:
        own = summary.scores["dev"].mean
        gains = {"challenge": interval(gain - 1, gain + 1, seeds)}
        return judge(own, own - kept, interval(kept - 1, kept + 1, seeds), gains)

    pruned = [each for each in results.summaries if each.name == "magnitude, 90 %"]
    chosen = altered(pruned[0], verdict=verdict(pruned[0]))
    others = [altered(each, verdict=None) for each in results.summaries if each is not pruned[0]]
    return altered(results, summaries=[*others, chosen])


@pytest.mark.parametrize(
    ("kept", "gain", "seeds", "ends"),
    [
        (2.0, 9.0, 3, "It certainly keeps at least 95 % of the ID score and beats the full model out of distribution."),
        (2.0, 0.5, 3, "It is not certain that it keeps at least 95 %"),
        (2.0, -9.0, 3, "No subnetwork keeps at least 95 %"),
        (2.0, 9.0, 1, "With one seed this may be luck; 3 are needed for a verdict."),
    ],
)
def test_a_report_begins_with_what_was_found(kept: float, gain: float, seeds: int, ends: str, results: Results) -> None:
    made = judged(results, kept, gain, seeds)
    scores = made.summaries[-1].scores
    own_id, own_ood = scores["dev"].mean, scores["challenge"].mean
    (line,) = conclude([made])
    assert line.startswith(
        f"The full model scores {own_id - kept:.1f} on ID dev and {own_ood - gain:.1f} on OOD challenge; a subnetwork "
        f"with 10 % of its weights, magnitude, scores {own_id:.1f} and {own_ood:.1f}. "
    )
    assert ends in line


def test_several_figures_begin_with_the_number_of_claims_and_srnets(results: Results, by_start: Results) -> None:
    findings = [Finding(CLAIMS[0], "inference", answer) for answer in (HOLDS, HOLDS, FAILS, OPEN)]
    claims, srnets = conclude([judged(results, 2.0, 9.0), by_start], findings)
    assert claims == "Of 4 claims of the paper 2 hold, 1 do not, and 1 need more evidence."
    assert srnets.startswith("1 of 2 figures")
    assert srnets.endswith("sparse and robust: small on inference.")


def test_lines_that_are_given_stand_first(ran: Any, results: Results) -> None:
    page = replace(ran.page(results), lead=("Yours <b>scores</b> 97.0.", "Load it: `srnet page a && b`."))
    html, text = render_page(page), _render_markdown(page)
    shown = "<p>Yours &lt;b&gt;scores&lt;/b&gt; 97.0.</p><p>Load it: <code>srnet page a &amp;&amp; b</code>.</p>"
    assert 0 < html.index(shown) < html.index("Made by")
    assert text.startswith("# A title\n\nYours &lt;b>scores&lt;/b> 97.0.\n\nLoad it: `srnet page a && b`.\n\nMade by")
    assert conclude([results])[0] not in html


def test_prose() -> None:
    assert html_of("a ` b") == "a ` b", "one backtick is no code"
    assert html_of("`<a>` and `") == "<code>&lt;a&gt;</code> and `"
    assert markdown_of("*x* `*y*`") == r"\*x\* `*y*`"
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert sentences("One.") == sentences(["One."]) == ("One.",)
    for wrong in (3, [1], None):
        with refused("lead"):
            sentences(wrong)  # type: ignore[arg-type]


def test_the_verdict_is_the_third_column_everywhere(results: Results) -> None:
    for table in (score_table(results), results_table(results)):
        assert table.columns[2] == Verdict.question
        assert [row[2] for row in table.rows if row[2]] == [s.verdict.short for s in results.summaries if s.verdict]


def test_the_glossary_is_the_same_in_the_docs(ran: Any, results: Results) -> None:
    text = re.sub(r"\n  ", " ", (DOCS / "glossary.md").read_text())
    assert dict(re.findall(r"^- \*\*(.+?)\*\*: (.+)$", text, re.MULTILINE)) == GLOSSARY
    html = render_page(ran.page(results))
    assert html.count("<dt>") == len(GLOSSARY)
