"""The same results with other contents, and how they are printed."""

from __future__ import annotations

import io
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from rich.console import Console

from srnet.recipes.paradigms import Search, full, of_fine_tuned, of_raw
from srnet.report.results import Results

LINES = (
    partial(full, label="full <CE> & more"),
    partial(of_fine_tuned, label="magnitude", search=Search("one-shot", sparsities=(0.35, 0.9))),
    partial(of_raw, label="masks", search=Search("mask", "poe", (0.5,))),
)
"""The lines of a small figure."""


T = TypeVar("T")


def altered(value: T, **attributes: Any) -> T:
    """A copy with other attributes."""
    other = copy(value)
    vars(other).update(attributes)
    return other


def printed(*texts: object) -> str:
    """What a wide terminal shows."""
    console = Console(width=250, file=io.StringIO(), record=True, markup=False)
    console.print(*texts)
    return console.export_text()


def with_points(results: Results, points: list[Any], **fields: Any) -> Results:
    """As if the recipe had these points and no others."""
    recipe = replace(results.recipe, figure=lambda profile: points, **fields)
    return altered(results, recipe=recipe)
