"""The datasets of the papers: their labels and columns, the names of the authors' files, and their Hub datasets.

Each entry is a description; `published_task` makes an ordinary `FilesTask` of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from srnet.core.errors import UserError, choose
from srnet.tasks.answers.classes import CLASSES
from srnet.tasks.answers.numbers import NUMBERS
from srnet.tasks.base import Metric, Shortcut
from srnet.tasks.files import DataFile, FilesTask, Leaks, Source
from srnet.tasks.reading import SUFFIXES, header_of, is_table

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Place:
    """The location of a split: file names without their ending, in order of preference, and a dataset of the Hub."""

    stems: tuple[str, ...]
    hub: str | None = None

    def in_folder(self, folder: Path) -> str | None:
        # jsonl first: some archives have a dataset in two formats, and jsonl is unambiguous
        endings = sorted(SUFFIXES, key=lambda suffix: not suffix.startswith(".jsonl"))
        paths = [folder / f"{stem}{ending}" for stem in self.stems for ending in endings]
        return next((str(path) for path in paths if path.is_file()), None)


@dataclass(frozen=True)
class Challenge:
    """An OOD set: its layout where it differs from the task's, and its training data for an upper bound."""

    test: Place
    layout: Mapping[str, Any] = field(default_factory=dict)
    train: Place | None = None
    train_layout: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedDataset:
    labels: tuple[str, ...]
    text_a: str
    text_b: str | None
    label: str
    metric: Metric
    shortcut: Shortcut
    train: Place
    dev: Place
    ood: Mapping[str, Challenge] = field(default_factory=dict)
    id_tests: Mapping[str, Place] = field(default_factory=dict)
    spellings: Pairs = ()
    unlabelled: tuple[str, ...] = ()
    ood_copies: int = 1
    answer: str = CLASSES.name
    label_words: tuple[str, ...] = ()
    """The label words of the paper on static model pruning."""
    columns: tuple[str, ...] = ()
    """Of the authors' files, if they have no header."""
    leaks: Leaks = "check"
    hub_remark: str = ""
    """A note on the Hub's copy if it differs from the paper's data."""
    folder: str | None = None
    """The name of its folder in GLUE's archives, if it is not the name in capitals."""


_NLI = ("entailment", "neutral", "contradiction")
_HANS = Challenge(
    Place(("heuristics_evaluation_set", "hans"), "hub:jhu-cogsci/hans@refs/convert/parquet:plain_text:validation"),
    {
        "group": ("heuristic", "gold_label|label", "subcase"),
        "classes": tuple((label, "entailment" if label == "entailment" else "non-entailment") for label in _NLI),
    },
    Place(("heuristics_train_set", "hans_train"), "hub:jhu-cogsci/hans@refs/convert/parquet:plain_text:train"),
    # HANS does not distinguish neutral and contradiction. Most of its templates are neutral, but the paper's upper
    # bound uses contradiction for all of them (supplement, table 2: half contradiction, no neutral)
    {"spellings": (("non-entailment", "contradiction"),)},
)
_PAWS = {"text_a": "sentence1", "text_b": "sentence2", "label": "label"}
_SYMMETRIC = {"text_a": "evidence|evidence_sentence|sentence1", "text_b": "claim|sentence2"}
_YES_MAYBE_NO = ("Yes", "Maybe", "No")
_ENTAILED = ("entailment", "not_entailment")
_UNLABELLED = ("-", "-1")
"""The Hub's value for a missing label, and the same in a file made from it."""


def _numbered(labels: tuple[str, ...]) -> Pairs:
    """Labels as numbers, the spelling of the Hub and of some authors."""
    return tuple((str(number), label) for number, label in enumerate(labels))


def _glue(name: str, labels: tuple[str, ...] = (), **settings: Any) -> PublishedDataset:
    """A task of GLUE without OOD sets; `settings` override the defaults."""
    defaults: dict[str, Any] = {
        "text_b": None,
        "label": "label",
        "metric": "accuracy",
        "shortcut": "unknown",
        "train": Place(("train",), f"hub:nyu-mll/glue:{name}:train"),
        "dev": Place(("dev",), f"hub:nyu-mll/glue:{name}:validation"),
        "spellings": _numbered(labels),
        "unlabelled": _UNLABELLED,
    }
    return PublishedDataset(labels, **(defaults | settings))


