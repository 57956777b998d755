"""Language models from YAML to the store: every pruner, distillation, `balance`, its controls, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from commands import Shell
from methods import FROZEN, METHODS, STEERED
from refusals import refused
from tiny_language import MODELS, tokenizer, write_language_model, write_pairs, write_texts

import srnet
from srnet.core.files import read_json
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import ObjectiveSources, make_objective
from srnet.experiment.nodes.training import Prune
from srnet.masks.targets import Targets
from srnet.models.backbones import load_backbone
from srnet.models.heads import LANGUAGE
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.wanda import Wanda
from srnet.recipes.tasks import read_task
from srnet.tasks.base import TaskSpec
from srnet.training.settings import TrainingSettings

SHORT = {"steps": 10, "eval_every": 5, "batch_size": 4, "max_length": 16, "learning_rate": 1e-3}
LONGER = {"steps": 60, "eval_every": 20, "batch_size": 6, "score_rate": 2e-2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("language")


@pytest.fixture(scope="module")
def llama(folder: Path) -> str:
    return write_language_model(folder / "llama", "llama, tied")


@pytest.fixture(scope="module")
def stories(folder: Path) -> TaskSpec:
    path = str(write_texts(folder).rename(folder / "few.txt"))
    return read_task({"answer": "text", "name": "stories", "train": path, "dev": path}, "task")


@pytest.fixture(scope="module")
def stereotypes(folder: Path) -> TaskSpec:
    described = {"answer": "pairs", "train": "pairs.csv", "dev": "pairs.csv", "neutral": "many.txt"}
    write_pairs(folder)
    write_texts(folder, 4).rename(folder / "many.txt")
    return read_task(described, "task", folder)


# --- every pruner --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_every_pruner_prunes_a_decoder(name: str, llama: str, stories: TaskSpec, engine: Engine) -> None:
    training = SHORT if METHODS[name].trains else None
    found = srnet.prune(stories, METHODS[name], backbone=llama, training=training, engine=engine)
    assert set(found.scores["dev"]["metrics"]) == {"perplexity", "nll"}
    if name not in STEERED:
        assert found.sparsity == pytest.approx(0.5, abs=1e-3)
    made = Subnetwork.load(found.folder)
    assert made.mask is not None
    assert all("embed" not in each and "lm_head" not in each for each in made.mask)
    if name in FROZEN or not METHODS[name].trains:
        assert not made.weights, "the full model and a mask are all"


@pytest.mark.parametrize(("granularity", "sparsity"), [("head", 0.285), ("neuron", 0.3)])
@pytest.mark.parametrize("name", ["mask", "one-shot", "wanda", "movement"])
def test_units_of_a_decoder(
    granularity: str, sparsity: float, name: str, folder: Path, stories: TaskSpec, engine: Engine
) -> None:
    backbone = write_language_model(folder / f"{granularity}-{name}", "gpt2")
    pruner: Any = type(METHODS[name])(sparsity, granularity=(granularity,))
    training = SHORT if pruner.trains else None
    assert srnet.prune(stories, pruner, backbone=backbone, training=training, engine=engine).sparsity > 0.0


@pytest.mark.parametrize("name", MODELS)
def test_the_output_layer_is_never_masked(name: str, tmp_path: Path) -> None:
    model = load_backbone(write_language_model(tmp_path / "lm", name), (), 0, LANGUAGE).model
    output = {id(each) for each in model.get_output_embeddings().parameters()}
    output |= {id(each) for each in model.get_input_embeddings().parameters()}
    for targets in (Targets(), Targets(exclude="outside-stack"), Targets(exclude=())):
        assert not [n for n, layer in targets.find(model).items() if {id(p) for p in layer.parameters()} & output]
    own = next(n for n, m in model.named_modules() if m is model.get_output_embeddings())
    with refused(own):
        Targets(modules=(own.rsplit(".", 1)[-1],), exclude=()).find(model)


# --- distillation, balance and its controls ------------------------------------------------------------------------


def test_distillation_from_the_full_model(llama: str, stories: TaskSpec, engine: Engine) -> None:
    def trained(**how: Any) -> tuple[str, float]:
        found = srnet.prune(stories, MaskTraining(0.5), backbone=llama, training=LONGER, engine=engine, **how)
        model = srnet.load_subnetwork(found.folder)
        ids = torch.arange(5, 25)[None]
        with torch.no_grad():
            ours, theirs = (m(input_ids=ids).logits.log_softmax(-1) for m in (model, full))
        return found.key, float((theirs.exp() * (theirs - ours)).sum(-1).mean())

    full = load_backbone(llama, (), 0, LANGUAGE).model
    plain, taught = trained(), trained(distil=1.0)
    assert plain[0] != taught[0]
    assert taught[1] < 0.8 * plain[1]


def test_balance_moves_the_pairs_and_its_controls_do_not(llama: str, stereotypes: TaskSpec, engine: Engine) -> None:
    raw = Pretrained(llama, stereotypes)
    training = TrainingSettings(**LONGER)
    sources = ObjectiveSources(bias=pytest.fail, full=lambda: raw)

    def gap(objective: str) -> float:
        node = Prune(raw, MaskTraining(0.2), make_objective(objective, sources), training)
        engine.execute([node, Evaluate(node)])
        assert not Subnetwork.load(engine.store.path(node.key)).weights
        return float(
            read_json(engine.store.path(Evaluate(node).key) / "scores.json")["splits"]["dev"]["metrics"]["gap"]
        )

    balanced, without, permuted = map(gap, ("balance:keep=0.1", "balance:weight=0", "balance-permuted:keep=0.1"))
    assert balanced < 0.5 * without
    assert balanced < 0.8 * permuted


@pytest.mark.parametrize("name", ["movement", "l0", "smp-s", "magnitude"])
def test_balance_with_every_kind_of_training(name: str, llama: str, stereotypes: TaskSpec, engine: Engine) -> None:
    found = srnet.prune(stereotypes, METHODS[name], "balance", backbone=llama, training=SHORT, engine=engine)
    assert set(found.scores["dev"]["metrics"]) == {"ss", "gap", "lms", "icat"}
    assert set(found.scores["neutral"]["metrics"]) == {"perplexity", "nll"}
    assert set(found.scores["dev"]["groups"]) >= {"gender", "gender > target 0", "job"}


def test_balance_by_fine_tuning(llama: str, stereotypes: TaskSpec, engine: Engine) -> None:
    found = srnet.finetune(stereotypes, "balance", backbone=llama, training={**SHORT, "steps": 30}, engine=engine)
    raw = srnet.evaluate(llama, task=stereotypes, engine=engine)
    assert found.scores["dev"]["metrics"]["gap"] < raw.scores["dev"]["metrics"]["gap"]


def test_a_masked_language_model_is_balanced_too(folder: Path, stereotypes: TaskSpec, engine: Engine) -> None:
    bert = write_language_model(folder / "bert", "bert")
    found = srnet.prune(stereotypes, MaskTraining(0.2), "balance", backbone=bert, training=SHORT, engine=engine)
    assert found.sparsity == pytest.approx(0.2, abs=1e-3)


def test_the_same_model_under_a_key_and_in_a_folder(llama: str, stereotypes: TaskSpec, engine: Engine) -> None:
    pruned = srnet.prune(stereotypes, OneShot(0.5), backbone=llama, engine=engine)
    assert srnet.evaluate(pruned.key, engine=engine).scores == pruned.scores
    opened = srnet.evaluate(str(pruned.folder), task=stereotypes, engine=engine)
    for split, scores in pruned.scores.items():
        assert opened.scores[split]["metrics"] == pytest.approx(scores["metrics"], abs=1e-3)


# --- what is refused -----------------------------------------------------------------------------------------------


def written(folder: Path, model: Any) -> str:
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_a_classifier_is_no_language_model(kind: str, stories: TaskSpec, tmp_path: Path, engine: Engine) -> None:
    config = hf.AutoConfig.for_model(kind, **SIZES, pad_token_id=0)
    folder = written(tmp_path / "c", hf.AutoModelForSequenceClassification.from_config(config))
    with refused(folder, "language-model head", "ForSequenceClassification"):
        srnet.prune(stories, Wanda(0.5), backbone=folder, engine=engine)


def test_a_bare_encoder_is_no_language_model(stories: TaskSpec, tmp_path: Path) -> None:
    folder = written(tmp_path / "b", hf.AutoModel.from_config(hf.AutoConfig.for_model("bert", **SIZES)))
    with refused(folder, "language-model head"):
        srnet.evaluate(folder, task=stories)


def test_an_encoder_decoder_is_refused(stories: TaskSpec, tmp_path: Path) -> None:
    config = hf.T5Config(vocab_size=30, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    folder = written(tmp_path / "t5", hf.T5ForConditionalGeneration(config))
    with refused(folder, "encoder-decoder", "Llama"):
        srnet.evaluate(folder, task=stories)


def test_a_model_that_sees_the_predicted_token_is_refused(stories: TaskSpec, tmp_path: Path) -> None:
    config = hf.XLNetConfig(vocab_size=30, d_model=8, n_layer=1, n_head=2, d_inner=8)
    model = hf.XLNetLMHeadModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    with refused("later tokens", "decoder"):
        srnet.evaluate(written(tmp_path / "xlnet", model), task=stories)


def test_a_model_without_a_tokenizer_is_refused(stories: TaskSpec, tmp_path: Path) -> None:
    config = hf.AutoConfig.for_model("llama", **SIZES)
    hf.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "lm")
    with refused("tokenizer"):
        srnet.evaluate(str(tmp_path / "lm"), task=stories)


def test_balance_needs_pairs_and_text(
    llama: str, stories: TaskSpec, folder: Path, tiny_backbone: str, engine: Engine
) -> None:
    how: Any = {"training": SHORT, "engine": engine}
    with refused("balance", "pairs", "stories"):
        srnet.prune(stories, MaskTraining(0.5), "balance", backbone=llama, **how)
    silent = read_task(
        {"answer": "pairs", "train": str(folder / "pairs.csv"), "dev": str(folder / "pairs.csv")}, "task"
    )
    with refused("balance", "neutral"):
        srnet.prune(silent, MaskTraining(0.5), "balance", backbone=llama, **how)
    classes = srnet.SyntheticTask("inference", train_size=20)
    teacher = srnet.finetune(classes, backbone=tiny_backbone, **how).key
    with refused("balance", "pairs", "inference"):
        srnet.prune(classes, MaskTraining(0.5), "balance", backbone=tiny_backbone, teacher=teacher, **how)


@pytest.mark.parametrize(("kind", "objective"), [("pairs", "balance"), ("pairs", "ce"), ("text", "ce")])
def test_a_batch_in_parts(
    kind: str, objective: str, llama: str, stories: TaskSpec, stereotypes: TaskSpec, engine: Engine
) -> None:
    task = stories if kind == "text" else stereotypes
    distil = 0.5 if kind == "text" else None
    whole, parts, other = (
        srnet.finetune(
            task, objective, backbone=llama, training={**SHORT, "steps": steps, "accumulate": count}, distil=distil,
            engine=engine,
        )
        for count, steps in ((1, 6), (4, 6), (1, 4))
    )  # fmt: skip
    split, metric = ("dev", "nll") if kind == "text" else ("neutral", "nll")
    ours, theirs, shorter = (each.scores[split]["metrics"][metric] for each in (parts, whole, other))
    assert ours == pytest.approx(theirs, abs=2e-4)
    assert abs(shorter - theirs) > 2e-4, "the training changes the score by more than that"


def test_what_is_for_classifiers_alone(llama: str, stories: TaskSpec, engine: Engine) -> None:
    with refused("stories", "label words"):
        Pretrained(llama, stories, words=("a", "b"))
    with refused("stories", f"--backbone {llama}"):
        srnet.prune(llama, Wanda(0.5), task=stories, engine=engine)
    with refused("token"):
        srnet.evaluate(
            srnet.prune(stories, OneShot(0.5), backbone=llama, engine=engine).folder,
            task=srnet.SyntheticTask("inference", train_size=20, dev_size=20, ood_size=20),
        )


def test_a_bias_model_needs_classes(llama: str, stories: TaskSpec, engine: Engine) -> None:
    with refused("bias model", "classes", "stories"):
        srnet.prune(stories, MaskTraining(0.5), "poe", backbone=llama, training=SHORT, engine=engine)


# --- the command line ----------------------------------------------------------------------------------------------


def test_from_yaml_to_scores(shell: Shell, folder: Path, llama: str, stories: TaskSpec, stereotypes: TaskSpec) -> None:
    for (name, metric), described in {
        ("stories", "perplexity"): {
            "answer": "text",
            "train": str(folder / "few.txt"),
            "dev": str(folder / "few.txt"),
        },
        ("pairs", "ss"): {"answer": "pairs", "train": str(folder / "pairs.csv"), "dev": str(folder / "pairs.csv")},
    }.items():
        file = folder / f"{name}.yaml"
        file.write_text(json.dumps(described))
        assert shell("data", "check", file).code == 0
        pruned = shell("prune", "--task", file, "--backbone", llama, "--pruner", "wanda", "--sparsity", "0.5", "--json")
        assert pruned.code == 0, pruned.err
        key = pruned.json["key"]
        assert shell("evaluate", key, "--json").json["scores"] == pruned.json["scores"]
        score = pruned.json["scores"]["dev"]["metrics"][metric]
        assert f"{score:.{1 if metric == 'ss' else 3}f}" in shell("evaluate", key).out
        assert metric in shell("evaluate", llama, "--task", file).out
