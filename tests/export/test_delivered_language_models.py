"""Subnetworks of language models in every form in which they leave: logits, generated text, cards, scores, refusals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from commands import Shell
from devices import second_device
from forging import MISSING, forge
from huggingface_hub import ModelCard
from refusals import refused
from small_models import pruned, random_units, unit_mask
from tiny_language import DECODERS, MODELS, WORDS, tokenizer, write_language_model, write_pairs, write_texts

import srnet
from srnet.core.sealed import LONGEST_TEXT
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.base import TaskSpec
from srnet.masks.parametrization import is_masked
from srnet.models.backbones import load_backbone
from srnet.models.formats.base import Source, get_format
from srnet.models.formats.card import scores_of_folder
from srnet.models.heads import LANGUAGE
from srnet.models.subnetwork import Subnetwork
from srnet.pruners.magnitude import OneShot
from srnet.pruners.mask_training import MaskTraining
from srnet.recipes.tasks import read_task

OUTPUTS = ("token",)
PROMPTS = ("the nurse is kind and", "a doctor", "banjo ran in the park .")
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "merged": ("merged", {}),
    "shrunk": ("shrunk", {}),
    "uniform": ("shrunk", {"uniform": True}),
    "subnetwork": ("subnetwork", {}),
}
every = pytest.mark.parametrize("name", MODELS)
decoders = pytest.mark.parametrize("name", DECODERS)


def tokens(prompts: tuple[str, ...] = PROMPTS) -> dict[str, torch.Tensor]:
    made = tokenizer()
    made.padding_side = "left"
    found = made(list(prompts), add_special_tokens=False, padding=True, return_tensors="pt")
    return {name: found[name] for name in ("input_ids", "attention_mask")}


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    found: torch.Tensor = model.eval()(**tokens()).logits
    return found[tokens()["attention_mask"].bool()]


def text(model: Any) -> list[str]:
    ids = model.generate(**tokens(), max_new_tokens=8, do_sample=False, pad_token_id=0)
    return list(tokenizer().batch_decode(ids))


def plain(folder: Path) -> Any:
    """The model as transformers alone loads it."""
    config = json.loads((folder / "config.json").read_text())
    auto = hf.AutoModelForMaskedLM if config["architectures"] == ["BertForMaskedLM"] else hf.AutoModelForCausalLM
    model, info = auto.from_pretrained(folder, output_loading_info=True)
    assert type(model).__module__.startswith("transformers.")
    assert not any(info.values()), info
    return model.eval()


@dataclass(frozen=True)
class Masked:
    """A model of somebody under trained masks on its neurons, and what it answers."""

    root: Path
    backbone: str
    subnetwork: Subnetwork
    logits: torch.Tensor
    text: list[str]
    baked: Any

    def export(self, kind: str) -> Path:
        out = self.root / kind
        if not out.exists():
            format, options = FORMATS[kind]
            get_format(format)(**options).write(Source(self.subnetwork), out)
        return out


def mask_in_own_loop(root: Path, name: str) -> Masked:
    backbone = write_language_model(root / "backbone", name)
    model: Any = plain(Path(backbone))
    pruning = srnet.attach(model, MaskTraining(0.4, granularity=("neuron",)), steps=4)
    optimizer = torch.optim.AdamW(pruning.parameters(), lr=0.1)
    batch = {**tokens(), "labels": tokens()["input_ids"]}
    for _ in range(4):
        (model(**batch).loss + pruning.penalty()).backward()
        optimizer.step()
        pruning.step()
        optimizer.zero_grad()
    assert is_masked(model)
    expected, said = logits(model), text(model) if name in DECODERS else []
    base = load_backbone(backbone, OUTPUTS, 0, LANGUAGE)
    made = Subnetwork.of(base, OUTPUTS, base.model.state_dict(), pruning.mask)
    return Masked(root, backbone, made, expected, said, pruning.bake())


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Masked]:
    return cache(lambda name: mask_in_own_loop(tmp_path_factory.mktemp("masked"), name))


# --- the same model ------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_logits_of_the_masked_model(
    kind: str, name: str, masked: Callable[[str], Masked]
) -> None:
    each = masked(name)
    found = srnet.load_subnetwork(each.export(kind))
    torch.testing.assert_close(logits(found), each.logits, rtol=0, atol=1e-5)
    if name in DECODERS:
        assert text(found) == each.text


@every
@pytest.mark.parametrize("kind", ["merged", "uniform"])
def test_transformers_alone_reads_and_generates(kind: str, name: str, masked: Callable[[str], Masked]) -> None:
    each = masked(name)
    folder = each.export(kind)
    model, backbone = plain(folder), plain(Path(each.backbone))
    torch.testing.assert_close(logits(model), each.logits, rtol=0, atol=1e-5)
    if name in DECODERS:
        assert text(model) == each.text != text(backbone)
    ours, theirs = (hf.AutoTokenizer.from_pretrained(each) for each in (folder, each.backbone))
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours("the nurse ran")["input_ids"] == theirs("the nurse ran")["input_ids"]
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert tied == (backbone.get_output_embeddings().weight is backbone.get_input_embeddings().weight)
    for of in (lambda m: m.get_output_embeddings(), lambda m: m.get_input_embeddings()):
        assert torch.equal(of(model).weight, of(backbone).weight), "never masked"
    if kind == "uniform":
        assert model.num_parameters() < backbone.num_parameters()


@every
def test_a_baked_model_is_the_masked_one(name: str, masked: Callable[[str], Masked], tmp_path: Path) -> None:
    each = masked(name)
    torch.testing.assert_close(logits(each.baked), each.logits, rtol=0, atol=1e-5)
    each.baked.save_pretrained(tmp_path / "saved")
    again = plain(tmp_path / "saved")
    torch.testing.assert_close(logits(again), each.logits, rtol=0, atol=1e-5)
    if name in DECODERS:
        assert text(again) == each.text


def bits(model: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.clone().view(torch.int32) for name, tensor in model.state_dict().items()}


@every
def test_a_bank_switches_masks_and_restores_every_bit(
    name: str, masked: Callable[[str], Masked], tmp_path: Path
) -> None:
    each = masked(name)
    base = load_backbone(each.backbone, OUTPUTS, 0, LANGUAGE)
    other = Subnetwork.of(base, OUTPUTS, base.model.state_dict(), OneShot(0.3).mask(base.model))
    other.save_coded(tmp_path / "other")
    bank = srnet.MaskBank(each.backbone)
    bank.add("full")
    bank.add("balanced", each.export("subnetwork"))
    bank.add("other", tmp_path / "other")
    before = bits(bank.use("full"))
    assert all(torch.equal(t, before[n]) for n, t in bits(plain(Path(each.backbone))).items())
    for _ in range(2):
        with bank.using("balanced") as model:
            torch.testing.assert_close(logits(model), each.logits, rtol=0, atol=1e-5)
            if name in DECODERS:
                assert text(model) == each.text
            with bank.using("other") as model:
                expected = srnet.load_subnetwork(tmp_path / "other")
                assert torch.equal(logits(model), logits(expected))
        assert bank.current == "full"
        after = bits(bank.model)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[each], after[each]) for each in before)
        assert torch.equal(logits(bank.model), logits(plain(Path(each.backbone))))
    parameters = {id(p) for task in bank.names for p in bank.use(task).parameters()}
    assert len(parameters) == len(list(base.model.parameters())), "one model in memory, its output layer too"
    bank.save(tmp_path / "bank")
    assert srnet.MaskBank.load(tmp_path / "bank").names == ("full", "balanced", "other")


def test_a_bank_on_another_device(masked: Callable[[str], Masked], monkeypatch: pytest.MonkeyPatch) -> None:
    each = masked("llama")
    with second_device() as device:
        monkeypatch.setattr("srnet.models.bank.named_device", lambda name: device)
        bank = srnet.MaskBank(each.backbone, device="cuda")
        bank.add("full")
        bank.add("balanced", each.export("subnetwork"))
        inputs = {name: tensor.to(device) for name, tensor in tokens().items()}
        for name, expected in {"balanced": each.baked, "full": plain(Path(each.backbone))}.items():
            model = bank.use(name)
            assert {tensor.device for tensor in model.parameters()} == {device}
            with torch.no_grad():
                found, wanted = model(**inputs).logits.cpu(), expected(**tokens()).logits
            there = tokens()["attention_mask"].bool()
            torch.testing.assert_close(found[there], wanted[there], rtol=0, atol=1e-5)


def test_a_bank_of_an_architecture_without_classifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "cohere", ("cohere", {**MODELS["qwen2"][1], "bos_token_id": 2, "eos_token_id": 3}))
    backbone = write_language_model(tmp_path / "cohere", "cohere")
    bank = srnet.MaskBank(backbone)
    bank.add("full")
    assert torch.equal(logits(bank.use("full")), logits(plain(Path(backbone))))


def test_a_classifier_and_a_language_model_in_one_bank(tmp_path: Path) -> None:
    backbone = write_language_model(tmp_path / "llama", "llama")
    pruned(backbone, labels=("no", "yes")).save_coded(tmp_path / "classifier")
    pruned(backbone, head=LANGUAGE, labels=OUTPUTS).save_coded(tmp_path / "tuned")
    bank = srnet.MaskBank(backbone)
    for name in ("classifier", "tuned"):
        bank.add(name, tmp_path / name)
    bank.add("full")
    for name in ("full", "classifier", "full", "tuned", "classifier", "tuned"):
        expected = plain(Path(backbone)) if name == "full" else srnet.load_subnetwork(tmp_path / name)
        with torch.no_grad():
            found, wanted = (model(**tokens()).logits for model in (bank.use(name), expected))
        assert torch.equal(found, wanted)


@every
@pytest.mark.parametrize("kind", FORMATS)
def test_fine_tuned_models_without_some_heads_and_neurons(kind: str, name: str, tmp_path: Path) -> None:
    """Every tensor is another one than the backbone's, and whole attention parts may be gone."""
    backbone = write_language_model(tmp_path / "backbone", name)
    made = pruned(backbone, head=LANGUAGE, labels=OUTPUTS)
    expected = made.model(made.base())
    format, options = FORMATS[kind]
    get_format(format)(**options).write(Source(made), tmp_path / kind)
    found = srnet.load_subnetwork(tmp_path / kind)
    torch.testing.assert_close(logits(found), logits(expected), rtol=0, atol=1e-5)
    if name in DECODERS:
        assert text(found) == text(expected)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral, tied"])
