"""The same results with other contents."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from srnet.report import Results

T = TypeVar("T")


def altered(value: T, **attributes: Any) -> T:
    """A copy with other attributes."""
    other = copy(value)
    vars(other).update(attributes)
    return other


def with_points(results: Results, points: list[Any], **fields: Any) -> Results:
    """As if the recipe had these points and no others."""
    recipe = replace(results.recipe, figure=lambda profile: points, **fields)
    return altered(results, recipe=recipe)
