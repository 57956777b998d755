"""Recipes as users write them: what is right is understood, what is wrong is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from srnet.core.errors import UserError
from srnet.core.names import EMBEDDED
from srnet.experiment.nodes.bias import BiasSpec
from srnet.masks.targets import Targets
from srnet.pruners.static import StaticShared
from srnet.recipes.files import load_recipe
from srnet.recipes.paradigms import Search, full, in_isolation, of_fine_tuned, of_raw
from srnet.recipes.profiles import FINETUNING, PRUNING, pruning_for
from srnet.recipes.recipe import Recipe
from srnet.recipes.tasks import load_task_file
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


def test_numbers_without_a_dot_are_numbers(tmp_path: Path) -> None:
    # YAML reads 5e-5 as text
    text = "task: inference\nlines: [{label: full}]\nfinetuning: {learning_rate: 5e-5, warmup: 0}\n"
    settings = load_recipe(write(tmp_path, text)).profile.finetuning
    assert settings.learning_rate == 5e-5
    assert isinstance(settings.warmup, float)


def test_a_task_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "{name: inference, train_size: 100, noise: 0.2}")
    assert load_task_file(path) == SyntheticTask("inference", noise=0.2, train_size=100)


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
}  # fmt: skip
REFUSED = {
    "full": {*KEYS} - {"finetune", "backbone"},
    "a": {"isolated"},
    "b": {"starts", "after"},
    "c": {"finetune", "isolated", "starts", "after"},
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("paradigm", REFUSED)
def test_a_key_is_refused_or_changes_the_models(paradigm: str, key: str, tmp_path: Path) -> None:
    line = {"paradigm": paradigm, **({"label": "x"} if paradigm == "full" else MASK)}
    changed = {**line, key: KEYS[key]}
    if key in REFUSED[paradigm]:
        with pytest.raises(UserError, match=f"line 1 'x': paradigm {paradigm} has no key '{key}'; known: label"):
            load(tmp_path, changed)
    else:
        assert load(tmp_path, changed).points != load(tmp_path, line).points


def test_even_the_default_is_refused_where_it_has_no_meaning(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'isolated'"):
        load(tmp_path, {**MASK, "paradigm": "a", "isolated": "ce"})


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


def error_of(folder: Path, recipe: Any) -> str:
    """The message of the error that reading the recipe raises."""
    with pytest.raises(UserError) as error:
        load_recipe(write(folder, recipe if isinstance(recipe, str) else yaml.safe_dump(recipe)))
    return str(error.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({**MASK, "paradigm": "a", "as_long": True}, ("line 1", "as_long")),
        ({"label": "x", "sparsity": 3}, ("line 1", "sparsity")),
        (3, ("lines", "3 is not a mapping")),
        ({"paradigm": "a"}, ("line 1", "label")),
        ({"label": 3}, ("line 1", "label", "text")),
        ({"label": "x", "paradigm": "a"}, ("line 1 'x'", "'pruner' is missing")),
        (MASK, ("line 1 'x'", "paradigm full has no key 'prune")),
        ({**MASK, "paradigm": "d"}, ("line 1 'x'", "paradigm", "'d'")),
        ({**MASK, "paradigm": "a", "pruner": "lasso"}, ("unknown pruner 'lasso'", "imp-rw")),
        ({**MASK, "paradigm": "a", "prune": "mse"}, ("line 1 'x'", "unknown objective 'mse'")),
        ({"label": "x", "finetune": "mse"}, ("line 1 'x'", "unknown objective 'mse'", "confreg")),
        ({**MASK, "paradigm": "b", "isolated": "mse"}, ("line 1 'x'", "unknown objective 'mse'")),
        ({"label": "x", "paradigm": "a", "pruner": "mask", "sparsities": [0.5]}, ("line 1 'x'", "'mask' needs")),
        ({**MASK, "paradigm": "a", "pruner": "one-shot"}, ("line 1 'x'", "'one-shot' takes no")),
        ({**MASK, "paradigm": "a", "options": {"phy": 1}}, ("line 1 'x'", "phy")),
        *(({**MASK, "paradigm": "a", "starts": [start]}, ("starts",)) for start in ("soon", True, -1, [0.5])),
        *(
            ({**MASK, "paradigm": "a", "sparsities": value}, ("line 1 'x'", "sparsit"))
            for value in (0.5, ["half"], [], [1.0], [-0.1])
        ),
        ({**MASK, "paradigm": "a", "sparsities": [0.5, 0.5]}, ("each label, sparsity", "once")),
        ({**MASK, "paradigm": "a", "pruner": "imp", "sparsities": [0.55]}, ("line 1 'x'", "0.55")),
        ({**STATIC, "options_at": {0.6: {"ramp": 0.5}}}, ("line 1 'x'", "options_at", "0.6")),
        ({**STATIC, "lengths_at": {0.5: -2}}, ("line 1 'x'", "lengths", "positive")),
        ({**STATIC, "options_at": {0.5: {"ramp": "fast"}}}, ("line 1 'x'", "ramp", "number")),
        ({**STATIC, "options_at": {0.5: {"lasso": 1}}}, ("line 1 'x'", "lasso")),
        ({**STATIC, "options": {"penalty": "much"}}, ("line 1 'x'", "penalty", "number")),
        ({**MASK, "paradigm": "a", "starts": ["auto"]}, ("line 1 'x'", "auto", "patience")),
    ],
    ids=str,
)
def test_mistakes_in_a_line_are_named(line: Any, words: tuple[str, ...], tmp_path: Path) -> None:
    said = error_of(tmp_path, {"task": TASK, "lines": [line]})
    assert [word for word in ("mine.yaml", *words) if word not in said] == []


FILES = {"name": "m", "labels": ["a", "b"], "train": "a.csv", "dev": "a.csv"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"seedz": 2}, ("'seedz'", "control")),
        *(({"control": value}, ("control", "true or false")) for value in (1, "no", [], None)),
        ({"lines": {"label": "x"}}, ("lines", "list")),
        ({"lines": []}, ("needs models", "label")),
        ({"lines": [{"label": "x"}, {"label": "x"}]}, ("label",)),
        *(({"seeds": value}, ("seed",)) for value in (0, None, "3", ["a"], True, [1, 1])),
        ({"backbone": 5}, ("backbone",)),
        ({"axis": "time"}, ("axis",)),
        ({"task": {"name": "inference", "size": 3}}, ("task", "'size'")),
        ({"task": {"name": "inference", "noise": "much"}}, ("task: noise", "'much'")),
        ({"task": {"name": "inference", "train_size": 1.5}}, ("task: train_size", "whole number")),
        ({"task": "gossip"}, ("unknown task 'gossip'", "inference", "mnli")),
        ({"task": {"train": "a.csv", "name": "a"}}, ("task", "'labels' is missing")),
        *(({"task": {**FILES, "labels": value}}, ("task: labels",)) for value in ([0, 1], [True, False], 5, "yes,no")),
        *(({"task": {**FILES, "ood": value}}, ("task: ood",)) for value in ("b.csv", {"h": 5})),
        ({"task": {**FILES, "dev": None}}, ("task: dev",)),
        ({"finetuning": {"learning_rate": "fast"}}, ("finetuning: learning_rate", "'fast' is not a number")),
        ({"finetuning": {"learning_rate": None}}, ("finetuning: learning_rate",)),
        ({"finetuning": {"steps": 0}}, ("finetuning", "steps 0 is out of range")),
        ({"finetuning": {"seed": 1}}, ("finetuning", "seeds")),
        ({"finetuning": {"steps": 1, "epochs": 1}}, ("finetuning", "exclude each other")),
        ({"pruning": {"steps": "5e3"}}, ("pruning: steps", "whole number")),
        ({"pruning": {"steps": True}}, ("pruning: steps", "True is not")),
        ({"pruning": {"lr": 1}}, ("pruning", "'lr'", "learning_rate")),
        ({"pruning_of": 5}, ("pruning_of",)),
        ({"pruning_of": {"lasso": {"steps": 3}}}, ("lasso",)),
        ({"pruning_of": {"mask": "fast"}}, ("mask",)),
        ({"bias": {"features": "all"}}, ("bias", "'features'")),
        ({"bias": {"shortcut": "length"}}, ("length",)),
    ],
    ids=str,
)
def test_mistakes_are_named(more: dict[str, Any], words: tuple[str, ...], tmp_path: Path) -> None:
    said = error_of(tmp_path, {"task": TASK, "lines": [{"label": "x"}], **more})
    assert [word for word in ("mine.yaml", *words) if word not in said] == []


def test_the_task_of_a_recipe_may_be_a_file_of_its_own(tmp_path: Path) -> None:
    """Its path starts from the folder of the recipe, and the paths in it from its own folder."""
    (tmp_path / "tasks").mkdir()
    file = tmp_path / "tasks" / "own.yml"
    file.write_text("{name: own, labels: ['yes', 'no'], train: a.csv, dev: ../b.csv}")
    recipe = load_recipe(write(tmp_path, "task: tasks/own.yml\nlines: [{label: full}]\n"))
    assert recipe.task == load_task_file(file)
    assert isinstance(recipe.task, FilesTask)
    assert (recipe.task.train, recipe.task.dev) == (str(tmp_path / "tasks" / "a.csv"), str(tmp_path / "b.csv"))


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (None, ("own.yaml cannot be read",)),
        ("own.yaml", ("own.yaml", "holds the name of a file")),
        ("{name: inference, nois: 1}", ("own.yaml", "unknown key 'nois'")),
    ],
)
def test_a_file_that_holds_no_task(held: str | None, words: tuple[str, ...], tmp_path: Path) -> None:
    if held is not None:
        (tmp_path / "own.yaml").write_text(held)
    said = error_of(tmp_path, "{task: own.yaml, lines: [{label: full}]}")
    assert [word for word in ("mine.yaml", *words) if word not in said] == []


def test_a_rate_that_nothing_uses_is_refused(tmp_path: Path) -> None:
    """With label words there is no classifier that static pruning could train."""
    line = {"label": "smp", "paradigm": "c", "pruner": "smp-s", "prune": "ce", "sparsities": [0.5]}
    given = {"task": "inference", "lines": [line], "pruning_of": {"smp-s": {"learning_rate": 0.1}}}
    assert load_recipe(write(tmp_path, yaml.safe_dump(given)))
    said = error_of(tmp_path, {**given, "words": ["yes", "no"]})
    assert "pruning_of: smp-s" in said
    assert "nothing but scores trains" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("task: inference", ("'lines' is missing",)),
        ("lines: [{label: x}]", ("'task' is missing",)),
        ("- task", ("mapping",)),
        ("", ("mapping",)),
        ("task: [", ("is not YAML", "line 1")),
    ],
)
def test_files_that_hold_no_recipe(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    said = error_of(tmp_path, text)
    assert [word for word in ("mine.yaml", *words) if word not in said] == []


def test_a_missing_or_binary_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine\.yaml cannot be read: No such file"):
        load_recipe(tmp_path / "mine.yaml")
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"mine\.yaml cannot be read"):
        load_recipe(tmp_path / "mine.yaml")