@pytest.mark.parametrize("layer", [0, 1])
def test_generation_without_the_attention_of_a_layer(layer: int, name: str, tmp_path: Path) -> None:
    """The cache of the first layer counts the tokens, also where nothing attends."""
    backbone = write_language_model(tmp_path / "backbone", name)
    base = load_backbone(backbone, OUTPUTS, 0, LANGUAGE)
    keep = random_units(base.model, 0.0, 0)
    part = next(each for each in keep if f".{layer}." in each and "attn" in each)
    mask = unit_mask(base.model, {part: torch.zeros_like(keep[part])})
    made = Subnetwork.of(base, OUTPUTS, base.model.state_dict(), mask)
    expected = text(made.model(made.base()))
    get_format("shrunk")().write(Source(made), tmp_path / "shrunk")
    assert text(srnet.load_subnetwork(tmp_path / "shrunk")) == expected


def test_a_tied_matrix_is_written_once(masked: Callable[[str], Masked]) -> None:
    from safetensors import safe_open

    for name, count in {"llama, tied": 1, "llama": 2}.items():
        with safe_open(masked(name).export("shrunk") / "weights.safetensors", "pt") as file:
            shapes = [tuple(file.get_slice(each).get_shape()) for each in file.keys()]  # noqa: SIM118
        assert shapes.count((len(tokenizer()), 16)) == count


