"""The figures as files, and their data on the page: every axis, the same bytes every time."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from itertools import product

import pytest

from srnet.experiment import Store
from srnet.files import read_json
from srnet.recipes import Point, Profile
from srnet.recipes.paradigms import Search, full, of_raw
from srnet.report import Results
from srnet.report.curves import draw_curves, looks, side_by_side
from srnet.report.interactive import curves, sub_cases, traces
from srnet.tasks.synthetic import SyntheticTask

AXES = ("results", "by_start", "by_length")


@pytest.fixture(params=AXES)
def each(request: pytest.FixtureRequest) -> Results:
    """The same for a figure over sparsities, starts and lengths."""
    found: Results = request.getfixturevalue(request.param)
    return found


def test_the_curves_are_a_picture_and_a_drawing(each: Results) -> None:
    files = draw_curves(each)
    assert set(files) == {"png", "pdf"}
    assert files["png"].startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(files["png"][at : at + 4], "big") for at in (16, 20))
    assert width > 400 < height
    assert files["pdf"].startswith(b"%PDF")
    assert b"CreationDate" not in files["pdf"]
    assert draw_curves(each) == files, "the same results give the same bytes"


def test_one_point_on_a_line_is_enough(results: Results) -> None:
    points = [point for point in results.recipe.points if point.label != "magnitude"]
    summaries = [results.summaries[0], results.summaries[-1]]
    alone = replace(results, summaries=summaries, recipe=replace(results.recipe, figure=lambda profile: points))
    assert draw_curves(alone)["png"].startswith(b"\x89PNG")
    assert len(curves(alone)) == 2


def test_points_at_the_same_place_stand_side_by_side(results: Results) -> None:
    """As in tab5: one point a line, all of them at one sparsity."""
    assert side_by_side(results) == []
    one = results.summaries[-1]
    point, labels = results.recipe.points[-1], ("first", "second")
    summaries, points = ([replace(each, label=label) for label in labels] for each in (one, point))
    table = replace(results, summaries=summaries, recipe=replace(results.recipe, figure=lambda profile: points))
    assert side_by_side(table) == summaries
    assert side_by_side(replace(table, summaries=summaries[:1])) == [], "a single one is where it is"
    assert side_by_side(replace(table, summaries=[summaries[0], replace(summaries[1], x=70.0)])) == []
    assert draw_curves(table)["pdf"].startswith(b"%PDF")
    picture = curves(table)[0]
    drawn = {trace["name"]: trace["x"] for trace in picture["data"] if "name" in trace}
    assert (drawn["first"], drawn["second"]) == ([0], [1])
    assert picture["layout"]["xaxis"]["ticktext"] == ["first", "second"]


# --- where the points are ------------------------------------------------------------------------------------------


def test_points_stand_at_their_sparsity_start_or_length(
    results: Results, by_start: Results, by_length: Results
) -> None:
    assert [s.x for s in results.summaries[1:]] == pytest.approx([35.0, 90.0, 50.0], abs=0.1)
    assert [s.x for s in by_start.summaries[1:]] == [0.0, 2.0, 4.0], "steps of fine-tuning before the search"
    assert [s.x for s in by_length.summaries[1:]] == [2.0, 4.0], "steps of the search itself"
    assert [s.steps for s in by_length.summaries] == [4.0, 6.0, 8.0], "what each cost, from the raw backbone"


def test_the_page_draws_what_the_table_says(each: Results) -> None:
    pictures = curves(each)
    assert [picture["layout"]["title"]["text"] for picture in pictures] == ["ID dev", "OOD challenge"]
    assert len({tuple(picture["layout"]["yaxis"]["range"]) for picture in pictures}) == 1, "ID and OOD are comparable"
    for picture, split in zip(pictures, each.splits, strict=True):
        drawn = {trace["name"]: trace for trace in picture["data"] if "name" in trace}
        points = sorted((s for s in each.summaries if s.label == "masks"), key=lambda s: s.x)
        assert drawn["masks"]["x"] == [s.x for s in points]
        assert drawn["masks"]["y"] == [s.scores[split].mean for s in points]
        for text, summary in zip(drawn["masks"]["text"], points, strict=True):
            assert all(key in text for key in summary.keys)
            assert summary.verdict is not None
            assert str(summary.verdict.gains["challenge"]) in text
            assert f"SRNet? {summary.verdict.short}" in text
        assert drawn["majority class"]["y"] == [each.majority[split]] * 2


def test_sub_cases_are_drawn_where_there_are_some(results: Results) -> None:
    (picture,) = [p for p in sub_cases(results) if "challenge" in p["layout"]["title"]["text"]]
    (data,) = picture["data"]
    groups = results.summaries[0].groups["challenge"]
    assert data["y"] == [escape(group) for group in groups]
    assert len(data["x"]) == len(results.summaries)
    assert [row[0] for row in data["z"]] == [spread.mean for spread in groups.values()]


# --- on the way ----------------------------------------------------------------------------------------------------


def test_only_figures_about_the_start_show_how_the_searches_went(results: Results, by_length: Results) -> None:
    for each in (results, by_length):
        assert each.traces == []
        assert traces(each) == []


def test_the_searches_are_shown_as_they_went(by_start: Results, store: Store) -> None:
    assert [trace.name for trace in by_start.traces] == [f"from {share} % of fine-tuning" for share in (0, 50, 100)]
    for trace, summary in zip(by_start.traces, by_start.summaries[1:], strict=True):
        assert (trace.steps, trace.seeds) == ([2, 4], 2), "at every evaluation"
        logs = [read_json(store.path(key) / "training.json")["log"] for key in summary.keys]
        for split, name in (("dev", "eval_score"), ("challenge", "trace/challenge")):
            by_seed = [[entry[name] for entry in log if name in entry] for log in logs]
            means = [sum(at_step) / 2 for at_step in zip(*by_seed, strict=True)]
            assert trace.scores[split] == pytest.approx(means)
    pictures = traces(by_start)
    assert len(pictures) == 2
    assert [line["y"] for line in pictures[1]["data"]] == [trace.scores["challenge"] for trace in by_start.traces]


# --- lines are told apart ------------------------------------------------------------------------------------------

PROFILE = Profile(SyntheticTask(train_size=5, dev_size=5, ood_size=5))


def line(label: str, pruner: str, objective: str = "ce", **more: bool) -> list[Point]:
    return of_raw(PROFILE, label, Search(pruner, objective, (0.9,), **more))  # type: ignore[arg-type]


def test_a_distilled_line_looks_like_its_twin_but_dashed() -> None:
    plain, taught = line("SMP-S", "smp-s"), line("SMP-S + distillation", "smp-s", distil=True)
    found = looks([*full(PROFILE, "full"), *plain, *line("SMP-L", "smp-l"), *taught])
    assert found["SMP-S"].colour == found["SMP-S + distillation"].colour != found["SMP-L"].colour
    assert [found[label].dashed for label in ("SMP-S", "SMP-L", "SMP-S + distillation")] == [False, False, True]


def test_more_lines_than_colours_are_still_told_apart() -> None:
    pairs = product(("smp-l", "smp-s", "movement"), ("ce", "poe", "reweight", "confreg"))
    points = [point for pair in pairs for point in line(" ".join(pair), *pair)]
    assert len(set(looks(points).values())) == len(points) == 12
