"""How fast models are, side by side: latency, throughput, size and memory of anything that gives logits.

Of decoders: the time of a prompt, until the first new token, and of the tokens after it.

Models take turns within a round and the order changes from round to round, so that other work on the machine does not
always slow the same model. Ratios are taken within a round. Memory is measured in a process of its own for each model.
"""

from __future__ import annotations

import json
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

from srnet.core.arrays import finite_logits
from srnet.core.device import gpu_peak
from srnet.core.errors import UserError, running
from srnet.core.tables import Shown
from srnet.models.generation import generate, generates
from srnet.models.model import OpenModel, TorchModel
from srnet.models.open import ModelStore, Reference, open_as_trained
from srnet.timing.pace import Pace

WARM_UP = 3
QUARTILES = (25, 50, 75, 95)
MARKERS = "os^Dv"
"""Of models in a picture, for every ten colours."""


@dataclass(frozen=True)
class Timing:
    """Milliseconds, over rounds, of a forward pass or of generating; how often `rows` texts go through a second."""

    rows: int
    length: int
    p25: float
    p50: float
    p75: float
    p95: float
    ratio: tuple[float, float, float] | None
    """How many times as fast as the first model, within a round: quartiles. None if the first cannot read the text."""
    new_tokens: int = 0
    """The time is that of generating so many tokens after texts of `length` tokens; 0: of the forward pass itself."""

    @property
    def per_second(self) -> float:
        return 1000.0 * self.rows / self.p50

    @property
    def tokens_per_second(self) -> float:
        """Tokens that are read, or new ones."""
        return self.per_second * (self.new_tokens or self.length)


@dataclass(frozen=True, repr=False)
class Measured(Shown, says="name"):
    """What was found out about one model."""

    name: str
    kind: str
    parameters: int
    bytes: int
    memory: int | None
    """Bytes that it adds to a process at the peak, weights and a batch; None where it was not measured. On a GPU: of
    the GPU's memory."""
    timings: tuple[Timing, ...] = field(default=())
    """Texts that are longer than a model can read have none."""
    device: str = "cpu"
    """What it ran on."""

    def timing(self, rows: int, length: int, new_tokens: int = 0) -> Timing | None:
        wanted = (rows, length, new_tokens)
        return next((each for each in self.timings if (each.rows, each.length, each.new_tokens) == wanted), None)

    @property
    def generates(self) -> bool:
        """Whether it was measured as a decoder."""
        return any(each.new_tokens for each in self.timings)

    def _rows(self) -> list[Any]:
        facts = self.to_json()
        return [facts | timing for timing in facts.pop("timings")] or [facts]

    def to_json(self) -> dict[str, Any]:
        speeds = ("per_second", "tokens_per_second")
        timings = [asdict(each) | {name: getattr(each, name) for name in speeds} for each in self.timings]
        return {**asdict(self), "timings": timings}


# --- measuring -----------------------------------------------------------------------------------------------------


def measure_speed(
    models: Mapping[str, Reference],
    pace: Pace | None = None,
    on_step: Callable[[str], None] = lambda what: None,
    store: ModelStore | None = None,
) -> list[Measured]:
    """`models`: a name for the table -> what `open_model` opens. The first is what ratios refer to.

    Decoders are measured by their prompts and the tokens that they generate, and only with one another.
    """
    pace = pace or Pace()
    before, threads = torch.get_num_threads(), threads_of(pace)
    torch.set_num_threads(threads)
    try:
        opened = {name: open_as_trained(ref, store) for name, ref in models.items()}
        decoders = _decoders_in(opened)
        for name, model in opened.items():
            _check(name, model, min(pace.lengths), pace.new_tokens if decoders else 0)
        parameters = [model.count_parameters() for model in opened.values()]
        timings = _time_decoders(decoders, pace, on_step) if decoders else _time_models(opened, pace, on_step)
    finally:
        torch.set_num_threads(before)
    on_step("memory")
    memory = [_memory_of(model, pace, threads) if pace.memory else None for model in opened.values()]
    return [
        Measured(name, model.kind, count, model.bytes, peak, tuple(found), model.device)
        for (name, model), count, peak, found in zip(opened.items(), parameters, memory, timings, strict=True)
    ]


def threads_of(pace: Pace) -> int:
    """The number of threads that a model may use."""
    return pace.threads or torch.get_num_threads()


