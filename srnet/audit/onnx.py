"""A classifier in ONNX: a folder with `model.onnx`, a tokenizer, and `srnet.json` or `config.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from srnet.audit.cards import Card, check_files, read_card
from srnet.audit.encoding import TextClassifier
from srnet.backbones.checkpoints import read_pretrained
from srnet.errors import UserError, reason
from srnet.export.onnx import GRAPH, onnx_logits, open_session
from srnet.training import Encoded

SEGMENTS = "token_type_ids"


class OnnxClassifier(TextClassifier):
    """A session of onnxruntime."""

    def predict(self, data: Encoded) -> np.ndarray:
        known = data.collate([0])
        missing = [each.name for each in self.model.get_inputs() if each.name not in known]
        if missing:
            raise UserError(f"{self.name} wants the input '{missing[0]}'", f"it can have {', '.join(known)}")
        return onnx_logits(self.model, data)


def load_onnx(folder: Path, name: str, max_length: int | None = None, pairs: bool = True) -> OnnxClassifier:
    check_files(folder)
    card = read_card(folder)
    session = open_session(folder / GRAPH)
    length = card.max_length if max_length is None else max_length
    tokenizer = _tokenizer(folder, card)
    if SEGMENTS in [each.name for each in session.get_inputs()]:  # tokenizer.json does not say whether they are read
        tokenizer.model_input_names = list(dict.fromkeys([*tokenizer.model_input_names, SEGMENTS]))
    return OnnxClassifier(name, _labels(card, session, folder), session, tokenizer, length, pairs)


def _labels(card: Card, session: Any, folder: Path) -> tuple[str, ...]:
    """Those of the card; outputs without names are numbered."""
    width = session.get_outputs()[0].shape[-1]  # a graph may leave it open
    if card.labels is None and isinstance(width, int):
        return tuple(f"LABEL_{index}" for index in range(width))
    if card.labels is None or (isinstance(width, int) and width != len(card.labels)):
        raise UserError(
            f"{folder} names {len(card.labels or ())} labels for {width} outputs", "give config.json id2label"
        )
    return card.labels


def _tokenizer(folder: Path, card: Card) -> Any:
    try:
        if (folder / "tokenizer_config.json").is_file():
            tokenizer = read_pretrained(AutoTokenizer, str(folder))
        else:
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    except Exception as error:  # the tokenizers library raises plain Exceptions
        raise UserError(f"{folder} has no usable tokenizer: {reason(error)}", "restore it") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(card.pad_token_id)
    return tokenizer
