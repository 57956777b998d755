"""How fast models are, side by side: latency, throughput, size and memory of anything that gives logits.

Models take turns within a round and the order changes from round to round, so that other work on the machine does not
always slow the same model. Ratios are taken within a round. Memory is measured in a process of its own for each model.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from srnet.core.arrays import finite_logits
from srnet.core.errors import running
from srnet.models.backbones import load_backbone
from srnet.models.checkpoints import folder_or_name
from srnet.models.exported import Exported, is_exported, load_exported, vocabulary_size
from srnet.models.formats.graphs import SEGMENTS
from srnet.models.formats.onnx import GRAPH, open_graph, require_onnx
from srnet.models.subnetwork import Subnetwork
from srnet.models.subnetwork_files import CARD
from srnet.timing.pace import Pace

Batch = Mapping[str, torch.Tensor]
WARM_UP = 3
QUARTILES = (25, 50, 75, 95)
MARKERS = "os^Dv"
"""Of models in a picture, for every ten colours."""


@dataclass(frozen=True)
class Runner:
    """A model that is ready to run."""

    name: str
    kind: str
    run: Callable[[Batch], Any]
    parameters: Callable[[], int]
    """Counts them: for a graph that takes memory which running it does not."""
    bytes: int
    """On disk."""
    words: int
    """Of the vocabulary."""
    segments: bool = False
    """Whether it reads token_type_ids."""
    end: int | None = None
    """The token at which T5 and BART read the label: each text needs it once."""

    def inputs(self, rows: int, length: int) -> Batch:
        ids = torch.randint(0, self.words, (rows, length), generator=torch.Generator().manual_seed(0))
        if self.end is not None:
            ids[ids == self.end] = (self.end + 1) % self.words
            ids[:, -1] = self.end
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        return batch | ({"token_type_ids": torch.zeros_like(ids)} if self.segments else {})


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a forward pass, over rounds; how often a second `rows` texts would go through."""

    rows: int
    length: int
    p25: float
    p50: float
    p75: float
    p95: float
    ratio: tuple[float, float, float]
    """How many times as fast as the first model, within a round: quartiles."""

    @property
    def per_second(self) -> float:
        return 1000.0 * self.rows / self.p50


@dataclass(frozen=True)
class Measured:
    """What was found out about one model."""

    name: str
    kind: str
    parameters: int
    bytes: int
    memory: int | None
    """Bytes that it adds to a process at the peak, weights and a batch; None where it was not measured."""
    timings: tuple[Timing, ...] = field(default=())
    """Texts that are longer than a model can read have none."""

    def timing(self, rows: int, length: int) -> Timing | None:
        return next((each for each in self.timings if (each.rows, each.length) == (rows, length)), None)

    def facts(self) -> dict[str, Any]:
        timings = [asdict(each) | {"per_second": each.per_second} for each in self.timings]
        return {**asdict(self), "timings": timings}


# --- opening -------------------------------------------------------------------------------------------------------


def open_runner(source: str, name: str | None = None) -> Runner:
    """A folder of any format, the name of a shipped backbone, or a name on the Hub."""
    folder, name = Path(source), name or source
    kind = Exported.read(folder).kind if is_exported(folder) else None
    if kind == "onnx":
        return onnx_runner(name, folder)
    if kind is not None:
        return torch_runner(name, load_exported(folder), kind, size_of(folder))
    if (folder / CARD).is_file():
        subnetwork = Subnetwork.load(folder)
        return torch_runner(name, subnetwork.model(subnetwork.base()), "subnetwork", size_of(folder))
    model = load_backbone(source, ("0", "1"), seed=0).model
    return torch_runner(name, model, "checkpoint", _size_of_checkpoint(source, model))


def torch_runner(name: str, model: Any, kind: str = "torch", size: int | None = None) -> Runner:
    model.eval()
    device = model.device

    @torch.inference_mode()
    def run(batch: Batch) -> Any:
        # a GPU has computed the logits when they are in the host's memory, where those of a graph are
        return model(**{name: tensor.to(device) for name, tensor in batch.items()}).logits.cpu()

    def count() -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    words, size = model.get_input_embeddings().num_embeddings, _tensor_bytes(model) if size is None else size
    end = model.config.eos_token_id if model.config.is_encoder_decoder else None
    return Runner(name, kind, run, count, size, words, end=end)


def onnx_runner(name: str, folder: Path, words: int | None = None) -> Runner:
    """`words`: of the vocabulary, where there is no tokenizer."""
    require_onnx()
    if words is None:
        words = vocabulary_size(folder)
    graph = open_graph(folder / GRAPH)
    size, segments = size_of(folder), SEGMENTS in graph.inputs
    return Runner(name, "onnx", graph.run, lambda: _numbers_in(graph.path), size, words, segments)


def _numbers_in(graph: Path) -> int:
    """Of all tensors; single numbers are settings of operators."""
    import onnx

    tensors = onnx.load(graph, load_external_data=False).graph.initializer
    return sum(math.prod(each.dims) for each in tensors if len(each.dims))


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _size_of_checkpoint(source: str, model: nn.Module) -> int:
    folder = Path(folder_or_name(source))
    return size_of(folder) if folder.is_dir() else _tensor_bytes(model)


