"""Recipes as users write them: what is right is understood, what is wrong is named."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fuzz.valid import write_published, write_task
from refusals import refused

from srnet.core.errors import UserError
from srnet.core.names import EMBEDDED
from srnet.experiment.nodes.bias import BiasSpec
from srnet.masks.targets import Targets
from srnet.pruners.static import StaticShared
from srnet.recipes.files import load_recipe
from srnet.recipes.paradigms import Search, full, in_isolation, of_fine_tuned, of_raw
from srnet.recipes.profiles import FINETUNING, PRUNING, pruning_for
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import _load_task_file
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.settings import TrainingSettings

GOOD = """
name: mine
backbone: ../models/bert
seeds: [3, 1]
task:
  name: nli
  labels: [entailment, neutral, contradiction]
  train: train.tsv
  dev: dev.tsv
  ood: {hans: hans.tsv, more: /data/more.tsv}
  text_b: hypothesis
  metric: f1
finetuning: {learning_rate: 5e-5, epochs: 3, batch_size: 16}
pruning: {learning_rate: 1.0e-4, steps: 100}
bias: {shortcut: overlap, folds: 3}
lines:
  - label: full
  - {label: masks, paradigm: a, pruner: mask, prune: poe, sparsities: [0.5, 0.7], options: {init: soft}}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_a_whole_recipe(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, GOOD))
    task = FilesTask(
        "nli",
        ("entailment", "neutral", "contradiction"),
        str(tmp_path / "train.tsv"),
        str(tmp_path / "dev.tsv"),
        (("hans", str(tmp_path / "hans.tsv")), ("more", "/data/more.tsv")),
        text_b="hypothesis",
        metric="f1",
    )
    assert recipe.task == task
    profile = recipe.profile
    assert (recipe.name, profile.backbone, profile.seeds) == ("mine", "../models/bert", (3, 1))
    assert profile.finetuning == TrainingSettings(learning_rate=5e-5, epochs=3.0, batch_size=16)
    assert profile.pruning == TrainingSettings(learning_rate=1e-4, epochs=5, steps=100)
    assert profile.bias == BiasSpec("overlap", folds=3)
    masks = Search("mask", "poe", (0.5, 0.7), {"init": "soft"})
    assert recipe.figure(profile) == [*full(profile, "full"), *of_fine_tuned(profile, "masks", masks)]


def test_the_shortest_recipe_has_the_settings_of_the_embedded_backbone(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, "task: paraphrase\nlines: [{label: full}]\nseeds: 2\n"))
    assert recipe.task == SyntheticTask("paraphrase")
    assert (recipe.name, recipe.seeds) == ("mine", (0, 1))
    profile = recipe.profile
    assert (profile.finetuning, profile.pruning) == (FINETUNING, PRUNING)


def test_a_task_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "{name: inference, train_size: 100, noise: 0.2}")
    assert _load_task_file(path) == SyntheticTask("inference", noise=0.2, train_size=100)


# --- lines ---------------------------------------------------------------------------------------------------------

TASK = {"name": "inference", "train_size": 20, "dev_size": 5, "ood_size": 5}


def load(folder: Path, *lines: Any, **more: Any) -> Recipe:
    return load_recipe(write(folder, yaml.safe_dump({"task": TASK, "lines": list(lines), "control": False, **more})))


MASK = {"label": "x", "pruner": "mask", "prune": "ce", "sparsities": [0.5]}
STATIC = {**MASK, "paradigm": "c", "pruner": "smp-s"}


