"""The figures as files, and their data on the page: every axis, the same bytes every time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from html import escape
from itertools import product
from typing import Any

import pytest
from altered import altered, with_points

from srnet.core.files import read_json
from srnet.experiment.store import Store
from srnet.recipes.paradigms import Point, Profile, Search, full, of_fine_tuned, of_raw
from srnet.report.pictures import _side_by_side, _styles, curves, draw_curves, searches, sub_cases
from srnet.report.results import Results
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
    alone = altered(with_points(results, points), summaries=[results.summaries[0], results.summaries[-1]])
    assert set(draw_curves(alone)) == {"png", "pdf"}


def test_points_at_the_same_place_stand_side_by_side(results: Results) -> None:
    """As in tab5: one point a line, all of them at one sparsity."""
    assert _side_by_side(results.summaries) == []
    one = results.summaries[-1]
    points = [replace(one.point, label=label) for label in ("first", "second")]
    summaries = [altered(one, label=point.label, point=point) for point in points]
    assert _side_by_side(summaries) == summaries
    assert _side_by_side(summaries[:1]) == [], "a single one is where it is"
    assert _side_by_side([summaries[0], altered(summaries[1], x=70.0)]) == []
    table = altered(with_points(results, points), summaries=summaries)
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
            assert all(model.key in text for model in summary.models)
            assert summary.verdict is not None
            assert str(summary.verdict.gains["challenge"]) in text
            assert f"SRNet? {summary.verdict.short}" in text
        assert drawn["majority class"]["y"] == [each.constant["majority class"][split]] * 2


def test_sub_cases_are_drawn_where_there_are_some(results: Results) -> None:
    (picture,) = [p for p in sub_cases(results) if "challenge" in p["layout"]["title"]["text"]]
    (data,) = picture["data"]
    groups = results.summaries[0].groups["challenge"]
    assert data["y"] == [escape(group, quote=False) for group in groups]
    assert len(data["x"]) == len(results.summaries)
    assert [row[0] for row in data["z"]] == [spread.mean for spread in groups.values()]


# --- on the way ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "more", "positions"),
    [("start", {"starts": (0.5, 1.0)}, [2.0, 4.0]), ("length", {"lengths": (0.5, 1.0)}, [2.0, 4.0])],
)
def test_the_search_behind_weights_that_were_trained_further(
    ran: Any, axis: str, more: dict[str, Any], positions: list[float]
) -> None:
    search = Search("mask", "ce", (0.5,), **({} if axis == "start" else more))
    masks = partial(of_fine_tuned, label="masks", search=search, after="ce", **(more if axis == "start" else {}))
    results = ran(f"after-{axis}", masks, axis=axis)
    shown = [summary for summary in results.summaries if summary.point.is_pruned]
    assert [summary.x for summary in shown] == positions
    assert {row["objective_after"] for row in results.rows if row["line"] == "masks"} == {"ce"}
    assert bool(results.searches) == (axis == "start")


def test_only_figures_about_the_start_show_how_the_searches_went(results: Results, by_length: Results) -> None:
    for each in (results, by_length):
        assert each.searches == []
        assert searches(each) == []


def test_the_searches_are_shown_as_they_went(by_start: Results, store: Store) -> None:
    assert [log.start for log in by_start.searches] == [f"from {share} % of fine-tuning" for share in (0, 50, 100)]
    for search, summary in zip(by_start.searches, by_start.summaries[1:], strict=True):
        assert search.steps == [2, 4], "at every evaluation"
        logs = [read_json(store.path(model.key) / "training.json")["log"] for model in summary.models]
        for split, name in (("dev", "eval_score"), ("challenge", "trace/challenge")):
            by_seed = [[entry[name] for entry in log if name in entry] for log in logs]
            means = [sum(at_step) / 2 for at_step in zip(*by_seed, strict=True)]
            assert search.scores[split] == pytest.approx(means)
    pictures = searches(by_start)
    assert len(pictures) == 2
    assert [line["y"] for line in pictures[1]["data"]] == [log.scores["challenge"] for log in by_start.searches]


# --- lines are told apart ------------------------------------------------------------------------------------------

PROFILE = Profile(SyntheticTask(train_size=5, dev_size=5, ood_size=5))


def line(label: str, pruner: str, objective: str = "ce", **more: bool) -> list[Point]:
    return of_raw(PROFILE, label, Search(pruner, objective, (0.9,), **more))  # type: ignore[arg-type]


def test_a_distilled_line_looks_like_its_twin_but_dashed() -> None:
    plain, taught = line("SMP-S", "smp-s"), line("SMP-S + distillation", "smp-s", distil=True)
    found = _styles([*full(PROFILE, "full"), *plain, *line("SMP-L", "smp-l"), *taught])
    assert found["SMP-S"].colour == found["SMP-S + distillation"].colour != found["SMP-L"].colour
    assert [found[label].dash == "dash" for label in ("SMP-S", "SMP-L", "SMP-S + distillation")] == [False, False, True]


def test_more_lines_than_colours_are_still_told_apart() -> None:
    pairs = product(("smp-l", "smp-s", "movement"), ("ce", "poe", "reweight", "confreg"))
    points = [point for pair in pairs for point in line(" ".join(pair), *pair)]
    assert len(set(_styles(points).values())) == len(points) == 12
