"""ONNX graphs as onnxruntime runs them. Anyone may have written one, so what it declares is checked first."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from srnet.core.errors import UserError, reason, running
from srnet.core.lazy import torch
from srnet.core.network import disable_telemetry
from srnet.models.exported import TOKENIZER, TOKENIZER_IN, opening
from srnet.models.model import Batch, OpenModel, Runner, random_batch
from srnet.tasks.answers.classes import CLASSES

if TYPE_CHECKING:
    from srnet.training.data import Encoded

GRAPH = "model.onnx"
INSTALL = 'pip install "srnet[onnx]"'
IDS, MASK, SEGMENTS = READ = ("input_ids", "attention_mask", "token_type_ids")
LOGITS = "logits"
_WHOLE: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_TYPES = {IDS: _WHOLE, MASK: _WHOLE | {"tensor(bool)": np.bool_}, SEGMENTS: _WHOLE}
"""What an input may be declared as. Floats are refused: whether they are added or multiplied is not declared."""
_FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")
LARGEST = 2**22
"""Tokens of a batch whose size is fixed."""
_NO_PADDING: Mapping[str, int] = {}


@dataclass(frozen=True)
class Graph:
    """A session of onnxruntime, with what it reads and gives."""

    path: Path
    session: Any
    inputs: Mapping[str, Any]
    """NumPy's types, by name."""
    output: str
    width: int | None
    """Logits of a text, or of a token; None where the graph leaves it open."""
    rows: int | None
    length: int | None
    """Of every batch and of every text, where they are fixed."""

    @classmethod
    def of(cls, path: Path, session: Any) -> Graph:
        """A graph that can be run correctly; an error with the reason for any other."""
        inputs = {each.name: _type_of(path, each) for each in session.get_inputs()}
        if IDS not in inputs:
            raise UserError(f"{path} reads no {IDS}", "export the model again")
        rows, length = (_size_of(path, [each.shape[axis] for each in session.get_inputs()]) for axis in (0, 1))
        if (rows or 1) * (length or 1) > LARGEST:
            raise UserError(
                f"{path} reads only batches of {rows or 'any'} x {length or 'any'} tokens", "leave its dimensions open"
            )
        if length is not None and MASK not in inputs:
            raise UserError(
                f"{path} reads only texts of {length} tokens and no {MASK}, so padding would count as text",
                "leave its length open",
            )
        output = _output_of(path, session)
        width = output.shape[-1] if output.shape else None
        return cls(path, session, inputs, output.name, width if isinstance(width, int) else None, rows, length)

    def max_length(self, wanted: int) -> int:
        """`wanted`, or less if all texts have a fixed length."""
        return wanted if self.length is None else min(wanted, self.length)

    def run(self, batch: Mapping[str, torch.Tensor], pad: Mapping[str, int] = _NO_PADDING) -> np.ndarray:
        """Logits: (rows, labels), or (rows, tokens, labels). `pad` fills texts up where their length is fixed."""
        rows, length = batch[IDS].shape
        self._check(batch, length)
        feeds = {name: self._filled(batch[name].numpy(), pad.get(name, 0)).astype(t) for name, t in self.inputs.items()}
        with running(self.path):
            found = np.concatenate([self._run(feed) for feed in self._parts(feeds)])[:rows]
        return found[:, :length] if found.ndim == 3 else found

    def _check(self, batch: Mapping[str, torch.Tensor], length: int) -> None:
        missing = [name for name in self.inputs if name not in batch]
        if missing:
            known = ", ".join(name for name in READ if name in batch)
            raise UserError(
                f"{self.path} needs the input '{missing[0]}'", f"its tokenizer gives {known}: export the model again"
            )
        if length > self.max_length(length):
            raise UserError(f"{self.path} reads texts of {self.length} tokens, not of {length}", "cut them there")

    def _filled(self, values: np.ndarray, pad: int) -> np.ndarray:
        """With as many columns and rows as the graph reads: the last row is repeated."""
        rows, length = values.shape
        columns = 0 if self.length is None else self.length - length
        values = np.pad(values, ((0, 0), (0, columns)), constant_values=pad)
        return values if self.rows is None else np.pad(values, ((0, -rows % self.rows), (0, 0)), mode="edge")

    def _parts(self, feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        rows = len(feeds[IDS])
        size = self.rows or rows
        for start in range(0, rows, size):
            yield {name: values[start : start + size] for name, values in feeds.items()}

    def _run(self, feed: Mapping[str, np.ndarray]) -> np.ndarray:
        (found,) = self.session.run([self.output], feed)
        rows, length = feed[IDS].shape
        if found.ndim not in (2, 3) or found.shape[:-1] != (rows, length)[: found.ndim - 1]:
            raise UserError(
                f"{self.path} gives an output of shape {found.shape} for {rows} x {length} tokens",
                "it needs logits for each text, or for each token",
            )
        with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, which is an error
            return np.asarray(found, dtype=np.float32)


def _type_of(path: Path, declared: Any) -> Any:
    known = _TYPES.get(declared.name)
    if known is None:
        raise UserError(f"{path} needs the input '{declared.name}'", f"it can have {', '.join(READ)}")
    if declared.type not in known or len(declared.shape) != 2:
        raise UserError(
            f"{path} reads {declared.name} as {declared.type} with {len(declared.shape)} dimensions",
            "it can have whole numbers with two: texts and tokens",
        )
    return known[declared.type]


def _size_of(path: Path, sizes: list[Any]) -> int | None:
    """The size that all inputs have on one axis, None where it is open."""
    fixed = {size for size in sizes if isinstance(size, int)}
    if not fixed:
        return None
    if len(fixed) > 1 or min(fixed) < 1:
        raise UserError(f"{path} declares inputs of {' and '.join(map(str, sizes))} rows or tokens", "export it again")
    return int(fixed.pop())


def _output_of(path: Path, session: Any) -> Any:
    """The logits by their name, else the first output."""
    outputs = session.get_outputs()
    output = next((each for each in outputs if each.name == LOGITS), outputs[0])
    if output.type not in _FLOATS:
        raise UserError(f"{path} gives {output.type}, not logits", "export it with a floating-point output 'logits'")
    return output


# --- a graph as a model --------------------------------------------------------------------------------------------


def _import_onnxruntime() -> Any:
    """onnxruntime without its telemetry, which writes a device id and looks up a host from the import on."""
    disable_telemetry()
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # it may have been imported before
    return onnxruntime


def require_onnx() -> None:
    try:
        import onnx  # noqa: F401

        _import_onnxruntime()
    except ImportError as error:
        raise UserError(f"ONNX needs packages that are not installed ({error.name or error})", INSTALL) from error


def open_graph(graph: Path) -> Graph:
    """The graph in a file, to be run with as many threads as torch has."""
    try:
        onnxruntime = _import_onnxruntime()
    except ImportError as error:
        raise UserError(f"{graph} needs onnxruntime, which is not installed", INSTALL) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4  # an error is an exception; at level 3 it is also printed
    # idle threads of a session otherwise spin and take the cores from other models in this process
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.add_session_config_entry("session.load_model_format", "ONNX")  # never onnxruntime's own format
    try:
        session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise UserError(f"{graph} cannot be read as an ONNX model ({reason(error)})", "restore the file") from error
    return Graph.of(graph, session)


def quantise(path: Path) -> None:
    """Dynamic quantisation in place: weights of 7 bits a channel, for 8 overflow on processors without VNNI."""
    _import_onnxruntime()
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready = path.with_name("ready.onnx")
    with silence():
        quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        quantize_dynamic(str(ready), str(path), per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    ready.unlink()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Suppress what exporters print about traces, versions, and a preparation that was done already."""
    level = logging.root.level
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), _native_output_hidden():
        warnings.simplefilter("ignore")
        logging.root.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logging.root.setLevel(level)


@contextlib.contextmanager
def _native_output_hidden() -> Iterator[None]:
    """Hide what C++ prints: the exporter of torch 2.13 prints the whole graph of a model that it cannot export."""
    try:
        shown = os.dup(1)
    except OSError:  # a process without a standard output
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(shown, 1)
        os.close(shown)


def graph_logits(graph: Graph, data: Encoded) -> np.ndarray:
    """Logits in the order of the data, as `predict` gives them."""
    from srnet.training.data import token_batches
    from srnet.training.predict import EVAL_TOKENS, in_order

    batches = token_batches(data.lengths, EVAL_TOKENS)
    pieces = [data.place(rows, graph.run(data.collate(rows), data.pad)) for rows in batches]
    return in_order(pieces, str(graph.path))


def check_width(graph: Graph, labels: tuple[str, ...]) -> Graph:
    """The graph, whose number of outputs must be that of the labels where it declares it."""
    if graph.width not in (None, len(labels)):
        raise UserError(
            f"{graph.path.parent} names {len(labels)} labels for {graph.width} outputs",
            "export the model again, or name them in config.json, id2label",
        )
    return graph


@dataclass(frozen=True, kw_only=True)
class GraphModel(OpenModel):
    """A folder with a graph that onnxruntime runs."""

    graph: Graph
    count_words: Callable[[], int]
    """Reads the size of the vocabulary, without transformers where that is possible."""

    @property
    def max_length(self) -> int:
        return self.graph.max_length(self.length or CLASSES.max_length)

    @cached_property
    def run(self) -> Runner:
        return self.graph.run

    def predict(self, data: Encoded) -> np.ndarray:
        return graph_logits(self.graph, data)

    @cached_property
    def words(self) -> int:
        if not (size := self.count_words()):
            raise UserError(f"the tokenizer in {self.folder} has an empty vocabulary", "export the model again")
        return size

    def random_batch(self, rows: int, length: int) -> Batch:
        batch = random_batch(self.words, rows, length)
        return batch | ({SEGMENTS: torch.zeros_like(batch[IDS])} if SEGMENTS in self.graph.inputs else {})

    def count_parameters(self) -> int:
        """The numbers in all tensors; single numbers are settings of operators. It takes memory, running does not."""
        require_onnx()
        import onnx

        tensors = onnx.load(self.graph.path, load_external_data=False).graph.initializer
        return sum(math.prod(each.dims) for each in tensors if len(each.dims))


def read_backend(folder: Path) -> Any:
    """The tokenizer of a folder as the tokenizers library has it, without transformers."""
    from tokenizers import Tokenizer

    with opening(folder, TOKENIZER_IN):
        return Tokenizer.from_file(str(folder / TOKENIZER))
