"""The same expression has the same key; anything that could change the result changes it."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from methods import METHODS
from refusals import refused
from safetensors.torch import load_file, save_file

from srnet.experiment.identity import SCHEMA, describe, key_of
from srnet.experiment.nodes.base import load_task
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained, Rewind
from srnet.experiment.nodes.objectives import CE, ConfReg, Distilled, Objective, PoE, Reweight
from srnet.experiment.nodes.training import FineTune, Prune
from srnet.masks.targets import Targets
from srnet.masks.timed import Latency
from srnet.models.backbones import backbone_hash
from srnet.pruners.base import PRUNERS
from srnet.pruners.imp import IMP
from srnet.pruners.l0 import L0
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.static import StaticShared
from srnet.tasks.answers.base import ANSWERS
from srnet.tasks.files import FilesTask
from srnet.tasks.squad import squad_task
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings


def expression(backbone: str, task: SyntheticTask, training: TrainingSettings) -> Evaluate:
    raw = Pretrained(backbone, task, seed=0)
    return Evaluate(Prune(FineTune(raw, CE(), training), MaskTraining(0.7), PoE(BiasModel(task)), training))


def test_same_expression_same_key(
    tiny_backbone: str, tiny_task: SyntheticTask, tiny_training: TrainingSettings
) -> None:
    one = expression(tiny_backbone, tiny_task, tiny_training)
    other = expression(str(tiny_backbone), replace(tiny_task), replace(tiny_training))
    assert one is not other
    assert one.key == other.key
    assert one == other


def changed(value: Any) -> Any:
    """Another valid value of the same field."""
    if value is None or isinstance(value, str):
        return {None: 5, "float32": "bf16", "late": "published", "all": "head"}[value]
    return value * 0.9 + 0.01 if isinstance(value, float) else not value if isinstance(value, bool) else value + 1


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(TrainingSettings)])
def test_every_training_setting_counts(name: str, raw: Pretrained) -> None:
    settings = TrainingSettings()
    other = replace(settings, **{name: changed(getattr(settings, name))})
    one, another = (
        Prune(raw, training=each) if name == "score_rate" else FineTune(raw, training=each)
        for each in (settings, other)
    )
    # the precision of evaluations is none of the model's
    assert (one.key != another.key) == (name != "eval_precision")
    assert Evaluate(one).key != Evaluate(another).key


def test_the_precision_of_evaluations_is_that_of_results_alone(raw: Pretrained) -> None:
    """The same model is not trained again, and what a training learns from does not change."""
    plain, half = (FineTune(raw, training=TrainingSettings(eval_precision=each)) for each in ("float32", "bf16"))
    assert (plain.key, Evaluate(plain).precision, Evaluate(half).precision) == (half.key, "float32", "bf16")
    assert Evaluate(Prune(half, OneShot(0.5))).precision == "bf16"
    assert Evaluate(Prune(half, MaskTraining(0.5))).precision == "float32"
    assert Evaluate(Rewind(Prune(plain, training=half.training), half)).precision == "bf16"
    assert Evaluate(half, ("train",)).key == Evaluate(plain, ("train",)).key
    assert FineTune(raw, Distilled(CE(), half)).key == FineTune(raw, Distilled(CE(), plain)).key


def defaults() -> dict[str, dict[str, str]]:
    types = (TrainingSettings, Targets, *PRUNERS.values(), BiasModel, FineTune, Prune, Pretrained, Evaluate, Objective)
    return {
        cls.__name__: {
            f.name: repr(f.default if f.default_factory is dataclasses.MISSING else f.default_factory())
            for f in dataclasses.fields(cls)
            if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        }
        for cls in types
    }


CONSTANTS = {
    "srnet.masks.modules": ("SAMPLE",),
    "srnet.training.method": ("LATE",),
    "srnet.training.updates": ("RANK",),
    "srnet.models.rounding": ("LEVELS",),
    "srnet.pruners.static": ("LOW_SPARSITY", "LOW_SPARSITY_TEMPERATURE"),
    "srnet.pruners.penalised": ("FIRST_STEERED", "GAIN", "LIMIT"),
    "srnet.training.spans": ("QUESTION_TOKENS", "ANSWER_TOKENS", "SHARED"),
}
"""What changes results, and is no field of any description."""


def constants() -> dict[str, str]:
    lengths = {name: ANSWERS[name].max_length for name in ("class", "score", "span")}
    return {"srnet.training.spans.LENGTHS": repr(lengths)} | {
        f"{module}.{name}": repr(getattr(importlib.import_module(module), name))
        for module, names in CONSTANTS.items()
        for name in names
    }


def test_a_constant_that_changes_results_raises_the_schema() -> None:
    pinned = json.loads((Path(__file__).parent / "defaults.json").read_text())["constants"]
    assert constants() == pinned, "if one has changed (not: was added), raise SCHEMA"


def test_a_default_that_changes_raises_the_schema() -> None:
    """Defaults are no part of a key. If this fails because one has changed (not: was added), raise SCHEMA."""
    pinned = json.loads((Path(__file__).parent / "defaults.json").read_text())
    assert pinned["schema"] == SCHEMA, "PYTHONPATH=tests python -m tests.experiment.test_identity"
    for name, fields in pinned["defaults"].items():
        now = {field: value for field, value in defaults()[name].items() if field in fields}
        assert now == fields, f"a default of {name} has changed: raise SCHEMA"


def test_texts_are_cut_as_in_the_training_that_made_a_model(raw: Pretrained) -> None:
    short = FineTune(raw, training=TrainingSettings(steps=1, max_length=48))
    one_shot = Prune(short, OneShot(0.5))
    assert (short.max_length, one_shot.max_length, Rewind(one_shot, raw).max_length) == (48, 48, 128)
    trained = Prune(short, StaticShared(0.5), training=TrainingSettings(steps=1, max_length=64))
    assert (trained.max_length, raw.max_length) == (64, 128)
    assert Pretrained("any", squad_task(ood={})).max_length == 384


def test_a_rate_of_scores_where_there_are_none(raw: Pretrained) -> None:
    rated = TrainingSettings(steps=10, score_rate=0.1)
    with refused("fine-tuning", "score_rate"):
        FineTune(raw, training=rated)
    with refused("'imp'", "score_rate"):
        Prune(raw, IMP(0.5), training=rated)
    assert Prune(raw, StaticShared(0.5), training=rated).training.score_rate == 0.1


def test_a_penalty_that_was_given_is_what_a_label_names(raw: Pretrained) -> None:
    training = TrainingSettings(steps=10)
    assert "at 50 %" in Prune(raw, L0(0.5), training=training).label
    assert "at lambda 125" in Prune(raw, L0(0.5, penalty=125.0), training=training).label


def test_epochs_do_not_count_where_steps_are_given(raw: Pretrained) -> None:
    one, other = (FineTune(raw, training=TrainingSettings(steps=10, epochs=epochs)) for epochs in (1.0, 5.0))
    assert one == other
    assert one.key == other.key


def test_defaults_are_no_part_of_a_key(raw: Pretrained) -> None:
    """So that a new setting leaves the keys of old results as they are."""

    old = dataclasses.make_dataclass("Settings", [("rate", float, 1.0)])
    new = dataclasses.make_dataclass("Settings", [("rate", float, 1.0), ("new", int, 3)])
    holder = dataclasses.make_dataclass("Holder", ["settings"])
    assert key_of(holder(old(2.0))) == key_of(holder(new(2.0)))
    assert key_of(holder(old(2.0))) != key_of(holder(new(2.0, new=4)))


OTHER: dict[str, Any] = {
    "sparsity": 0.6, "granularity": ("neuron",), "init": "soft", "initial_sparsity": 0.2, "ramp": 0.65, "begin": 0.05,
    "scope": "global", "phi": 0.02, "targets": Targets(exclude=("classifier",)), "penalty": 5.0, "temperature": 3.0,
    "threshold": 0.2, "open_at_first": 0.8, "step_sparsity": 0.25, "interval": 0.05, "cut": "kth",
    "penalty_until": "end", "floor": 0.005, "speedup": 3.0, "timed_on": "cpu",
    "latency": Latency(1.0, 0.01, 12.0, 20.0, 30.0), "frozen": "bf16",
}  # fmt: skip
"""Another value of a pruner's field, where `another` has no rule for it."""
TIMED = {"granularity": ("head", "neuron"), "speedup": 2.0, "latency": Latency(1.0, 0.01, 12.0, 20.0, 31.0)}
"""What a budget in time needs."""


