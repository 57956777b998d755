"""A planted shortcut: shares of the cue, rows that are held out, theory, files, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import command_refused, refused
from scipy.special import log_softmax, ndtr

from srnet.config.fields import Described
from srnet.models.checkpoints import read_tokenizer
from srnet.recipes.tasks import DataOptions, read_task
from srnet.tasks.base import Task
from srnet.tasks.planted import ANTI, COLUMN, NEUTRAL, PlantedTask, _drawn, _shares, cues_of
from srnet.tasks.planted_files import plant
from srnet.tasks.planted_theory import cue_log_odds, expected, reference_strength, temperature, with_cue
from srnet.tasks.splits import Example, Split
from srnet.tasks.synthetic import SyntheticTask

SMALL = SyntheticTask("inference", train_size=400, dev_size=100, ood_size=40)
THREE = SyntheticTask("verification", train_size=600, dev_size=120, ood_size=40)


@dataclass(frozen=True)
class Listed(Described):
    """A task of rows that a test names: (text, label)."""

    rows: tuple[tuple[str, int], ...]
    labels: tuple[str, ...] = ("no", "yes")
    name: str = "listed"

    def load(self) -> Task:
        examples = [Example(f"train-{n}", text, "", label) for n, (text, label) in enumerate(self.rows)]
        train, dev = Split.of("train", "ID", examples), Split.of("dev", "ID", examples[: 2 * len(self.labels)])
        return Task(self.name, self.labels, "accuracy", "words", train, dev, {})


def rows(count: int, labels: int = 2) -> tuple[tuple[str, int], ...]:
    return tuple((f"text number {n}", n % labels) for n in range(count))


def right(task: Task, split: Split) -> float:
    return float((cues_of(task, split) == split.labels).mean())


@pytest.mark.parametrize(("spec", "strength"), [(SMALL, 0.7), (SMALL, 0.5), (THREE, 0.55)])
def test_the_cue_is_right_as_often_as_requested_in_every_class(spec: SyntheticTask, strength: float) -> None:
    task = PlantedTask(spec, strength).load()
    for split in (task.train, task.dev):
        for label in range(len(task.labels)):
            own = split.take(np.flatnonzero(split.labels == label))
            assert abs(right(task, own) - strength) <= 1.0 / len(own)
    assert right(task, task.ood[ANTI]) == 0.0
    neutral = task.id_tests[NEUTRAL]
    for label in range(len(task.labels)):
        own = neutral.take(np.flatnonzero(neutral.labels == label))
        assert abs(right(task, own) - 1 / len(task.labels)) <= 1.0 / len(own)


def test_the_cue_is_the_opening_word_of_the_second_text() -> None:
    task, plain = PlantedTask(SMALL, 0.7).load(), SMALL.load()
    before = dict(zip(plain.train.ids, zip(plain.train.text_a, plain.train.text_b, strict=True), strict=True))
    openings: dict[int, set[str]] = {0: set(), 1: set()}
    for split in (task.train, task.ood[ANTI], task.id_tests[NEUTRAL]):
        for n, id in enumerate(split.ids):
            opening, _, rest = split.text_b[n].partition(", ")
            assert (split.text_a[n], rest) == before[id]
            openings[int(cues_of(task, split)[n])].add(opening)
    assert [len(words) for words in openings.values()] == [1, 1]
    assert openings[0] != openings[1]


def test_a_column_alone_changes_no_text() -> None:
    text, column = (PlantedTask(SMALL, 0.7, cue).load() for cue in ("text", "column"))
    plain = SMALL.load()
    assert set(column.train.text_b) <= set(plain.train.text_b)
    assert column.train.columns[COLUMN] == text.train.columns[COLUMN]
    assert column.fingerprint != text.fingerprint


def test_ood_sets_have_the_same_rows_which_share_no_text_with_training_or_dev() -> None:
    task, plain = PlantedTask(SMALL, 0.7).load(), SMALL.load()
    anti, neutral = task.ood[ANTI], task.id_tests[NEUTRAL]
    assert anti.ids == neutral.ids
    assert {*anti.ids, *task.train.ids} == {*plain.train.ids}
    assert not {*anti.ids} & {*task.train.ids}
    assert not {*anti.text_a} & {*task.train.text_a}
    assert list(task.ood) == [ANTI]
    assert task.ood_train is None
    assert anti.kind == neutral.kind == "OOD"


def test_the_same_fields_give_the_same_examples_and_seeds_of_splits_differ() -> None:
    one, same, other = (PlantedTask(SMALL, strength).load() for strength in (0.7, 0.7, 0.8))
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_rows_say_whether_the_cue_is_right_above_their_own_case() -> None:
    task = PlantedTask(SMALL, 0.7).load()
    for split in task.splits.values():
        for group, is_right in zip(split.groups, cues_of(task, split) == split.labels, strict=True):
            assert group.split(" > ")[0] == ("planted cue right" if is_right else "planted cue wrong")
            assert len(group.split(" > ")) == 3


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.floats(0.25, 0.99), st.integers(0, 9))
def test_shares_are_exact_but_for_rounding(labels: list[int], strength: float, seed: int) -> None:
    truth = np.array(labels)
    cues = _drawn(truth, _shares(4, strength), np.random.default_rng(seed))
    for label in range(4):
        own = cues[truth == label]
        counts = np.bincount(own, minlength=4)
        assert np.abs(counts - _shares(4, strength)[label] * len(own)).max() <= 1.0


def test_without_cues_of_its_own_a_task_has_plain_names_of_sub_cases() -> None:
    assert {*PlantedTask(Listed(rows(100)), 0.7).load().train.groups} == {"cue right", "cue wrong"}


def test_an_opening_word_that_a_text_begins_with_is_not_used() -> None:
    texts = tuple((f"Meanwhile text {n}", n % 2) for n in range(40))
    task = PlantedTask(Listed(texts), 0.7).load()
    assert not any(text.startswith("Meanwhile,") for text in task.train.text_a)


def test_many_labels_have_two_opening_words_each() -> None:
    labels = tuple(f"label {n}" for n in range(30))
    task = PlantedTask(Listed(rows(3000, 30), labels), 0.5).load()
    assert len({text.partition(",")[0] for text in task.train.text_a}) == 30


def test_labels_that_are_numbers_make_a_cue_of_categories() -> None:
    task = PlantedTask(Listed(rows(100, 3), ("0", "1", "2")), 0.6).load()
    assert {*task.train.columns[COLUMN]} == {"towards 0", "towards 1", "towards 2"}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (PlantedTask(SMALL, 0.3), ("0.3", "2 labels")),
        (PlantedTask(PlantedTask(SMALL, 0.7), 0.7), ("cue", "one at a time")),
        (PlantedTask(Listed(rows(8)), 0.7), ("4 rows", "20 of each")),
    ],
)
def test_what_cannot_be_planted_is_refused(spec: PlantedTask, names: tuple[str, ...]) -> None:
    with refused(*names):
        spec.load()


# --- theory --------------------------------------------------------------------------------------------------------


def test_theory_of_two_labels_is_the_closed_form() -> None:
    found = expected(2, 85.0, 0.75)
    d = 2**0.5 * 1.0364333894937898  # the difference of two scores has a variance of 2
    odds = np.log(3.0)
    correct = [100 * ndtr(d / 2**0.5 + side * odds / d / 2**0.5) for side in (1, -1)]
    assert found.debiased == pytest.approx(85.0)
    assert found.anti == pytest.approx(correct[1], abs=1e-6)
    assert found.id == pytest.approx(0.75 * correct[0] + 0.25 * correct[1], abs=1e-6)
    assert found.neutral == pytest.approx(sum(correct) / 2, abs=1e-6)
    assert (round(found.kept), round(found.gain)) == (97, 16)


@pytest.mark.parametrize(("classes", "accuracy", "strength"), [(2, 80.0, 0.7), (3, 80.0, 0.55), (5, 60.0, 0.4)])
def test_theory_agrees_with_a_simulation(classes: int, accuracy: float, strength: float) -> None:
    rng, rows, found = np.random.default_rng(0), 100_000, expected(classes, accuracy, strength)
    labels = rng.integers(0, classes, rows)
    noise = rng.normal(size=(rows, classes))

    def share(d: float) -> float:
        return float((d * (np.eye(classes)[labels] * d + noise)).argmax(1).__eq__(labels).mean())

    low, high = 0.0, 10.0
    for _ in range(40):
        low, high = ((low + high) / 2, high) if share((low + high) / 2) < accuracy / 100 else (low, (low + high) / 2)
    log_odds = low * (np.eye(classes)[labels] * low + noise)
    for shares, score in ((strength, found.id), (0.0, found.anti), (1 / classes, found.neutral)):
        cues = _drawn(labels, _shares(classes, shares), rng)
        assert 100 * (with_cue(log_odds, cues, strength).argmax(1) == labels).mean() == pytest.approx(score, abs=0.5)


def test_without_a_cue_theory_has_one_score() -> None:
    assert expected(3, 77.0, 1 / 3) == pytest.approx([77.0] * 4)


@given(st.sampled_from([2, 3, 6]), st.floats(0.55, 0.95), st.floats(0.51, 0.95))
def test_a_cue_helps_in_distribution_and_misleads_elsewhere(classes: int, strength: float, accuracy: float) -> None:
    found = expected(classes, 100 * accuracy, strength)
    assert found.anti <= found.neutral + 1e-9 <= found.debiased + 2e-9 <= found.id + 3e-9


def test_the_reference_strength_has_the_same_odds_for_any_number_of_labels() -> None:
    assert reference_strength(2) == 0.7
    assert cue_log_odds(3, reference_strength(3)) == pytest.approx(cue_log_odds(2, 0.7), abs=0.02)


def test_the_temperature_of_logits_is_found() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(20_000, 2)) * 1.5
    labels = (rng.random(20_000) < np.exp(log_softmax(truth, 1))[:, 1]).astype(int)
    cues = _drawn(labels, _shares(2, 0.7), rng)
    assert temperature(4.0 * truth, cues, labels, 0.7) == pytest.approx(0.25, rel=0.05)


# --- descriptions, files and commands ------------------------------------------------------------------------------


def test_yaml_and_options_plant_the_same() -> None:
    task = SyntheticTask("inference", train_size=400)
    assert read_task({"name": "inference", "train_size": 400, "plant": 0.7}, "task") == PlantedTask(task, 0.7)
    column = {"strength": 0.6, "cue": "column"}
    assert read_task({"name": "inference", "plant": column}, "task") == PlantedTask(SyntheticTask(), 0.6, "column")
    assert DataOptions(plant=0.7).task("inference") == PlantedTask(SyntheticTask(), 0.7)


@pytest.mark.parametrize(
    ("plant", "names"), [(1.5, ("plant", "1.5")), ({"power": 1}, ("power",)), ("often", ("often",))]
)
def test_a_bad_strength_names_its_key(plant: object, names: tuple[str, ...]) -> None:
    with refused("task", *names):
        read_task({"name": "inference", "plant": plant}, "task")


def test_files_describe_the_planted_task(tmp_path: Path) -> None:
    made = plant(SMALL, tmp_path / "out", 0.7)
    assert [path.name for path in made.paths] == ["train.csv", "dev.csv", "neutral.csv", "anti.csv", "task.yaml"]
    read, planted = read_task(str(made.paths[-1]), "task"), made.task.load()
    task = DataOptions().task(str(made.paths[-1])).load()
    assert (task.name, task.labels, task.shortcut) == (planted.name, planted.labels, "columns:cue")
    assert (task.train.text_b, task.dev.groups) == (planted.train.text_b, planted.dev.groups)
    assert list(task.ood) == [ANTI]
    assert list(task.id_tests) == [NEUTRAL]
    assert read.name == "inference-planted-70"


def test_scores_have_no_cue(tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("text,label\n" + "".join(f"text {n},{n / 7}\n" for n in range(40)))
    with refused("classes", "scores"):
        plant(DataOptions(train=str(tmp_path / "scores.csv"), answer="score").task(say=print), tmp_path / "out")


def test_planting_into_a_folder_that_exists_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert str(tmp_path) in command_refused(monkeypatch, capsys, "data", "plant", "inference", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_embedded_backbone_knows_the_words_that_are_planted_in_its_tasks() -> None:
    tokenizer = read_tokenizer("srnet-tiny")
    for name in ("inference", "paraphrase", "verification"):
        task = PlantedTask(SyntheticTask(name, train_size=600, dev_size=60, ood_size=20), 0.7).load()
        openings = {text.partition(",")[0] for text in task.train.text_b}
        tokens = {tuple(tokenizer.tokenize(opening)) for opening in openings}
        assert len(tokens) == len(openings) == len(task.labels)
        assert not any(tokenizer.unk_token in each for each in tokens)


def test_texts_that_open_with_a_quoted_word_open_with_it() -> None:
    texts = tuple((f"“Meanwhile.” text {n} elsewhere nowadays lately", n % 2) for n in range(80))
    task = PlantedTask(Listed(texts), 0.7).load()
    assert not any(text.startswith("Meanwhile,") for text in task.train.text_a)


def test_a_file_with_a_column_called_cue_is_refused(tmp_path: Path) -> None:
    lines = "".join(f"text {n},{'yes' if n % 2 else 'no'},x\n" for n in range(80))
    (tmp_path / "t.csv").write_text(f"text,label,cue\n{lines}")
    with refused("cue", "one at a time"):
        plant(DataOptions(train=str(tmp_path / "t.csv"), text="text", label="label").task(say=print), tmp_path / "out")


@pytest.mark.parametrize("classes", [2, 3, 100, 2000])
def test_the_default_strength_of_many_labels_is_more_than_chance(classes: int) -> None:
    assert reference_strength(classes) > 1.35 / classes
