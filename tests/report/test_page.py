"""The page: nothing is fetched to view it, nothing on it is anybody's markup, and everything has its origin."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import partial
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from altered import LINES, altered, printed
from made_up import interval
from plotly.offline import get_plotlyjs

from srnet.evaluation.verdict import FAILS, HOLDS, OPEN, Condition
from srnet.report.claims import CLAIMS, Finding
from srnet.report.page import Page, Section, _render_markdown, render_page, write_report
from srnet.report.pictures import curves, draw_curves
from srnet.report.results import Results
from srnet.report.tables import findings_table, results_table, verdict_line
from srnet.tasks.synthetic import SyntheticTask

FINDINGS = [
    Finding(CLAIMS[0], "inference", HOLDS, (Condition("a gain", interval(1.0, 3.0), answer=HOLDS),), 3),
    Finding(CLAIMS[1], "inference", FAILS, (Condition("a loss", interval(-4.0, -2.0), -1.0, FAILS),), 3),
    Finding(CLAIMS[2], "inference", OPEN, note="fig5 has not been computed"),
]


@pytest.fixture(scope="module")
def page(ran: Any, results: Results, by_start: Results) -> Page:
    return replace(ran.page(results, by_start), findings=FINDINGS)


@pytest.fixture(scope="module")
def html(page: Page) -> str:
    """The page, but for the code of plotly.js, which is ours only to carry."""
    whole = render_page(page)
    assert whole.count(get_plotlyjs()) == 1
    return whole.replace(get_plotlyjs(), "")


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)


def pictures_of(html: str) -> list[dict[str, Any]]:
    found = re.search(r"const pictures = (.*);\n", html)
    assert found
    return list(json.loads(found[1]))


# --- by itself -----------------------------------------------------------------------------------------------------


def test_the_page_needs_nothing_else(html: str) -> None:
    parsed = Tags(html)
    assert (parsed.unbalanced, parsed.open) == ([], []), "tags are closed in the order they were opened"
    assert {"link", "iframe", "object", "embed", "base"}.isdisjoint(tag for tag, _ in parsed.tags)
    for tag, attributes in parsed.tags:
        assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,"), tag
        assert (attributes.get("href") or "#").startswith("#"), tag
        assert {"action", "srcset", "data", "poster"}.isdisjoint(attributes), tag
    assert any(tag == "img" for tag, _ in parsed.tags)
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest", html)
    links = {str(attributes["href"])[1:] for tag, attributes in parsed.tags if tag == "a"}
    assert links == {"claims", "glossary", "small-inference", "starts-inference"}
    assert links <= {attributes["id"] for _, attributes in parsed.tags if "id" in attributes}


def test_every_place_for_a_picture_has_its_data(html: str) -> None:
    places, pictures = re.findall(r'id="plot-(\d+)"', html), pictures_of(html)
    assert [int(place) for place in places] == list(range(len(pictures)))
    # curves, sub-cases and masks at three sparsities; curves, traces and masks at one
    assert len(pictures) >= 2 + 1 + 2 * 3 + 2 + 2 + 2 * 1
    assert all(set(picture) == {"data", "layout"} for picture in pictures)
    # only heat maps, whose columns need room, are wider than a narrow window; they can be scrolled
    assert "new ResizeObserver(" in html
    wide = {int(place) for place in re.findall(r'id="plot-(\d+)" style="min-width', html)}
    for number, picture in enumerate(pictures):
        assert "width" not in picture["layout"]
        assert (picture["data"][0]["type"] == "heatmap") == (number in wide)


# --- everything is there -------------------------------------------------------------------------------------------


def test_the_page_shows_everything(html: str, page: Page) -> None:
    text = unescape(html)
    assert "<title>A title</title>" in html
    assert f"Made by <code>{page.command}</code>" in html
    for section in page.sections:
        results = section.results
        assert verdict_line(results) in text
        assert f"<code>{section.command}</code>" in html
        for summary in results.summaries:
            assert summary.name in text
            assert f"<code>{summary.point.node.formula}</code>" in text
            assert all(f"<code>{model.key}</code>" in html for model in summary.models)
            assert all(f">{summary.scores[split]}</td>" in html for split in results.splits)
            if summary.verdict is not None:
                assert summary.verdict.kept_percent in html
                for difference in (summary.verdict.gains["challenge"], summary.verdict.id_kept):
                    assert str(difference).replace(" [", "<br>[") in html, "an interval is on a line of its own"
                assert f">{summary.verdict.short}</td>" in html
        assert results.recipe.profile.backbone in html
    for words in ("majority class", "bias model", "accuracy by sub-case", "Accuracy per true class", "The masks"):
        assert words in html
    assert '"learning_rate": 0.001' in text, "and the settings"
    assert "starts: When to start, inference" in text


def test_the_claims_are_shown_with_what_they_rest_on(html: str) -> None:
    for finding in FINDINGS:
        assert finding.claim.statement in unescape(html)
        assert finding.claim.source in html
    for mark, answer in (("holds", "holds"), ("fails", "does not hold"), ("open", "not enough evidence")):
        assert f'class="{mark}">{answer}</td>' in html
    assert "a gain: +2.0 [+1.0, +3.0], holds" in html
    assert "a loss: -3.0 [-4.0, -2.0] (bar -1.0), does not hold" in html
    assert "fig5 has not been computed" in html


def test_the_page_has_the_command_that_opens_two_of_its_models(html: str, page: Page) -> None:
    commands = [section.results.page_command for section in page.sections if section.results.page_command]
    assert commands
    assert all(command in html for command in commands)
    summaries, keys = page.sections[0].results.summaries, commands[0].split()[2:]
    lines = [summary for key in keys for summary in summaries if summary.models[0].key.startswith(key)]
    assert [summary.point.is_pruned for summary in lines] == [False, True]


def test_only_what_there_is_has_a_heading(ran: Any, results: Results, by_start: Results) -> None:
    about_start, other = (render_page(ran.page(each)) for each in (by_start, results))
    assert 'id="claims"' not in about_start
    assert "How the searches went" in about_start
    assert "How the searches went" not in other


# --- the paper's own numbers ---------------------------------------------------------------------------------------

NUMBERS = {
    ("tab5", "inference"): {
        "fixed, hard": ("72.1 ± 0.9", "52.6 ± 0.9"),
        "gradual, from 70 %": ("76.8 ± 0.5", "56.7 ± 0.8"),
    },
    ("tab5", "paraphrase"): {
        "fixed, hard": ("71.6 ± 1.9", "55.7 ± 1.9", "49.6 ± 1.8"),
        "gradual, from 70 %": ("79.5 ± 0.6", "46.6 ± 1.8", "51.1 ± 0.7"),
    },
    ("tab5", "verification"): {
        "fixed, hard": ("49.6 ± 5.1", "27.4 ± 2.9", "29.8 ± 1.4"),
        "gradual, from 70 %": ("79.0 ± 0.7", "51.7 ± 0.7", "58.2 ± 0.3"),
    },
    ("tab6", "inference"): {
        "RoBERTa-base: full model (CE)": ("87.1 ± 0.2", "68.3 ± 0.9"),
        "RoBERTa-base: full model (PoE)": ("86.6 ± 0.2", "76.2 ± 1.4"),
        "RoBERTa-base: mask training (PoE), 50 %": ("85.4 ± 0.1", "75.2 ± 0.6"),
        "RoBERTa-base: mask training (PoE), 70 %": ("83.5 ± 0.3", "68.6 ± 1.3"),
        "RoBERTa-base: gradual, from 50 %, 70 %": ("84.4 ± 0.1", "72.0 ± 1.2"),
        "BERT-large: full model (CE)": ("86.8 ± 0.1", "69.4 ± 2.4"),
        "BERT-large: full model (PoE)": ("86.2 ± 0.2", "76.3 ± 1.6"),
        "BERT-large: mask training (PoE), 50 %": ("85.5 ± 0.3", "75.4 ± 0.6"),
        "BERT-large: mask training (PoE), 70 %": ("77.5 ± 6.1", "60.2 ± 7.6"),
        "BERT-large: gradual, from 50 %, 70 %": ("84.8 ± 0.3", "70.2 ± 2.2"),
    },
}
COLUMNS = {
    "inference": ["MNLI", "HANS"],
    "paraphrase": ["QQP", "PAWS-qqp", "PAWS-wiki"],
    "verification": ["FEVER", "Symm1", "Symm2"],
}
PUBLISHED = json.loads(files("srnet.report").joinpath("published.json").read_text(encoding="utf-8"))


def close(shown: str, wanted: str) -> bool:
    """To the last printed digit: a 5 behind it may go either way."""
    pairs = zip(shown.split(" ± "), wanted.split(" ± "), strict=True)
    return all(abs(float(a) - float(b)) < 0.11 for a, b in pairs)


def published_table(figure: str, task: str) -> dict[str, Any]:
    """The one with the paper's numbers for a figure on a task like this one."""
    wanted = (figure, PUBLISHED["like"][task])
    (table,) = [table for table in PUBLISHED["tables"] if (table["figure"], table["task"]) == wanted]
    return dict(table)