def test_a_folder_with_both_names_of_a_tied_matrix(masked: Callable[[str], Masked], tmp_path: Path) -> None:
    """As they were written before language models."""
    from safetensors.torch import load_file, save_file

    each = masked("llama, tied")
    folder = Path(shutil.copytree(each.export("shrunk"), tmp_path / "shrunk"))
    state = load_file(folder / "weights.safetensors")
    save_file({**state, "lm_head.weight": state["model.embed_tokens.weight"].clone()}, folder / "weights.safetensors")
    forge(folder)
    torch.testing.assert_close(logits(srnet.load_subnetwork(folder)), each.logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["merged", "shrunk", "uniform"])
def test_settings_of_generation_are_the_checkpoints(kind: str, tmp_path: Path) -> None:
    """Also those that transformers reads and refuses to write."""
    backbone = write_language_model(tmp_path / "backbone", "llama")
    settings = {"do_sample": False, "temperature": 0.3, "top_p": 0.9, "max_length": 7, "eos_token_id": 3}
    (tmp_path / "backbone" / "generation_config.json").write_text(json.dumps(settings))
    made = pruned(backbone, head=LANGUAGE, labels=OUTPUTS)
    format, options = FORMATS[kind]
    get_format(format)(**options).write(Source(made), tmp_path / kind)
    found = srnet.load_subnetwork(tmp_path / kind).generation_config.to_dict()
    assert {name: found[name] for name in settings} == settings


