"""The command that measures speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import srnet
from srnet.cli.options import Command, Fields
from srnet.cli.program import Given, Json, Run, app, out
from srnet.core.progress import Terminal
from srnet.core.tables import Table

Models = Annotated[list[str], typer.Argument(help="Keys, folders of any exported format, backbones, names on the Hub.")]
Picture = Annotated[Path | None, typer.Option(help="Also draw speed against score: FILE.png, .pdf or .svg.")]
Measuring = Annotated[Given, Fields("Measuring", "srnet.timing.pace:Pace")]
Where = Annotated[Given, Fields("Run", Run, only=("device", "store"))]
_Parts = tuple[Sequence[str], list[tuple[str, ...]], str]
"""Columns, rows, and what the figures are."""
WIDE = 200
"""Characters of a table in a file or a pipe, which has no width of its own."""


@app.command("speed", cls=Command)
def _speed(*, models: Models, measuring: Measuring, picture: Picture = None, run: Where, json: Json = False) -> None:
    """Measure models side by side: latency, throughput, size and memory. The others are compared with the first.

    Of decoders: tokens a second of a prompt, and of greedy generation with the key-value cache. Only the forward pass
    of masked language models is measured; a decoder cannot be mixed with other models.

    Models take turns in every round: compare within one run. They run on the GPU if there is one, and ONNX models on
    the CPU; --device cpu compares all of them there. --picture draws scores that the store has of a key, or that the
    card of an exported folder names.
    """
    pace = srnet.Pace(**measuring)
    engine = Run(**run, quiet=True).start()
    with Terminal(stderr=True).status("loading") as status:  # a name in a plain str would be read as markup
        found = srnet.speed(
            *models, pace=pace, engine=engine, on_step=lambda text: status.update(Text(text)), picture=picture
        )
    if json:
        from srnet.timing.measuring import threads_of

        out.print_json(data={"threads": threads_of(pace), "models": [each.to_json() for each in found]})
    else:
        (out if out.is_terminal else Terminal(width=WIDE)).print(_table(found, pace))


def _table(found: list[Any], pace: Any) -> Table:
    """The speed, how many times that is the speed of the first model, and the size."""
    columns, rows, title = (_of_decoders if any(each.generates for each in found) else _of_texts)(found, pace)
    is_short = any(len(each.timings) < 2 * len(pace.lengths) for each in found)
    notes = ["too long: a model that does not read so many tokens; it is compared at the other lengths"] * is_short
    devices = list(dict.fromkeys(each.device for each in found))
    elsewhere = [each.name for each in found if each.device != devices[0]]
    notes += [f"not on {devices[0]} but on {devices[1]}: {', '.join(elsewhere)}"] if elsewhere else []
    return Table(columns, rows, f"On {devices[0]}. {title}", "; ".join(notes))


_SIZE = ("parameters", "disk MB", "memory MB")


def _size(each: Any) -> tuple[str, ...]:
    memory = "" if each.memory is None else f"{each.memory / 1e6:.0f}"
    return f"{each.parameters:,}", f"{each.bytes / 1e6:.1f}", memory


def _of_texts(found: list[Any], pace: Any) -> _Parts:
    """Latency of one text, throughput of a batch, and for each length how many times as fast as the first model."""
    latencies = [f"ms, {length} tokens" for length in pace.lengths]
    throughputs = [f"texts/s, {pace.batch} x {length}" for length in pace.lengths]
    ratios = [f"times the first, {length} tokens" for length in pace.lengths]
    rows = []
    for each in found:
        singles = [_latency(each.timing(1, length)) for length in pace.lengths]
        batches = [_throughput(each.timing(pace.batch, length)) for length in pace.lengths]
        times = [times_text(each.timing(1, length)) for length in pace.lengths]
        rows.append((each.name, *singles, *batches, *times, *_size(each)))
    title = "ms a text: median (p95); times: within a round, median (quartiles)"
    return ("model", *latencies, *throughputs, *ratios, *_SIZE), rows, title


def _of_decoders(found: list[Any], pace: Any) -> _Parts:
    """A row for each length of a prompt: tokens a second that are read, and that are generated after it."""
    rows = []
    for model in found:
        for place, length in enumerate(pace.lengths):
            timings = [model.timing(pace.prompts, length, new) for new in (0, pace.new_tokens)]
            cells = [cell for each in timings for cell in (_tokens(each), times_text(each))]
            size = _size(model) if place == 0 else ("", "", "")
            rows.append((model.name if place == 0 else "", str(length), *cells, *size))
    columns = ("model", "prompt", "prompt tokens/s", "prompt, times", "new tokens/s", "new, times", *_SIZE)
    prompts = f"{pace.prompts} prompt{'s' if pace.prompts > 1 else ''} at a time, {pace.new_tokens} new tokens each"
    return columns, rows, f"{prompts}. Median (quartiles); times the first: within a round"


_TOO_LONG = "too long"


def _latency(timing: Any) -> str:
    return _TOO_LONG if timing is None else f"{timing.p50:.1f} ({timing.p95:.1f})"


def _throughput(timing: Any) -> str:
    return _TOO_LONG if timing is None else f"{timing.per_second:.0f}"


def _tokens(timing: Any) -> str:
    """Tokens a second: median and quartiles."""
    if timing is None:
        return _TOO_LONG
    low, typical, high = (timing.tokens_per_second * timing.p50 / each for each in (timing.p75, timing.p50, timing.p25))
    return f"{typical:,.0f} ({low:,.0f} to {high:,.0f})"


def times_text(timing: Any) -> str:
    """The ratio to the first model, or which of the two cannot read the text."""
    if timing is None:
        return _TOO_LONG
    if timing.ratio is None:
        return f"{_TOO_LONG} for the first"
    low, typical, high = timing.ratio
    return f"{typical:.2f} ({low:.2f} to {high:.2f})"
