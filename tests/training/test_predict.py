"""Logits of a model on a split: in the order of the data, one row each, and finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from small_models import PADDING, WORDS, tiny

from srnet.experiment.store import Store, read_logits
from srnet.training import predict as predicting
from srnet.training.data import Encoded
from srnet.training.predict import EVAL_TOKENS, eval_tokens, in_order, predict

ROWS, TOKENS = 3, 4


def data() -> Encoded:
    ids = np.arange(ROWS * TOKENS, dtype=np.int32) % WORDS
    lengths = np.full(ROWS, TOKENS)
    return Encoded({"input_ids": ids}, np.zeros(ROWS, dtype=np.int64), lengths, {"input_ids": 0}, {})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38], ids=["nan", "inf", "overflow"])
def test_non_finite_logits_are_an_error(value: float) -> None:
    model = tiny("bert")
    assert predict(model, data()).shape == (ROWS, 3)
    with torch.no_grad():
        model.classifier.weight.fill_(value)
    with refused("non-finite"):
        predict(model, data())


@pytest.mark.parametrize("shape", [(2,), (2, 4, 3), (1, 3), (2, 4), ()], ids=str)
def test_logits_of_another_shape_are_an_error(shape: tuple[int, ...]) -> None:
    pieces = [(np.array([0, 2]), np.zeros((2, 3))), (np.array([1, 3]), np.zeros(shape))]
    for each in (pieces, pieces[::-1]):
        with refused("shape"):
            in_order(each)


def test_stored_logits_of_an_earlier_version_are_checked(tmp_path: Path) -> None:
    """Teachers and reports read them."""
    store = Store(tmp_path)
    folder = store.path("0" * 16)
    folder.mkdir(parents=True)
    np.savez(folder / "logits.npz", dev=np.array([[1.0, np.nan]]))
    with refused("non-finite"):
        read_logits(store, "0" * 16)


# --- batches by free memory ----------------------------------------------------------------------------------------


def test_a_cpu_has_always_the_same_batches() -> None:
    assert eval_tokens(tiny("bert")) == EVAL_TOKENS == 4096


@pytest.mark.parametrize(
    ("free", "tokens"),
    # the widest layer has 16 inputs and 16 outputs: 4 x 32 numbers of 4 bytes are 512 bytes a token
    [(0, 4096), (2 * 512 * 8192 - 1, 4096), (2 * 512 * 8192, 8192), (2 * 512 * 65536, 65536), (2**40, 65536)],
)
def test_a_gpu_has_batches_for_half_of_its_free_memory(free: int, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "free_memory", lambda: free)
    assert eval_tokens(tiny("bert")) == tokens


def many() -> Encoded:
    lengths = np.random.default_rng(0).integers(1, 20, 50)
    ids = np.random.default_rng(1).integers(4, WORDS, lengths.sum()).astype(np.int32)
    return Encoded({"input_ids": ids}, np.zeros(50, dtype=np.int64), lengths, {"input_ids": PADDING}, {})


@pytest.mark.parametrize("fitting", [1, 3, 7, 25])
def test_a_batch_that_does_not_fit_is_halved(fitting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than `fitting` fail as on a GPU, and every row is in the result once, in its place."""
    model, sizes, failed = tiny("bert"), list[int](), list[int]()
    expected = predict(model, many())

    def forward(module: Any, args: Any, kwargs: dict[str, torch.Tensor]) -> None:
        rows = len(kwargs["input_ids"])
        (sizes if rows <= fitting else failed).append(rows)
        if rows > fitting:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    model.register_forward_pre_hook(forward, with_kwargs=True)
    np.testing.assert_allclose(predict(model, many()), expected, atol=1e-5)
    assert sum(sizes) == 50
    assert failed == sorted(set(failed), reverse=True), "what failed once is not tried in that size again"


def test_a_text_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    model = tiny("bert").train()
    model.register_forward_pre_hook(full)
    with refused("the model", "one text of", "tokens", "max_length"):
        predict(model, many())
