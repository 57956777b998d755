"""What a positive control says, from made-up intervals."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import interval

from srnet.evaluation.significance import Interval
from srnet.evaluation.verdict import judge
from srnet.finding.control import Control


def control(gain: Interval, follows: Interval) -> Control:
    recipe: Any = None
    return Control(recipe, 0.7, judge(94.0, 97.0, interval(1.0, 2.0), {"anti": gain}), follows)


@pytest.mark.parametrize(
    ("gain", "follows", "is_removed", "words"),
    [
        (interval(8.0, 12.0), interval(9.0, 15.0), True, ("is removed", "means something")),
        (interval(-1.0, 3.0), interval(9.0, 15.0), False, ("is not certainly removed", "says little")),
        (interval(-9.0, -3.0), interval(9.0, 15.0), False, ("is not certainly removed", "says little")),
        (interval(8.0, 12.0), interval(-1.0, 2.0), False, ("does not certainly follow", "no answer")),
        (interval(8.0, 12.0, 1), interval(9.0, 15.0, 1), True, ("one seed", "3 seeds are needed")),
    ],
)
def test_the_sentence(gain: Interval, follows: Interval, is_removed: bool, words: tuple[str, ...]) -> None:
    found = control(gain, follows)
    assert found.is_removed == is_removed
    assert all(word in found.sentence for word in words)
    assert found.to_json()["removed"] == is_removed
