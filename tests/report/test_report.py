"""Files, table and verdict of a small run: the figures are those of the store, the verdict is honest."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from altered import altered, printed
from made_up import interval
from series import recipe_of

from srnet.evaluation.verdict import Verdict, judge
from srnet.experiment.nodes.models import Evaluate
from srnet.experiment.store import Store
from srnet.models.subnetwork import Subnetwork
from srnet.recipes.paradigms import Profile, Search, full, in_isolation, of_fine_tuned, of_raw
from srnet.report.evidence import RecipeEvidence, _place_name
from srnet.report.page import Page, render_page, write_report
from srnet.report.results import Results, csv_text
from srnet.report.tables import results_table, verdict_line
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

COLUMNS = (
    "recipe,task,backbone,seed,line,paradigm,pruner,objective_finetune,objective_prune,objective_after,data,start,"
    "length,training_steps,sparsity_target,speedup_target,sparsity,split,kind,metric,value,key"
)

# --- results.csv ---------------------------------------------------------------------------------------------------


def test_the_files_of_several_figures(ran: Any, results: Results, by_start: Results, tmp_path: Path) -> None:
    write_report(ran.page(results, by_start), tmp_path / "new" / "folder")
    pictures = {f"{name}-inference.{format}" for name in ("small", "starts") for format in ("png", "pdf")}
    pictures |= {"small-inference-models.png", "starts-inference-models.png"}
    written = {path.name: path for path in (tmp_path / "new" / "folder").iterdir()}
    assert set(written) == {"results.csv", "report.html", "report.md", *pictures}
    lines = written["results.csv"].read_text().splitlines()
    assert lines[0] == COLUMNS
    assert lines.count(COLUMNS) == 1, "one table"
    assert len(lines) == 1 + len(results.rows) + len(by_start.rows)


def test_the_csv_says_what_the_store_says(results: Results, store: Store) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text([results]))))
    points = {(p.label, p.seed, p.place.sparsity): p.node for p in results.recipe.points}
    assert {(r["line"], int(r["seed"]), float(r["sparsity_target"])) for r in rows} == set(points)
    for row in rows:
        node = points[row["line"], int(row["seed"]), float(row["sparsity_target"])]
        assert row["key"] == node.key
        assert float(row["sparsity"]) == Subnetwork.load(store.path(node.key)).sparsity, "counted on the mask"
        assert row["kind"] == {"dev": "ID", "challenge": "OOD"}[row["split"]]
        assert (row["recipe"], row["task"]) == ("small", "inference")
        scores = json.loads((store.path(Evaluate(node).key) / "scores.json").read_text())["splits"][row["split"]]
        if row["metric"] in ("accuracy", "f1"):
            assert float(row["value"]) == scores["metrics"][row["metric"]]
    metrics = {row["metric"].split("[")[0] for row in rows}
    assert {"accuracy", "f1", "majority_accuracy", "recall"} <= metrics
    assert any(row["metric"].startswith("accuracy[") for row in rows)


def test_the_csv_holds_no_formula() -> None:
    rows: Any = SimpleNamespace(rows=[{"line": "=1+1", "value": -0.5, "key": "-1e5"}])
    assert csv_text([rows]) == "line,value,key\n'=1+1,-0.5,-1e5\n"


def columns(results: Results, *names: str) -> list[tuple[Any, ...]]:
    """The distinct values of some columns."""
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in results.rows))


def test_the_csv_names_everything_that_lines_can_differ_in(
    ran: Any, results: Results, by_start: Results, by_length: Results
) -> None:
    assert columns(results, "line", "paradigm", "pruner", "objective_finetune", "objective_prune") == [
        ("full <CE> & more", "full", "", "ce", ""),
        ("magnitude", "a", "one-shot", "ce", ""),
        ("masks", "c", "mask", "", "poe"),
    ]
    isolated = ran("isolated", partial(in_isolation, label="b", search=Search("mask", "poe", (0.5,)), isolated="poe"))
    with_ood = ran("ood", partial(of_raw, label="c", search=Search("mask", "ce", (0.5,), data="id+ood")))
    names = ("paradigm", "objective_after", "data", "start", "length", "training_steps")
    # every training here takes four steps, but for searches of half the length
    assert columns(isolated, *names) == [("b", "poe", "id", "", 1.0, 4 + 4 + 4)]
    assert columns(with_ood, *names) == [("c", "", "id+ood", "", 1.0, 4)]
    full = ("full", "", "id", "", "", 4)
    starts = [("a", "", "id", start, 1.0, int(4 * start) + 4) for start in (0.0, 0.5, 1.0)]
    assert columns(by_start, *names) == [full, *starts]
    lengths = [("a", "", "id", 1.0, length, 4 + int(4 * length)) for length in (0.5, 1.0)]
    assert columns(by_length, *names) == [full, *lengths]


def test_summaries_are_means_over_seeds_and_judged_by_the_full_model(results: Results) -> None:
    full, *subnetworks = results.summaries
    for summary in results.summaries:
        place = (summary.label, summary.point.place.sparsity)
        for split, spread in summary.scores.items():
            rows = [row for row in results.rows if (row["line"], row["sparsity_target"]) == place]
            values = [row["value"] for row in rows if (row["split"], row["metric"]) == (split, "accuracy")]
            assert spread.mean == pytest.approx(sum(values) / 2)
            assert spread.seeds == len(summary.models) == 2
    assert full.verdict is None
    for summary in subnetworks:
        verdict, scores = summary.verdict, {split: each.mean for split, each in summary.scores.items()}
        assert verdict is not None
        assert verdict.id_share == pytest.approx(scores["dev"] / full.scores["dev"].mean)
        gain = scores["challenge"] - full.scores["challenge"].mean
        assert verdict.gains["challenge"].difference == pytest.approx(gain, abs=1e-3)
        kept = scores["dev"] - 0.95 * full.scores["dev"].mean
        assert verdict.id_kept.difference == pytest.approx(kept, abs=1e-3)
        assert verdict.short == "2 seeds: no verdict"


# --- the table -----------------------------------------------------------------------------------------------------


def test_the_table(results: Results, by_start: Results, by_length: Results) -> None:
    text = printed(results_table(results))
    for words in ("ID dev", "OOD challenge", "majority class", "bias model", "±"):
        assert words in text
    for summary in results.summaries:
        assert f"{100 * summary.sparsity:.2f} %" in text
    text = printed(results_table(by_start), results_table(by_length))
    for words in ("started at 0 % of fine-tuning", "started at 50 % of fine-tuning", "masks, 50 %, 2 steps"):
        assert words in text


def test_every_report_says_what_the_bias_model_reads(
    results: Results, by_start: Results, ran: Any, tmp_path: Path
) -> None:
    (note,) = [each for each in results.notes if each.startswith("bias model: word overlap (3 features")]
    assert not any(each.startswith("bias model") for each in by_start.notes), "CE alone has none"
    write_report(ran.page(results), tmp_path)
    for name in ("report.md", "report.html"):
        assert note in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("axis", "more", "names"),
    [
        ("sparsity", {}, ["masks, 50 %"]),
        ("start", {"starts": ("auto",)}, ["masks, 50 %"]),
        ("start", {"starts": (0.5, "auto")}, ["started at 50 % of fine-tuning", "started by early stopping"]),
        ("length", {"lengths": (0.5, 1.0)}, ["2 steps", "4 steps"]),
        ("sparsity", {"lengths": (0.5,)}, ["0.5 times as long"]),
    ],
    ids=str,
)
def test_a_place_has_a_name(axis: Any, more: dict[str, Any], names: list[str]) -> None:
    starts = {"starts": more.pop("starts")} if "starts" in more else {}
    stopping = TrainingSettings(steps=4, patience=1)
    profile = Profile(SyntheticTask(train_size=5, dev_size=5, ood_size=5), stopping=stopping)
    search = Search("mask", "ce", (0.5,), **more)
    recipe = recipe_of(profile, partial(of_fine_tuned, label="masks", search=search, **starts), axis=axis)
    for point, name in zip(recipe.points, names, strict=True):
        assert _place_name(recipe, point, 4 * point.place.length) in (name, f"masks, 50 %, {name}")


# --- the verdict ---------------------------------------------------------------------------------------------------


def verdict(id_score: float, gain: float, reach: float = 0.5, seeds: int = 3) -> Verdict:
    """Against a full model with 80 ID; 76 are 95 %."""
    kept = interval(id_score - 76.0 - 0.5, id_score - 76.0 + 0.5, seeds)
    return judge(id_score, 80.0, kept, {"challenge": interval(gain - reach, gain + reach, seeds)})


def with_verdicts(results: Results, *verdicts: Verdict | None) -> Results:
    """The same results with other verdicts for the three subnetworks: magnitude at 35 and at 90 %, masks at 50 %."""
    full, *rest = results.summaries
    return altered(results, summaries=[full, *(altered(s, verdict=v) for s, v in zip(rest, verdicts, strict=True))])


GOOD, BETTER, COLLAPSED, NO_GAIN = verdict(79.0, 5.0), verdict(79.0, 9.0), verdict(40.0, 30.0), verdict(80.0, -1.0)
UNCLEAR = verdict(79.0, 8.0, reach=9.0)


@pytest.mark.parametrize(
    ("verdicts", "begins", "ends"),
    [
        # the largest certain gain and the sparsest are named
        (
            (BETTER, GOOD),
            "Verdict: magnitude at 35.0 % sparsity. SRNet: keeps 98.7 %",
            "the sparsest is magnitude, 90 %.",
        ),
        ((GOOD, BETTER), "Verdict: magnitude at 90.0 %", "2 of 2 subnetworks certainly are SRNets."),
        ((GOOD, UNCLEAR), "Verdict: magnitude at 35.0 %", "1 of 2 subnetworks certainly is an SRNet."),
        ((COLLAPSED, NO_GAIN), "Verdict: no subnetwork is an SRNet", "less than 95 % of"),
        (
            (COLLAPSED, UNCLEAR),
            "Verdict: not certain. Of 2",
            "magnitude, 90 %: OOD challenge +8.0 [-1.0, +17.0] is not",
        ),
        ((verdict(79, 9, seeds=1), verdict(40, 9, seeds=1)), "No verdict: one seed", "at least 3 seeds are needed."),
        ((verdict(79, 9, seeds=2), verdict(40, 9, seeds=2)), "No verdict: 2 seeds", "at least 3 seeds are needed."),
        ((None, None), "No verdict: there is no subnetwork to judge.", ""),
    ],
)
def test_the_verdict_in_one_line(
    verdicts: tuple[Verdict | None, ...], begins: str, ends: str, results: Results
) -> None:
    judged = with_verdicts(results, *verdicts, None)
    assert verdict_line(judged).startswith(begins)
    assert ends in verdict_line(judged)
    shown = printed(results_table(judged))
    assert all(each.short in shown for each in verdicts if each is not None)


@pytest.mark.parametrize(("last", "mark"), [(None, 'class="result no"'), (GOOD, 'class="result "')])
def test_the_page_carries_the_verdict(
    last: Verdict | None, mark: str, ran: Any, results: Results, tmp_path: Path
) -> None:
    page: Page = ran.page(results)
    section = replace(page.sections[0], results=with_verdicts(results, None, None, last))
    write_report(replace(page, sections=[section]), tmp_path)
    assert mark in (tmp_path / "report.html").read_text()


def test_another_share_of_the_id_score_is_one_threshold_everywhere(results: Results, ran: Any, tmp_path: Path) -> None:
    """As `srnet find --keep-id` sets it: verdicts, table, sentence and page have the same."""
    recipe = replace(results.recipe, keeps=0.5)
    half = Results(RecipeEvidence(recipe, ran.store))
    full, *subnetworks = half.summaries
    for each in subnetworks:
        assert each.verdict is not None
        assert each.verdict.keeps == 0.5
        kept = each.scores["dev"].mean - 0.5 * full.scores["dev"].mean
        assert each.verdict.id_kept.difference == pytest.approx(kept, abs=1e-3)
    write_report(ran.page(half), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text()
        assert "ID minus 50 % of full CE model" in text
        assert "keeps at least 95 %" not in text
    assert "less than 50 % of" in verdict_line(with_verdicts(half, COLLAPSED, NO_GAIN, None))


def test_a_run_without_pruning(ran: Any, results: Results, store: Store) -> None:
    alone = replace(results.recipe.with_seeds((0,)), figure=lambda profile: full(profile, "full"))
    assert "no subnetwork to judge" in render_page(ran.page(Results(RecipeEvidence(alone, store))))
