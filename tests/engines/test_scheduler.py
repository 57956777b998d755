"""The schedule of an engine, with a simulated executor: order, deaths, failures and other processes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from srnet.core.errors import UserError
from srnet.core.files import DiskFull
from srnet.core.progress import Reporter
from srnet.experiment.compute import Outcome
from srnet.experiment.engine import ATTEMPTS, _Schedule


@dataclass(frozen=True)
class Fake:
    """As much of a node as a scheduler looks at."""

    key: str
    parents: tuple[Fake, ...] = ()

    @property
    def label(self) -> str:
        return f"node {self.key}"


@dataclass
class FakeExecutor:
    """Each node ends as its story says, one word an attempt, and then well. The oldest ends first, unless chosen."""

    size: int = 1
    stories: dict[str, list[Any]] = field(default_factory=dict)
    choose: Callable[[int], int] = lambda count: 0
    watch: list[Callable[..., None]] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    waited: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    at_work: list[tuple[Fake, bool]] = field(default_factory=list)
    closed: int = 0

    def start(self, node: Any, *, wait: bool, watch: Any, say: Any) -> None:
        assert not self.closed
        assert len(self.at_work) < self.size, "nobody is free"
        assert all(parent.key in self.done for parent in node.parents), f"{node.key} came before its parents"
        assert node.key not in self.done, "it is there"
        assert node.key not in [other.key for other, _ in self.at_work], "somebody is at it"
        self.started.append(node.key)
        if wait:
            self.waited.append(node.key)
        self.watch.append(watch)
        self.at_work.append((node, wait))

    def outcomes(self) -> Iterable[Outcome]:
        assert self.at_work, "it would wait for ever"
        node, waits = self.at_work.pop(self.choose(len(self.at_work)))
        story = self.stories.get(node.key, [])
        word = story.pop(0) if story else "done"
        if word == "busy" and waits:
            word = "done"
        if isinstance(word, BaseException):
            if not isinstance(word, Exception):
                raise word
            return [Outcome(node, "failed", word)]  # type: ignore[arg-type]
        if word == "done":
            self.done.append(node.key)
        return [Outcome(node, word)]  # type: ignore[arg-type]

    def close(self) -> None:
        self.closed += 1


class Notes(Reporter):
    """Remembers what it was to say."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.warned: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)


def nodes(count: int) -> list[Any]:
    return [Fake(str(number)) for number in range(count)]


def execute(plan: list[Any], executor: FakeExecutor) -> Notes:
    notes = Notes()
    _Schedule(plan, executor, notes).run()
    return notes


# --- order ---------------------------------------------------------------------------------------------------------


def test_what_is_not_in_the_plan_is_there_already() -> None:
    stored = Fake("stored")
    executor = FakeExecutor(done=["stored"])
    execute([Fake("new", (stored,))], executor)
    assert executor.started == ["new"]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_everybody_has_something_to_do_and_one_thing_only(size: int) -> None:
    counts: list[int] = []
    executor = FakeExecutor(size)
    executor.choose = lambda count: counts.append(count) or 0  # type: ignore[func-returns-value]
    execute(nodes(6), executor)
    assert max(counts) == size
    assert counts == [min(size, left) for left in range(6, 0, -1)]


def test_a_node_starts_as_soon_as_its_own_parents_are_there() -> None:
    a, b = nodes(2)
    child = Fake("child", (b,))
    executor = FakeExecutor(size=2, choose=lambda count: count - 1)  # `a` takes longest
    execute([a, b, child], executor)
    assert executor.done == ["1", "child", "0"]


def test_every_step_keeps_its_number_and_its_bar() -> None:
    executor = FakeExecutor(size=2, stories={"0": ["died"], "1": ["busy"], "3": ["died", "died"]})
    notes = execute(nodes(5), executor)
    titles = [f"[{number + 1}/5] node {number}" for number in range(5)]
    assert sorted(line.rsplit("  ", 1)[0] for line in notes.said) == titles
    shown = [watch.__self__.title for watch in executor.watch]  # type: ignore[attr-defined]
    assert shown == [titles[int(key)] for key in executor.started]


# --- deaths --------------------------------------------------------------------------------------------------------


def test_a_node_whose_worker_died_is_tried_again_before_anything_else() -> None:
    executor = FakeExecutor(stories={"0": ["died"], "1": ["died", "died"]})
    notes = execute(nodes(3), executor)
    assert executor.started == ["0", "0", "1", "1", "1", "2"]
    assert [line.split(" died")[0] for line in notes.warned] == [f"the worker of node {n}" for n in (0, 1, 1)]


def test_a_node_whose_workers_all_die_fails_and_the_rest_goes_on() -> None:
    executor = FakeExecutor(stories={"0": ["died"] * 10})
    with refused("node 0", f"{ATTEMPTS} times"):
        execute(nodes(3), executor)
    assert executor.started == ["0"] * ATTEMPTS + ["1", "2"]
    assert executor.closed == 1


# --- failures ------------------------------------------------------------------------------------------------------


def test_the_first_error_is_raised_when_everything_else_is_done() -> None:
    first, second = UserError("one"), ValueError("two\nlines")
    notes, executor = Notes(), FakeExecutor(stories={"1": [first], "3": [second]})
    with pytest.raises(UserError) as error:
        _Schedule(nodes(5), executor, notes).run()
    assert error.value is first
    assert executor.done == ["0", "2", "4"]
    assert executor.started.count("1") == 1, "an error is no accident: it would come again"
    assert "node 3 failed: two" in notes.warned, "what is not raised is said"


