"""When a run ends early, and what is only looked at: neither changes anything else."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from driven import Attempts, Interrupted, same
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from srnet.models.backbones import load_backbone
from srnet.pruners.mask_training import MaskTraining
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode
from srnet.training.method import Method
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result

# --- the rule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "patience", "min_gain", "expected"),
    [
        ((), 1, 0.5, False),
        ((50.0,), 1, 0.5, False),
        ((50.0, 50.0), 1, 0.5, True),
        ((50.0, 50.5), 1, 0.5, True),  # a gain is more than min_gain
        ((50.0, 50.6), 1, 0.5, False),
        ((50.0, 50.0), 1, 0.0, True),  # the same again is no gain, whatever min_gain
        ((50.0, 50.1), 1, 0.0, False),
        ((50.0, 40.0, 30.0), 3, 0.5, False),
        ((50.0, 40.0, 30.0, 49.0), 3, 0.5, True),
        ((50.0, 40.0, 45.0), 2, 0.5, True),  # better than the last one, but not than the last that counted
        ((50.0, 50.4, 50.8), 2, 0.5, False),  # small steps add up: 50.8 is measured from 50
        ((50.0, 50.4, 50.4), 2, 0.5, True),
        ((50.0, 50.4, 50.8, 51.2), 2, 0.5, False),  # 50.8 counted, so 51.2 is the first without a gain
        ((50.0, 50.4, 50.8, 51.2, 51.3), 2, 0.5, True),
        ((50.0, 50.0, 60.0), 2, 0.5, False),
        ((50.0, 60.0, 60.0, 70.0, 70.0), 2, 0.5, False),  # gaps do not add up
    ],
)
def test_by_hand(scores: tuple[float, ...], patience: int, min_gain: float, expected: bool) -> None:
    assert stalled(scores, patience, min_gain) is expected
    assert not TrainingSettings(min_gain=min_gain).stops_after(scores), "without a patience nothing is stopped"


def stalled(scores: Any, patience: int, min_gain: float) -> bool:
    return TrainingSettings(patience=patience, min_gain=min_gain).stops_after(scores)


# whole numbers, so that nothing hangs on rounding
POINTS = st.integers(0, 100)
PREFIX = st.lists(POINTS, max_size=12)
PATIENCE = st.integers(1, 5)
MIN_GAIN = st.integers(0, 20)


@given(POINTS, st.lists(st.integers(1, 9), max_size=12), PATIENCE, MIN_GAIN)
def test_steady_gains_never_stall(first: int, gains: list[int], patience: int, min_gain: int) -> None:
    scores = np.cumsum([first, *(min_gain + gain for gain in gains)]).tolist()
    assert not any(stalled(scores[:end], patience, min_gain) for end in range(len(scores) + 1))


@given(PREFIX, POINTS, PATIENCE, MIN_GAIN)
def test_standing_still_stalls_and_no_sooner(prefix: list[int], level: int, patience: int, min_gain: int) -> None:
    assert stalled([*prefix, level, *[level] * patience], patience, min_gain)
    assert not stalled([level] * patience, patience, min_gain)


@given(PREFIX, PATIENCE, MIN_GAIN)
def test_a_big_gain_is_always_a_gain(prefix: list[int], patience: int, min_gain: int) -> None:
    assert not stalled([*prefix, max(prefix, default=0) + min_gain + 1], patience, min_gain)


@given(PREFIX, PATIENCE, MIN_GAIN)
def test_whoever_waits_longer_stops_later(prefix: list[int], patience: int, min_gain: int) -> None:
    scores = [*prefix, *prefix[-1:] * (patience + 1)]  # most draws would not stall otherwise
    assert not stalled(scores, patience + 1, min_gain) or stalled(scores, patience, min_gain)


@pytest.mark.parametrize(
    "wrong",
    [{"patience": 0}, {"patience": -1}, {"min_gain": -0.1}, {"min_gain": math.nan}, {"trace": -1}]
    + [{"precision": "fp8"}, {"eval_precision": "half"}]
    + [{"score_rate": rate} for rate in (0.0, -1.0, math.inf, math.nan)],
    ids=str,
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with refused(next(iter(wrong))):
        TrainingSettings(**wrong)
    TrainingSettings(patience=1, min_gain=0.0, trace=0)


# --- a run that stops ----------------------------------------------------------------------------------------------

PEAK = (50.0, 60.0, 59.0, 60.4, 99.0, 99.0, 99.0, 99.0)
"""Dev scores at steps 5, 10, ... 40: with a patience of 2 the run ends at 20 and never sees the 99."""

STOPPING = TrainingSettings(learning_rate=1e-2, steps=40, eval_every=5, batch_size=8, patience=2, min_gain=0.5)


def attempts(make_run: Any, folder: Path, scores: tuple[float, ...] = PEAK, **changes: Any) -> Attempts:
    return Attempts(make_run, folder, **{"scores": scores, "settings": STOPPING, **changes})


def eval_scores(result: Result) -> list[tuple[float, float]]:
    return [(entry["step"], entry["eval_score"]) for entry in result.log if "eval_score" in entry]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run that stops by itself, made once."""
    done: list[Result] = []

    def run(make_run: Any) -> Result:
        if not done:
            done.append(attempts(make_run, tmp_path_factory.mktemp("stopped"))())
        return done[0]

    return run


