"""Batches: every example is seen, none is padded more than its neighbours ask for."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused
from transformers import AutoTokenizer

from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode, token_batches, training_order

LENGTHS = np.random.default_rng(0).integers(5, 60, 1000)


def padding(batches: list[np.ndarray]) -> int:
    """Token positions that hold nothing."""
    return sum(int((LENGTHS[rows].max() - LENGTHS[rows]).sum()) for rows in batches)


def test_each_pass_is_a_permutation() -> None:
    order = training_order(LENGTHS, batch_size=10, steps=200, seed=1)
    assert order.shape == (200, 10)
    for one_pass in (order[:100], order[100:]):
        assert sorted(one_pass.ravel()) == list(range(1000))


@pytest.mark.parametrize(("rows", "batch"), [(7, 4), (3, 8)])
def test_a_pass_that_does_not_fill_its_last_batch_carries_over(rows: int, batch: int) -> None:
    # after as many batches as there are rows every row has been seen as often as a batch is large
    order = training_order(np.arange(1, rows + 1), batch_size=batch, steps=rows, seed=0)
    assert np.bincount(order.ravel()).tolist() == [batch] * rows


def test_the_order_is_a_pure_function_of_its_arguments() -> None:
    order = training_order(LENGTHS, 10, 150, seed=1)
    np.random.seed(3)
    np.testing.assert_array_equal(order, training_order(LENGTHS, 10, 150, seed=1))
    np.testing.assert_array_equal(order[:50], training_order(LENGTHS, 10, 50, seed=1))
    assert not np.array_equal(order, training_order(LENGTHS, 10, 150, seed=2))


def test_batches_are_grouped_by_length_but_not_sorted() -> None:
    order = training_order(LENGTHS, 10, 100, seed=1)
    random = np.random.default_rng(1).permutation(1000).reshape(100, 10)
    assert padding(list(order)) < 0.1 * padding(list(random))
    means = LENGTHS[order].mean(axis=1)
    assert abs(np.corrcoef(means, np.arange(100))[0, 1]) < 0.5, "long batches must not come last"


@pytest.mark.parametrize("limit", [60, 500, 100_000])
def test_token_batches_cover_every_row_within_the_limit(limit: int) -> None:
    batches = token_batches(LENGTHS, limit)
    assert sorted(np.concatenate(batches)) == list(range(1000))
    assert all(len(rows) * LENGTHS[rows].max() <= limit for rows in batches)


def test_token_batches_hold_rows_of_like_length() -> None:
    batches = token_batches(LENGTHS, 1000)
    assert padding(batches) < 0.05 * LENGTHS.sum()
    assert len(batches) < 1.1 * LENGTHS.sum() / 1000


def test_a_row_longer_than_the_limit_goes_alone() -> None:
    assert [rows.tolist() for rows in token_batches(np.array([50, 2]), 10)] == [[1], [0]]


def test_collate_pads_to_the_longest_row_of_the_batch(tiny_backbone: str, tiny_task: SyntheticTask) -> None:
    split = tiny_task.load().train
    weights = np.arange(2.0 * len(split)).reshape(-1, 2)
    data = encode(split, AutoTokenizer.from_pretrained(tiny_backbone), 64, {"bias": weights})
    shortest, longest = int(data.lengths.argmin()), int(data.lengths.argmax())
    assert data.collate([shortest])["input_ids"].shape == (1, data.lengths.min())
    batch = data.collate([shortest, longest])
    assert batch["input_ids"].shape == (2, data.lengths.max())
    assert batch["attention_mask"].sum(1).tolist() == [data.lengths.min(), data.lengths.max()]
    assert (batch["input_ids"][0, data.lengths.min() :] == 0).all()
    assert batch["labels"].tolist() == split.labels[[shortest, longest]].tolist()
    assert batch["bias"].tolist() == weights[[shortest, longest]].tolist()


def test_max_length_truncates(tiny_backbone: str, tiny_task: SyntheticTask) -> None:
    data = encode(tiny_task.load().dev, AutoTokenizer.from_pretrained(tiny_backbone), 8)
    assert data.lengths.max() == 8


@pytest.mark.parametrize(("source", "named"), [("my/model", "'my/model'"), ("", "the tokenizer cannot")])
def test_a_tokenizer_that_fails_is_named(source: str, named: str) -> None:
    class Broken:
        name_or_path = source

        def num_special_tokens_to_add(self, pair: bool) -> int:
            return 2 + pair

        def __call__(self, *_: object, **__: object) -> None:
            raise KeyError("unk")

    with refused(named):
        encode(SyntheticTask("inference", train_size=4, dev_size=4, ood_size=4).load().train, Broken(), 16)
