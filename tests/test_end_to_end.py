"""The whole spine on a tiny model: the demonstration, a recipe on own files, the embedded backbone, the Python API."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import srnet
import srnet.backbones
from srnet.backbones import backbone_hash, folder_or_name
from srnet.cli import main
from srnet.experiment import Engine, Store
from srnet.experiment.nodes import Node
from srnet.names import EMBEDDED, EMBEDDED_OTHER
from srnet.progress import Reporter
from srnet.pruners import OneShot
from srnet.recipes import Line, Recipe
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings


@pytest.fixture
def tiny_demo(tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The embedded backbone and benchmark, but tiny: what a demo costs is not what is tested here."""
    for name in (EMBEDDED, EMBEDDED_OTHER):
        monkeypatch.setitem(srnet.backbones._SHIPPED, name, Path(tiny_backbone))
    monkeypatch.setattr(SyntheticTask.__init__, "__defaults__", ("inference", 0.9, 200, 60, 60, 0))
    monkeypatch.chdir(tmp_path)
    backbone_hash.cache_clear()
    yield tmp_path
    backbone_hash.cache_clear()


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["srnet", *words])
    with pytest.raises(SystemExit) as exit:
        main()
    return int(exit.value.code or 0)


def refuse(node: Node, *rest: object) -> None:
    raise AssertionError(f"{node.label} was computed again")


