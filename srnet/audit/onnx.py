"""A classifier in ONNX: a folder with `model.onnx`, a tokenizer and a `config.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from srnet.audit.encoding import encode_pairs
from srnet.errors import UserError
from srnet.files import read_json_object
from srnet.tasks.answers import CLASSES
from srnet.training.data import token_batches
from srnet.training.predict import EVAL_TOKENS


@dataclass(frozen=True)
class OnnxClassifier:
    name: str
    labels: tuple[str, ...]
    session: Any
    tokenizer: Any
    max_length: int
    pairs: bool = True

    def logits(self, text_a: Sequence[str], text_b: Sequence[str]) -> np.ndarray:
        result = np.empty((len(text_a) + self.pairs, len(self.labels)), dtype=np.float32)
        if not text_a:
            return result[:0]
        data = encode_pairs(text_a, text_b, self.tokenizer, self.max_length, self.pairs)
        wanted = [each.name for each in self.session.get_inputs()]
        for rows in token_batches(data.lengths, EVAL_TOKENS):
            batch = {name: tensor.numpy() for name, tensor in data.collate(rows).items()}
            missing = [name for name in wanted if name not in batch]
            if missing:
                raise UserError(f"{self.name} wants the input '{missing[0]}'", f"it can have {', '.join(batch)}")
            result[rows] = self.session.run(None, {name: batch[name] for name in wanted})[0]
        return result[: len(text_a)]


def load_onnx(folder: Path, name: str, max_length: int | None = None, pairs: bool = True) -> OnnxClassifier:
    config = read_json_object(folder / "config.json")
    session = _session(folder / "model.onnx")
    labels = _labels(config, session, folder)
    tokenizer = _tokenizer(folder, config)
    length = max_length or _number(config, "max_length", CLASSES.max_length)
    positions = _number(config, "max_position_embeddings", length)
    return OnnxClassifier(name, labels, session, tokenizer, min(length, positions), pairs)


def _number(config: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = config.get(key)
    return value if type(value) is int and value > 0 else otherwise


def _session(path: Path) -> Any:
    try:
        runtime = import_module("onnxruntime")
    except ImportError as error:
        raise UserError(f"{path} needs onnxruntime, which is not installed", "pip install onnxruntime") from error
    try:
        return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises classes of its own that share no base
        raise UserError(f"{path} cannot be loaded: {str(error).splitlines()[0]}", "export the model again") from error


def _labels(config: Mapping[str, Any], session: Any, folder: Path) -> tuple[str, ...]:
    """Those of `id2label`; outputs without names are numbered."""
    named = config.get("id2label")
    width = session.get_outputs()[0].shape[-1]
    count = width if isinstance(width, int) else len(named) if isinstance(named, dict) else 0
    if count < 1:
        raise UserError(f"{folder / 'config.json'} names no labels", "give it id2label")
    if not isinstance(named, dict):
        return tuple(f"LABEL_{index}" for index in range(count))
    if sorted(named) != sorted(map(str, range(count))):
        raise UserError(f"{folder / 'config.json'}: id2label does not number the {count} outputs", "restore the file")
    return tuple(str(named[str(index)]) for index in range(count))


def _tokenizer(folder: Path, config: Mapping[str, Any]) -> Any:
    try:
        if (folder / "tokenizer_config.json").is_file():
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
        else:
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    except Exception as error:  # the tokenizers library raises plain Exceptions
        raise UserError(f"{folder} has no usable tokenizer: {str(error).splitlines()[0]}", "restore it") from error
    if tokenizer.pad_token_id is None:
        padding = config.get("pad_token_id") or 0
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(int(padding))
    return tokenizer