@pytest.mark.parametrize(("figure", "task"), NUMBERS)
def test_the_numbers_of_tables_5_and_6(figure: str, task: str) -> None:
    table, numbers = published_table(figure, task), NUMBERS[figure, task]
    assert table["columns"] == COLUMNS[task]
    of_tab5 = ["fixed, hard", "fixed, soft", *(f"gradual, from {share} %" for share in (20, 50, 70))]
    assert set(table["rows"]) == set(of_tab5 if figure == "tab5" else numbers)
    for label, wanted in numbers.items():
        cells = table["rows"][label]
        assert all(close(a, b) for a, b in zip(cells, wanted, strict=True)), (label, cells)


def named(results: Results, name: str, task: str = "inference") -> Results:
    """As if the results were of this figure and task."""
    profile = replace(results.recipe.profile, task=SyntheticTask(task, train_size=100, dev_size=40, ood_size=40))
    return altered(results, recipe=replace(results.recipe, name=name, profile=profile))


@pytest.mark.parametrize("figure", ["tab5", "tab6", "fig2"])
@pytest.mark.parametrize("task", ["inference", "paraphrase"])
def test_the_papers_numbers_stand_beside_ours(figure: str, task: str, ran: Any, by_start: Results) -> None:
    page = ran.page(by_start)
    section = replace(page.sections[0], results=named(by_start, figure, task))
    html = unescape(render_page(replace(page, sections=[section])))
    shown = (figure, task) in NUMBERS
    assert ("The paper's numbers" in html) == shown
    for label, cells in published_table(figure, task)["rows"].items() if shown else ():
        assert f"<tr><td>{label}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) in html