def another(field: str, value: Any) -> Any:
    if field in OTHER:
        return OTHER[field]
    assert isinstance(value, int | float), f"OTHER needs another value of '{field}'"
    return not value if isinstance(value, bool) else value + 1


@pytest.mark.parametrize(("name", "field"), [(n, f.name) for n, p in METHODS.items() for f in dataclasses.fields(p)])
def test_every_pruner_setting_counts(name: str, field: str, raw: Pretrained) -> None:
    pruner = METHODS[name]
    if field in ("speedup", "latency", "timed_on"):
        pruner = replace(pruner, sparsity=type(pruner).sparsity, **TIMED)
    assert Prune(raw, pruner).key != Prune(raw, replace(pruner, **{field: another(field, getattr(pruner, field))})).key


def test_every_pruner_is_another(raw: Pretrained) -> None:
    assert len({Prune(raw, pruner).key for pruner in METHODS.values()}) == len(METHODS)


def test_everything_about_a_distillation_counts(raw: Pretrained, tiny_task: SyntheticTask) -> None:
    tuned, bias = FineTune(raw), BiasModel(tiny_task)
    objectives = [
        CE(),
        Distilled(CE(), tuned),
        Distilled(CE(), tuned, share=0.25),
        Distilled(CE(), tuned, temperature=3.0),
        Distilled(CE(), FineTune(replace(raw, seed=1))),
        PoE(bias),
        Distilled(PoE(bias), tuned),
        ConfReg(bias, tuned),
        Distilled(ConfReg(bias, tuned), tuned),
    ]
    assert len({FineTune(raw, objective).key for objective in objectives}) == len(objectives)


