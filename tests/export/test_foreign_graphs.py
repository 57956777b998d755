"""ONNX graphs of others: run exactly where that is possible, and else refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.graphs import Made
from refusals import refused

from srnet.models.formats.graphs import graph_logits, open_graph
from srnet.training.data import Encoded

TABLE = np.linspace(-1, 1, 40, dtype=np.float32).reshape(20, 2)
PAD = 7
"""Its vector is not zero, so that padding which is read shows."""
GOOD = Made(TABLE)
TEXTS = [[3, 4, 5], [1], [19, 0], [2, 2, 2], [6, 8, 9, 10]]


def encoded(texts: list[list[int]] = TEXTS) -> Encoded:
    lengths = np.array([len(text) for text in texts])
    ids = np.array([token for text in texts for token in text], dtype=np.int32)
    return Encoded({"input_ids": ids}, np.zeros(len(texts), dtype=np.int64), lengths, {"input_ids": PAD}, {})


def logits(made: Made, folder: Path, texts: list[list[int]] = TEXTS) -> np.ndarray:
    made.write(folder / "model.onnx")
    return graph_logits(open_graph(folder / "model.onnx"), encoded(texts))


USABLE = {
    "as it is exported": GOOD,
    "int32": replace(GOOD, inputs={"input_ids": "INT32", "attention_mask": "INT32"}),
    "a mask of truth values": replace(GOOD, inputs={"input_ids": "INT64", "attention_mask": "BOOL"}),
    "one text at a time": replace(GOOD, rows=1),
    "two texts at a time": replace(GOOD, rows=2),
    "more texts than there are": replace(GOOD, rows=8),
    "texts of one length": replace(GOOD, length=9),
    "one text of one length": replace(GOOD, rows=1, length=4),
    "dimensions without a name": replace(GOOD, rows=None, length=-1),
    "half precision": replace(GOOD, output="FLOAT16"),
    "double precision": replace(GOOD, output="DOUBLE"),
    "an output that is left open": replace(GOOD, declared=None),
    "another output first": replace(GOOD, others=("hidden",)),
    "weights beside the graph": replace(GOOD, external="table.bin"),
}


@pytest.mark.parametrize("name", USABLE)
def test_a_graph_that_can_be_used_is(name: str, tmp_path: Path) -> None:
    expected = np.array([TABLE[text].sum(axis=0) for text in TEXTS])
    found = logits(USABLE[name], tmp_path)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-3 if "half" in name else 1e-6)


def test_logits_of_tokens_without_padding(tmp_path: Path) -> None:
    replace(GOOD, sums=(), rows=2, length=6, declared=None).write(tmp_path / "model.onnx")
    data = encoded()
    found = open_graph(tmp_path / "model.onnx").run(data.collate([0, 1, 2]), data.pad)
    np.testing.assert_allclose(found[:, :2], [TABLE[[3, 4]], [TABLE[1], [0, 0]], TABLE[[19, 0]]], atol=1e-6)
    assert found.shape == (3, 3, 2)


REFUSED: dict[str, tuple[Any, ...]] = {
    "ids of floats": (replace(GOOD, inputs={"input_ids": "FLOAT", "attention_mask": "INT64"}), "input_ids as"),
    "ids of bytes": (replace(GOOD, inputs={"input_ids": "UINT8", "attention_mask": "INT64"}), "input_ids as"),
    "a mask of floats": (replace(GOOD, inputs={"input_ids": "INT64", "attention_mask": "FLOAT"}), "attention_mask as"),
    "an unknown input": (replace(GOOD, inputs={**GOOD.inputs, "position_ids": "INT64"}), "'position_ids'"),
    "an input that the tokenizer does not give": (
        replace(GOOD, inputs={**GOOD.inputs, "token_type_ids": "INT64"}),
        "'token_type_ids'",
    ),
    "batches of nothing": (replace(GOOD, rows=0), "declares inputs of 0"),
    "texts of nothing": (replace(GOOD, length=0), "declares inputs of 0"),
    "an enormous batch": (replace(GOOD, rows=2**40), "batches of 1099511627776 x any"),
    "an enormous text": (replace(GOOD, length=2**62), "batches of any x"),
    "texts that are too long for it": (replace(GOOD, length=2), "reads texts of 2 tokens"),
    "a length without a mask": (replace(GOOD, inputs={"input_ids": "INT64"}, length=9), "no attention_mask"),
    "words": (replace(GOOD, output="STRING"), "tensor(string)"),
    "whole numbers": (replace(GOOD, output="INT64"), "tensor(int64)"),
    "a scalar": (replace(GOOD, sums=(0, 1, 2), declared=None), "shape ()"),
    "a number a text": (replace(GOOD, sums=(1, 2), declared=None), "shape ("),
    "a row for all texts": (replace(GOOD, sums=(0, 1), declared=None), "shape (2,)"),
    "logits of tokens": (replace(GOOD, sums=(), declared=None), "logits of shape"),
    "ids beyond the embedding": (replace(GOOD, table=TABLE[:10]), "out of data bounds"),
    "an impossible allocation": (replace(GOOD, allocates=2**50), "model.onnx"),
    "an operator of others": (replace(GOOD, operator="Magic", domain="elsewhere"), "model.onnx"),
    "an unknown operator": (replace(GOOD, operator="Magic"), "model.onnx"),
    "weights elsewhere": (replace(GOOD, external="../table.bin"), "model.onnx"),
    "weights of the system": (replace(GOOD, external="/etc/passwd"), "model.onnx"),
    "not a number": (replace(GOOD, table=np.full_like(TABLE, np.nan)), "non-finite"),
    "infinite": (replace(GOOD, table=np.full_like(TABLE, np.inf)), "non-finite"),
    "beyond half precision": (replace(GOOD, table=np.full_like(TABLE, 1e6), output="FLOAT16"), "non-finite"),
    "beyond single precision": (
        replace(GOOD, table=np.full_like(TABLE, 400), output="DOUBLE", operator="Exp"),
        "non-finite",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_graph_that_cannot_be_used_is_one_line(name: str, tmp_path: Path) -> None:
    made, *told = REFUSED[name]
    (tmp_path / "inside").mkdir()
    (tmp_path / "table.bin").write_bytes(TABLE.tobytes())  # what a path that leads out would read
    with refused("model.onnx", *told):
        logits(made, tmp_path / "inside")


@pytest.mark.parametrize("link", ["../table.bin", "/dev/zero"])
def test_weights_behind_a_link(link: str, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "table.bin").write_bytes(TABLE.tobytes())
    replace(GOOD, external="link.bin").write(tmp_path / "inside" / "model.onnx")
    (tmp_path / "inside" / "link.bin").symlink_to(link)
    with refused("model.onnx"):
        open_graph(tmp_path / "inside" / "model.onnx")


@pytest.mark.parametrize("content", [b"", b"rubbish", b"ORTM" * 100, b"\x08\x09" * 1000, None], ids=range(5))
def test_a_file_that_is_no_graph(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    if content is None:
        GOOD.write(path)
        content = path.read_bytes()[:-20]
    path.write_bytes(content)
    with refused("model.onnx"):
        open_graph(path)


def test_a_length_that_is_fixed_cuts_texts(tmp_path: Path) -> None:
    replace(GOOD, length=9).write(tmp_path / "model.onnx")
    graph = open_graph(tmp_path / "model.onnx")
    assert (graph.max_length(128), graph.max_length(5)) == (9, 5)
