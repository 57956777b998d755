"""The command that measures speed."""

from __future__ import annotations

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
WIDE = 200
"""Characters of a table in a file or a pipe, which has no width of its own."""


@app.command("speed", cls=Command)
def _speed(*, models: Models, measuring: Measuring, picture: Picture = None, run: Where, json: Json = False) -> None:
    """Measure models side by side: latency, throughput, size and memory. The others are compared with the first.

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
    """Latency of one text, throughput of a batch, and for each length how many times as fast as the first model."""
    latencies = [f"ms, {length} tokens" for length in pace.lengths]
    throughputs = [f"texts/s, {pace.batch} x {length}" for length in pace.lengths]
    ratios = [f"times the first, {length} tokens" for length in pace.lengths]
    rows = []
    for each in found:
        singles = [_latency(each.timing(1, length)) for length in pace.lengths]
        batches = [_throughput(each.timing(pace.batch, length)) for length in pace.lengths]
        memory = "" if each.memory is None else f"{each.memory / 1e6:.0f}"
        facts = (f"{each.parameters:,}", f"{each.bytes / 1e6:.1f}", memory)
        times = [times_text(each.timing(1, length)) for length in pace.lengths]
        rows.append((each.name, *singles, *batches, *times, *facts))
    columns = ("model", *latencies, *throughputs, *ratios, "parameters", "disk MB", "memory MB")
    is_short = any(len(each.timings) < 2 * len(pace.lengths) for each in found)
    notes = ["too long: a model that does not read so many tokens; it is compared at the other lengths"] * is_short
    devices = list(dict.fromkeys(each.device for each in found))
    elsewhere = [each.name for each in found if each.device != devices[0]]
    notes += [f"not on {devices[0]} but on {devices[1]}: {', '.join(elsewhere)}"] if elsewhere else []
    title = f"On {devices[0]}. ms a text: median (p95); times: within a round, median (quartiles)"
    return Table(columns, rows, title, "; ".join(notes))


_TOO_LONG = "too long"


def _latency(timing: Any) -> str:
    return _TOO_LONG if timing is None else f"{timing.p50:.1f} ({timing.p95:.1f})"


def _throughput(timing: Any) -> str:
    return _TOO_LONG if timing is None else f"{timing.per_second:.0f}"


def times_text(timing: Any) -> str:
    """The ratio to the first model, or which of the two cannot read the text."""
    if timing is None:
        return _TOO_LONG
    if timing.ratio is None:
        return f"{_TOO_LONG} for the first"
    low, typical, high = timing.ratio
    return f"{typical:.2f} ({low:.2f} to {high:.2f})"
