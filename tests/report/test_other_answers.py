"""Reports on tasks that ask for numbers, or that have nothing out of distribution."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from altered import printed

from srnet.evaluation.significance import paired_bootstrap
from srnet.experiment.nodes.base import load_task
from srnet.recipes.paradigms import Search, full, of_fine_tuned
from srnet.report.claims import answer_claims
from srnet.report.evidence import RecipeEvidence
from srnet.report.page import write_report
from srnet.report.results import Results
from srnet.report.tables import results_table, verdict_line
from srnet.tasks.files import FilesTask

LINES = (
    partial(full, label="full"),
    partial(of_fine_tuned, label="half", search=Search("one-shot", sparsities=(0.5,))),
)
MINUS = "ID minus full CE model [95 %]"


def rows(split: str, count: int, answer: Any) -> str:
    return "text_a,label\n" + "".join(f"the {split} doctor saw {n} pilots,{answer(n)}\n" for n in range(count))


def files(folder: Path, answer: Any, ood: bool = False) -> dict[str, Any]:
    sizes = {"train": 16, "dev": 12, **({"hard": 12} if ood else {})}
    for name, count in sizes.items():
        (folder / f"{name}.csv").write_text(rows(name, count, answer))
    paths = {name: str(folder / f"{name}.csv") for name in sizes}
    tests = {"ood": (("hard", paths.pop("hard")),)} if ood else {}
    return {"text_b": None, "shortcut": "unknown", **paths, **tests}


def scores(folder: Path, ood: bool = False) -> FilesTask:
    return FilesTask("numbers", answer="score", metric="spearman", **files(folder, lambda n: n % 5 / 2, ood))


def classes(folder: Path) -> FilesTask:
    given = files(folder, lambda n: ("no", "yes")[n % 2])
    return FilesTask("alone", ("no", "yes"), metric="matthews", **given)


@pytest.fixture(scope="module", params=["scores", "classes"])
def alone(request: pytest.FixtureRequest, ran: Any, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """No OOD set."""
    folder = tmp_path_factory.mktemp("alone")
    task = scores(folder) if request.param == "scores" else classes(folder)
    results: Results = ran(request.param, *LINES, task=task)
    return results


def test_without_ood_data_nothing_is_called_robust(alone: Results) -> None:
    assert alone.splits == {"dev": "ID dev"}
    assert all(summary.verdict is None for summary in alone.summaries)
    assert "OOD" in verdict_line(alone)
    assert "SRNet" not in printed(results_table(alone))


def test_a_subnetwork_is_compared_with_the_full_model_in_distribution(ran: Any, alone: Results) -> None:
    full, half = alone.summaries
    task = load_task(alone.recipe.task)
    evidence = RecipeEvidence(alone.recipe, ran.store)
    ours, theirs = ([evidence.answers(model, "dev") for model in evidence.models(label)] for label in ("half", "full"))
    assert full.id_gain is None
    assert half.id_gain == paired_bootstrap(ours, theirs, task.dev.labels, task.metric)
    assert str(half.id_gain) in printed(results_table(alone))
    assert half.scores["dev"].mean - full.scores["dev"].mean == pytest.approx(half.id_gain.difference, abs=1e-3)


def test_every_file_is_written(ran: Any, alone: Results, tmp_path: Path) -> None:
    write_report(ran.page(alone), tmp_path)
    metrics = {row["metric"] for row in csv.DictReader((tmp_path / "results.csv").open())}
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text()
        assert MINUS in text
        assert "No verdict" in text
        assert "SRNet?" not in text
    floor = "constant answer" if alone.metric == "spearman" else "majority class"
    assert floor in (tmp_path / "report.md").read_text()
    if alone.metric == "spearman":
        assert metrics == {"pearson", "spearman", "majority_pearson", "majority_spearman"}
        assert "Accuracy per true class" not in (tmp_path / "report.html").read_text()
    else:
        assert {"accuracy", "f1", "matthews", "positive_f1", "recall[yes]"} <= metrics


def test_no_claim_is_answered(ran: Any, alone: Results) -> None:
    for finding in answer_claims([RecipeEvidence(alone.recipe, ran.store)]):
        assert (finding.answer, finding.note) == ("not enough evidence", "the task has no OOD data")


def test_scores_out_of_distribution_are_judged(ran: Any, tmp_path: Path) -> None:
    results = ran("numbers", *LINES, task=scores(tmp_path, ood=True))
    full, half = results.summaries
    assert half.verdict is not None
    gain = half.scores["hard"].mean - full.scores["hard"].mean
    assert half.verdict.gains["hard"].difference == pytest.approx(gain, abs=1e-3)
    assert "OOD hard" in printed(results_table(results))
    write_report(ran.page(results), tmp_path / "out")
