"""A line says only what it means: what would not be heard is refused, and what is said is done."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from srnet.errors import UserError
from srnet.experiment import CE, FineTune, Moment, Pretrained, Prune, Trajectory
from srnet.names import EMBEDDED
from srnet.pruners import IMP, MaskTraining
from srnet.recipes import Line, Recipe, load_recipe
from srnet.recipes.recipe import _UNUSED, with_controls
from srnet.recipes.usual import pruning_for
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

TASK = SyntheticTask("inference", train_size=100, dev_size=5, ood_size=5)
LINES = {
    "full": Line("l"),
    "a": Line("l", "a", pruner="mask", prune="ce", sparsities=(0.5,)),
    "b": Line("l", "b", pruner="mask", prune="ce", sparsities=(0.5,)),
    "c": Line("l", "c", pruner="mask", prune="ce", sparsities=(0.5,)),
}
OTHER = {
    "finetune": "poe",
    "prune": "ce",
    "isolated": "ce",  # even the usual one: where nothing is fine-tuned in isolation, it says something wrong
    "sparsities": (0.5,),
    "options": (("init", "soft"),),
    "starts": (0.5,),
    "lengths": (0.5,),
    "data": "id+ood",
    "as_long": True,
}


@pytest.fixture(autouse=True)
def _no_backbone_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.experiment.nodes.models.backbone_hash", lambda name, head=None: f"hash of {name}")


def recipe(*lines: Line, **settings: Any) -> Recipe:
    return Recipe("r", TASK, lines, "tiny", **{"pruning": TrainingSettings(steps=90), **settings})


# --- what would not be heard ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paradigm", "name"),
    [
        *(("full", name) for name in ("prune", "isolated", "sparsities", "options", "starts", "lengths", "data")),
        *(("a", name) for name in ("isolated", "as_long")),
        *(("b", name) for name in ("starts", "lengths", "as_long")),
        *(("c", name) for name in ("finetune", "isolated", "starts", "as_long")),
    ],
)
def test_what_a_paradigm_has_no_use_for_is_refused(paradigm: str, name: str) -> None:
    assert name in _UNUSED[paradigm]  # type: ignore[index]
    with pytest.raises(UserError, match=f"line 'l': paradigm {paradigm} has no use for '{name}'; leave it out"):
        replace(LINES[paradigm], **{name: OTHER[name]})


@pytest.mark.parametrize("paradigm", LINES)
def test_what_is_not_refused_changes_the_models(paradigm: str) -> None:
    # the other side: a field that is accepted must matter
    line, search = LINES[paradigm], replace(LINES["c"], label="search")
    settings = {"finetuning": TrainingSettings(steps=50), "stopping": TrainingSettings(steps=50, patience=1)}
    before = [point.node for point in recipe(line, search, **settings).points()]
    for name, value in {**OTHER, "isolated": "poe", "prune": "poe", "sparsities": (0.3,), "backbone": "x"}.items():
        if name not in _UNUSED[paradigm]:  # type: ignore[index]
            other = replace(line, **{name: value})
            assert [point.node for point in recipe(other, search, **settings).points()] != before, name
    assert {name for names in _UNUSED.values() for name in names} <= {f.name for f in fields(Line)}


def test_a_structure_found_from_raw_weights_was_never_fine_tuned() -> None:
    # imp-rw in paradigm b starts from the raw model, so nobody would hear which objective was wished for
    with pytest.raises(UserError, match="finetune"):
        Line("l", "b", finetune="poe", pruner="imp-rw", prune="poe", sparsities=(0.5,))


@pytest.mark.parametrize("name", ["data", "lengths"])
def test_a_pruner_that_does_not_train_takes_neither_data_nor_length(name: str) -> None:
    line = Line("l", "a", pruner="one-shot", sparsities=(0.5,))
    with pytest.raises(UserError, match="line 'l': pruner 'one-shot' does not train"):
        replace(line, **{name: OTHER[name]})


def test_a_pruner_goes_with_a_paradigm_and_an_objective_with_a_training_one() -> None:
    for wrong in (
        {"paradigm": "a"},
        {"pruner": "mask", "prune": "ce", "sparsities": (0.5,)},
        {"paradigm": "a", "pruner": "mask", "sparsities": (0.5,)},
        {"paradigm": "a", "pruner": "one-shot", "prune": "ce", "sparsities": (0.5,)},
        {"paradigm": "a", "pruner": "mask", "prune": "ce"},
    ):
        with pytest.raises(UserError, match="line 'l'"):
            Line("l", **wrong)  # type: ignore[arg-type]


# --- values --------------------------------------------------------------------------------------------------------

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("starts", (-0.1,), "from 0 to 1"),
        ("starts", (1.1,), "from 0 to 1"),
        ("starts", (0.5, NAN), "from 0 to 1"),
        ("starts", ("soon",), "from 0 to 1"),
        ("starts", (0.5, 0.5), "twice"),
        ("starts", ("auto", "auto"), "twice"),
        ("starts", (1, 1.0), "twice"),
        ("starts", (), "starts"),
        ("lengths", (0.0,), "positive"),
        ("lengths", (-1.0,), "positive"),
        ("lengths", (NAN,), "lengths"),
        ("lengths", (float("inf"),), "lengths"),
        ("lengths", (1.0, 1.0), "twice"),
        ("lengths", (), "lengths"),
        ("sparsities", (0.5, 0.5), "twice"),
    ],
)
def test_values_that_mean_nothing(name: str, values: tuple[Any, ...], words: str) -> None:
    with pytest.raises(UserError, match=f"line 'l'.*{words}"):
        replace(LINES["a"], **{name: values})


def test_values_at_their_limits() -> None:
    line = replace(LINES["a"], starts=(0.0, 1.0, "auto"), lengths=(0.01, 3.0), data="id+ood")
    assert (line.starts, line.lengths, line.data) == ((0.0, 1.0, "auto"), (0.01, 3.0), "id+ood")


@pytest.mark.parametrize("wrong", [{"paradigm": "d"}, {"data": "ood"}, {"finetune": "mse"}, {"prune": "mse"}], ids=str)
def test_unknown_names(wrong: dict[str, str]) -> None:
    with pytest.raises(UserError, match="unknown"):
        replace(LINES["a"], **wrong)  # type: ignore[arg-type]


# --- starts and lengths --------------------------------------------------------------------------------------------


def test_auto_needs_somebody_who_says_when() -> None:
    line = replace(LINES["a"], starts=(1.0, "auto"))
    for stopping in (None, TrainingSettings(steps=10)):
        with pytest.raises(UserError, match="recipe 'r': a line starts auto, but nothing says when"):
            recipe(line, stopping=stopping)
    patient = TrainingSettings(steps=10, patience=2)
    *_, point = recipe(line, stopping=patient, seeds=(4,)).points()
    assert isinstance(point.node, Prune)
    assert point.node.parent == FineTune(Pretrained("tiny", TASK, 4), CE(), replace(patient, seed=4))


def test_a_share_is_a_step_of_the_fine_tuning() -> None:
    made = recipe(LINES["a"])
    assert made.step_at(0.25, TrainingSettings(steps=300)) == 75
    assert made.step_at(0.001, TrainingSettings(steps=300)) == 1, "no step is too early"
    # 3 epochs of 100 rows in batches of 8 are ceil(37.5) = 38 steps
    assert made.step_at(0.5, TrainingSettings(epochs=3.0, batch_size=8)) == 19


def test_shares_that_fall_on_one_step_share_it() -> None:
    finetuning = TrainingSettings(steps=10)
    points = recipe(replace(LINES["a"], starts=(0.0, 0.29, 0.31, 0.5, 1.0)), finetuning=finetuning).points()
    raw = Pretrained("tiny", TASK, 0)
    way = Trajectory(raw, CE(), finetuning, (3, 5))
    parents = [point.node.parent for point in points]  # type: ignore[attr-defined]
    assert parents == [raw, Moment(way, 3), Moment(way, 3), Moment(way, 5), FineTune(raw, CE(), finetuning)]


def test_a_length_scales_steps_or_epochs() -> None:
    line = replace(LINES["a"], lengths=(0.5, 1.0, 2.0))

    def trainings(settings: TrainingSettings) -> list[TrainingSettings]:
        return [point.node.training for point in recipe(line, pruning=settings).points()]  # type: ignore[attr-defined]

    assert [made.steps for made in trainings(TrainingSettings(steps=90))] == [45, 90, 180]
    by_epochs = trainings(TrainingSettings(epochs=5.0))
    assert [(made.steps, made.epochs) for made in by_epochs] == [(None, 2.5), (None, 5.0), (None, 10.0)]


def test_no_length_is_too_short() -> None:
    (point,) = recipe(replace(LINES["a"], lengths=(0.001,))).points()
    assert isinstance(point.node, Prune)
    assert point.node.training.steps == 1


# --- identity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backbone", [EMBEDDED, "bert-base-uncased"])
def test_a_line_has_the_key_that_one_writes_by_hand(backbone: str) -> None:
    # otherwise `srnet prune` and `srnet run` would compute the same model twice
    settings = pruning_for(backbone)
    (point,) = recipe(LINES["c"], pruning=settings).points()
    by_hand = Prune(Pretrained("tiny", TASK, 0), MaskTraining(0.5), CE(), settings)
    assert point.node == by_hand
    assert point.node.key == by_hand.key


def test_the_data_of_a_line_reaches_every_level() -> None:
    line = Line("l", "c", pruner="imp", prune="ce", sparsities=(0.3, 0.6), data="id+ood")
    nodes = [point.node for point in recipe(line).points()]
    raw, training = Pretrained("tiny", TASK, 0), TrainingSettings(steps=90)
    assert nodes == [Prune(raw, IMP(s), CE(), training, "id+ood") for s in (0.3, 0.6)]
    assert len({node.levels.key for node in nodes if isinstance(node, Prune) and node.levels}) == 1


def test_a_teacher_and_ood_data_exclude_each_other() -> None:
    with pytest.raises(UserError, match="'confreg' has no teacher's answers"):
        recipe(replace(LINES["a"], prune="confreg", data="id+ood")).points()


# --- from yaml -----------------------------------------------------------------------------------------------------


def load(folder: Path, text: str) -> Recipe:
    (folder / "r.yaml").write_text(text)
    return load_recipe(folder / "r.yaml")


def test_lines_in_yaml_say_the_same(tmp_path: Path) -> None:
    text = """