def test_a_line_is_a_call_of_its_paradigm(tmp_path: Path) -> None:
    lines = (
        {**MASK, "label": "a", "paradigm": "a", "finetune": "poe", "starts": [0, 0.5, "auto"], "lengths": [0.5, 1]},
        {**MASK, "label": "b", "paradigm": "b", "isolated": "poe", "lengths": [2], "distil": True},
        {**MASK, "label": "c", "paradigm": "c", "data": "id+ood", "backbone": "other", "lengths_at": {0.5: 2}},
    )
    recipe = load(tmp_path, {"label": "full"}, *lines, stopping={"steps": 50, "patience": 3, "min_gain": 1})
    profile, search = recipe.profile, Search("mask", "ce", (0.5,))
    assert profile.stopping is not None
    assert (profile.stopping.steps, profile.stopping.patience, profile.stopping.min_gain) == (50, 3, 1.0)
    varied, longer = replace(search, lengths=(0.5, 1.0)), replace(search, lengths=(2.0,), distil=True)
    with_ood = replace(search, data="id+ood", lengths_at={0.5: 2.0})
    assert list(recipe.points) == [
        *full(profile, "full"),
        *of_fine_tuned(profile, "a", varied, finetune="poe", starts=(0.0, 0.5, "auto")),
        *in_isolation(profile, "b", longer, isolated="poe"),
        *of_raw(profile, "c", with_ood, backbone="other"),
    ]


