"""Likelihoods against references that read one text at a time, whatever the batches."""

from __future__ import annotations

import math
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from tiny_language import MODELS, PAIRS, TEXTS, WORDS, tokenizer, write_language_model, write_pairs, write_texts

from srnet.core.names import FILLS_MASKS
from srnet.evaluation.metrics import score_split
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.heads import LANGUAGE
from srnet.tasks.answers.base import AnswerKind
from srnet.tasks.answers.pairs import PAIRS as OF_PAIRS
from srnet.tasks.answers.text import IGNORED
from srnet.tasks.answers.text import TEXTS as OF_TEXT
from srnet.tasks.base import Task
from srnet.tasks.pairs import PairsTask
from srnet.tasks.splits import Split
from srnet.tasks.text import TextTask
from srnet.training.language import _PairData
from srnet.training.predict import predict
from srnet.training.spans import inputs_for


@pytest.fixture(scope="module", params=["llama", "gpt2, untied", "bert"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LoadedBackbone:
    return load_backbone(write_language_model(tmp_path_factory.mktemp("lm"), request.param), (), 0, LANGUAGE)


# --- references ----------------------------------------------------------------------------------------------------


@torch.no_grad()
def log_probs(base: LoadedBackbone, text: str, only: set[int] | None = None) -> list[float]:
    """The log-probability of each token of a text, or of some, by definition: one forward pass at a time."""
    tok, own = base.tokenizer, base.tokenizer.encode(text, add_special_tokens=False)
    ids, found = torch.tensor([[tok.bos_token_id, *own, tok.eos_token_id]]), []
    for place in range(1, len(own) + 1):
        if only is not None and place - 1 not in only:
            continue
        if getattr(tok, FILLS_MASKS):
            hidden = ids.clone()
            hidden[0, place] = tok.mask_token_id
            row = base.model(input_ids=hidden).logits[0, place]
        else:
            row = base.model(input_ids=ids[:, :place]).logits[0, -1]
        found.append(row.double().log_softmax(-1)[ids[0, place]].item())
    return found


def unmodified(base: LoadedBackbone, first: str, second: str) -> tuple[set[int], set[int]]:
    """The tokens that two sentences share, as CrowS-Pairs' own code finds them."""
    ids = [base.tokenizer(text)["input_ids"] for text in (first, second)]
    same = [step for step in SequenceMatcher(None, *ids).get_opcodes() if step[0] == "equal"]
    return tuple({n - 1 for s in same for n in range(s[a], s[a + 1])} for a in (1, 3))  # type: ignore[return-value]


def reference(base: LoadedBackbone, scoring: str) -> dict[str, float]:
    """The scores of `PAIRS`, from the definitions."""
    preferred, meaningful, gaps = 0, 0, []
    for stereotype, opposite, unrelated in PAIRS:
        only = (None, None)
        if scoring == "sum" and getattr(base.tokenizer, FILLS_MASKS):
            only = unmodified(base, stereotype, opposite)
        each = [log_probs(base, stereotype, only[0]), log_probs(base, opposite, only[1]), log_probs(base, unrelated)]
        scores = [sum(one) if scoring == "sum" else sum(one) / len(one) for one in each]
        preferred += scores[0] > scores[1]
        meaningful += (scores[0] > scores[2]) + (scores[1] > scores[2])
        gaps.append(abs(sum(each[0]) / len(each[0]) - sum(each[1]) / len(each[1])))
    ss, lms = 100 * preferred / len(PAIRS), 100 * meaningful / (2 * len(PAIRS))
    return {"ss": ss, "lms": lms, "icat": lms * min(ss, 100 - ss) / 50, "gap": sum(gaps) / len(gaps)}


# --- what srnet computes -------------------------------------------------------------------------------------------


def answers(base: LoadedBackbone, kind: AnswerKind, split: Split, length: int = 32) -> np.ndarray:
    data = inputs_for(kind, split, base.tokenizer, length)
    return kind.decode(split, data.outputs(predict(base.model, data)))


def metrics(base: LoadedBackbone, task: Task, split: str = "dev", length: int = 32) -> dict[str, float]:
    data = inputs_for(task.answer_kind, task.splits[split], base.tokenizer, length)
    found = score_split(task, task.splits[split], data.outputs(predict(base.model, data)))
    return dict(found["metrics"])


def measured(base: LoadedBackbone, task: Task, metric: str, length: int = 32) -> float:
    """A score that is not rounded."""
    found = answers(base, task.answer_kind, task.dev, length)
    return task.answer_kind.metrics[metric].reported(found, task.dev.labels)


@pytest.fixture
def texts(tmp_path: Path) -> Task:
    path = str(write_texts(tmp_path))
    return TextTask(train=path, dev=path).load()


def pairs(tmp_path: Path, **options: Any) -> Task:
    path = str(write_pairs(tmp_path))
    return PairsTask(train=path, dev=path, **options).load()


def test_perplexity_is_that_of_every_token(base: LoadedBackbone, texts: Task) -> None:
    every = [value for text in TEXTS for value in log_probs(base, text)]
    nll = -sum(every) / len(every)
    assert measured(base, texts, "nll") == pytest.approx(nll, rel=1e-6)
    assert measured(base, texts, "perplexity") == pytest.approx(math.exp(nll), rel=1e-6)


@pytest.mark.parametrize("scoring", ["sum", "mean"])
def test_scores_of_pairs_follow_their_definitions(base: LoadedBackbone, scoring: Any, tmp_path: Path) -> None:
    task = pairs(tmp_path, scoring=scoring)
    expected = reference(base, scoring)
    assert {name: measured(base, task, name) for name in expected} == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_two_ways_of_scoring_differ(base: LoadedBackbone, tmp_path: Path) -> None:
    assert reference(base, "sum") != reference(base, "mean")


@pytest.mark.parametrize("tokens", [4, 64, 4096])
def test_batches_and_padding_change_nothing(
    base: LoadedBackbone, texts: Task, tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [(OF_TEXT, texts.dev), (OF_PAIRS, pairs(tmp_path).dev)]
    alone = [answers(base, *each) for each in both]
    monkeypatch.setattr("srnet.training.predict.EVAL_TOKENS", tokens)
    for expected, each in zip(alone, both, strict=True):
        np.testing.assert_allclose(answers(base, *each), expected, rtol=1e-6, atol=1e-6)


def test_the_order_of_texts_changes_nothing(base: LoadedBackbone, texts: Task) -> None:
    order = np.random.default_rng(0).permutation(len(texts.dev))
    forward, shuffled = answers(base, OF_TEXT, texts.dev), answers(base, OF_TEXT, texts.dev.take(order))
    np.testing.assert_allclose(shuffled, forward[order], rtol=1e-6)


@pytest.mark.parametrize("length", [3, 5, 8])
def test_every_token_of_a_long_text_is_predicted_once(base: LoadedBackbone, texts: Task, length: int) -> None:
    found = answers(base, OF_TEXT, texts.dev, length)
    assert found[:, 1].tolist() == [len(text.split()) for text in TEXTS]


def test_the_blocks_of_a_long_text_by_definition(tmp_path: Path) -> None:
    """Tokens 0..3, then 3..6: the last of a block begins the next one."""
    base = load_backbone(write_language_model(tmp_path / "lm"), (), 0, LANGUAGE)
    ids = [2, 5, 7, 11, 12, 15, 6]
    path = tmp_path / "one.txt"
    path.write_text(" ".join(WORDS[n - 5] for n in ids[1:]))
    task = TextTask(train=str(path), dev=str(path)).load()
    expected = 0.0
    for block in (ids[:4], ids[3:]):
        rows = base.model(input_ids=torch.tensor([block])).logits[0].double().log_softmax(-1)
        expected -= sum(rows[n, token].item() for n, token in enumerate(block[1:]))
    assert measured(base, task, "nll", length=4) == pytest.approx(expected / 6, rel=1e-6)


def test_a_text_begins_with_what_the_tokenizer_has(tmp_path: Path) -> None:
    """The beginning-of-text token, else the end-of-text token; without either the first token is not predicted."""
    split = TextTask(train=(path := str(write_texts(tmp_path))), dev=path).load().dev
    first, tok = [], tokenizer()
    for change in ({}, {"bos_token": None}, {"bos_token": None, "eos_token": None}):
        for name, value in change.items():
            setattr(tok, name, value)
        if tok.eos_token is None:
            split = split.take(np.flatnonzero([len(text.split()) > 1 for text in split.text_a]))
        batch = inputs_for(OF_TEXT, split, tok, 32).collate([0])
        first.append((batch["input_ids"][0, 0].item(), batch["labels"][0].tolist()))
    the, nurse, is_, kind, stop = (tok.convert_tokens_to_ids(word) for word in TEXTS[0].split())
    assert first[0] == (2, [the, nurse, is_, kind, stop, IGNORED])
    assert first[1] == (3, [the, nurse, is_, kind, stop, IGNORED])
    assert first[2] == (the, [nurse, is_, kind, stop, IGNORED])


def test_a_text_without_a_token_is_named(tmp_path: Path) -> None:
    tok = tokenizer()
    tok.bos_token = tok.eos_token = None
    path = str(write_texts(tmp_path))
    with refused("'dev'", "'banjo'", "shorter than a token"):
        inputs_for(OF_TEXT, TextTask(train=path, dev=path).load().dev, tok, 32)


@settings(max_examples=30)
@given(
    lists=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), min_size=1, max_size=6),
    length=st.integers(2, 12),
    masks=st.booleans(),
)
def test_sequences_partition_the_tokens(lists: list[list[str]], length: int, masks: bool) -> None:
    tok = tokenizer()
    setattr(tok, FILLS_MASKS, masks)
    length += 2 * masks
    rows = tuple(" ".join(words) for words in lists)
    empty = ("",) * len(rows)
    split = Split("dev", "ID", tuple(map(str, range(len(rows)))), rows, empty, np.ones(len(rows), int), empty)
    data: Any = inputs_for(OF_TEXT, split, tok, length)
    batch = data.collate(np.arange(len(data)))
    labels, kept = batch["labels"], batch["labels"] != IGNORED
    assert batch["input_ids"].shape[1] <= length
    counts = data.outputs(np.stack([np.zeros(len(data)), kept.sum(1).numpy()], axis=1))[:, 1]
    assert counts.tolist() == [len(words) for words in lists]
    expected = [token for text in rows for token in tok.encode(text, add_special_tokens=False)]
    assert labels[kept].tolist() == expected
    if masks:
        assert (batch["input_ids"][kept] == tok.mask_token_id).all()


# --- batches of training -------------------------------------------------------------------------------------------


def trained(tmp_path: Path, partner: list[int], neutral: list[str], need: str = "pairs") -> _PairData:
    split: Any = pairs(tmp_path).train
    extras = {need: np.array(partner), "text": np.array(neutral, dtype=object)}
    data = inputs_for(OF_PAIRS, OF_PAIRS.trained_on(split), tokenizer(), 32, extras)
    assert isinstance(data, _PairData)
    return data


def words_of(batch: dict[str, torch.Tensor], row: int) -> str:
    ids = batch["input_ids"][row][batch["attention_mask"][row] == 1]
    return " ".join(tokenizer().convert_ids_to_tokens(ids.tolist())[1:])


def test_a_batch_has_pairs_and_then_neutral_text(tmp_path: Path) -> None:
    data = trained(tmp_path, [0, 1, 2, 3, 4, 5], list(TEXTS))
    assert len(data) == len(TEXTS), "a pass is one over the longer of the two"
    batch = data.collate([1, 7])
    second = 7 % len(PAIRS)
    expected = [*PAIRS[1][:2], *PAIRS[second][:2], TEXTS[1], TEXTS[7]]
    assert [words_of(batch, row) for row in range(6)] == expected
    assert batch["pairs"].tolist() == [0, 1, 2, 3]
    assert batch["text"].tolist() == [4, 5]
    assert {name: len(each) for name, each in batch.items()} == {
        "input_ids": 6, "attention_mask": 6, "labels": 6, "text": 2, "pairs": 4,
    }  # fmt: skip


def test_permuted_pairs_have_the_second_sentence_of_another(tmp_path: Path) -> None:
    batch = trained(tmp_path, [1, 2, 3, 4, 5, 0], list(TEXTS), "permuted_pairs").collate([0, 5])
    assert [words_of(batch, row) for row in range(4)] == [PAIRS[0][0], PAIRS[1][1], PAIRS[5][0], PAIRS[0][1]]
    assert batch["permuted_pairs"].tolist() == [0, 1, 2, 3]


def test_the_teacher_reads_neutral_text_alone(tmp_path: Path) -> None:
    data = trained(tmp_path, [0, 1, 2, 3, 4, 5], list(TEXTS))
    batch = data.collate([2, 3])
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    taught = data.taught(inputs, {"text": batch["text"]})
    assert torch.equal(taught["input_ids"], batch["input_ids"][4:])


# --- which models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_has_a_likelihood(name: str, tmp_path: Path) -> None:
    base = load_backbone(write_language_model(tmp_path / "lm", name), (), 0, LANGUAGE)
    text = TEXTS[3]
    tokens = len(base.tokenizer.encode(text, add_special_tokens=False))
    split = TextTask(train=(path := str(write_texts(tmp_path))), dev=path).load().dev.take(np.array([3]))
    assert answers(base, OF_TEXT, split)[0] == pytest.approx([sum(log_probs(base, text)), tokens], rel=1e-6)