PUBLISHED_TASKS: dict[str, PublishedDataset] = {
    "mnli": PublishedDataset(
        labels=_NLI,
        text_a="sentence1|premise",
        text_b="sentence2|hypothesis",
        label="gold_label|label",
        metric="accuracy",
        shortcut="overlap",
        train=Place(("train", "multinli_1.0_train"), "hub:nyu-mll/glue:mnli:train"),
        dev=Place(("dev_matched", "multinli_1.0_dev_matched"), "hub:nyu-mll/glue:mnli:validation_matched"),
        id_tests={
            "mismatched": Place(
                ("dev_mismatched", "multinli_1.0_dev_mismatched"), "hub:nyu-mll/glue:mnli:validation_mismatched"
            )
        },
        ood={"hans": _HANS},
        spellings=_numbered(_NLI),
        unlabelled=("-", "hidden"),
        label_words=_YES_MAYBE_NO,
    ),
    "snli": PublishedDataset(
        labels=_NLI,
        text_a="sentence1|premise",
        text_b="sentence2|hypothesis",
        label="gold_label|label",
        metric="accuracy",
        shortcut="claim",  # its hard test set are the errors of a hypothesis-only model
        train=Place(("train", "snli_1.0_train"), "hub:stanfordnlp/snli:plain_text:train"),
        dev=Place(("dev", "snli_1.0_dev"), "hub:stanfordnlp/snli:plain_text:validation"),
        ood={"hard": Challenge(Place(("test_hard", "snli_1.0_test_hard"))), "hans": _HANS},
        spellings=_numbered(_NLI),
        unlabelled=("-",),
        label_words=_YES_MAYBE_NO,
    ),
    "qqp": PublishedDataset(
        labels=("not_duplicate", "duplicate"),
        text_a="question1",
        text_b="question2",
        label="is_duplicate|label",
        metric="f1",
        shortcut="overlap",
        train=Place(("train",), "hub:nyu-mll/glue:qqp:train"),
        dev=Place(("dev",), "hub:nyu-mll/glue:qqp:validation"),
        ood={
            "paws_qqp": Challenge(
                Place(("paws_qqp", "dev_and_test")),
                {**_PAWS, "bytes_literals": True},
                Place(("paws_qqp_train",)),
            ),
            "paws_wiki": Challenge(
                Place(("paws_wiki", "paws_wiki_test"), "hub:google-research-datasets/paws:labeled_final:test"),
                _PAWS,
                Place(("paws_wiki_train",), "hub:google-research-datasets/paws:labeled_final:train"),
            ),
        },
        spellings=_numbered(("not_duplicate", "duplicate")),
        label_words=("No", "Yes"),
    ),
    "fever": PublishedDataset(
        labels=("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"),
        text_a="evidence|evidence_sentence|sentence1",
        text_b="claim|sentence2",
        label="gold_label|label",
        metric="accuracy",
        shortcut="claim",
        train=Place(("train", "fever.train"), "hub:copenlu/fever_gold_evidence:train"),
        dev=Place(("dev", "fever.dev"), "hub:copenlu/fever_gold_evidence:validation"),
        ood={
            "symm1": Challenge(Place(("symm1", "fever_symmetric_generated", "symmetric_v0.1")), _SYMMETRIC),
            "symm2": Challenge(
                Place(("symm2", "fever_symmetric_test", "symmetric_v0.2")),
                _SYMMETRIC,
                Place(("symm2_dev", "fever_symmetric_dev")),
            ),
        },
        spellings=(("NOTENOUGHINFO", "NOT ENOUGH INFO"), ("NEI", "NOT ENOUGH INFO")),
        ood_copies=10,
        hub_remark="the Hub's copy of FEVER is another sample than the paper's: about 228,000 training and 15,900 dev "
        "rows instead of 242,911 and 16,664; --data FOLDER reads the authors' files",
    ),
    "cola": _glue(
        "cola",
        labels=("unacceptable", "acceptable"),
        text_a="sentence",
        metric="matthews",
        label_words=("incorrect", "correct"),
        columns=("source", "label", "mark", "sentence"),
        folder="CoLA",
        leaks="keep",  # 19 of its 1,043 dev sentences, which others keep too; a note reports it
    ),
    "sst2": _glue(
        "sst2",
        labels=("negative", "positive"),
        text_a="sentence",
        label_words=("terrible", "great"),
        folder="SST-2",
    ),
    "mrpc": _glue(
        "mrpc",
        labels=("not_equivalent", "equivalent"),
        text_a="sentence1|#1 String",
        text_b="sentence2|#2 String",
        label="label|Quality",
        metric="positive_f1",
        # its authors publish no dev set: GLUE's is a part of their training set
        train=Place(("train", "msr_paraphrase_train"), "hub:nyu-mll/glue:mrpc:train"),
        label_words=("No", "Yes"),
    ),
    "stsb": _glue(
        "stsb",
        text_a="sentence1",
        text_b="sentence2",
        label="score|label",
        metric="pearson",
        unlabelled=(*_UNLABELLED, "-1.0"),
        answer=NUMBERS.name,
        label_words=("Yes",),
        folder="STS-B",
    ),
    "qnli": _glue("qnli", labels=_ENTAILED, text_a="question", text_b="sentence", label_words=("Yes", "No")),
    "rte": _glue("rte", labels=_ENTAILED, text_a="sentence1", text_b="sentence2", label_words=("Yes", "No")),
}


