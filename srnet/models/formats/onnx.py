"""An ONNX graph with its tokenizer: onnxruntime and tokenizers run it, without torch and without srnet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from srnet.core.errors import UserError
from srnet.core.files import new_folder, write_text
from srnet.core.lazy import nn, torch, transformers
from srnet.evaluation.metrics import reported
from srnet.masks.granularity import Granularity
from srnet.masks.units import FAMILIES
from srnet.models.backbones import LoadedBackbone
from srnet.models.exported import TOKENIZER, Exported
from srnet.models.formats.base import Format, Source, register
from srnet.models.formats.card import SCORES, score_name, write_card
from srnet.models.formats.graphs import (
    GRAPH,
    GraphModel,
    check_width,
    graph_logits,
    open_graph,
    quantise,
    read_backend,
    require_onnx,
    silence,
)
from srnet.models.formats.subnetwork import logits_of, sample_of
from srnet.models.model import OpenModel

OPSET = 17
"""The first with layer normalisation as one operator."""
CLOSE = 1e-3
"""Logits of a float32 graph that are further from the model's, relative to the largest, are a fault of the export."""
LOAD = """
import json, os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before onnxruntime is imported
import onnxruntime, tokenizers  # and nothing else: see examples/onnx_classify.py of srnet

tokenizer = tokenizers.Tokenizer.from_file("DIR/tokenizer.json")
session = onnxruntime.InferenceSession("DIR/model.onnx")
tokens = tokenizer.encode_batch([("a text", "another text")])
columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
feed = {i.name: [getattr(each, columns[i.name]) for each in tokens] for i in session.get_inputs()}
print(json.load(open("DIR/srnet.json"))["labels"], session.run(None, feed)[0])
"""


@register
@dataclass(frozen=True)
class Onnx(Format):
    """A graph that onnxruntime and tokenizers run without torch and srnet, any batch and length; units are shrunk."""

    name = "onnx"
    kind = "onnx"
    int8: bool = False
    """Quantise the matrices to 8 bits (dynamic quantisation, for CPUs), and say what that changes."""

    def check(self, granularity: Granularity) -> None:
        require_onnx()

    def write(self, source: Source, out: Path) -> list[str]:
        if source.subnetwork.head.language:
            raise UserError(
                "language models are not written as ONNX graphs",
                "choose --format merged, and convert the folder: optimum-cli export onnx --model FOLDER OUT",
            )
        require_onnx()
        base = source.base
        model: Any = source.subnetwork.model(base)
        if model.config.model_type in FAMILIES:
            from srnet.masks.shrink import shrink

            shrink(model)
        with new_folder(out) as staging:
            _write_tokenizer(staging / TOKENIZER, base, source.max_length)
            remarks, scores = self._write_graph(source, base, model, staging)
            about = source.about.with_remarks(remarks).with_own_scores(scores if self.int8 else {})
            facts = {"int8": self.int8, SCORES: scores, "before_second_text": _before_second(base.tokenizer)}
            replace(source.exported(self.kind), more=facts).seal(staging)
            write_card(staging, replace(source, about=about), self.name, LOAD)
        return remarks

    @classmethod
    def read(cls, folder: Path) -> OpenModel:
        exported = Exported.read(folder)
        return GraphModel(
            **exported.known(folder),
            load_tokenizer=partial(_load_tokenizer, folder, exported),
            graph=check_width(open_graph(folder / GRAPH), exported.labels),
            count_words=lambda: read_backend(folder).get_vocab_size(),
        )

    def _write_graph(
        self, source: Source, base: LoadedBackbone, model: Any, folder: Path
    ) -> tuple[list[str], dict[str, float]]:
        """Remarks on the graph, and its scores."""
        graph, sample = folder / GRAPH, sample_of(source.task, base, source.max_length)
        samples = [*_sample_batches(base.tokenizer, base.max_length(source.max_length)), *sample.batches]
        where = f" on {sample.name} and random texts"
        _write_graph(model, samples[0], graph)
        expected = [logits_of(model, batch) for batch in samples]
        remarks = [_checked(_difference(graph, samples, expected), expected) + where]
        scores = before = _scores(graph, source, base)
        if self.int8:
            quantise(graph)
            remarks.append(f"int8: {_in_words(_difference(graph, samples, expected))}{where}")
            scores = _scores(graph, source, base)
            remarks += [f"int8, {name}: {before[name]:.1f} before, {scores[name]:.1f} after" for name in before]
        else:
            remarks += [f"{name}: {score:.1f}" for name, score in before.items()]
        return [*remarks, f"{GRAPH} has {graph.stat().st_size / 1e6:.1f} MB"], scores


# --- the graph -----------------------------------------------------------------------------------------------------