def _time_models(
    models: Mapping[str, OpenModel], pace: Pace, on_step: Callable[[str], None] = lambda what: None
) -> list[list[Timing]]:
    """For each model its timings: one text, then a batch, of each length."""
    found: list[list[Timing]] = [[] for _ in models]
    for rows, rounds in ((1, pace.rounds), (pace.batch, max(pace.rounds // 3, 2))):
        for length in pace.lengths:
            on_step(f"{rows} x {length} tokens")
            calls = [_call(name, model, rows, length) for name, model in models.items()]
            seconds = interleaved(calls, rounds)
            for timings, own in zip(found, seconds, strict=True):
                if own is not None:
                    timings.append(_timing(rows, length, own, seconds[0]))
    return found


Call = Callable[[], Any]
Clock = Callable[[Call], Any]
"""Runs a call, and gives the seconds that it took, of one part or of several."""


def interleaved(calls: Sequence[Call | None], rounds: int, clock: Clock | None = None) -> list[np.ndarray | None]:
    """Seconds of each call in each round, after a warm-up. Every round begins with another one."""
    clock = clock or _second_call
    seconds = [None if call is None else list[Any]() for call in calls]
    for number in range(-WARM_UP, rounds):
        for place in range(len(calls)):
            index = (place + number) % len(calls)
            call, own = calls[index], seconds[index]
            if call is None or own is None:
                continue
            took = clock(call)
            if number >= 0:
                own.append(took)
    return [None if own is None else np.array(own) for own in seconds]


def _second_call(call: Call) -> float:
    """The seconds of a call after one that is not counted.

    After another model's turn the cache has that model's weights, and its threads still wait actively for more work.
    """
    call()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _check(name: str, model: OpenModel, length: int, new_tokens: int = 0) -> None:
    """Refuse a model that cannot read even the shortest texts: it would only seem to be one for shorter ones."""
    and_new = f" and {new_tokens} new ones" if new_tokens else ""
    with running(f"{name}, on {length} tokens{and_new},"):
        logits = model.run(model.random_batch(1, length))
        if new_tokens and isinstance(model, TorchModel):
            finite_logits(np.asarray(logits), name)
            generate(model, model.random_batch(1, length), new_tokens)


def _call(name: str, model: OpenModel, rows: int, length: int) -> Callable[[], Any] | None:
    """A call that runs one batch; None where the model cannot read so many tokens."""
    run, batch = model.run, model.random_batch(rows, length)
    try:
        logits = run(batch)
    except Exception:  # torch and onnxruntime have many names for an index without a position
        return None
    finite_logits(np.asarray(logits), name)
    return lambda: run(batch)


def _timing(rows: int, length: int, own: np.ndarray, first: np.ndarray | None, new_tokens: int = 0) -> Timing:
    low, middle, high, late = (1000.0 * float(each) for each in np.percentile(own, QUARTILES))
    ratio = None
    if first is not None:
        slowest, typical, fastest = (float(each) for each in np.percentile(first / own, QUARTILES[:3]))
        ratio = (slowest, typical, fastest)
    return Timing(rows, length, low, middle, high, late, ratio, new_tokens)


# --- decoders ------------------------------------------------------------------------------------------------------


def _decoders_in(models: Mapping[str, OpenModel]) -> dict[str, TorchModel]:
    """The models if all are decoders; none if none is. Some are an error: the times would be of different work."""
    decoders = {name: each for name, each in models.items() if isinstance(each, TorchModel) and generates(each)}
    others = [name for name in models if name not in decoders]
    if decoders and others:
        problem = f"{next(iter(decoders))} is a decoder, which generates text, and {others[0]} is not"
        raise UserError(problem, "measure decoders in one command and other models in another")
    return decoders


def _time_decoders(
    models: Mapping[str, TorchModel], pace: Pace, on_step: Callable[[str], None] = lambda what: None
) -> list[list[Timing]]:
    """For each model its timings: for each length of a prompt, the prompt and then the new tokens."""
    found: list[list[Timing]] = [[] for _ in models]
    for length in pace.lengths:
        on_step(f"{pace.prompts} x {length} tokens and {pace.new_tokens} new ones")
        turns = [_turn(model, pace.prompts, length, pace.new_tokens) for model in models.values()]
        seconds = interleaved(turns, max(pace.rounds // 3, 2), clock=lambda turn: turn())
        for part, new_tokens in enumerate((0, pace.new_tokens)):
            own = [None if each is None else each[:, part] for each in seconds]
            for timings, each in zip(found, own, strict=True):
                if each is not None:
                    timings.append(_timing(pace.prompts, length, each, own[0], new_tokens))
    return found


def _turn(model: TorchModel, rows: int, length: int, new_tokens: int) -> Callable[[], tuple[float, float]] | None:
    """A call that gives the seconds of reading prompts, and of generating tokens; None where there are too many.

    The first new token comes of the prompt itself: one more is generated, and the time of the others is measured.
    """
    batch = model.random_batch(rows, length)
    try:
        generate(model, batch, 1 + new_tokens)
    except Exception:  # as for a text
        return None

    def turn() -> tuple[float, float]:
        generate(model, batch, 2)  # not counted, as the first call of other models
        times: list[float] = []
        start = time.perf_counter()
        generate(model, batch, 1 + new_tokens, on_tokens=lambda: times.append(time.perf_counter()))
        _, first, *_, last = times
        return first - start, last - first

    return turn


# --- memory --------------------------------------------------------------------------------------------------------


_TELL_PEAK = (
    "import json, sys; from srnet.timing import measuring; print(json.dumps(measuring._peak(*json.loads(sys.argv[1]))))"
)


def _memory_of(model: OpenModel, pace: Pace, threads: int) -> int | None:
    """What a model adds to a process at the peak; None if the process died, possibly because memory ran out.

    It is a plain process: one started by `multiprocessing` would run the caller's script again.
    """
    rows, new_tokens = (pace.prompts, pace.new_tokens) if generates(model) else (pace.batch, 0)
    given = json.dumps([str(model.folder or model.name), rows, max(pace.lengths), threads, new_tokens])
    paths = [os.path.abspath(each) for each in sys.path if isinstance(each, str)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-P", "-c", _TELL_PEAK, given]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    try:
        found: int | None = json.loads(ran.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        found = None
    return found


def _peak(place: str, rows: int, length: int, threads: int, new_tokens: int = 0) -> int | None:
    """What loading a model and running one batch, or generating, add to this process at the peak."""
    torch.set_num_threads(threads)
    before = _reset_peak()
    if before is None:
        return None
    model = open_as_trained(place)
    if new_tokens and isinstance(model, TorchModel):
        _turn(model, rows, length, new_tokens)
    elif (call := _call(place, model, rows, length)) is not None:
        call()
    return max(_status("VmHWM") - before, 0) if model.device == "cpu" else gpu_peak()


def _reset_peak() -> int | None:
    """Bytes in use now, from which the peak is counted; None where the system does not report them."""
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

    `measured` comes from `speed`. There is a panel for each of the `scores`, such as those on ID and OOD data: name of
    the score -> model -> score. `length` is that of the texts, in tokens. Decoders have new tokens a second.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    unit = f"texts a second, one at a time, {length} tokens"
    if any(each.generates for each in measured):
        unit = f"new tokens a second, after {length} tokens"
    figure = Figure(figsize=(6.0 * len(scores), 4.5), layout="constrained")
    (panels,) = figure.subplots(1, len(scores), squeeze=False)
    points: dict[str, Any] = {}
    for axes, (name, own) in zip(panels, scores.items(), strict=True):
        for place, each in enumerate(measured):
            speed = drawn_speed(each, length)
            if speed is not None and each.name in own:
                style = MARKERS[place // 10 % len(MARKERS)]
                (points[each.name],) = axes.plot(speed, own[each.name], style, color=f"C{place % 10}")
        axes.margins(0.1)
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(unit)
        axes.set_ylabel(name.replace("$", r"\$"))
    names = [name.replace("$", r"\$") for name in points]
    figure.legend(list(points.values()), names, loc="outside lower center", ncols=len(scores))
    return figure


def drawn_speed(measured: Measured, length: int) -> float | None:
    """Texts a second, one at a time, or a decoder's new tokens a second; None if it does not read so many tokens."""
    if measured.generates:
        new = [each for each in measured.timings if each.new_tokens and each.length == length]
        return new[0].tokens_per_second if new else None
    timing = measured.timing(1, length)
    return None if timing is None else timing.per_second