def test_a_long_text_is_not_cut_by_the_tokenizer(tmp_path: Path) -> None:
    """The length of training is in the manifest: sequences to generate may be longer."""
    from dataclasses import replace

    made = replace(pruned(write_language_model(tmp_path / "b"), head=LANGUAGE, labels=OUTPUTS), max_length=8)
    get_format("merged")().write(Source(made), tmp_path / "merged")
    assert hf.AutoTokenizer.from_pretrained(tmp_path / "merged").model_max_length > LONGEST_TEXT
    assert srnet.open_model(tmp_path / "merged").max_length == 8


def test_a_process_without_srnet(masked: Callable[[str], Masked]) -> None:
    code = """
import json, sys
sys.modules["srnet"] = None  # importing it would fail
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
torch.set_num_threads(1)
for folder in sys.argv[1:]:
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokens = tokenizer(json.loads(sys.stdin.readline()), add_special_tokens=False, padding=True, return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(folder)
    inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    ids = model.generate(**inputs, max_new_tokens=8, do_sample=False, pad_token_id=0)
    print(json.dumps(tokenizer.batch_decode(ids)))
"""
    each = masked("llama, tied")
    folders = [str(each.export(kind)) for kind in ("merged", "uniform")]
    given = f"{json.dumps(PROMPTS)}\n" * 2
    command = [sys.executable, "-c", code, *folders]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [each.text] * 2, ran.stderr


# --- from the command line to scores and cards ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_pairs(folder)
    write_texts(folder, 4)
    described = {
        "stories": {"answer": "text", "train": "texts.txt", "dev": "texts.txt", "ood": {"news": "texts.txt"}},
        "gender": {
            "answer": "pairs", "train": "pairs.csv", "dev": "pairs.csv", "ood": {"crows": "pairs.csv"},
            "neutral": "texts.txt", "metric": "icat",
        },
    }  # fmt: skip
    for name, each in described.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"name": name, **each}))
    return folder


def task_of(data: Path, name: str) -> TaskSpec:
    return read_task(json.loads((data / f"{name}.yaml").read_text()), "task", data)


COLUMNS = {"stories": ("perplexity", "nll"), "gender": ("ss", "gap", "lms", "icat", "perplexity", "nll")}


