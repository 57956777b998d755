"""A classifier in ONNX: a folder with `model.onnx`, a tokenizer, and `srnet.json` or `config.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from srnet.audit.cards import Card, check_files, read_card
from srnet.audit.encoding import TextClassifier
from srnet.backbones.checkpoints import LARGEST_COUNT, read_pretrained, reading
from srnet.errors import UserError, reason
from srnet.export.graphs import SEGMENTS, graph_logits
from srnet.export.onnx import GRAPH, open_graph
from srnet.names import output_names
from srnet.training import Encoded


class OnnxClassifier(TextClassifier):
    """A graph that onnxruntime runs."""

    def predict(self, data: Encoded) -> np.ndarray:
        return graph_logits(self.model, data)


def load_onnx(folder: Path, name: str, max_length: int | None = None, pairs: bool = True) -> OnnxClassifier:
    check_files(folder)
    card = read_card(folder)
    graph = open_graph(folder / GRAPH)
    length = graph.max_length(card.max_length if max_length is None else max_length)
    tokenizer = _tokenizer(folder, card)
    if SEGMENTS in graph.inputs:  # tokenizer.json does not say whether they are read
        tokenizer.model_input_names = list(dict.fromkeys([*tokenizer.model_input_names, SEGMENTS]))
    return OnnxClassifier(name, _labels(card, graph.width, folder), graph, tokenizer, length, pairs)


def _labels(card: Card, width: int | None, folder: Path) -> tuple[str, ...]:
    """Those of the card; outputs without names are numbered."""
    if card.labels is None and width is not None and width <= LARGEST_COUNT:
        return output_names(width)
    if card.labels is None or width not in (None, len(card.labels)):
        raise UserError(
            f"{folder} names {len(card.labels or ())} labels for {width or 'any number of'} outputs",
            "give config.json id2label",
        )
    return card.labels


def _tokenizer(folder: Path, card: Card) -> Any:
    try:
        with reading(folder):
            if (folder / "tokenizer_config.json").is_file():
                tokenizer = read_pretrained(AutoTokenizer, str(folder))
            else:
                tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
                tokenizer.name_or_path = str(folder)
            if tokenizer.pad_token_id is None:
                tokenizer.pad_token = tokenizer.convert_ids_to_tokens(card.pad_token_id)
    except Exception as error:  # the tokenizers library raises plain Exceptions
        raise UserError(f"{folder} has no usable tokenizer: {reason(error)}", "restore it") from error
    return tokenizer