task: inference
lines:
  - {label: x, paradigm: a, pruner: mask, prune: ce, sparsities: [0.5], starts: [0, 0.5], lengths: [0.5, 1]}
  - {label: y, paradigm: c, pruner: mask, prune: ce, sparsities: [0.5], data: id+ood, backbone: other}
"""
    said = (
        replace(LINES["a"], label="x", starts=(0.0, 0.5), lengths=(0.5, 1.0)),
        replace(LINES["c"], label="y", data="id+ood", backbone="other"),
    )
    assert load(tmp_path, text).lines == with_controls(said)
    assert load(tmp_path, text + "control: false\n").lines == said


def test_a_line_in_yaml_may_start_by_itself(tmp_path: Path) -> None:
    text = """
task: inference
stopping: {steps: 50, patience: 3, min_gain: 1}
lines: [{label: x, paradigm: a, pruner: mask, prune: ce, sparsities: [0.5], starts: [0.5, auto]}]
"""
    made = load(tmp_path, text)
    assert made.lines[-1].starts == (0.5, "auto")
    assert made.stopping is not None
    assert (made.stopping.steps, made.stopping.patience, made.stopping.min_gain) == (50, 3, 1.0)


@pytest.mark.parametrize("start", ["soon", "true", "-1", "[0.5]"])
def test_a_bad_start_in_yaml_is_named(start: str, tmp_path: Path) -> None:
    line = f"{{label: x, paradigm: a, pruner: mask, prune: ce, sparsities: [0.5], starts: [{start}]}}"
    with pytest.raises(UserError, match=r"r\.yaml: line 1.*starts"):
        load(tmp_path, f"task: inference\nlines: [{line}]")