def test_the_demonstration_twice(
    tiny_demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("demo", "--steps", "10", "--sparsities", "0.5,0.9", "--store", "store")
    assert run(monkeypatch, *command) == 0
    first = capsys.readouterr()
    assert "No verdict: one seed" in first.out
    assert "Report: srnet-demo/report.html" in first.out
    assert first.err.count("\n") >= 15, "progress is visible"
    out = tiny_demo / "srnet-demo"
    pictures = {"demo-inference.png", "demo-inference.pdf"}
    assert {path.name for path in out.iterdir()} == {"results.csv", "report.html", "report.md", *pictures}
    rows = list(csv.DictReader((out / "results.csv").open()))
    assert {row["kind"] for row in rows} == {"ID", "OOD"}
    lines = {(row["line"], row["sparsity_target"]) for row in rows}
    assert len(lines) == 2 + 3 * 2
    before = (out / "results.csv").read_bytes()

    monkeypatch.setattr("srnet.experiment.work.compute", refuse)
    assert run(monkeypatch, *command) == 0
    again = capsys.readouterr()
    assert again.err == "", "nothing was computed"
    assert again.out == first.out
    assert (out / "results.csv").read_bytes() == before


def test_a_dry_run_does_nothing(
    tiny_demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("srnet.experiment.work.compute", refuse)
    assert run(monkeypatch, "demo", "--dry-run", "--steps", "10", "--store", "store") == 0
    planned = capsys.readouterr().out.splitlines()
    # raw, bias model; two full models; six masks; IMP's run and its three levels; one evaluation of each of the eleven
    assert len(planned) - 2 == 2 + 2 + 6 + 1 + 3 + 11
    assert all("  to do   " in line for line in planned[:-2])
    assert planned[-2] == "demo on inference: 11 models, 9 trainings, 9 to do"
    assert planned[-1].startswith("9 distinct trainings, 0 of them stored; 25 steps to compute, about ")
    assert planned[-1].endswith("for 90 training steps, by a few steps measured just now; nothing was done")
    assert list(tiny_demo.iterdir()) == []


def test_a_recipe_on_own_files(
    tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [("the lawyer saw the doctor", "the lawyer", "yes"), ("the doctor saw", "the judge", "no")] * 10
    for name in ("train", "dev", "hard"):
        lines = [f"{a}\t{b}\t{label}\n" for a, b, label in rows]
        (tmp_path / f"{name}.tsv").write_text("text_a\ttext_b\tlabel\n" + "".join(lines))
    (tmp_path / "mine.yaml").write_text(f"""
task: {{name: own, labels: ["yes", "no"], train: train.tsv, dev: dev.tsv, ood: {{hard: hard.tsv}}, leaks: keep}}
backbone: {tiny_backbone}
finetuning: {{steps: 4, eval_every: 2, batch_size: 4, max_length: 32}}
pruning: {{steps: 4, eval_every: 2, batch_size: 4, max_length: 32}}
lines:
  - {{label: a, paradigm: a, pruner: mask, prune: poe, sparsities: [0.5]}}
  - {{label: b, paradigm: b, pruner: one-shot, sparsities: [0.5]}}
  - {{label: c, paradigm: c, pruner: mask, prune: reweight, sparsities: [0.5]}}
""")
    assert run(monkeypatch, "run", "mine.yaml", "--store", "store", "-q") == 0
    assert "Report: srnet-mine/report.html" in capsys.readouterr().out
    page = (tmp_path / "srnet-mine" / "report.html").read_text()
    assert "Made by <code>srnet run mine.yaml" in page, "what one types to get it again"
    found = list(csv.DictReader((tmp_path / "srnet-mine" / "results.csv").open()))
    assert {(row["paradigm"], row["split"], row["kind"]) for row in found} == {
        (paradigm, split, kind) for paradigm in "abc" for split, kind in (("dev", "ID"), ("hard", "OOD"))
    }


def test_a_figure_of_the_paper_and_its_claim(
    tiny_demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("reproduce", "fig8", "--tasks", "inference", "--scale", "0.01", "--store", "store")
    assert run(monkeypatch, *command, "-q") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "inference, gradual: not enough evidence (one seed; at least 3 are needed)" in said.out
    assert "Report: srnet-fig8/report.html" in said.out
    out = tiny_demo / "srnet-fig8"
    pictures = {"fig8-inference.png", "fig8-inference.pdf"}
    assert {path.name for path in out.iterdir()} == {"results.csv", "report.html", "report.md", *pictures}
    page = (out / "report.html").read_text()
    assert "srnet reproduce fig8 --profile toy --tasks inference --seeds 1 --scale 0.01" in page
    assert "gradual minus fixed, ID dev" in page
    rows = list(csv.DictReader((out / "results.csv").open()))
    # 3 steps of fine-tuning; searches of a third, two thirds and all of 12 steps
    assert {row["training_steps"] for row in rows} == {"3", "7", "11", "15"}

    monkeypatch.setattr("srnet.experiment.work.compute", refuse)
    assert run(monkeypatch, *command, "--dry-run") == 0
    planned = capsys.readouterr().out.splitlines()
    assert all("  stored  " in line for line in planned[:-2])
    assert planned[-2:] == [
        "fig8 on inference: 7 models, 7 trainings, 0 to do",
        "7 distinct trainings, 7 of them stored; 0 steps to compute; nothing was done",
    ]
    assert (
        run(monkeypatch, "claims", "--tasks", "inference", "--scale", "0.01", "--seeds", "1", "--store", "store") == 0
    )
    said = capsys.readouterr()
    assert "one seed; at least 3 are needed" in " ".join(said.out.replace("│", " ").split())


def test_a_recipe_without_ood_files(tiny_backbone: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text_a,text_b,label\n" + "the lawyer,the judge,yes\nthe doctor,a judge,no\n" * 4)
    task = srnet.FilesTask("own", ("no", "yes"), str(tmp_path / "d.csv"), str(tmp_path / "d.csv"), leaks="keep")
    training = TrainingSettings(steps=2, eval_every=2, batch_size=4, max_length=32)
    lines = (Line("full"), Line("magnitude", "a", pruner="one-shot", sparsities=(0.5,)))
    engine = Engine(Store(tmp_path / "store"), Reporter(quiet=True))
    results = srnet.run_recipe(Recipe("r", task, lines, tiny_backbone, finetuning=training), tmp_path / "out", engine)
    assert [summary.verdict for summary in results.summaries] == [None, None]
    assert "No verdict" in (tmp_path / "out" / "report.html").read_text()


def test_the_embedded_backbone(engine: Engine, tiny_task: SyntheticTask) -> None:
    folder = Path(folder_or_name(EMBEDDED))
    assert (folder / "README.md").is_file()
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 8_000_000
    settings = TrainingSettings(steps=2, eval_every=2, batch_size=4)
    trained = srnet.finetune(tiny_task, training=settings, engine=engine)
    pruned = srnet.prune(trained.key, OneShot(0.5), engine=engine)
    model = srnet.load_subnetwork(pruned.folder)
    assert torch.isfinite(torch.cat([p.flatten() for p in model.parameters()])).all()
    assert pruned.sparsity == pytest.approx(0.5, abs=1e-3)


def test_every_public_name_is_there() -> None:
    assert all(getattr(srnet, name) is not None for name in srnet.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = srnet.nope