@pytest.mark.parametrize("others", [{}, {"1": ["died"], "2": ["busy"]}])
def test_on_a_full_disk_nothing_more_is_begun_and_what_runs_may_end(others: dict[str, list[Any]]) -> None:
    executor = FakeExecutor(size=3, stories={"0": [DiskFull("full")], **others})
    with pytest.raises(DiskFull):
        execute(nodes(6), executor)
    assert executor.started == ["0", "1", "2"]
    assert executor.done == ([] if others else ["1", "2"])
    assert executor.closed == 1


def test_an_interruption_stops_all_workers_at_once() -> None:
    executor = FakeExecutor(size=2, stories={"0": [KeyboardInterrupt()]})
    with pytest.raises(KeyboardInterrupt):
        execute(nodes(4), executor)
    assert executor.started == ["0", "1"]
    assert executor.closed == 1


# --- other processes -----------------------------------------------------------------------------------------------


def test_a_busy_node_is_put_off_while_there_is_something_else() -> None:
    executor = FakeExecutor(stories={"0": ["busy", "busy", "busy"]})
    execute(nodes(3), executor)
    assert executor.started[:2] == ["0", "1"]
    assert executor.done[0] == "1"
    assert sorted(executor.done) == ["0", "1", "2"]


def test_a_busy_node_is_waited_for_when_nothing_else_is_left() -> None:
    (node,) = nodes(1)
    child = Fake("child", (node,))
    executor = FakeExecutor(size=2, stories={"0": ["busy"] * 10})
    execute([node, child], executor)
    assert executor.started == ["0", "0", "child"]
    assert executor.waited == ["0"]


def test_nobody_waits_for_a_busy_node_while_a_worker_may_free_others() -> None:
    a, b = nodes(2)
    child = Fake("child", (b,))
    executor = FakeExecutor(size=2, stories={"0": ["busy"]})
    execute([a, b, child], executor)
    assert executor.waited == []
    assert executor.started[:2] == ["0", "1"]
    assert sorted(executor.done) == ["0", "1", "child"]


# --- anything ------------------------------------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> list[Any]:
    plan: list[Any] = []
    for number in range(draw(st.integers(1, 12))):
        parents = draw(st.lists(st.sampled_from(plan), max_size=3, unique=True)) if plan else []
        plan.append(Fake(str(number), tuple(parents)))
    return plan


accidents = st.lists(st.sampled_from(["died", "busy"]), max_size=6).filter(lambda s: s.count("died") < ATTEMPTS)


@settings(max_examples=300)
@given(plan=plans(), size=st.integers(1, 4), seed=st.integers(0, 1000), data=st.data())
def test_whatever_happens_every_node_is_computed_once(plan: list[Any], size: int, seed: int, data: Any) -> None:
    stories = {node.key: data.draw(accidents) for node in plan}
    died = sum(story.count("died") for story in stories.values())
    executor = FakeExecutor(size, stories, choose=random.Random(seed).randrange)
    notes = execute(plan, executor)  # that parents come first is asserted by the executor
    assert Counter(executor.done) == Counter(node.key for node in plan)
    assert len(notes.said) == len(plan)
    assert len(notes.warned) <= died  # a story may end before its last accident
    assert executor.closed == 1


@settings(max_examples=300)
@given(plan=plans(), size=st.integers(1, 4), seed=st.integers(0, 1000), data=st.data())
def test_whatever_fails_the_rest_is_computed(plan: list[Any], size: int, seed: int, data: Any) -> None:
    bad = {node.key for node in plan if data.draw(st.booleans())}
    endings = st.sampled_from([[UserError("bad")], ["busy", UserError("bad")], ["died"] * ATTEMPTS])
    stories = {node.key: list(data.draw(endings)) if node.key in bad else data.draw(accidents) for node in plan}
    # one who waits gets the node from another process, which may have better luck
    lost: set[str] = set()
    for node in plan:
        if node.key in bad or any(parent.key in lost for parent in node.parents):
            lost.add(node.key)
    executor, notes = FakeExecutor(size, stories, choose=random.Random(seed).randrange), Notes()
    error: BaseException | None = None
    try:
        _Schedule(plan, executor, notes).run()
    except UserError as raised:
        error = raised
    failed = set(executor.started) - set(executor.done)
    told = {line.removeprefix("node ").split(" ")[0] for line in notes.warned if " failed: " in line}
    assert told <= failed
    assert len(failed - told) <= 1, "all but the one that is raised at once"
    assert failed <= bad
    assert (error is None) == (not failed)
    assert executor.closed == 1
    after = {node.key for node in plan if node.key in failed}
    for node in plan:
        if any(parent.key in after for parent in node.parents):
            after.add(node.key)
    assert set(executor.done) == {node.key for node in plan} - after
    assert set(executor.done) >= {node.key for node in plan} - lost
    left_out = len(after - failed)
    summary = [line for line in notes.warned if "were skipped" in line]
    assert summary == ([f"{left_out} steps that depend on failed ones were skipped"] if left_out and told else [])
