"""The speed of models side by side, with a picture of speed against score."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from srnet.core.errors import UserError, choose
from srnet.core.files import require_writable, write_bytes
from srnet.core.progress import Reporter
from srnet.core.tables import ShownList
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about
from srnet.models.formats.card import scores_by_name, scores_of_folder
from srnet.models.open import is_key
from srnet.timing.measuring import Measured, drawn_speed, measure_speed, speed_against_scores, threads_of
from srnet.timing.pace import Pace

PICTURES = ("png", "pdf", "svg")
Panels = dict[str, dict[str, float]]
"""Scores by what was scored, then by model: a panel each."""


def speed(
    *models: str,
    pace: Pace | None = None,
    engine: Engine | None = None,
    on_step: Callable[[str], None] = lambda what: None,
    picture: Path | str | None = None,
) -> ShownList[Measured]:
    """Measure `models` side by side: keys of the store, folders of any format, shipped backbones, names on the Hub.

    Decoders are measured by prompts and new tokens, with the key-value cache, and are not mixed with other models.
    The first is what the others are compared with, at `pace`; `on_step` is called with what is timed. `picture` is a
    file for a drawing of speed against the scores that are known: those that the store has of a key, and those on the
    card of a folder. The reporter of `engine` warns if the machine was busy.
    """
    if not models:
        raise UserError("no model to measure", "give keys, folders or names")
    given = list(dict.fromkeys(models))
    short = [Path(model).name if Path(model).is_dir() else model for model in given]
    named = {name if short.count(name) == 1 else model: model for name, model in zip(short, given, strict=True)}
    engine, pace = engine or Engine(), pace or Pace()
    load = _system_load()
    path = None if picture is None else Path(picture)
    scores = {} if path is None else by_score({name: _known_scores(model, engine) for name, model in named.items()})
    if path is not None:
        _check_picture(path, scores)
    measured = measure_speed(named, pace, on_step, engine.models)
    _warn_if_busy(load, threads_of(pace), engine.reporter)
    if path is not None:
        write_bytes(path, speed_picture(measured, scores, pace, path.suffix.removeprefix(".")))
    return ShownList(measured)


def _system_load() -> float:
    """Processes that wanted to run in the last minute; 0 on systems that do not report it."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _warn_if_busy(load: float, threads: int, reporter: Reporter) -> None:
    """`load` is that before the measuring, which adds `threads` to it."""
    cores = os.cpu_count() or 1
    if load + threads > cores + 1:
        reporter.warn(
            f"the load before was {load:.1f} on {cores} cores: threads that wait for each other slow some models more "
            f"than others; measure on an idle machine{', or with --threads 1' if threads > 1 else ''}"
        )


def speed_picture(measured: Sequence[Measured], scores: Panels, pace: Pace, format: str = "png") -> bytes:
    """The bytes of a picture of speed against score."""
    figure = speed_against_scores(measured, scores, _drawn_length(measured, pace))
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, dpi=150)
    return buffer.getvalue()


def by_score(scores: Mapping[str, Mapping[str, float]]) -> Panels:
    """From scores by model to a panel for each score."""
    found: Panels = {}
    for model, own in scores.items():
        for name, value in own.items():
            found.setdefault(name, {})[model] = value
    return found


def _known_scores(model: str, engine: Engine) -> dict[str, float]:
    """The scores that the store has of a key, or the card of a folder, by data and metric."""
    if is_key(model, engine.models):
        return scores_by_name(known_about(engine.store, engine.models.find(model)))
    return scores_of_folder(Path(model)) if Path(model).is_dir() else {}


def _check_picture(path: Path, scores: Mapping[str, object]) -> None:
    """Refuse a picture that cannot be drawn or written, before anything is measured for it."""
    choose("kind of picture", path.suffix.removeprefix(".") or "none", PICTURES)
    if path.is_dir():
        raise UserError(f"{path} is a folder", "give a file for the picture")
    require_writable(path.parent)
    if not scores:
        raise UserError("no score of these models is known", "give keys, or folders exported from keys")


def _drawn_length(measured: Sequence[Measured], pace: Pace) -> int:
    """The longest text that every model can read, or else any of them."""
    for enough in (all, any):
        found = [length for length in pace.lengths if enough(drawn_speed(each, length) for each in measured)]
        if found:
            return max(found)
    raise UserError("no model reads texts of these lengths, so there is nothing to draw", "give shorter --lengths")
