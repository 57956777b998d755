"""The speed of decoders: prompts and new tokens side by side, with the cache, and apart from other models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Shell
from refusals import refused
from tiny_language import DECODERS, write_language_model, write_texts

import srnet
from srnet.cli.speed import _table
from srnet.core.errors import UserError
from srnet.experiment.engine import Engine
from srnet.models.generation import generate, generates
from srnet.models.model import TorchModel, in_memory
from srnet.models.open import open_as_trained, open_model
from srnet.pruners.magnitude import OneShot
from srnet.recipes.tasks import read_task
from srnet.timing import measuring
from srnet.timing.measuring import Measured, Timing, speed_against_scores
from srnet.timing.pace import Pace

QUICK = Pace(rounds=2, lengths=(4, 8), new_tokens=5, memory=False, threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("decoders")


@pytest.fixture(scope="module")
def llama(folder: Path) -> str:
    return write_language_model(folder / "llama", "llama")


def opened(name: str) -> TorchModel:
    model = open_as_trained(name)
    assert isinstance(model, TorchModel)
    return model


# --- generation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECODERS)
def test_greedy_tokens_are_those_without_a_cache(name: str, tmp_path: Path) -> None:
    model = opened(write_language_model(tmp_path / "lm", name))
    assert generates(model)
    batch = model.random_batch(3, 6)
    ids = batch["input_ids"]
    with torch.no_grad():
        for _ in range(7):
            logits = model.module(input_ids=ids).logits
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(generate(model, batch, 7), ids[:, 6:])


def test_generation_stops_at_an_end_and_not_elsewhere(llama: str) -> None:
    model = opened(llama)
    batch = model.random_batch(1, 4)
    whole = generate(model, batch, 12)[0].tolist()
    assert len(whole) == 12
    end = whole[5]
    assert generate(model, batch, 12, ends=(end,))[0].tolist() == whole[: whole.index(end) + 1]


def test_what_a_checkpoint_says_about_generation_is_not_used(llama: str) -> None:
    model = opened(llama)
    batch, module = model.random_batch(1, 4), model.module
    plain = generate(model, batch, 6)
    settings: Any = module.generation_config
    settings.update(do_sample=True, temperature=9.0, repetition_penalty=5.0, num_beams=3, eos_token_id=int(plain[0, 0]))
    assert torch.equal(generate(model, batch, 6), plain)
    assert module.generation_config is settings


def test_new_tokens_are_computed_one_by_one_with_the_cache(llama: str) -> None:
    """A prompt once, then a token at a time: without the cache the whole text would be read again for each."""
    model = opened(llama)
    widths: list[int] = []
    model.module.get_input_embeddings().register_forward_pre_hook(lambda _, given: widths.append(given[0].shape[1]))
    turn = measuring._turn(model, rows=1, length=8, new_tokens=5)
    assert turn is not None
    widths.clear()
    prompt, new = turn()
    assert prompt > 0
    assert new > 0
    assert widths == [8, 1, 8, 1, 1, 1, 1, 1], "a short run that is not counted, and the measured one"


# --- side by side --------------------------------------------------------------------------------------------------


def test_decoders_side_by_side(llama: str, folder: Path, engine: Engine) -> None:
    """A checkpoint, a key of a subnetwork and its folder."""
    path = str(write_texts(folder))
    task = read_task({"answer": "text", "train": path, "dev": path}, "task")
    pruned = srnet.prune(task, OneShot(0.5), backbone=llama, engine=engine)
    pace = Pace(rounds=2, lengths=(4, 8), new_tokens=5, prompts=2, threads=1)
    found = srnet.speed(llama, pruned.key, str(pruned.folder), pace=pace, engine=engine)
    for each in found:
        assert each.generates
        assert [(t.rows, t.length, t.new_tokens) for t in each.timings] == [(2, 4, 0), (2, 4, 5), (2, 8, 0), (2, 8, 5)]
        assert all(t.ratio is not None and 0 < t.p25 <= t.p50 <= t.p75 for t in each.timings)
        assert each.memory is not None
    prompt, new = found[0].timings[2:]
    assert prompt.tokens_per_second == pytest.approx(2 * 8 * 1000 / prompt.p50)
    assert new.tokens_per_second == pytest.approx(2 * 5 * 1000 / new.p50)
    assert all(timing.ratio == (1.0, 1.0, 1.0) for timing in found[0].timings)
    assert found[0].parameters == found[1].parameters
    table = _table(found, pace)
    assert [row[0] for row in table.rows] == ["llama", "", pruned.key, "", str(pruned.folder), ""]
    assert "2 prompts at a time, 5 new tokens each" in table.title


def test_a_decoder_without_so_many_positions(llama: str, folder: Path) -> None:
    """GPT-2 has 32 positions here, Llama any number of them."""
    gpt2 = write_language_model(folder / "gpt2", "gpt2")
    pace = Pace(rounds=2, lengths=(8, 30), new_tokens=5, memory=False, threads=1)
    found = srnet.speed(gpt2, llama, pace=pace)
    assert [len(each.timings) for each in found] == [2, 4]
    assert found[1].timing(1, 30, 5).ratio is None  # type: ignore[union-attr]
    rows = _table(found, pace).rows
    assert rows[1][2:6] == ("too long",) * 4
    assert rows[3][3] == rows[3][5] == "too long for the first"
    with refused("gpt2", "30 tokens and 5 new ones"):
        srnet.speed(gpt2, pace=Pace(rounds=2, lengths=(30,), new_tokens=5))


def test_what_is_no_decoder_is_not_mixed_with_decoders(
    shell: Shell, llama: str, tiny_backbone: str, folder: Path
) -> None:
    for other in (tiny_backbone, write_language_model(folder / "bert", "bert")):
        for names in ((llama, other), (other, llama)):
            with refused("llama is a decoder", Path(other).name):
                srnet.speed(*names, pace=QUICK)
    assert "is a decoder" in shell.fails("speed", llama, tiny_backbone, "--rounds", "2")


def test_only_the_forward_pass_of_masked_language_models_is_measured(folder: Path, engine: Engine) -> None:
    bert = write_language_model(folder / "bert2", "bert")
    path = str(write_texts(folder))
    task = read_task({"answer": "text", "train": path, "dev": path}, "task")
    key = srnet.prune(task, OneShot(0.5), backbone=bert, engine=engine).key
    assert not generates(open_model(key, engine.models))
    (found,) = srnet.speed(key, pace=QUICK, engine=engine)
    assert not found.generates
    assert [t.new_tokens for t in found.timings] == [0] * 4


def test_a_classifier_with_the_layers_of_a_decoder_is_a_classifier(folder: Path, llama: str) -> None:
    from small_models import tiny

    assert not generates(in_memory("llama", tiny("llama")))
    tiny("llama").save_pretrained(folder / "classifier")
    from tiny_language import tokenizer

    tokenizer().save_pretrained(folder / "classifier")
    assert not generates(open_as_trained(str(folder / "classifier")))


def test_memory_of_a_decoder_is_that_of_generating(llama: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    monkeypatch.setattr(measuring, "_turn", lambda model, *sizes: seen.append(sizes))
    assert measuring._peak(llama, 3, 8, 1, 5) is not None
    assert seen == [(3, 8, 5)]


def test_a_picture_has_new_tokens() -> None:
    timings = tuple(Timing(2, 8, 1.0, 2.0, 3.0, 4.0, None, new) for new in (0, 5))
    figure = speed_against_scores([Measured("a", "torch", 1, 1, None, timings)], {"nll": {"a": 3.0}}, 8)
    assert figure.axes[0].get_xlabel() == "new tokens a second, after 8 tokens"
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[5000.0, 3.0]]


@pytest.mark.parametrize(
    "wrong", [{"new_tokens": 0}, {"prompts": 0}, {"prompts": 2**20}, {"new_tokens": 2**20}], ids=str
)
def test_what_no_machine_generates(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Pace(**wrong)


def test_on_the_command_line(shell: Shell, llama: str) -> None:
    words = ("speed", llama, "--rounds", "2", "--lengths", "4", "--new-tokens", "3", "--no-memory")
    (found,) = shell(*words, "--json").json["models"]
    assert [each["new_tokens"] for each in found["timings"]] == [0, 3]
    assert all(each["tokens_per_second"] > 0 for each in found["timings"])
    assert json.dumps(found)
    assert "new tokens/s" in shell(*words).out