def test_what_the_paper_says_stands_beside_a_figure(ran: Any, by_start: Results) -> None:
    assert PUBLISHED["statements"]["fig8"] in unescape(render_page(ran.page(named(by_start, "fig8"))))


# --- hostile names -------------------------------------------------------------------------------------------------

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<b>bold</b>",
    '"><img src=x onerror=alert(1)>',
    "<!--<script>",
    "<!-- pictures -->",
    "'; alert(1); //",
]
FATAL = [
    *HOSTILE,
    "[/x]",  # rich: a closing tag without an opening one
    "[red]x[/]",
    "$x_{$",  # matplotlib: a formula that is none
    r"\$ $\frac{$",
    "lone \ud800 surrogate",
    "NUL \x00, bell \x07 and \x1b[31m",
    "two\nlines",
    "_hidden",  # matplotlib leaves such names out of a legend
    "x" * 3000,
]


def renamed(ran: Any, label: str) -> Page:
    """The page of the small run, had the user given a line, the title and the command such a name."""
    named = ran("small", *LINES[:2], partial(LINES[2], label=label), title=label)
    results = altered(named, warnings=[label])
    finding = Finding(CLAIMS[0], label, "holds", (Condition(label, interval(1.0, 3.0)),), 3, label)
    return Page(label, label, [Section(results, ran.page(results).sections[0].masks, label)], [finding])


@pytest.mark.parametrize("label", FATAL)
def test_no_name_loses_the_report(label: str, ran: Any, tmp_path: Path) -> None:
    """After days of computation a label must not end in a traceback."""
    page = renamed(ran, label)
    write_report(page, tmp_path)
    names = {
        "results.csv",
        "report.html",
        "report.md",
        "small-inference.png",
        "small-inference.pdf",
        "small-inference-models.png",
    }
    assert {path.name for path in tmp_path.iterdir()} == names
    for name in ("results.csv", "report.html", "report.md"):
        (tmp_path / name).read_text(encoding="utf-8")
    with (tmp_path / "results.csv").open(newline="", encoding="utf-8") as file:
        assert label.encode(errors="replace").decode() in {row["line"] for row in csv.DictReader(file)}
    results = page.sections[0].results
    printed(results_table(results), findings_table(page.findings)).encode()
    printed(verdict_line(results), *results.notes).encode()


