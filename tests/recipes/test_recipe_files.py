"""Recipes as users write them: what is right is understood, what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from srnet.errors import UserError
from srnet.experiment import BiasSpec
from srnet.masks import Targets
from srnet.names import EMBEDDED
from srnet.pruners import StaticShared
from srnet.recipes import Line, load_recipe
from srnet.recipes.spec import load_task_file
from srnet.recipes.toy import FINETUNING, PRUNING
from srnet.recipes.usual import pruning_for
from srnet.tasks.files import FilesTask
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

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
    assert recipe.lines == (
        Line("full"),
        Line("full, trained as long", as_long=True),
        Line("masks", "a", pruner="mask", prune="poe", sparsities=(0.5, 0.7), options=(("init", "soft"),)),
    )
    assert (recipe.name, recipe.backbone, recipe.seeds) == ("mine", "../models/bert", (3, 1))
    assert recipe.finetuning == TrainingSettings(learning_rate=5e-5, epochs=3.0, batch_size=16)
    assert recipe.pruning == TrainingSettings(learning_rate=1e-4, epochs=5, steps=100)
    assert recipe.bias == BiasSpec("overlap", folds=3)


def test_the_shortest_recipe_has_the_settings_of_the_embedded_backbone(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, "task: paraphrase\nlines: [{label: full}]\nseeds: 2\n"))
    assert recipe.task == SyntheticTask("paraphrase")
    assert (recipe.name, recipe.seeds) == ("mine", (0, 1))
    assert (recipe.finetuning, recipe.pruning, recipe.pruning_of) == (FINETUNING, PRUNING, ())


def test_numbers_without_a_dot_are_numbers(tmp_path: Path) -> None:
    # YAML reads 5e-5 as text
    text = "task: inference\nlines: [{label: full}]\nfinetuning: {learning_rate: 5e-5, warmup: 0}\n"
    settings = load_recipe(write(tmp_path, text)).finetuning
    assert settings.learning_rate == 5e-5
    assert isinstance(settings.warmup, float)


def test_a_task_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "{name: inference, train_size: 100, noise: 0.2}")
    assert load_task_file(path) == SyntheticTask("inference", noise=0.2, train_size=100)


LINE = "{label: x, paradigm: a, pruner: mask, prune: ce, sparsities: [0.5]}"


def AT(more: str) -> str:
    return f"{{label: x, paradigm: c, pruner: smp-s, prune: ce, sparsities: [0.5], {more}}}"


def test_options_of_a_pruner_are_what_its_fields_ask_for(tmp_path: Path) -> None:
    options = "options: {penalty: 4e2, targets: {exclude: outside-layers}}, options_at: {0.5: {temperature: 3}}"
    recipe = load_recipe(write(tmp_path, f"task: inference\nlines: [{AT(options)}]\nwords: [perhaps, truly]\n"))
    assert recipe.lines[-1].make_pruner(0.5) == StaticShared(0.5, penalty=400.0, targets=Targets(), temperature=3.0)
    assert recipe.words == ("perhaps", "truly")
    ((name, settings),) = recipe.pruning_of
    assert (name, settings) == ("smp-s", pruning_for(EMBEDDED, "smp-s")), "its own settings, though nobody named them"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("task: inference\nlines: [{label: x}]\nseedz: 2", ("mine.yaml", "'seedz'", "known: name, task", "control")),
        *(
            (
                f"task: inference\nlines: [{{label: x}}]\ncontrol: {value}",
                ("mine.yaml: control", "is not true or false"),
            )
            for value in ("1", "'no'", "2 epochs", "[]", "null")
        ),
        (f"task: inference\nlines: [{LINE[:-1]}, as_long: true}}]", ("line 'x'", "has no use for 'as_long'")),
        ("task: inference\nlines: [{label: x, as_long: 2}]", ("line 1: as_long", "2 is not true or false")),
        ("task: inference", ("mine.yaml", "'lines' is missing")),
        ("lines: [{label: x}]", ("mine.yaml", "'task' is missing")),
        ("- task", ("mine.yaml", "must hold a mapping")),
        ("", ("mine.yaml", "must hold a mapping")),
        ("task: [", ("mine.yaml", "is not YAML", "line 1")),
        ("task: inference\nlines: {label: x}", ("mine.yaml", "lines must be a list")),
        ("task: inference\nlines: [3]", ("mine.yaml", "line 1: a mapping is needed")),
        ("task: inference\nlines: [{label: x}, {label: y, sparsity: 3}]", ("mine.yaml", "line 2", "'sparsity'")),
        ("task: inference\nlines: [{paradigm: a}]", ("mine.yaml", "line 1", "'label' is missing")),
        ("task: inference\nlines: [{label: 3}]", ("mine.yaml", "line 1: label", "is not text")),
        ("task: {name: inference, size: 3}\nlines: [{label: x}]", ("mine.yaml: task", "'size'")),
        ("task: {name: inference, noise: much}\nlines: [{label: x}]", ("mine.yaml: task: noise", "'much'")),
        ("task: {name: inference, train_size: 1.5}\nlines: [{label: x}]", ("task: train_size", "whole number")),
        ("task: {train: a.csv, name: a}\nlines: [{label: x}]", ("mine.yaml: task", "'labels' is missing")),
        ("task: {train: a, dev: a, name: a, labels: [0, 1]}\nlines: [{label: x}]", ("task: labels", "is not text")),
        ("task: {train: a, dev: a, name: a, labels: [yes, no]}\nlines: [{label: x}]", ("task: labels", "quote it")),
        (
            "task: inference\nlines: [{label: x}]\nfinetuning: {learning_rate: fast}",
            ("mine.yaml: finetuning: learning_rate", "'fast' is not a number"),
        ),
        (
            "task: inference\nlines: [{label: x}]\npruning: {steps: 5e3}",
            ("mine.yaml: pruning: steps", "'5e3' is not a whole number"),
        ),
        ("task: inference\nlines: [{label: x}]\npruning: {steps: true}", ("mine.yaml: pruning: steps", "True is not")),
        ("task: inference\nlines: [{label: x}]\npruning: {lr: 1}", ("mine.yaml: pruning", "'lr'", "learning_rate")),
        ("task: inference\nlines: [{label: x}]\nbias: {features: all}", ("mine.yaml: bias", "'features'")),
        ("task: inference\nlines: [{label: x}]\nfinetuning: {steps: 0}", ("steps must be at least 1",)),
        ("task: inference\nlines: [{label: x}]\nseeds: 0", ("'mine'", "at least one seed")),
        (f"task: inference\nlines: [{AT('options_at: {0.6: {ramp: 0.5}}')}]", ("'x'", "options_at names 0.6")),
        (f"task: inference\nlines: [{AT('lengths_at: {0.5: -2}')}]", ("'x'", "lengths must be positive")),
        (f"task: inference\nlines: [{AT('options_at: {0.5: {ramp: fast}}')}]", ("options_at: 0.5: ramp", "number")),
        (f"task: inference\nlines: [{AT('options: {penalty: much}')}]", ("options: penalty", "not a number")),
        (f"task: inference\nlines: [{AT('options_at: {0.5: {lasso: 1}}')}]", ("'x'", "lasso")),
        ("task: gossip\nlines: [{label: x}]", ("unknown task 'gossip'", "inference, mnli, mrpc, paraphrase")),
        (f"task: inference\nlines: [{LINE.replace('mask', 'lasso')}]", ("unknown pruner 'lasso'", "imp-rw")),
        (f"task: inference\nlines: [{LINE.replace('0.5', '1.0')}]", ("sparsity 1 is out of range",)),
        (f"task: inference\nlines: [{LINE.replace('0.5', '-0.1')}]", ("sparsity -0.1 is out of range",)),
        (f"task: inference\nlines: [{LINE.replace('[0.5]', '[]')}]", ("line 'x'", "names no sparsities")),
        (f"task: inference\nlines: [{LINE.replace('paradigm: a', 'paradigm: d')}]", ("'d' is not one of",)),
        (f"task: inference\nlines: [{LINE.replace('paradigm: a, ', '')}]", ("line 'x'", "paradigm a, b or c")),
        ("task: inference\nlines: [{label: x, paradigm: a}]", ("line 'x'", "a pruner goes with paradigm")),
        (f"task: inference\nlines: [{LINE.replace('prune: ce, ', '')}]", ("line 'x'", "'mask' needs")),
        (f"task: inference\nlines: [{LINE.replace('mask', 'one-shot')}]", ("line 'x'", "'one-shot' takes no")),
        (f"task: inference\nlines: [{LINE[:-1]}, options: {{phy: 1}}}}]", ("line 'x'", "'phy'")),
        ("task: inference\nlines: [{label: x, finetune: mse}]", ("unknown objective 'mse'", "ce, confreg, group-dro")),
        (f"task: inference\nlines: [{LINE}, {LINE}]", ("recipe 'mine'", "labels of their own")),
        (f"task: inference\nlines: [{LINE.replace('mask', 'imp').replace('0.5', '0.55')}]", ("0.55", "choose one of")),
    ],
)
def test_mistakes_are_named(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        load_recipe(write(tmp_path, text))
    assert [word for word in words if word not in str(error.value)] == []


def test_an_unknown_pruning_objective_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown objective 'mse'"):
        load_recipe(write(tmp_path, f"task: inference\nlines: [{LINE.replace('ce', 'mse')}]")).points()


def test_a_missing_or_binary_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine\.yaml cannot be read: No such file"):
        load_recipe(tmp_path / "mine.yaml")
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"mine\.yaml cannot be read"):
        load_recipe(tmp_path / "mine.yaml")
