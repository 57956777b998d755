"""Static pruning and its family from the command line to the report, on answers of every kind."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import srnet
from srnet.cli.program import main
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import CE, Distilled
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.experiment.store import TOKENS, Store, read_logits
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.movement import Movement
from srnet.pruners.static import StaticShared
from srnet.recipes.order import Order
from srnet.tasks.files import FilesTask
from srnet.tasks.squad import SquadTask, squad_task
from srnet.training.settings import TrainingSettings

SHORT = TrainingSettings(learning_rate=1e-3, score_rate=5e-2, steps=4, eval_every=2, batch_size=8, max_length=48)
PLAIN = replace(SHORT, score_rate=None)
YAML = "{name: inference, train_size: 60, dev_size: 20, ood_size: 20}"


def command(*words: object) -> int:
    """The exit code of `srnet WORDS`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["srnet", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
    return int(end.value.code or 0)


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    (tmp_path / "task.yaml").write_text(YAML)
    return tmp_path / "task.yaml"


# --- recipes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figure", "lines"),
    [("smp", ("SMP-S + distillation", "L0")), ("robust-smp", ("SMP-S (PoE)",))],
    ids=["smp", "robust-smp"],
)
def test_a_recipe_of_the_family(
    figure: str, lines: tuple[str, ...], tiny_backbone: str, task_file: Path, engine: Engine, tmp_path: Path
) -> None:
    order = Order(
        (figure,), tasks=(str(task_file),), backbone=tiny_backbone, scale=0.01, sparsities=(0.5, 0.97), lines=lines
    )
    (section,) = srnet.reproduce(order, tmp_path / "out", engine=engine).sections
    results = section.results
    assert results.recipe.profile.words == ("perhaps", "truly"), "the backbone has a head for them"
    assert {summary.label for summary in results.summaries} == {"full model (CE)", *lines}
    exact = [s for s in results.summaries if s.label.startswith("SMP")]
    assert [s.sparsity for s in exact] == pytest.approx([0.5, 0.97], abs=1e-3)
    assert set(results.ood_splits) == {"challenge"}
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(label in page for label in lines)
    assert (tmp_path / "out" / f"{figure}-inference.png").stat().st_size > 10_000


# --- from the command line -----------------------------------------------------------------------------------------


