"""The survey of shortcuts: the right kind is named, and none where there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from commands import run
from refusals import command_refused, refused

import srnet
from srnet.bias.measuring import permutation_p
from srnet.bias.survey import Survey, survey
from srnet.bias.survey_tables import tables_of
from srnet.tasks.base import Task
from srnet.tasks.splits import Coarse, Split

WORDS = [f"w{n}" for n in range(300)]
FREQUENCY = 1 / np.arange(1, 301)
Cells = Callable[[np.random.Generator, np.ndarray], list[str]]


def noisy(values: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """The label itself in a share of rows, any label in the others."""
    return np.where(rng.random(len(values)) < strength, values, rng.integers(0, values.max() + 1, len(values)))


def texts(rng: np.random.Generator, rows: int) -> list[str]:
    return [" ".join(row) for row in rng.choice(WORDS, (rows, 12), p=FREQUENCY / FREQUENCY.sum())]


def made_up(
    rng: np.random.Generator,
    rows: int = 400,
    labels: int = 2,
    first: Cells | None = None,
    second: Cells | None = None,
    columns: Mapping[str, Cells] | None = None,
    name: str = "train",
) -> Split:
    y = rng.integers(0, labels, rows)
    a = tuple(first(rng, y) if first else texts(rng, rows))
    b = tuple(second(rng, y)) if second else ("",) * rows
    metadata = {column: tuple(cells(rng, y)) for column, cells in (columns or {}).items()}
    return Split(name, "ID", tuple(f"{name}-{n}" for n in range(rows)), a, b, y, ("",) * rows, columns=metadata)


def task_of(seed: int = 0, rows: int = 400, labels: int = 2, metric: str = "accuracy", **cells: object) -> Task:
    rng = np.random.default_rng(seed)
    train = made_up(rng, rows, labels, **cells)  # type: ignore[arg-type]
    dev = made_up(rng, 300, labels, name="dev", **cells)  # type: ignore[arg-type]
    return Task("made-up", tuple("abcdef"[:labels]), metric, "words", train, dev, {})


def signed(rng: np.random.Generator, y: np.ndarray) -> list[str]:
    """Texts in which one word tells the label."""
    told = noisy(y, rng, 0.7)
    return [f"{text} sign{label}" for text, label in zip(texts(rng, len(y)), told, strict=True)]


def plain(rng: np.random.Generator, y: np.ndarray) -> list[str]:
    return texts(rng, len(y))


def sources(rng: np.random.Generator, y: np.ndarray) -> list[str]:
    return [f"site {label}" for label in noisy(y, rng, 0.7)]


def noise(rng: np.random.Generator, y: np.ndarray) -> list[str]:
    return rng.choice(["en", "de", "fr"], len(y)).tolist()


# --- the right kind ------------------------------------------------------------------------------------------------


def test_the_words_of_a_single_text() -> None:
    found = survey(task_of(first=signed))
    assert found.best == "words"
    assert {each.feature for each in found.found[0].carriers[:2]} == {"sign0", "sign1"}
    assert "sign0" in found.sentence
    assert {each.name for each in found.left_out} >= {"overlap", "claim", "unknown"}, "named, with the reason"


def test_the_words_of_the_second_text_are_simpler_than_those_of_both() -> None:
    found = survey(task_of(first=plain, second=signed, rows=1000))
    assert found.best == "claim"
    assert "words" in [each.shortcut for each in found.found], "which contain them"


@pytest.mark.parametrize(
    ("task", "kind"), [("inference", "overlap"), ("paraphrase", "overlap"), ("verification", "claim")]
)
def test_the_embedded_tasks(task: str, kind: str) -> None:
    found = survey(srnet.SyntheticTask(task, train_size=1500, dev_size=600, ood_size=300))
    assert found.best == kind
    assert "challenge" in found.sentence
    assert [each for each in found.examples if each.split == "challenge" and not each.is_right]


@pytest.mark.parametrize("labels", [2, 3])
def test_a_planted_column_is_named_alone(labels: int) -> None:
    found = survey(task_of(labels=labels, first=plain, second=plain, columns={"lang": noise, "source": sources}))
    assert found.best == "columns:source", "not the columns together, which explain as much with more features"
    assert "columns:lang,columns:source" in [each.shortcut for each in found.found]
    carrier = found.found[0].carriers[0]
    assert carrier.feature.startswith("source=site")
    assert carrier.lift > 1.5


def test_what_few_rows_teach_decides_and_not_the_score() -> None:
    """A column that predicts less than thousands of words do when all rows are fitted is still learned first."""

    def many_signs(rng: np.random.Generator, y: np.ndarray) -> list[str]:
        return [" ".join(f"v{2 * each + label}" for each in rng.integers(0, 3000, 2)) for label in y]

    found = survey(task_of(rows=8000, first=many_signs, columns={"source": sources}))
    scores = {each.shortcut: each.scores["dev"] for each in found.kinds}
    assert scores["words"] > scores["columns:source"] + 5
    assert found.best == "columns:source"


# --- none ----------------------------------------------------------------------------------------------------------


def test_random_labels_have_no_shortcut() -> None:
    """Ten seeds, of single texts and pairs, with columns: at most one false alarm in all."""
    columns = {"lang": noise, "price": lambda rng, y: [f"{each:.2f}" for each in rng.lognormal(3, 1, len(y))]}
    second = (None, plain)
    tasks = [task_of(seed, 150, 2 + seed % 2, second=second[seed // 2 % 2], columns=columns) for seed in range(10)]
    found = [survey(task) for task in tasks]
    assert sum(each.best is not None for each in found) <= 1
    assert sum(each.sentence.startswith("No shortcut was found") for each in found) >= 9


@pytest.mark.parametrize("metric", ["f1", "matthews", "positive_f1"])
def test_guesses_that_beat_the_majority_class_by_metric_are_no_shortcut(metric: str) -> None:
    """By F1 any answers that vary are better than a constant one."""
    assert survey(task_of(first=plain, metric=metric)).best is None


@pytest.mark.parametrize("metric", ["f1", "matthews", "positive_f1"])
def test_every_metric_of_classes(metric: str) -> None:
    found = survey(task_of(first=signed, metric=metric))
    assert found.best == "words"
    assert found.metric == metric


def test_a_frequent_label_hides_no_shortcut() -> None:
    """Nine of ten rows have one label, so that accuracy hardly rises above it."""
    rng = np.random.default_rng(0)

    def split(name: str, rows: int) -> Split:
        y = (rng.random(rows) < 0.1).astype(np.int64)
        marked = rng.random(rows) < np.where(y == 1, 0.8, 0.1)
        a = tuple(f"{text} {('w0', 'slur')[int(mark)]}" for text, mark in zip(texts(rng, rows), marked, strict=True))
        return Split(name, "ID", tuple(f"{name}-{n}" for n in range(rows)), a, ("",) * rows, y, ("",) * rows)

    task = Task("toxic", ("fine", "toxic"), "accuracy", "words", split("train", 3000), split("dev", 1000), {})
    found = survey(task)
    assert found.best == "words"
    assert found.found[0].points < 5
    assert found.found[0].carriers[0].feature == "slur"


# --- columns that are no metadata ----------------------------------------------------------------------------------


def test_labels_identifiers_and_texts_among_the_columns_are_named_and_not_fitted() -> None:
    columns = {
        "gold": lambda rng, y: [f"L{label}" for label in y],
        "row": lambda rng, y: [str(n) for n in range(len(y))],
        "key": lambda rng, y: [f"k{n}" for n in rng.integers(0, 10**9, len(y))],
        "comment": lambda rng, y: texts(rng, len(y)),
        "same": lambda rng, y: ["x"] * len(y),
    }
    found = survey(task_of(first=plain, columns=columns))
    why = {each.name: each.why for each in found.left_out}
    assert why.keys() >= {f"columns:{name}" for name in columns}
    for name, word in {"gold": "label", "row": "identifier", "key": "identifier", "comment": "text"}.items():
        assert word in why[f"columns:{name}"]
    assert [each.name for each in found.left_out if each.is_label] == ["columns:gold"]
    assert found.best is None
    assert "columns:gold" in found.sentence


def test_a_column_that_an_ood_set_lacks_is_measured_but_not_proposed() -> None:
    task = task_of(first=plain, columns={"source": sources})
    rng = np.random.default_rng(1)
    ood = made_up(rng, 50, first=plain, name="hard")
    found = survey(Task("made-up", task.labels, "accuracy", "words", task.train, task.dev, {"hard": ood}))
    assert found.found[0].shortcut == "columns:source"
    assert found.best is None
    assert "hard" in found.found[0].obstacle
    assert "hard" in found.sentence


def test_metadata_of_files_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, rows in {"train": 300, "dev": 200}.items():
        y = rng.integers(0, 2, rows)
        lines = zip(texts(rng, rows), y, sources(rng, y), strict=True)
        (tmp_path / f"{name}.csv").write_text("review,stars,source\n" + "".join(f"{a},{b},{c}\n" for a, b, c in lines))
    files = [str(tmp_path / f"{name}.csv") for name in ("train", "dev")]
    spec = srnet.FilesTask("mine", ("0", "1"), *files, text_a="review", text_b=None, label="stars")
    assert survey(spec).best == "columns:source"


# --- little data ---------------------------------------------------------------------------------------------------


def test_one_row_and_one_label_say_so() -> None:
    one = Split("train", "ID", ("0",), ("a text",), ("",), np.array([1]), ("",))
    dev = Split("dev", "ID", ("0",), ("a text",), ("",), np.array([0]), ("",))
    found = survey(Task("tiny", ("a", "b"), "accuracy", "words", one, dev, {}))
    assert found.best is None
    assert "one label" in found.sentence
    assert found.kinds == ()
    json.dumps(found.to_json())


def test_two_rows_are_too_few_for_words() -> None:
    def two(name: str) -> Split:
        return Split(name, "ID", ("0", "1"), ("one", "two words"), ("",) * 2, np.array([0, 1]), ("",) * 2)

    found = survey(Task("tiny", ("a", "b"), "accuracy", "words", two("train"), two("dev"), {}))
    assert found.best is None
    assert "words" in [each.name for each in found.left_out]


def test_coarse_classes_of_an_ood_set_are_scored() -> None:
    task = task_of(labels=3, first=plain, second=signed)
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 100)
    coarse = Coarse(("yes", "no"), (0, 1, 1))
    ids = tuple(map(str, range(100)))
    ood = Split(
        "hans", "OOD", ids, tuple(texts(rng, 100)), tuple(signed(rng, y)), np.minimum(y, 1), ("",) * 100, coarse
    )
    found = survey(Task("made-up", task.labels, "accuracy", "claim", task.train, task.dev, {"hans": ood}))
    assert found.best == "claim"
    assert found.found[0].scores["hans"] > found.majority["hans"]
    assert {each.answer for each in found.examples if each.split == "hans"} <= {"yes", "no"}


def test_numbers_are_refused() -> None:
    split = Split("train", "ID", ("0", "1"), ("a", "b"), ("",) * 2, np.array([0.5, 1.5]), ("",) * 2)
    dev = Split("dev", "ID", ("0", "1"), ("a", "b"), ("",) * 2, np.array([0.5, 1.5]), ("",) * 2)
    with refused("classes", "scores"):
        survey(Task("sts", ("score",), "pearson", "words", split, dev, {}, answer="score"))


# --- the test of a kind --------------------------------------------------------------------------------------------


def test_the_permutation_test_by_hand() -> None:
    """Of 6! permutations of (0, 0, 0, 1, 1, 1), those that are as likely as the true labels."""
    labels = np.array([0, 0, 0, 1, 1, 1])
    log_probs = np.log(np.array([[0.8, 0.2], [0.7, 0.3], [0.4, 0.6], [0.3, 0.7], [0.45, 0.55], [0.1, 0.9]]))
    sums = [log_probs[np.arange(6), list(order)].sum() for order in permutations(labels)]
    exact = np.mean(np.array(sums) >= log_probs[np.arange(6), labels].sum() - 1e-9)
    assert permutation_p(log_probs, labels) == pytest.approx(exact, abs=0.02)


def test_the_permutation_test_is_uniform_under_chance() -> None:
    rng = np.random.default_rng(0)
    p = []
    for _ in range(400):
        log_probs = np.log(rng.dirichlet((2.0, 2.0, 2.0), 501))
        p.append(permutation_p(log_probs, rng.integers(0, 3, 501)))
    for level in (0.05, 0.2, 0.5, 0.8):
        assert np.mean(np.array(p) < level) == pytest.approx(level, abs=3.5 * (level * (1 - level) / 400) ** 0.5)


def test_constant_answers_are_never_certain() -> None:
    assert permutation_p(np.log(np.full((50, 2), 0.5)), np.arange(50) % 2) == 1.0
    assert permutation_p(np.log(np.full((5, 2), 0.5)), np.zeros(5, np.int64)) == 1.0


# --- what is shown -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> Survey:
    return survey(task_of(first=plain, second=signed, columns={"lang": noise}))


def test_rows_show_where_it_is_right_and_where_it_misleads(found: Survey) -> None:
    assert {(each.split, each.is_right) for each in found.examples} == {("train", True), ("dev", False)}
    for each in found.examples:
        assert (each.label == each.answer) == each.is_right
        assert any(name.startswith("sign") for name in each.because)


def test_the_tables_have_every_kind_and_the_overall_shares(found: Survey) -> None:
    ranking, carriers, *others = tables_of(found)
    assert [row[0] for row in ranking.rows] == [*(each.shortcut for each in found.kinds), "majority class"]
    assert carriers.rows[0][0] == "all rows"
    assert all(table.detail for table in others)


def test_the_page_and_the_json_are_written(found: Survey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.api.surveys.survey", lambda task: found)
    srnet.shortcuts(srnet.SyntheticTask("inference"), out=tmp_path / "out")
    page = (tmp_path / "out" / "shortcuts.html").read_text()
    written = json.loads((tmp_path / "out" / "shortcuts.json").read_text())
    assert written["best"] == found.best == "claim"
    assert written["kinds"][0]["carriers"]
    assert not re.search(r"<script|https?://", page), "nothing is executed or fetched"
    assert found.best in page
    assert "sign0" in page


def test_texts_cannot_change_the_page(tmp_path: Path) -> None:
    def hostile(rng: np.random.Generator, y: np.ndarray) -> list[str]:
        return [f"{text} <script>alert(1)</script>" for text in signed(rng, y)]

    srnet.shortcuts(task_of(first=hostile, columns={"<b>": sources}), out=tmp_path)
    page = (tmp_path / "shortcuts.html").read_text()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    rows = zip(signed(rng, y), y, strict=True)
    (tmp_path / "a.csv").write_text("review,stars\n" + "".join(f"{text},{label}\n" for text, label in rows))
    monkeypatch.chdir(tmp_path)
    words = ("shortcuts", "--train", "a.csv", "--text", "review", "--label", "stars")
    assert run(monkeypatch, *words, "--out", "found") == 0
    printed = capsys.readouterr().out
    assert "--shortcut words" in printed
    assert "sign1" in printed
    assert sorted(path.name for path in Path("found").iterdir()) == ["shortcuts.html", "shortcuts.json"]
    assert run(monkeypatch, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path("found/shortcuts.json").read_text())
    assert "a.csv" in command_refused(monkeypatch, capsys, *words, "--out", "a.csv"), "before anything is measured"