def _tensor_bytes(model: nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


# --- measuring -----------------------------------------------------------------------------------------------------


def measure_speed(
    sources: Mapping[str, str], pace: Pace | None = None, on_step: Callable[[str], None] = lambda what: None
) -> list[Measured]:
    """`sources`: a name for the table -> what `open_runner` reads. The first is what ratios refer to."""
    pace = pace or Pace()
    before, threads = torch.get_num_threads(), threads_of(pace)
    torch.set_num_threads(threads)
    try:
        runners = [open_runner(source, name) for name, source in sources.items()]
        for each in runners:
            _check(each, min(pace.lengths))
        timings = time_runners(runners, pace, on_step)
    finally:
        torch.set_num_threads(before)
    on_step("memory")
    memory = [_memory_of(source, pace, threads) if pace.memory else None for source in sources.values()]
    return [
        Measured(each.name, each.kind, each.parameters(), each.bytes, peak, tuple(found))
        for each, peak, found in zip(runners, memory, timings, strict=True)
    ]


def threads_of(pace: Pace) -> int:
    """How many threads a model may use."""
    return pace.threads or torch.get_num_threads()


def time_runners(
    runners: Sequence[Runner], pace: Pace, on_step: Callable[[str], None] = lambda what: None
) -> list[list[Timing]]:
    """For each model its timings: one text, then a batch, of each length."""
    found: list[list[Timing]] = [[] for _ in runners]
    for rows, rounds in ((1, pace.rounds), (pace.batch, max(pace.rounds // 3, 2))):
        for length in pace.lengths:
            on_step(f"{rows} x {length} tokens")
            seconds = interleaved([_call(each, rows, length) for each in runners], rounds)
            for timings, own in zip(found, seconds, strict=True):
                if own is not None:
                    timings.append(_timing(rows, length, own, seconds[0]))
    return found


def interleaved(calls: Sequence[Callable[[], Any] | None], rounds: int) -> list[np.ndarray | None]:
    """Seconds of each call in each round, after a warm-up. Every round begins with another one.

    Each turn begins with a call that is not counted: after another model's turn the cache has that model's weights, and
    its threads still wait actively for more work.
    """
    seconds = [None if call is None else np.empty(rounds) for call in calls]
    for number in range(-WARM_UP, rounds):
        for place in range(len(calls)):
            index = (place + number) % len(calls)
            call, own = calls[index], seconds[index]
            if call is None or own is None:
                continue
            call()
            start = time.perf_counter()
            call()
            if number >= 0:
                own[number] = time.perf_counter() - start
    return seconds


def _check(runner: Runner, length: int) -> None:
    """Refuse a model that cannot read even the shortest texts: it would only seem to be one for shorter ones."""
    with running(f"{runner.name}, on {length} tokens,"):
        runner.run(runner.inputs(1, length))


def _call(runner: Runner, rows: int, length: int) -> Callable[[], Any] | None:
    """None where the model cannot read so many tokens."""
    batch = runner.inputs(rows, length)
    try:
        logits = runner.run(batch)
    except Exception:  # torch and onnxruntime have many names for an index without a position
        return None
    finite_logits(np.asarray(logits), runner.name)
    return lambda: runner.run(batch)


def _timing(rows: int, length: int, own: np.ndarray, first: np.ndarray | None) -> Timing:
    low, middle, high, late = (1000.0 * float(each) for each in np.percentile(own, QUARTILES))
    ratios = np.percentile(first / own, QUARTILES[:3]) if first is not None else [float("nan")] * 3
    return Timing(rows, length, low, middle, high, late, (float(ratios[0]), float(ratios[1]), float(ratios[2])))


# --- memory --------------------------------------------------------------------------------------------------------


_TELL_PEAK = (
    "import json, sys; from srnet.timing import measuring; print(json.dumps(timing._peak(*json.loads(sys.argv[1]))))"
)


def _memory_of(source: str, pace: Pace, threads: int) -> int | None:
    """None if the process died, possibly because memory ran out.

    It is a plain process: one started by `multiprocessing` would run the caller's script again.
    """
    given = json.dumps([source, pace.batch, max(pace.lengths), threads])
    paths = [os.path.abspath(each) for each in sys.path if isinstance(each, str)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-P", "-c", _TELL_PEAK, given]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    try:
        found: int | None = json.loads(ran.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        found = None
    return found


def _peak(source: str, rows: int, length: int, threads: int) -> int | None:
    """What loading a model and running one batch add to this process at the peak."""
    torch.set_num_threads(threads)
    before = _reset_peak()
    if before is None:
        return None
    runner = open_runner(source)
    if (call := _call(runner, rows, length)) is not None:
        call()
    return max(_status("VmHWM") - before, 0)


def _reset_peak() -> int | None:
    """Bytes in use now, from which the peak is counted; None where the system does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _status("VmRSS")
    except OSError:
        return None


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


# --- a picture -----------------------------------------------------------------------------------------------------


def speed_against_scores(
    measured: Sequence[Measured], scores: Mapping[str, Mapping[str, float]], length: int = 128
) -> Any:
    """A matplotlib figure: texts a second, one at a time, against the score, a point a model that has one.

    There is a panel for every score, such as those on ID and OOD data: name of the score -> model -> score.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(6.0 * len(scores), 4.5), layout="constrained")
    (panels,) = figure.subplots(1, len(scores), squeeze=False)
    points: dict[str, Any] = {}
    for axes, (name, own) in zip(panels, scores.items(), strict=True):
        for place, each in enumerate(measured):
            timing = each.timing(1, length)
            if timing is not None and each.name in own:
                style = MARKERS[place // 10 % len(MARKERS)]
                (points[each.name],) = axes.plot(timing.per_second, own[each.name], style, color=f"C{place % 10}")
        axes.margins(0.1)
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(f"texts a second, one at a time, {length} tokens")
        axes.set_ylabel(name.replace("$", r"\$"))
    names = [name.replace("$", r"\$") for name in points]
    figure.legend(list(points.values()), names, loc="outside lower center", ncols=len(scores))
    return figure