@pytest.mark.parametrize("label", ["[/x]", "[red]x[/]", "[b]"])
def test_the_terminal_shows_a_name_as_it_is(label: str, ran: Any) -> None:
    page = renamed(ran, label)
    for table in (results_table(page.sections[0].results), findings_table(page.findings)):
        assert label in printed(table)


def test_the_figure_shows_a_name_as_it_is(ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between dollar signs matplotlib looks for a formula; a name with an underscore in front gets no legend."""
    legend: list[str] = []
    monkeypatch.setattr(
        "matplotlib.figure.Figure.legend", lambda figure, handles, labels, **more: legend.extend(labels)
    )
    for label in ("$x_{$", "_hidden"):
        draw_curves(renamed(ran, label).sections[0].results)
    assert {r"\$x_{\$", "_hidden"} <= set(legend)


def test_markdown_shows_a_name_as_it_is(ran: Any) -> None:
    for label, shown in {
        "<img src=x onerror=alert(1)>": "&lt;img src=x onerror=alert(1)>",
        "[click](javascript:alert(1))": r"[click\](javascript:alert(1))",
        "*bold* _x_ a_b `c` |": r"\*bold\* \_x\_ a_b \`c\` \|",
    }.items():
        text = _render_markdown(renamed(ran, label))
        assert f"| {shown}, 50 % |" in text
        assert f"Warning: {shown}." in text
        assert f"## small: {shown}, inference\n" in text


@pytest.mark.parametrize("label", HOSTILE)
def test_a_name_is_never_markup(label: str, ran: Any) -> None:
    """A browser that reads `<!--<script>` in a script no longer sees where the script ends."""
    usual, hostile = (render_page(renamed(ran, name)).replace(get_plotlyjs(), "") for name in ("x", label))
    same = [[tag for tag, _ in Tags(html).tags] for html in (usual, hostile)]
    assert same[0] == same[1], "the same tags as with a harmless name"
    assert len(pictures_of(hostile)) == len(pictures_of(usual))
    head = hostile[: hostile.index("<script>")]
    assert label not in head or "<" not in label
    (data,) = re.findall(r"const pictures = (.*);\n", hostile)
    assert not any(mark in data.lower() for mark in ("</", "<!--", "<script"))


@pytest.mark.parametrize("label", ["<b>bold</b>", "less < more", "<CE>", "&lt;", 'the "best" model\'s'])
def test_plotly_shows_a_name_as_it_is(label: str, ran: Any) -> None:
    """plotly.js reads names as a little HTML of its own, but does not know `&quot;`, and would print it."""
    (section,) = renamed(ran, label).sections
    drawn = [trace["name"] for trace in curves(section.results)[0]["data"] if "name" in trace]
    assert (label in drawn) == ('"' in label)
    assert label in [unescape(name) for name in drawn]


# --- as Markdown ---------------------------------------------------------------------------------------------------


def test_the_same_as_markdown(page: Page) -> None:
    text = _render_markdown(page)
    first = "\n\n".join(page.first_lines)
    assert text.startswith(f"# A title\n\n{first}\n\nMade by `srnet reproduce fig2 --seeds 2`")
    for finding in FINDINGS:
        assert f"{finding.claim.statement} ({finding.claim.source}) | **{finding.answer}**" in text
    for section in page.sections:
        assert f"## {section.title}\n\n`{section.command}`" in text
        assert verdict_line(section.results) in text
        for summary in section.results.summaries:
            name = summary.name.replace("&", "&amp;").replace("<", "&lt;")
            judged = [summary.verdict.short if summary.verdict else ""]
            cells = [name, f"{100 * summary.sparsity:.2f} %", *judged, *(str(s) for s in summary.scores.values())]
            assert f"| {' | '.join(cells)} |" in text
    blocks = [block for block in text.split("\n\n") if block.startswith("| ")]
    sub_cases = sum(len(section.results.splits) for section in page.sections)
    others = 1 + 2 * len(page.sections)
    assert len(blocks) == others + sub_cases, "claims, scores, worst groups, and sub-cases of every split"
    for block in blocks:
        assert len({line.count(" | ") for line in block.splitlines()}) == 1, "as many cells in every row"