def test_a_run_without_gain_ends_and_says_where(make_run: Any, stopped: Any) -> None:
    result = stopped(make_run)
    assert result.steps == 20
    assert eval_scores(result) == [(5, 50.0), (10, 60.0), (15, 59.0), (20, 60.4)]


def test_the_best_before_the_end_is_the_result(make_run: Any, stopped: Any, tmp_path: Path) -> None:
    # 60.4 is no gain for the rule, but it is the best score: choosing and stopping are two questions
    assert (stopped(make_run).step, stopped(make_run).dev_score) == (20, 60.4)
    falling = attempts(make_run, tmp_path, (50.0, 60.0, 59.0, 58.0, 99.0))()
    assert (falling.steps, falling.step, falling.dev_score) == (20, 10, 60.0)


def test_stopping_changes_nothing_but_the_length(make_run: Any, tmp_path: Path) -> None:
    scores = (50.0, 60.0, 59.0, 58.0, 57.0, 56.0, 55.0, 54.0)
    short = attempts(make_run, tmp_path / "short", scores)()
    long = attempts(make_run, tmp_path / "long", scores)(settings=replace(STOPPING, patience=None))
    assert (short.steps, long.steps) == (20, 40)
    assert (short.step, short.dev_score) == (long.step, long.dev_score) == (10, 60.0)
    assert same(short.snapshot, long.snapshot)


def test_gains_go_on_to_the_end(make_run: Any, tmp_path: Path) -> None:
    rising = attempts(make_run, tmp_path, tuple(float(n) for n in range(8)))()
    assert (rising.steps, rising.step) == (40, 40)


@pytest.mark.parametrize("stops", [(3, 7, 12, 17, 20), (20,)], ids=str)
def test_interrupted_anywhere_it_ends_alike(
    stops: tuple[int, ...], make_run: Any, stopped: Any, tmp_path: Path
) -> None:
    expected = stopped(make_run)
    broken = attempts(make_run, tmp_path)
    for stop in stops:
        torch.manual_seed(stop)
        with pytest.raises(Interrupted):
            broken(stop=stop)
    broken.steps.clear()
    result = broken()
    assert broken.steps == list(range(16, 21)), "it went on from the last checkpoint"
    assert (result.steps, result.step, result.dev_score) == (20, expected.step, expected.dev_score)
    assert same(result.snapshot, expected.snapshot)
    assert eval_scores(result) == eval_scores(expected)


def test_killed_after_it_stopped_it_trains_no_more(make_run: Any, tmp_path: Path) -> None:
    run = attempts(make_run, tmp_path)
    first = run()
    run.steps.clear()
    again = run()
    assert run.steps == []
    assert (again.steps, again.step, again.dev_score) == (20, first.step, first.dev_score)
    assert same(again.snapshot, first.snapshot)


# --- what is only looked at ----------------------------------------------------------------------------------------


@pytest.fixture
def challenge(tiny_backbone: str, tiny_task: SyntheticTask) -> Any:
    task = tiny_task.load()
    return encode(task.ood["challenge"], load_backbone(tiny_backbone, task.labels, 0).tokenizer, 64)


@pytest.mark.parametrize("pruned", [False, True], ids=["fine-tuning", "mask training"])
def test_a_trace_is_logged_and_chooses_nothing(pruned: bool, challenge: Any, make_run: Any, tmp_path: Path) -> None:
    # it is far above dev, best at the beginning and without a gain ever since: it would choose step 5 and stop at 15
    curve = iter((190.0, 120.0, 170.0, 180.0))

    def judge(logits: np.ndarray) -> float:
        assert logits.shape == (len(challenge), 2)
        return next(curve)

    def run(folder: str, **changes: Any) -> Result:
        pruner = MaskTraining(0.5)
        method = partial(pruner.method, fine_tuned=False, eval_every=5) if pruned else Method
        return attempts(make_run, tmp_path / folder, method=method)(**changes)

    without, traced = run("without"), run("with", trace={"challenge": (challenge, judge)})
    logged = {entry["step"]: entry["trace/challenge"] for entry in traced.log if "trace/challenge" in entry}
    assert logged == {5: 190.0, 10: 120.0, 15: 170.0, 20: 180.0}
    assert (traced.steps, traced.step) == (20, 20)
    assert (traced.steps, traced.step, traced.dev_score) == (without.steps, without.step, without.dev_score)
    assert eval_scores(traced) == eval_scores(without)
    assert same(traced.snapshot, without.snapshot)
    assert not any("trace" in name for entry in without.log for name in entry)