@pytest.mark.parametrize(
    ("name", "task"),
    [("llama, tied", "stories"), ("gpt2, untied", "gender"), ("bert", "stories"), ("bert", "gender")],
)
def test_from_a_key_to_folders_with_the_same_scores(
    name: str, task: str, shell: Shell, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backbone, file = write_language_model(tmp_path / "backbone", name), data / f"{task}.yaml"
    pruned = shell(
        "prune", "--task", file, "--backbone", backbone, "--pruner", "one-shot", "--sparsity", "0.4",
        "--granularity", "neuron", "--json", "--quiet",
    )  # fmt: skip
    assert pruned.code == 0, pruned.err
    key, stored = pruned.json["key"], pruned.json["scores"]
    for kind, (format, options) in FORMATS.items():
        out = tmp_path / kind
        flags = [f"--{option}" for option in options]
        exported = shell("export", key, "--format", format, *flags, "--out", out)
        assert exported.code == 0, exported.err
        again = shell("evaluate", out, "--task", file, "--json", "--quiet")
        assert again.code == 0, again.err
        assert again.json["sparsity"] == pytest.approx(pruned.json["sparsity"])
        for split, scores in stored.items():
            found = again.json["scores"][split]
            assert found["groups"].keys() == scores["groups"].keys()
            assert found["metrics"] == pytest.approx(scores["metrics"], abs=1e-3)
        check_card(out, name, task, stored)


def check_card(folder: Path, name: str, task: str, stored: dict[str, Any]) -> None:
    card = ModelCard.load(folder / "README.md")
    assert card.data.pipeline_tag == ("fill-mask" if name == "bert" else "text-generation")
    named = {(each.dataset_split, each.metric_type): each.metric_value for each in card.data.eval_results}
    wanted = {(split, metric): value for split, each in stored.items() for metric, value in each["metrics"].items()}
    assert named == pytest.approx(wanted, abs=6e-3)
    assert len(scores_of_folder(folder)) == len(wanted)
    header = next(line for line in card.content.splitlines() if line.startswith("| split"))
    assert set(header.strip("| ").split(" | ")) == {"split", "kind", *COLUMNS[task]}
    for split, each in stored.items():
        row = next(line for line in card.content.splitlines() if line.startswith(f"| {split} |"))
        for metric, value in each["metrics"].items():
            assert f" {value:.{1 if metric in ('ss', 'lms', 'icat') else 3}f} " in row
    assert "Labels" not in card.content
    assert "classif" not in card.content.lower()
    auto = "AutoModelForMaskedLM" if name == "bert" else "AutoModelForCausalLM"
    assert (auto in card.content) == (folder.name in ("merged", "uniform"))
    run_snippet(card.content, folder)


def run_snippet(card: str, folder: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    printed: list[str] = []
    exec(code.replace('"DIR"', repr(str(folder))), {"print": printed.append})
    assert printed
    assert set(printed[0].split()) & {*WORDS, *tokenizer().all_special_tokens}


def test_the_full_model_of_the_store_leaves_too(data: Path, tmp_path: Path, engine: Engine) -> None:
    backbone, task = write_language_model(tmp_path / "backbone", "gpt2"), task_of(data, "stories")
    tuned = srnet.finetune(task, backbone=backbone, training={"steps": 2, "batch_size": 2}, engine=engine)
    for format in ("merged", "subnetwork"):
        out = srnet.export_model(tuned.key, tmp_path / format, format=format, engine=engine)
        assert srnet.evaluate(out, task=task).scores == tuned.scores
    srnet.export_model(tuned.key, tmp_path / "half", format="subnetwork", dtype="float16", engine=engine)
    again = srnet.evaluate(tmp_path / "half", task=task).scores["dev"]["metrics"]["nll"]
    assert again == pytest.approx(tuned.scores["dev"]["metrics"]["nll"], abs=1e-2)


def test_scores_of_several_seeds_are_on_one_card(data: Path, tmp_path: Path, engine: Engine) -> None:
    backbone, task = write_language_model(tmp_path / "backbone", "llama"), task_of(data, "gender")
    keys = [
        srnet.finetune(
            task, backbone=backbone, training={"steps": 2, "batch_size": 2, "seed": seed}, engine=engine
        ).key
        for seed in range(3)
    ]  # fmt: skip
    srnet.export_model(keys[0], tmp_path / "merged", engine=engine)
    content = (tmp_path / "merged" / "README.md").read_text()
    row = next(line for line in content.splitlines() if line.startswith("| neutral |"))
    assert row.count("±") == 2
    assert "3 seeds" in content
    assert "Verdict" not in content


def test_a_manifest_from_before_language_models(tiny_backbone: str, tmp_path: Path) -> None:
    for kind in ("merged", "shrunk"):
        get_format(kind)().write(Source(pruned(tiny_backbone)), tmp_path / kind)
        forge(tmp_path / kind, language=MISSING)
        assert srnet.open_model(tmp_path / kind).labels == ("no", "yes", "maybe")


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_from_one_folder_to_another(name: str, masked: Callable[[str], Masked], tmp_path: Path) -> None:
    each = masked(name)
    for kind, (format, options) in FORMATS.items():
        srnet.export_model(each.export("subnetwork"), tmp_path / kind, format=format, **options)
        found = logits(srnet.load_subnetwork(tmp_path / kind))
        torch.testing.assert_close(found, each.logits, rtol=0, atol=1e-5)
    srnet.export_model(each.export("subnetwork"), tmp_path / "half", format="subnetwork", dtype="bfloat16")
    assert "None are on record" in (tmp_path / "half" / "README.md").read_text()


# --- refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_no_graph_of_a_language_model(name: str, shell: Shell, data: Path, tmp_path: Path) -> None:
    backbone = write_language_model(tmp_path / "b", name)
    pruned = shell(
        "prune", "--task", data / "stories.yaml", "--backbone", backbone, "--pruner", "one-shot", "--sparsity", "0.4",
        "--json", "--quiet",
    )  # fmt: skip
    for more in ((), ("--int8",)):
        line = shell.fails("export", pruned.json["key"], "--format", "onnx", *more, "--out", tmp_path / "onnx")
        assert "ONNX" in line
        assert "--format merged" in line
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize("name", ["llama", "llama, tied"])
def test_a_mask_of_another_model(name: str, masked: Callable[[str], Masked], tmp_path: Path) -> None:
    other = write_language_model(tmp_path / "other", name, seed=1)
    folder = masked(name).export("subnetwork")
    masked(name).subnetwork.save(tmp_path / "plain")
    bank = srnet.MaskBank(other)
    bank.add("full")
    before = bits(bank.use("full"))
    for wrong in (folder, tmp_path / "plain"):
        with refused("hash", other):
            bank.add("balanced", wrong)
    assert bank.names == ("full",)
    assert all(torch.equal(tensor, before[each]) for each, tensor in bits(bank.model).items())
    with refused(masked(name).export("merged"), "subnetwork"):
        bank.add("merged", masked(name).export("merged"))
    with refused("hash"):
        srnet.load_subnetwork(folder, backbone=other)


def test_folders_that_are_no_checkpoints(masked: Callable[[str], Masked], data: Path) -> None:
    for kind in ("shrunk", "subnetwork"):
        folder = masked("llama").export(kind)
        for use in (
            lambda: srnet.MaskBank(str(folder)),  # noqa: B023
            lambda: srnet.prune(task_of(data, "stories"), OneShot(0.5), backbone=str(folder)),  # noqa: B023
        ):
            with refused(folder):
                use()


def test_a_plain_checkpoint_is_no_subnetwork(masked: Callable[[str], Masked], tmp_path: Path) -> None:
    """Its head would be a classifier with random weights."""
    folder = Path(shutil.copytree(masked("llama").export("merged"), tmp_path / "merged"))
    (folder / "srnet.json").unlink()
    with refused(folder, "LlamaForCausalLM", "transformers"):
        srnet.load_subnetwork(folder)


def write_refused(kind: str, folder: Path) -> str:
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    if kind == "t5":
        made: Any = hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=30, d_model=8, d_ff=8, num_layers=1))
    else:
        made = hf.AutoModelForSequenceClassification.from_config(hf.BertConfig(**sizes, intermediate_size=16))
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(("kind", "named"), [("t5", "encoder-decoder"), ("classifier", "language-model head")])
def test_models_that_are_no_language_models(kind: str, named: str, shell: Shell, data: Path, tmp_path: Path) -> None:
    backbone = write_refused(kind, tmp_path / "backbone")
    bank = srnet.MaskBank(backbone)
    with refused(backbone, named):
        bank.add("full")
    assert bank.names == ()
    for task in ("stories", "gender"):
        how = ("--task", data / f"{task}.yaml")
        lines = [
            shell.fails("prune", *how, "--backbone", backbone, "--pruner", "one-shot", "--sparsity", "0.5"),
            shell.fails("finetune", *how, "--backbone", backbone),
            shell.fails("evaluate", backbone, *how),
        ]
        assert all(named in line for line in lines), lines


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_a_model_without_a_tokenizer(
    name: str, shell: Shell, data: Path, tmp_path: Path, masked: Callable[[str], Masked]
) -> None:
    backbone = Path(write_language_model(tmp_path / "backbone", name))
    for path in backbone.glob("tokenizer*"):
        path.unlink()
    how = ("--task", data / "stories.yaml")
    lines = [
        shell.fails("prune", *how, "--backbone", backbone, "--pruner", "one-shot", "--sparsity", "0.5"),
        shell.fails("evaluate", backbone, *how),
    ]
    assert all("tokenizer" in line for line in lines), lines
    with refused("tokenizer", backbone):
        srnet.MaskBank(str(backbone))
    merged = tmp_path / "merged"
    get_format("merged")().write(Source(masked(name).subnetwork), merged)
    for path in merged.glob("tokenizer*"):
        path.unlink()
    assert "tokenizer" in shell.fails("evaluate", merged, *how)
    (merged / "srnet.json").unlink()
    assert "tokenizer" in shell.fails("evaluate", merged, *how)


def test_a_language_model_is_no_classifier_and_the_reverse(
    masked: Callable[[str], Masked], data: Path, tmp_path: Path, tiny_backbone: str
) -> None:
    get_format("merged")().write(Source(pruned(tiny_backbone)), tmp_path / "classifier")
    with refused("token", "maybe"):
        srnet.evaluate(tmp_path / "classifier", task=task_of(data, "stories"))
    classes = srnet.SyntheticTask("inference", train_size=20, dev_size=20, ood_size=20)
    for kind in FORMATS:
        with refused("token", "entailment"):
            srnet.evaluate(masked("bert").export(kind), task=classes)
