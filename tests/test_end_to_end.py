"""The whole spine on a tiny model: the demonstration, a recipe on own files, the embedded backbone, the Python API."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from commands import run
from small import small_defaults

import srnet
import srnet.models.checkpoints
from srnet.core.names import EMBEDDED, EMBEDDED_OTHER
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import Node
from srnet.models.backbones import backbone_hash
from srnet.models.checkpoints import folder_or_name
from srnet.pruners.magnitude import OneShot
from srnet.recipes import profiles as toy
from srnet.recipes.demo import DemoSettings
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings


@pytest.fixture
def tiny_demo(tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The embedded backbone and benchmark, but tiny: what a demo costs is not what is tested here."""
    for name in (EMBEDDED, EMBEDDED_OTHER):
        monkeypatch.setitem(srnet.models.checkpoints.SHIPPED, name, Path(tiny_backbone))
    monkeypatch.setattr(SyntheticTask.__init__, "__defaults__", small_defaults(200, 60, 60))
    monkeypatch.chdir(tmp_path)
    backbone_hash.cache_clear()
    yield tmp_path
    backbone_hash.cache_clear()


def refuse(node: Node, *rest: object) -> None:
    raise AssertionError(f"{node.label} was computed again")


def test_the_demonstration_twice(
    tiny_demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # in this process, where the embedded benchmark is small
    command = ("demo", "--steps", "10", "--seeds", "1", "--sparsities", "0.5,0.9", "--engine", "local")
    command = (*command, "--store", "store")
    assert run(monkeypatch, *command) == 0
    first = capsys.readouterr()
    assert "No verdict: one seed" in first.out
    assert "Report: srnet-demo/report.html" in first.out
    assert first.err.count("\n") >= 2 + 2 * (2 + 1 + 2), "raw, bias model, five models and their scores"
    opens = first.out.splitlines()[-1].removeprefix("Try both models, side by side: srnet page ").split()
    assert opens[2:] == ["--store", "store"]
    out = tiny_demo / "srnet-demo"
    pictures = {"demo-inference.png", "demo-inference.pdf", "demo-inference-models.png"}
    assert {path.name for path in out.iterdir()} == {"results.csv", "report.html", "report.md", *pictures}
    rows = list(csv.DictReader((out / "results.csv").open()))
    assert {row["kind"] for row in rows} == {"ID", "OOD"}
    lines = {(row["line"], row["sparsity_target"]) for row in rows}
    assert len(lines) == 2 + 1 + 2
    lines_of = [{row["line"] for row in rows if row["key"].startswith(key)} for key in opens[:2]]
    assert lines_of[0] < {"full model (CE)", "full model (CE), trained as long"}
    assert lines_of[1] < {"mask training (CE)", "mask training (PoE)"}
    steps = {row["line"]: row["training_steps"] for row in rows}
    assert steps["full model (CE), trained as long"] == steps["mask training (PoE)"] == "20"
    before = (out / "results.csv").read_bytes()

    monkeypatch.setattr("srnet.experiment.compute.compute", refuse)
    assert run(monkeypatch, *command) == 0
    again = capsys.readouterr()
    assert again.err == "", "nothing was computed"
    assert again.out == first.out
    assert (out / "results.csv").read_bytes() == before


def test_a_dry_run_does_nothing(
    tiny_demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("srnet.experiment.compute.compute", refuse)
    assert run(monkeypatch, "demo", "--measure", "--steps", "10", "--store", "store") == 0
    planned = capsys.readouterr().out.splitlines()
    # a seed: the full model and its control, a mask with CE, masks with PoE; their evaluations; raw; one bias model
    models = DemoSettings.seeds * (2 + 1 + len(DemoSettings.sparsities))
    computed = 2 * models + DemoSettings.seeds + 1
    assert len(planned) - 3 == computed
    assert all("  to do   " in line for line in planned[:-3])
    assert planned[-3] == f"demo on inference: {models} models, {models} trainings, {models} to do"
    assert planned[-2].startswith("written: results ")
    assert planned[-1].startswith(
        f"{models} distinct trainings, 0 of them stored; {computed} results to compute, about "
    )
    steps = 10 * models + 10 * DemoSettings.seeds  # the control takes 20
    assert planned[-1].endswith(f"for {steps} training steps, by a few steps measured just now; nothing was done")
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
        (paradigm, split, kind) for paradigm in ("full", *"abc") for split, kind in (("dev", "ID"), ("hard", "OOD"))
    }


def test_a_figure_of_the_paper_and_its_claim(
    tiny_demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("reproduce", "fig8", "--tasks", "inference", "--scale", "0.02", "--store", "store")
    assert run(monkeypatch, *command, "-q") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "inference, gradual: not enough evidence (one seed; at least 3 are needed)" in said.out
    assert "Report: srnet-fig8/report.html" in said.out
    out = tiny_demo / "srnet-fig8"
    pictures = {"fig8-inference.png", "fig8-inference.pdf", "fig8-inference-models.png"}
    assert {path.name for path in out.iterdir()} == {"results.csv", "report.html", "report.md", *pictures}
    page = (out / "report.html").read_text()
    assert "srnet reproduce fig8 --scale 0.02 --profile toy --tasks inference --seeds 1" in page
    assert "gradual minus fixed, ID dev" in page
    rows = list(csv.DictReader((out / "results.csv").open()))
    finetuning, pruning = (max(1, round(0.02 * s.total_steps(0))) for s in (toy.FINETUNING, toy.PRUNING))
    searches = {finetuning + max(1, round(length * pruning)) for length in (1 / 3, 2 / 3, 1.0)}
    assert {int(row["training_steps"]) for row in rows} == {finetuning, *searches}
    assert {int(row["training_steps"]) for row in rows if row["line"] == "full model (CE), trained as long"} == {
        finetuning + pruning
    }

    monkeypatch.setattr("srnet.experiment.compute.compute", refuse)
    assert run(monkeypatch, *command, "--dry-run") == 0
    planned = capsys.readouterr().out.splitlines()
    assert all("  stored  " in line for line in planned[:-4])
    assert planned[-4:] == [
        "fig8 on inference: 8 models, 8 trainings, 0 to do",
        "8 distinct trainings, 8 of them stored; 0 results to compute; nothing was done",
        "--line of fig8: 'full model (CE)', fixed, 'gradual, from 70 %'",
        "srnet reproduce fig8 --scale 0.02 --profile toy --tasks inference --seeds 1",
    ]
    assert run(monkeypatch, *command, "--as-published", "--dry-run") == 0
    published = capsys.readouterr().out.splitlines()
    assert "8 distinct trainings, 2 of them stored" in published[-3], "only the full models are the same"
    assert published[-1].endswith("--seeds 1 --as-published")
    assert (
        run(monkeypatch, "claims", "--tasks", "inference", "--scale", "0.02", "--seeds", "1", "--store", "store") == 0
    )
    said = capsys.readouterr()
    assert "one seed; at least 3 are needed" in " ".join(said.out.replace("│", " ").split())


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