def test_a_distillation_has_one_teacher_of_the_same_task(raw: Pretrained, tiny_task: SyntheticTask) -> None:
    one, other = FineTune(raw), FineTune(replace(raw, seed=1))
    good, elsewhere = Distilled(CE(), one), FineTune(replace(raw, task=replace(tiny_task, data_seed=1)))
    for names, wrong in {
        ("'ce+kd' needs", "teacher"): lambda: replace(good, teacher=None),
        ("'ce' takes no", "teacher"): lambda: replace(good, distillation=None),
        ("'confreg'", "teacher"): lambda: Distilled(ConfReg(BiasModel(tiny_task), one), other),
        ("'ce+kd'", "another task"): lambda: FineTune(raw, Distilled(CE(), elsewhere)),
    }.items():
        with refused(*names):
            wrong()


def test_task_seed_objective_and_parent_count(raw: Pretrained, tiny_task: SyntheticTask) -> None:
    bias = BiasModel(tiny_task)
    tuned = FineTune(raw)
    nodes = [
        raw,
        replace(raw, seed=1),
        replace(raw, task=replace(tiny_task, noise=0.2)),
        replace(raw, task=replace(tiny_task, data_seed=1)),
        tuned,
        FineTune(raw, PoE(bias)),
        FineTune(raw, Reweight(bias)),
        FineTune(raw, PoE(BiasModel(tiny_task, folds=3))),
        FineTune(raw, ConfReg(bias, tuned)),
        FineTune(raw, ConfReg(bias, FineTune(replace(raw, seed=1)))),
        Prune(raw),
        Prune(tuned),
        Rewind(Prune(tuned), raw),
        Rewind(Prune(tuned), tuned),
        Evaluate(tuned),
        Evaluate(tuned, ("train",)),
        bias,
    ]
    assert len({node.key for node in nodes}) == len(nodes)


def test_the_shared_run_of_imp_does_not_know_the_level(raw: Pretrained) -> None:
    keys = {node.levels.key for node in (Prune(raw, IMP(0.3)), Prune(raw, IMP(0.9))) if node.levels is not None}
    assert len(keys) == 1


# --- data and backbone ---------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FilesTask]:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.csv").write_text("text_a,text_b,label\nthe cat,a cat,yes\nthe dog,a cat,no\n")
    yield FilesTask("mine", ("no", "yes"), str(tmp_path / "train.csv"), str(tmp_path / "dev.csv"), leaks="keep")
    load_task.cache_clear()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_the_content_of_the_data_counts(split: str, files: FilesTask, tiny_backbone: str) -> None:
    def keys() -> tuple[str, str]:
        load_task.cache_clear()  # a new process
        return Pretrained(tiny_backbone, files).key, BiasModel(files).key

    before, path = keys(), Path(getattr(files, split))
    text = path.read_text()
    path.write_text(text.replace("the dog,a cat,no", "the dog,a cat,yes"))
    assert all(a != b for a, b in zip(keys(), before, strict=True))
    path.write_text(text)
    assert keys() == before


def test_the_content_of_the_backbone_counts(tiny_backbone: str, tiny_task: SyntheticTask, tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    for folder in (same, other):
        shutil.copytree(tiny_backbone, folder)
    tensors = load_file(other / "model.safetensors")
    tensors["bert.embeddings.word_embeddings.weight"][7, 3] += 1e-6
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    assert backbone_hash(str(same)) == backbone_hash(tiny_backbone), "the place does not matter"
    assert backbone_hash(str(other)) != backbone_hash(tiny_backbone)
    assert BiasModel(tiny_task, "claim", str(other)).key != BiasModel(tiny_task, "claim", str(same)).key
    assert Pretrained(str(other), tiny_task).key != Pretrained(str(same), tiny_task).key


# --- what is no expression -----------------------------------------------------------------------------------------


def test_only_plain_values_have_an_identity() -> None:
    with pytest.raises(TypeError, match="object cannot be part"):
        describe(object())


def test_keys_have_a_schema(raw: Pretrained, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(raw)
    monkeypatch.setattr("srnet.experiment.identity.SCHEMA", 0)
    assert key_of(raw) != before


def test_expressions_that_mean_nothing_are_refused(tiny_task: SyntheticTask, raw: Pretrained) -> None:
    bias = BiasModel(tiny_task)
    for names, wrong in {
        ("'poe'", "bias model"): lambda: Objective("poe"),
        ("'ce'", "bias model"): lambda: Objective("ce", bias),
        ("'nope'",): lambda: Objective("nope"),
        ("'one-shot'", "objective"): lambda: Prune(raw, OneShot(0.5), PoE(bias)),
        ("seed",): lambda: Rewind(Prune(raw), replace(raw, seed=1)),
    }.items():
        with refused(*names):
            wrong()


if __name__ == "__main__":
    content = {"schema": SCHEMA, "defaults": defaults(), "constants": constants()}
    (Path(__file__).parent / "defaults.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