KEYS = {
    "finetune": "poe", "prune": "poe", "isolated": "poe", "sparsities": [0.3], "options": {"init": "soft"},
    "starts": [0.5], "after": "poe", "lengths": [0.5], "data": "id+ood", "backbone": "x", "distil": True,
    "options_at": {0.5: {"init": "soft"}}, "lengths_at": {0.5: 2.0},
    "update": "head", "weights": "int8",
}  # fmt: skip
REFUSED = {
    "full": {*KEYS} - {"finetune", "backbone", "after", "update", "weights"},
    "a": {"isolated", "update", "weights"},
    "b": {"starts", "after", "update", "weights"},
    "c": {"finetune", "isolated", "starts", "after", "update", "weights"},
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("paradigm", REFUSED)
def test_a_key_is_refused_or_changes_the_models(paradigm: str, key: str, tmp_path: Path) -> None:
    line = {"paradigm": paradigm, **({"label": "x"} if paradigm == "full" else MASK)}
    changed = {**line, key: KEYS[key]}
    if key in REFUSED[paradigm]:
        with refused("line 1 'x'", f"paradigm {paradigm}", f"'{key}'", "label"):
            load(tmp_path, changed)
    else:
        assert load(tmp_path, changed).points != load(tmp_path, line).points


@pytest.mark.parametrize(("key", "known"), [("update", "lora"), ("weights", "int8")])
def test_values_that_make_no_sense_are_refused(key: str, known: str, tmp_path: Path) -> None:
    with refused("line 1 'x'", key, known):
        load(tmp_path, {"label": "x", key: "int4"}).points  # noqa: B018


def test_options_of_a_pruner_are_what_its_fields_ask_for(tmp_path: Path) -> None:
    options = {"penalty": "4e2", "targets": {"exclude": "outside-layers"}}
    recipe = load(
        tmp_path, {**STATIC, "options": options, "options_at": {0.5: {"temperature": 3}}}, words=["perhaps", "truly"]
    )
    (search,) = [point.search for point in recipe.points]
    assert search is not None
    assert search.pruner == StaticShared(0.5, penalty=400.0, targets=Targets(), temperature=3.0)
    assert recipe.profile.words == ("perhaps", "truly")
    own = recipe.profile.pruning_of["smp-s"]
    assert own == pruning_for(EMBEDDED, "smp-s"), "its own settings, though the file does not name them"


def test_settings_of_one_pruner_come_after_those_of_all(tmp_path: Path) -> None:
    # numbers without a dot, here as well
    line = {**MASK, "paradigm": "a", "sparsities": ["5e-1"]}
    recipe = load(tmp_path, line, pruning={"steps": 7}, pruning_of={"mask": {"learning_rate": "1e-3"}})
    (search,) = [point.search for point in recipe.points]
    assert search is not None
    assert (search.pruner.sparsity, search.training.learning_rate, search.training.steps) == (0.5, 1e-3, 7)


# --- mistakes ------------------------------------------------------------------------------------------------------

LINE = {**MASK, "paradigm": "a"}
IN_A_LINE = [
    ({"label": "x", "sparsity": 3}, "sparsity"),
    ({"paradigm": "a"}, "label"),
    ({"label": 3}, "label"),
    ({"label": "x", "paradigm": "a"}, "'pruner'"),
    (MASK, "'prune"),
    ({**LINE, "paradigm": "d"}, "'d'"),
    ({**LINE, "isolated": "ce"}, "'isolated'"),
    ({**LINE, "pruner": "lasso"}, "'lasso'"),
    ({**LINE, "pruner": ["mask"]}, "pruner"),
    ({**LINE, "prune": "mse"}, "'mse'"),
    ({"label": "x", "finetune": "mse"}, "'mse'"),
    ({**MASK, "paradigm": "b", "isolated": "mse"}, "'mse'"),
    ({"label": "x", "paradigm": "a", "pruner": "mask", "sparsities": [0.5]}, "'mask' needs"),
    ({**LINE, "pruner": "one-shot"}, "'one-shot' takes no"),
    ({**LINE, "options": {"phy": 1}}, "phy"),
    *(({**LINE, "starts": [start]}, "starts") for start in ("soon", True, -1, [0.5])),
    *(({**LINE, "sparsities": value}, "sparsit") for value in (0.5, ["half"], [], [1.0], [int("1" + 400 * "0")])),
    ({**LINE, "pruner": "imp", "sparsities": [0.55]}, "0.55"),
    ({**STATIC, "options_at": {0.6: {"ramp": 0.5}}}, "0.6"),
    ({**STATIC, "options_at": {0.5: {"ramp": "fast"}}}, "ramp"),
    ({**STATIC, "options_at": {0.5: {"lasso": 1}}}, "lasso"),
    ({**STATIC, "options": {"penalty": "much"}}, "penalty"),
    ({**LINE, "starts": ["auto"]}, "patience"),
]


@pytest.mark.parametrize(("line", "name"), IN_A_LINE, ids=lambda value: str(value)[:60])
def test_mistakes_in_a_line_are_named(line: Any, name: str, tmp_path: Path) -> None:
    with refused("mine.yaml: line 1", name):
        load(tmp_path, line)


FILES = {"name": "m", "labels": ["a", "b"], "train": "a.csv", "dev": "a.csv"}
IN_A_RECIPE = [
    ({"seedz": 2}, ("'seedz'", "control")),
    *(({"control": value}, ("control",)) for value in (1, "no", [], None)),
    *(({"lines": value}, ("lines",)) for value in ({"label": "x"}, [3])),
    *(({"lines": value}, ("label",)) for value in ([], [{"label": "x"}, {"label": "x"}])),
    ({"lines": [{**LINE, "sparsities": [0.5, 0.5]}]}, ("sparsity", "once")),
    *(({"seeds": value}, ("seed",)) for value in (None, "3", ["a"], True, [1, 1], [-1])),
    *(({key: value}, (key,)) for key, value in {"backbone": 5, "name": ["a"], "pruning_of": 5}.items()),
    ({"task": {"name": "inference", "size": 3}}, ("task", "'size'")),
    ({"task": {"name": "inference", "noise": "much"}}, ("task: noise", "'much'")),
    ({"task": {"name": "inference", "train_size": 1.5}}, ("task: train_size",)),
    ({"task": "gossip"}, ("'gossip'", "inference", "mnli")),
    ({"task": {"train": "a.csv", "name": "a"}}, ("task", "'labels'")),
    *(({"task": {**FILES, "labels": value}}, ("task: labels",)) for value in ([0, 1], [True, False], 5, "yes,no")),
    *(({"task": {**FILES, "ood": value}}, ("task: ood",)) for value in ("b.csv", {"h": 5})),
    *(({"task": {**FILES, "dev": value}}, ("task: dev",)) for value in (None, "a\0b")),
    *(({"finetuning": {"learning_rate": value}}, ("finetuning: learning_rate",)) for value in ("fast", None, math.inf)),
    ({"finetuning": {"seed": 1}}, ("finetuning", "seeds")),
    ({"finetuning": {"steps": 1, "epochs": 1}}, ("finetuning", "steps", "epochs")),
    *(({"pruning": {"steps": value}}, ("pruning: steps",)) for value in ("5e3", True, 0, 10**400)),
    ({"pruning": {"lr": 1}}, ("pruning", "'lr'", "learning_rate")),
    ({"pruning_of": {"lasso": {"steps": 3}}}, ("lasso",)),
    ({"pruning_of": {"mask": "fast"}}, ("mask",)),
    ({"bias": {"features": "all"}}, ("bias", "'features'")),
]


@pytest.mark.parametrize(("more", "names"), IN_A_RECIPE, ids=lambda value: str(value)[:60])
def test_mistakes_in_a_recipe_are_named(more: dict[str, Any], names: tuple[str, ...], tmp_path: Path) -> None:
    with refused("mine.yaml", *names):
        load(tmp_path, **{"lines": [{"label": "x"}], **more})


@pytest.mark.parametrize(
    ("text", "named"),
    [("task: inference", "'lines'"), ("lines: [{label: x}]", "'task'"), ("- task", "mapping"), ("", "mapping")],
)
def test_files_that_hold_no_recipe(text: str, named: str, tmp_path: Path) -> None:
    with refused("mine.yaml", named):
        load_recipe(write(tmp_path, text))


def test_a_message_quotes_little_of_a_long_value(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path, {"label": "x"}, seeds="x" * 100_000)
    assert len(str(error.value)) < 1500


def test_a_rate_that_nothing_uses_is_refused(tmp_path: Path) -> None:
    """With label words there is no classifier that static pruning could train."""
    rates = {"smp-s": {"learning_rate": 0.1}}
    assert load(tmp_path, STATIC, pruning_of=rates)
    with refused("pruning_of: smp-s"):
        load(tmp_path, STATIC, pruning_of=rates, words=["yes", "no"])


# --- tasks in files of their own -----------------------------------------------------------------------------------


def test_the_task_of_a_recipe_may_be_a_file_of_its_own(tmp_path: Path) -> None:
    """Its path starts from the folder of the recipe, and the paths in it from its own folder."""
    (tmp_path / "tasks").mkdir()
    file = tmp_path / "tasks" / "own.yml"
    file.write_text("{name: own, labels: ['yes', 'no'], train: a.csv, dev: ../b.csv}")
    recipe = load_recipe(write(tmp_path, "task: tasks/own.yml\nlines: [{label: full}]\n"))
    assert recipe.task == _load_task_file(file)
    assert isinstance(recipe.task, FilesTask)
    assert (recipe.task.train, recipe.task.dev) == (str(tmp_path / "tasks" / "a.csv"), str(tmp_path / "b.csv"))


@pytest.mark.parametrize(
    ("held", "named"), [(None, "No such file"), ("own.yaml", "own.yaml"), ("{name: inference, nois: 1}", "'nois'")]
)
def test_a_file_that_holds_no_task(held: str | None, named: str, tmp_path: Path) -> None:
    if held is not None:
        (tmp_path / "own.yaml").write_text(held)
    with refused("own.yaml", named):
        load_recipe(write(tmp_path, "{task: own.yaml, lines: [{label: full}]}"))


def described(folder: Path, ood: Any) -> Any:
    (folder / "d.yaml").write_text(json.dumps({"dataset": "snli", "data": "data", "ood": ood}))
    return _load_task_file(folder / "d.yaml")


def test_a_file_of_a_published_dataset_may_be_described(tmp_path: Path) -> None:
    write_published(tmp_path)
    task = described(tmp_path, {"hans": {"path": "hans.csv", "group": "text_b"}}).load()
    assert task.ood["hans"].groups == ("g",), "the group is the one that is named"
    assert task.ood["hans"].coarse is not None, "the classes are those that the dataset knows"
    for ood in (["hans"], {"hans": 3}, {"hans": {"file": "x"}}):
        with refused("d.yaml", "ood"):
            described(tmp_path, ood)


def test_a_file_of_ones_own_may_be_described(tmp_path: Path) -> None:
    spec = _load_task_file(write_task(tmp_path, ood={"hard": {"path": "ood.csv", "group": "label"}}))
    assert spec.load().ood["hard"].groups == ("no", "yes")  # type: ignore[union-attr]
