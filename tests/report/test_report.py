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
from altered import altered
from made_up import interval
from rich.console import Console
from series import recipe_of

from srnet.evaluation.verdict import Verdict, judge
from srnet.experiment.nodes.models import Evaluate
from srnet.experiment.store import Store
from srnet.models.subnetwork import Subnetwork
from srnet.recipes.paradigms import Profile, Search, full, in_isolation, of_fine_tuned, of_raw
from srnet.report.evidence import RecipeEvidence, place_name
from srnet.report.page import Page, write_report
from srnet.report.results import Results, csv_text
from srnet.report.tables import results_table, verdict_line
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

COLUMNS = (
    "recipe,task,backbone,seed,line,paradigm,pruner,objective_finetune,objective_prune,objective_after,data,start,"
    "length,training_steps,sparsity_target,speedup_target,sparsity,split,kind,metric,value,key"
)


@pytest.fixture(scope="module")
def out(ran: Any, results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("out") / "new" / "folder"
    write_report(ran.page(results), folder)
    return folder


def with_verdicts(results: Results, *verdicts: Verdict | None) -> Results:
    """The same results with other verdicts for the three subnetworks."""
    full, *rest = results.summaries
    return altered(results, summaries=[full, *(altered(s, verdict=v) for s, v in zip(rest, verdicts, strict=True))])


def verdict(id_score: float, gain: float, reach: float = 0.5, seeds: int = 3) -> Verdict:
    """Against a full model with 80 ID; 76 are 95 %."""
    kept = interval(id_score - 76.0 - 0.5, id_score - 76.0 + 0.5, seeds)
    return judge(id_score, 80.0, kept, {"challenge": interval(gain - reach, gain + reach, seeds)})


# --- results.csv ---------------------------------------------------------------------------------------------------


def test_the_csv_has_exactly_the_promised_columns(out: Path) -> None:
    assert (out / "results.csv").read_text().splitlines()[0] == COLUMNS


def test_the_csv_says_what_the_store_says(out: Path, results: Results, store: Store) -> None:
    rows = list(csv.DictReader(io.StringIO((out / "results.csv").read_text())))
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
    metrics = {row["metric"] for row in rows}
    assert {"accuracy", "f1", "majority_accuracy"} <= metrics
    assert any(m.startswith("recall[") for m in metrics)
    assert any(m.startswith("accuracy[") for m in metrics)


def test_the_csv_holds_no_formula() -> None:
    rows: Any = SimpleNamespace(rows=[{"line": "=1+1", "value": -0.5, "key": "-1e5"}])
    assert csv_text([rows]) == "line,value,key\n'=1+1,-0.5,-1e5\n"


def test_the_csv_names_method_and_objectives(results: Results) -> None:
    names = ("paradigm", "pruner", "objective_finetune", "objective_prune")
    said = {row["line"]: tuple(row[name] for name in names) for row in results.rows}
    assert said == {
        "full <CE> & more": ("full", "", "ce", ""),
        "magnitude": ("a", "one-shot", "ce", ""),
        "masks": ("c", "mask", "", "poe"),
    }


def test_summaries_are_means_over_seeds(results: Results) -> None:
    for summary in results.summaries:
        for split, spread in summary.scores.items():
            values = [
                row["value"]
                for row in results.rows
                if (row["line"], row["sparsity_target"]) == (summary.label, summary.point.place.sparsity)
                and (row["split"], row["metric"]) == (split, "accuracy")
            ]
            assert spread.mean == pytest.approx(sum(values) / 2)
            assert spread.seeds == len(summary.models) == 2


def test_every_subnetwork_is_judged_by_the_full_model(results: Results) -> None:
    full, *subnetworks = results.summaries
    assert full.verdict is None
    for summary in subnetworks:
        assert summary.verdict is not None
        assert summary.verdict.id_share == pytest.approx(summary.scores["dev"].mean / full.scores["dev"].mean)
        gain = summary.scores["challenge"].mean - full.scores["challenge"].mean
        assert summary.verdict.gains["challenge"].difference == pytest.approx(gain, abs=1e-3)
        kept = summary.scores["dev"].mean - 0.95 * full.scores["dev"].mean
        assert summary.verdict.id_kept.difference == pytest.approx(kept, abs=1e-3)
        assert summary.verdict.short == "2 seeds: no verdict"


def test_the_csv_names_everything_that_lines_can_differ_in(ran: Any, by_start: Results, by_length: Results) -> None:
    isolated = ran("isolated", partial(in_isolation, label="b", search=Search("mask", "poe", (0.5,)), isolated="poe"))
    with_ood = ran("ood", partial(of_raw, label="c", search=Search("mask", "ce", (0.5,), data="id+ood")))
    names = ("paradigm", "objective_after", "data", "start", "length", "training_steps")

    def said(results: Results) -> list[tuple[Any, ...]]:
        return list(dict.fromkeys(tuple(row[name] for name in names) for row in results.rows))

    # every training here takes four steps, but for searches of half the length
    assert said(isolated) == [("b", "poe", "id", "", 1.0, 4 + 4 + 4)]
    assert said(with_ood) == [("c", "", "id+ood", "", 1.0, 4)]
    full = ("full", "", "id", "", "", 4)
    assert said(by_start) == [full, *(("a", "", "id", start, 1.0, int(4 * start) + 4) for start in (0.0, 0.5, 1.0))]
    assert said(by_length) == [full, *(("a", "", "id", 1.0, length, 4 + int(4 * length)) for length in (0.5, 1.0))]


def test_the_files_of_several_figures(ran: Any, results: Results, by_start: Results, tmp_path: Path) -> None:
    write_report(ran.page(results, by_start), tmp_path)
    pictures = {f"{name}-inference.{format}" for name in ("small", "starts") for format in ("png", "pdf")}
    assert {path.name for path in tmp_path.iterdir()} == {"results.csv", "report.html", "report.md", *pictures}
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert lines.count(COLUMNS) == 1, "one table"
    assert len(lines) == 1 + len(results.rows) + len(by_start.rows)


# --- the table -----------------------------------------------------------------------------------------------------


def test_the_table(results: Results) -> None:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(results_table(results))
    text = console.export_text()
    for words in ("ID dev", "OOD challenge", "majority class", "bias model", "±"):
        assert words in text
    for summary in results.summaries:
        assert f"{100 * summary.sparsity:.2f} %" in text


def test_every_report_says_what_the_bias_model_reads(
    results: Results, by_start: Results, ran: Any, tmp_path: Path
) -> None:
    said = "bias model: word overlap (3 features, no word vectors), cross-fitted in 5 folds"
    assert said in results.notes
    assert not any(note.startswith("bias model") for note in by_start.notes), "CE alone has none"
    write_report(ran.page(results), tmp_path)
    for name in ("report.md", "report.html"):
        assert said in (tmp_path / name).read_text()


def test_the_table_says_what_varies(by_start: Results, by_length: Results) -> None:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(results_table(by_start), results_table(by_length))
    text = console.export_text()
    for words in ("started at 0 % of fine-tuning", "started at 50 % of fine-tuning", "masks, 50 %, 2 steps"):
        assert words in text


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
        assert place_name(recipe, point, 4 * point.place.length) in (name, f"masks, 50 %, {name}")


# --- the verdict ---------------------------------------------------------------------------------------------------


def test_no_srnet_is_said_so(results: Results) -> None:
    collapsed, no_gain = verdict(40.0, 30.0), verdict(80.0, -1.0)
    line = verdict_line(with_verdicts(results, collapsed, no_gain, None))
    assert line == (
        "Verdict: no subnetwork is an SRNet. Each certainly keeps less than 95 % of the full CE model's ID score or "
        "falls below it out of distribution."
    )


def test_the_largest_certain_gain_and_the_sparsest_are_named(results: Results) -> None:
    masks, magnitude, other = with_verdicts(results, verdict(79, 9), verdict(79, 5), None).summaries[1:]
    assert masks.sparsity != magnitude.sparsity
    line = verdict_line(with_verdicts(results, verdict(79.0, 9.0), verdict(79.0, 5.0), None))
    assert line.startswith(
        f"Verdict: {masks.label} at {100 * masks.sparsity:.1f} % sparsity. SRNet: keeps 98.7 % of ID"
    )
    assert line.endswith("2 of 2 subnetworks certainly are SRNets; the sparsest is magnitude, 90 %.")
    line = verdict_line(with_verdicts(results, verdict(79.0, 5.0), verdict(79.0, 9.0), None))
    assert line.startswith(f"Verdict: {magnitude.label} at {100 * magnitude.sparsity:.1f} % sparsity.")
    assert line.endswith("2 of 2 subnetworks certainly are SRNets."), "it is the sparsest itself"
    assert other.verdict is None


def test_only_certain_ones_are_counted(results: Results) -> None:
    certain, uncertain = verdict(79.0, 5.0), verdict(79.0, 8.0, reach=9.0)
    masks, magnitude, _ = results.summaries[1:]
    line = verdict_line(with_verdicts(results, certain, uncertain, None))
    assert line.startswith(f"Verdict: {masks.label} at {100 * masks.sparsity:.1f} %")
    assert line.endswith("1 of 2 subnetworks certainly is an SRNet.")
    line = verdict_line(with_verdicts(results, verdict(40.0, 5.0), uncertain, None))
    assert line == (
        "Verdict: not certain. Of 2 subnetworks none certainly is an SRNet and 1 certainly is not. The nearest is "
        f"{magnitude.name}: OOD challenge +8.0 [-1.0, +17.0] is not certainly above the full CE model; "
        "the ID share 98.7 % [98.1, 99.3]."
    )


@pytest.mark.parametrize(("seeds", "said"), [(1, "one seed"), (2, "2 seeds")])
def test_few_seeds_give_no_verdict(seeds: int, said: str, results: Results) -> None:
    few = with_verdicts(results, verdict(79.0, 9.0, seeds=seeds), verdict(40.0, 9.0, seeds=seeds), None)
    assert verdict_line(few) == (f"No verdict: {said} cannot tell a gain from luck; at least 3 seeds are needed.")
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(results_table(few))
    assert console.export_text().count(f"{said}: no verdict") == 2


def test_the_page_carries_the_verdict(ran: Any, results: Results, tmp_path: Path) -> None:
    for verdicts, mark in (((None, None, None), 'class="lead no"'), ((None, None, verdict(79, 5)), 'class="lead "')):
        page: Page = ran.page(results)
        write_report(
            replace(page, sections=[replace(page.sections[0], results=with_verdicts(results, *verdicts))]), tmp_path
        )
        assert mark in (tmp_path / "report.html").read_text()


def test_a_run_without_pruning(ran: Any, results: Results, store: Store, tmp_path: Path) -> None:
    alone = replace(results.recipe.with_seeds((0,)), figure=lambda profile: full(profile, "full"))
    write_report(ran.page(Results(RecipeEvidence(alone, store))), tmp_path)
    assert "No verdict: there is no subnetwork to judge." in (tmp_path / "report.html").read_text()