PUBLISHED_OPTIONS = (
    "metric", "shortcut", "decision", "rows", "leaks", "bad_rows", "strip_final_punctuation", "ood_copies",
    "label_words",
)  # fmt: skip
"""The options of a published dataset besides its location."""


def published_task(
    name: str,
    folder: Path | None = None,
    ood: Mapping[str, Source] | None = None,
    ood_train: Mapping[str, Source] | None = None,
    **options: Any,
) -> FilesTask:
    """A dataset of the papers: from `folder`, or from the Hub without one. `ood` adds test files by name.

    A file with a known name (hans, hard, paws_qqp, ...) has the layout of that test set, any other the layout of the
    task's own files. Further options are those of `FilesTask`: rows, leaks, decision, ...
    """
    task = PUBLISHED_TASKS[choose("dataset", name, PUBLISHED_TASKS)]
    if folder is not None:  # perhaps a folder of several datasets; GLUE's names are in capitals
        names = (name, task.folder or name.upper())
        folder = next((folder / each for each in names if (folder / each).is_dir()), folder)
    return FilesTask(
        name=name,
        labels=task.labels,
        train=_with_columns(task, _found(name, "train", task.train, folder)),
        dev=_with_columns(task, _found(name, "dev", task.dev, folder)),
        id_tests=tuple((test, path) for test, place in task.id_tests.items() if (path := _where(place, folder))),
        ood=tuple(_tests(task, folder, ood or {}).items()),
        absent=tuple(name for name in task.ood if name not in _tests(task, folder, ood or {})),
        ood_train=_training_files(task, folder, ood_train or {}) or None,
        ood_copies=options.pop("ood_copies", task.ood_copies),
        text_a=task.text_a,
        text_b=task.text_b,
        label=task.label,
        metric=options.pop("metric", task.metric),
        shortcut=options.pop("shortcut", task.shortcut),
        spellings=task.spellings,
        unlabelled=task.unlabelled,
        answer=task.answer,
        label_words=options.pop("label_words", task.label_words),
        leaks=options.pop("leaks", task.leaks),
        remarks=(task.hub_remark,) if task.hub_remark and folder is None else (),
        **options,
    )


def _where(place: Place, folder: Path | None) -> str | None:
    return place.hub if folder is None else place.in_folder(folder)


def _found(name: str, split: str, place: Place, folder: Path | None) -> str:
    path = _where(place, folder)
    if path is not None:
        return path
    if folder is not None and not folder.is_dir():
        raise UserError(f"{folder} is not a folder", f"give the folder with the files of {name}")
    wanted = " or ".join(f"{stem}.*" for stem in place.stems)
    raise UserError(f"{folder} has no {split} file of {name}", f"it must be called {wanted}, in {', '.join(SUFFIXES)}")


def _with_columns(task: PublishedDataset, path: str) -> str | DataFile:
    """A table without a header is one of the authors' files, with the dataset's columns."""
    if not task.columns or not is_table(path) or task.label in header_of(path):
        return path
    return DataFile(path, columns=task.columns)


def _tests(task: PublishedDataset, folder: Path | None, given: Mapping[str, Source]) -> dict[str, Source]:
    found = {name: _where(challenge.test, folder) for name, challenge in task.ood.items()}
    sources: dict[str, Source] = {**{name: path for name, path in found.items() if path is not None}, **given}
    layouts = {name: challenge.layout for name, challenge in task.ood.items()}
    return {name: _laid_out(source, layouts.get(name, {})) for name, source in sources.items()}


def _laid_out(source: Source, layout: Mapping[str, Any]) -> Source:
    """With a known layout, in which a file's own description has the last word."""
    if isinstance(source, str):
        return DataFile(source, **layout) if layout else source
    own = {f.name: value for f in fields(source) if (value := getattr(source, f.name)) not in (None, (), False)}
    return DataFile(**{**layout, **own})


def _training_files(task: PublishedDataset, folder: Path | None, given: Mapping[str, Source]) -> tuple[Source, ...]:
    trained = {name: challenge for name, challenge in task.ood.items() if challenge.train is not None}
    for name in given:
        choose("OOD training set", name, trained)
    found = {name: _where(challenge.train, folder) for name, challenge in trained.items() if challenge.train}
    sources: dict[str, Source] = {**{name: path for name, path in found.items() if path is not None}, **given}
    columns = ("text_a", "text_b", "label", "bytes_literals")

    def layout(name: str) -> dict[str, Any]:
        shared = {key: value for key, value in trained[name].layout.items() if key in columns}
        return {**shared, **trained[name].train_layout}

    return tuple(_laid_out(source, layout(name)) for name, source in sources.items())
