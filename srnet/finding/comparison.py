"""The chosen subnetwork beside its baselines: bytes, scores and verdicts in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from srnet.core.tables import Table
from srnet.evaluation.significance import Spread
from srnet.finding.sizes import size_of
from srnet.recipes.paradigms import Place
from srnet.report.evidence import RecipeEvidence, Summary

LATENCY = (
    "Latency: a head, merged LoRA matrices, masks of single weights and int8 weights that are computed with as float32 "
    "leave the model as fast as the full model. Only removed units make it faster."
)


@dataclass(frozen=True)
class Line:
    """One of the models that are compared, over its seeds."""

    name: str
    bytes: int
    """Of the whole model, float32 unless its weights are rounded."""
    beside_full: int | None
    """Of what a receiver needs who has the full model; None for the full model itself."""
    scores: dict[str, Spread]
    """By split, ID dev first."""
    verdict: str = ""
    """Whether it keeps the ID score and gains OOD; empty for the full model and without OOD data."""


def compare(evidence: RecipeEvidence, chosen: tuple[str, Place]) -> tuple[Line, ...]:
    """The full model, the chosen subnetwork and the baselines; nothing if there are no baselines."""
    summaries = [each for each in evidence.summaries if each.point.is_baseline]
    if not summaries:
        return ()
    (reference,) = evidence.references.values()
    found = [each for each in evidence.summaries if (each.point.label, each.point.place) == chosen]
    full = [each for each in evidence.summaries if each.point.label == reference.label]
    return tuple(_line(evidence, each, is_full=each in full) for each in (*full, *found, *summaries))


def _line(evidence: RecipeEvidence, summary: Summary, *, is_full: bool) -> Line:
    # the full model that the search started from, which need not be the one that scores are compared with
    (reference,) = evidence.recipe.references.values()
    size = size_of(evidence.store, summary.models[0], reference.full[summary.point.seed])
    return Line(summary.name, size.whole, None if is_full else size.beside, summary.scores, summary.answer)


def comparison_table(lines: Sequence[Line]) -> Table:
    """One row per line; sizes in millions of bytes."""
    splits = list(lines[0].scores)
    header = ["model", "MB", "MB beside the full model", *splits, "keeps ID and gains OOD?"]
    rows: list[list[Any]] = [
        [
            each.name,
            _megabytes(each.bytes),
            "" if each.beside_full is None else _megabytes(each.beside_full),
            *(str(each.scores[split]) for split in splits),
            each.verdict,
        ]
        for each in lines
    ]
    return Table(header, rows, "The chosen subnetwork and its baselines", note=LATENCY, texts=(0, len(header) - 1))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.3f}"
