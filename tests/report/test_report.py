"""Table, curves and page of a small run: the figures are those of the store, the verdict is honest."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from srnet.evaluation import Interval, Verdict, judge
from srnet.experiment import Engine, Evaluate, Store
from srnet.export import Subnetwork
from srnet.progress import Reporter
from srnet.recipes import Line, Recipe
from srnet.report import Results, collect, nodes_of, results_table, verdict_line, write_report
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

COLUMNS = (
    "recipe,task,backbone,seed,line,paradigm,pruner,objective_finetune,objective_prune,"
    "sparsity_target,sparsity,split,kind,metric,value,key"
)
LINES = (
    Line("full <CE> & more"),
    Line("magnitude", "a", pruner="magnitude", sparsities=(0.35, 0.9)),
    Line("masks", "c", pruner="mask", prune="poe", sparsities=(0.5,)),
)


@pytest.fixture(scope="module")
def ran(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Store]:
    task = SyntheticTask("inference", train_size=100, dev_size=40, ood_size=40)
    training = TrainingSettings(learning_rate=1e-3, steps=4, eval_every=4, batch_size=8)
    recipe = Recipe("small", task, LINES, tiny_backbone, (0, 1), training, training)
    engine = Engine(Store(tmp_path_factory.mktemp("report") / "store"), Reporter(quiet=True))
    engine.execute(nodes_of(recipe))
    return collect(recipe, engine.store), engine.store


@pytest.fixture
def results(ran: tuple[Results, Store]) -> Results:
    return ran[0]


@pytest.fixture
def store(ran: tuple[Results, Store]) -> Store:
    return ran[1]


@pytest.fixture(scope="module")
def out(ran: tuple[Results, Store], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "new" / "folder"
    write_report(ran[0], folder)
    return folder


def with_verdicts(results: Results, *verdicts: Verdict | None) -> Results:
    """The same results with other verdicts for the three subnetworks."""
    full, *rest = results.summaries
    return replace(results, summaries=[full, *(replace(s, verdict=v) for s, v in zip(rest, verdicts, strict=True))])


def verdict(id_score: float, gain: float, low: float = 1.0) -> Verdict:
    return judge(id_score, 80.0, {"challenge": (50.0 + gain, 50.0)}, {"challenge": Interval(gain, low, gain + 5)})


# --- results.csv ---------------------------------------------------------------------------------------------------


def test_the_csv_has_exactly_the_promised_columns(out: Path) -> None:
    assert (out / "results.csv").read_text().splitlines()[0] == COLUMNS


def test_the_csv_says_what_the_store_says(out: Path, results: Results, store: Store) -> None:
    rows = list(csv.DictReader(io.StringIO((out / "results.csv").read_text())))
    points = {(p.line.label, p.seed, p.sparsity): p.node for p in results.recipe.points()}
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


def test_the_csv_names_method_and_objectives(results: Results) -> None:
    names = ("paradigm", "pruner", "objective_finetune", "objective_prune")
    said = {row["line"]: tuple(row[name] for name in names) for row in results.rows}
    assert said == {
        "full <CE> & more": ("full", "", "ce", ""),
        "magnitude": ("a", "magnitude", "ce", ""),
        "masks": ("c", "mask", "", "poe"),
    }


def test_summaries_are_means_over_seeds(results: Results) -> None:
    for summary in results.summaries:
        for split, spread in summary.scores.items():
            values = [
                row["value"]
                for row in results.rows
                if (row["line"], row["sparsity_target"]) == (summary.line.label, summary.sparsity_target)
                and (row["split"], row["metric"]) == (split, "accuracy")
            ]
            assert spread.mean == pytest.approx(sum(values) / 2)
            assert spread.seeds == len(summary.keys) == 2


def test_every_subnetwork_is_judged_by_the_full_model(results: Results) -> None:
    full, *subnetworks = results.summaries
    assert full.verdict is None
    for summary in subnetworks:
        assert summary.verdict is not None
        assert summary.verdict.id_share == pytest.approx(summary.scores["dev"].mean / full.scores["dev"].mean)
        gain = summary.scores["challenge"].mean - full.scores["challenge"].mean
        assert summary.verdict.ood_gain["challenge"] == pytest.approx(gain)


# --- curves and page -----------------------------------------------------------------------------------------------


def test_the_curves_are_a_picture(out: Path) -> None:
    data = (out / "curves.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert width > 400 < height


def test_the_page_needs_nothing_else(out: Path) -> None:
    page = (out / "report.html").read_text()
    sources = re.findall(r"""(?:src|href|action|data)\s*=\s*["']?([^"'>\s]+)""", page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert base64.b64decode(sources[0].split(",", 1)[1]) == (out / "curves.png").read_bytes()
    text = page.replace(sources[0], "")
    assert not re.search(r"https?://|url\(|@import|<script|<link|<iframe", text)


def test_the_page_shows_everything(out: Path, results: Results) -> None:
    page = (out / "report.html").read_text()
    assert "full &lt;CE&gt; &amp; more" in page, "labels are text, not markup"
    assert verdict_line(results) in page.replace("&#39;", "'")
    for words in ("majority class", "bias model", "Sub-cases of OOD challenge", "Accuracy per true class"):
        assert words in page
    for summary in results.summaries:
        assert all(key in page for key in summary.keys)


def test_the_table(results: Results) -> None:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(results_table(results))
    text = console.export_text()
    for words in ("ID dev", "OOD challenge", "majority class", "bias model", "±"):
        assert words in text
    for summary in results.summaries:
        assert f"{100 * summary.sparsity:.2f} %" in text


# --- the verdict ---------------------------------------------------------------------------------------------------


def test_no_srnet_is_said_so(results: Results) -> None:
    collapsed, no_gain = verdict(40.0, 30.0), verdict(80.0, -1.0)
    line = verdict_line(with_verdicts(results, collapsed, no_gain, None))
    assert line == (
        "Verdict: no subnetwork keeps 95 % of the full CE model's ID score and beats it out of distribution."
    )


def test_the_largest_certain_gain_and_the_sparsest_are_named(results: Results) -> None:
    masks, magnitude, other = with_verdicts(results, verdict(79, 9), verdict(79, 5), None).summaries[1:]
    assert masks.sparsity != magnitude.sparsity
    line = verdict_line(with_verdicts(results, verdict(79.0, 9.0), verdict(79.0, 5.0), None))
    assert line.startswith(
        f"Verdict: {masks.line.label} at {100 * masks.sparsity:.1f} % sparsity. SRNet: keeps 98.7 % of ID"
    )
    assert "2 of 2 subnetworks are SRNets" in line
    line = verdict_line(with_verdicts(results, verdict(79.0, 5.0), verdict(79.0, 9.0), None))
    assert line.startswith(f"Verdict: {magnitude.line.label} at {100 * magnitude.sparsity:.1f} % sparsity.")
    assert other.verdict is None


def test_a_certain_one_comes_before_an_uncertain_one(results: Results) -> None:
    certain, uncertain = verdict(79.0, 5.0), verdict(79.0, 8.0, low=-1.0)
    masks, magnitude, _ = results.summaries[1:]
    line = verdict_line(with_verdicts(results, certain, uncertain, None))
    assert line.startswith(f"Verdict: {masks.line.label} at {100 * masks.sparsity:.1f} %")
    line = verdict_line(with_verdicts(results, None, uncertain, None))
    assert line.startswith(f"Verdict: {magnitude.line.label} at")
    assert "SRNet (gain not certain)" in line


def test_the_page_carries_the_verdict(results: Results, tmp_path: Path) -> None:
    for verdicts, mark in (((None, None, None), 'class="lead no"'), ((None, None, verdict(79, 5)), 'class="lead "')):
        write_report(with_verdicts(results, *verdicts), tmp_path)
        assert mark in (tmp_path / "report.html").read_text()


def test_a_run_without_pruning(results: Results, store: Store, tmp_path: Path) -> None:
    alone = replace(results.recipe, lines=LINES[:1], seeds=(0,))
    write_report(collect(alone, store), tmp_path)
    assert "no subnetwork keeps 95 %" in (tmp_path / "report.html").read_text()