def _logits_alone(model: Any, names: list[str]) -> nn.Module:
    """Tensors in, logits out: a graph has no dictionaries."""

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> Any:
            return self.model(**dict(zip(names, inputs, strict=True))).logits

    return Logits().eval()


def _write_graph(model: Any, batch: Mapping[str, torch.Tensor], path: Path) -> None:
    """Trace the model on a batch. Graphs of the exporter that does not trace cannot be quantised (torch 2.13)."""
    names = list(batch)
    if getattr(model.config, "use_cache", False):
        model.config.use_cache = False
    dynamic = {name: {0: "batch", 1: "length"} for name in names}
    per_token = logits_of(model, batch).ndim == 3
    try:
        with silence():
            torch.onnx.export(
                _logits_alone(model, names),
                tuple(batch.values()),
                path,
                dynamo=False,
                input_names=names,
                output_names=["logits"],
                dynamic_axes=dynamic | {"logits": {0: "batch"} | ({1: "length"} if per_token else {})},
                opset_version=OPSET,
            )
    except (RuntimeError, TypeError, ValueError, AssertionError, torch.onnx.errors.OnnxExporterError) as error:
        problem = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"a {type(model).__name__} cannot be exported to ONNX ({problem})", "choose another format"
        ) from error


# --- the tokenizer -------------------------------------------------------------------------------------------------


def _write_tokenizer(path: Path, base: LoadedBackbone, max_length: int) -> None:
    """One that cuts and pads as srnet does: the file is all that one needs."""
    backend = getattr(base.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(
            f"the tokenizer of '{base.name}' is not one of the tokenizers library, so it cannot go with an ONNX graph",
            "choose another format",
        )
    tokenizer = type(backend).from_str(backend.to_str())
    tokenizer.enable_truncation(base.max_length(max_length))
    tokenizer.enable_padding(pad_id=base.tokenizer.pad_token_id, pad_token=base.tokenizer.pad_token)
    write_text(path, tokenizer.to_str())


def _load_tokenizer(folder: Path, exported: Exported) -> Any:
    backend = read_backend(folder)
    pad_token = (backend.padding or {}).get("pad_token")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=pad_token)
    tokenizer.name_or_path = str(folder)  # for messages: one that is made from tokenizer.json alone has no name
    exported.fit(tokenizer)
    return tokenizer


def _before_second(tokenizer: Any) -> str:
    """What stands before the second text of a pair: a new line where the tokenizer marks no beginning."""
    from srnet.training.data import separates

    return "" if separates(tokenizer) else "\n"


# --- is it the same model? -----------------------------------------------------------------------------------------


def _sample_batches(tokenizer: Any, max_length: int) -> Iterator[dict[str, torch.Tensor]]:
    """Texts of random tokens: a batch of different lengths, one text alone, and texts that are cut."""
    generator = np.random.default_rng(0)
    for rows in ((3, 9), (5,), (1, 2, 30), (2 * max_length,)):
        ids = [generator.integers(0, len(tokenizer), size).tolist() for size in rows]
        texts = [tokenizer.decode(each, skip_special_tokens=True) or "a" for each in ids]
        batch = tokenizer(texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt")
        yield dict(batch)


def _difference(graph: Path, samples: Sequence[Mapping[str, torch.Tensor]], expected: list[np.ndarray]) -> float:
    opened = open_graph(graph)
    try:
        found = [opened.run(batch) for batch in samples]
    except UserError as error:  # a trace may hold for the lengths of its batch alone: Longformer's
        raise UserError(f"the ONNX graph is another model: {error}", "choose another format") from error
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))


def _in_words(difference: float) -> str:
    return f"logits differ from the model's by at most {difference:.1e}"


def _checked(difference: float, expected: list[np.ndarray]) -> str:
    if not difference <= CLOSE * max(1.0, *(float(np.abs(each).max()) for each in expected)):
        raise UserError(f"the ONNX graph is another model: its {_in_words(difference)}", "choose another format")
    return _in_words(difference)


def _scores(graph: Path, source: Source, base: LoadedBackbone) -> dict[str, float]:
    """By data and metric, as on the card of the model; nothing where the data are not at hand."""
    from srnet.training.spans import inputs_for

    task, opened = source.task, open_graph(graph)
    if task is None:
        return {}
    found = {}
    for name in task.scored:
        split = task.splits[name]
        data = inputs_for(task.answer_kind, split, base.tokenizer, base.max_length(source.max_length))
        answers = task.answer_kind.decode(split, data.outputs(graph_logits(opened, data)))
        found[score_name(task.name, name, split.kind, task.metric)] = reported(task.metric, answers, split.labels)
    return found