def test_prune_with_label_words_and_a_teacher(
    tiny_backbone: str, task_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--store", tmp_path / "store", "-q")
    here = ("--task", task_file, "--backbone", tiny_backbone, *common)
    assert command("finetune", *here, "--steps", 2, "--label-words", "perhaps,truly", "--key") == 0
    teacher = capsys.readouterr().out.strip()
    words = ("prune", *here, "--pruner", "smp-s", "--sparsity", 0.9, "--steps", 4, "--eval-every", 2)
    assert command(*words, "--label-words", "task", "--distil", 0.5, "--teacher", teacher, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    subnetwork = Subnetwork.load(Path(made["folder"]))
    assert subnetwork.head.words == ("perhaps", "truly")
    assert subnetwork.weights == {}, "nothing but the mask was trained"
    assert made["sparsity"] == subnetwork.sparsity == pytest.approx(0.9, abs=1e-3)
    npy = tmp_path / "mask.npy"
    assert command("export", made["key"], "--format", "smp", "--out", npy, "--store", tmp_path / "store") == 0
    again = ("import", "smp", npy, "--backbone", tiny_backbone, "--task", "inference", "--out", tmp_path / "mine")
    assert command(*again) == 0
    assert Subnetwork.load(tmp_path / "mine").mask == subnetwork.mask
    capsys.readouterr()
    assert command("evaluate", tmp_path / "mine", "--task", task_file, "--json", *common) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["dev"] == made["scores"]["dev"], "the same model"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--pruner", "smp-l", "--threshold", 0.1), "--threshold"),
        (("--pruner", "smp-l", "--label-words", "perhaps"), "label words"),
        (("--pruner", "smp-l", "--label-words", "perhaps,xyzzy"), "'xyzzy'"),
        (("--pruner", "smp-l", "--distil", 0.5), "teacher"),
        (("--pruner", "smp-l", "--distil-temperature", 3), "temperature"),
        (("--pruner", "movement", "--begin", 0.9), "begin"),
        (("--pruner", "one-shot", "--steps", 3), "'one-shot'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
def test_mistakes_are_one_line(
    words: tuple[Any, ...],
    named: str,
    tiny_backbone: str,
    task_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = ("--task", task_file, "--backbone", tiny_backbone, "--store", tmp_path / "store", "-q")
    assert command("prune", *here, *words) != 0
    error = capsys.readouterr().err
    assert named in error
    assert "Traceback" not in error


# --- spans ---------------------------------------------------------------------------------------------------------

PEOPLE = ("doctor", "lawyer", "teacher", "writer", "singer", "student")


def _paragraph(number: int) -> dict[str, Any]:
    """Some sentences of the grammar, and a question about one of them."""
    rng = np.random.default_rng(number)
    facts = [tuple(rng.choice(PEOPLE, 2, replace=False)) for _ in range(rng.integers(2, 14))]
    context = " ".join(f"the {a} hired the {b} ." for a, b in facts)
    a, b = facts[0]
    answer = {"text": f"the {b}", "answer_start": context.index(f"the {b}", len(f"the {a} hired") - 1)}
    question = {"id": str(number), "question": f"whom the {a} hired", "answers": [answer]}
    return {"context": context, "qas": [question]}


@pytest.fixture
def squad(tmp_path: Path) -> SquadTask:
    for name, numbers in (("train-v1.1", range(40)), ("dev-v1.1", range(100, 112))):
        paragraphs = [_paragraph(number) for number in numbers]
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})
        )
    return squad_task(tmp_path)


def test_questions_are_answered_pruned_and_distilled(squad: SquadTask, tiny_backbone: str, engine: Engine) -> None:
    teacher = FineTune(Pretrained(tiny_backbone, squad), CE(), PLAIN)
    raw = Pretrained(tiny_backbone, squad, words=("perhaps", "truly"))
    objective = Distilled(CE(), teacher)
    subnet = Prune(raw, StaticShared(0.5), objective, SHORT)
    engine.execute([Evaluate(teacher), Evaluate(subnet)])
    assert objective.teacher is not None
    cached = read_logits(engine.store, objective.teacher.key)
    assert cached["train"].shape == (40, 2), "a span an example"
    assert cached[TOKENS.format("train")].shape[1] == 2, "two logits a token, not as many as there are words"
    assert len(cached[TOKENS.format("train")]) > 40 * 10
    scores = json.loads((engine.store.path(Evaluate(subnet).key) / "scores.json").read_text())
    assert scores["sparsity"] == pytest.approx(0.5, abs=1e-3)
    assert set(scores["splits"]["dev"]["metrics"]) == {"exact_match", "span_f1"}
    assert Subnetwork.load(engine.store.path(subnet.key)).weights == {}


def test_a_teacher_that_read_other_windows_is_refused(squad: SquadTask, tiny_backbone: str, engine: Engine) -> None:
    raw = Pretrained(tiny_backbone, squad)
    teacher = FineTune(raw, CE(), TrainingSettings(steps=1, eval_every=1, max_length=32))
    with refused("teacher", "max_length"):
        engine.execute([Prune(raw, Movement(0.5), Distilled(CE(), teacher), SHORT)])


def test_bias_models_are_for_classes(squad: SquadTask, tiny_backbone: str, tmp_path: Path) -> None:
    store = Engine(Store(tmp_path / "store"))
    with refused("squad", "classes"):
        srnet.finetune(squad, "poe", backbone=tiny_backbone, training=PLAIN, engine=store)


# --- numbers -------------------------------------------------------------------------------------------------------


def test_numbers_are_learned_and_distilled(tiny_backbone: str, engine: Engine, tmp_path: Path) -> None:
    """How many doctors there are in a row: something a few steps can learn."""
    rng = np.random.default_rng(0)
    for name, size in (("train", 320), ("dev", 60)):
        counts = rng.integers(0, 5, size)
        rows = [f"{' '.join(['doctor'] * c + ['garden'] * (4 - c))}\t{c}.0" for c in counts]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["text_a\tlabel", *rows]) + "\n")
    task = FilesTask(
        "counting", ("score",), str(tmp_path / "train.tsv"), str(tmp_path / "dev.tsv"),
        text_b=None, answer="score", metric="pearson", shortcut="unknown", leaks="keep",
    )  # fmt: skip
    raw = Pretrained(tiny_backbone, task)
    training = TrainingSettings(learning_rate=5e-3, score_rate=5e-2, steps=60, eval_every=20, batch_size=16)
    teacher = FineTune(raw, CE(), replace(training, score_rate=None))
    subnet = Prune(raw, Movement(0.5), Distilled(CE(), teacher), training)
    engine.execute([Evaluate(teacher), Evaluate(subnet)])
    for node in (teacher, subnet):
        scores = json.loads((engine.store.path(Evaluate(node).key) / "scores.json").read_text())
        assert scores["splits"]["dev"]["metrics"]["pearson"] > 80.0
        assert scores["splits"]["dev"]["metrics"]["spearman"] > 80.0


def test_a_training_that_leaves_the_numbers_has_no_result(raw: Pretrained, engine: Engine) -> None:
    node = Prune(raw, StaticShared(0.5, penalty=1e308), CE(), SHORT)
    with refused("diverged", "step 2"):
        engine.execute([node])
    assert not engine.store.has(node.key)


def test_a_mask_over_trained_weights_is_no_file_of_smp(raw: Pretrained, engine: Engine, tmp_path: Path) -> None:
    node = Prune(raw, Movement(0.5), CE(), SHORT)
    engine.execute([node])
    with refused("weights"):
        srnet.export_model(node.key, tmp_path / "mask.npy", format="smp", engine=engine)
    assert not (tmp_path / "mask.npy").exists()
