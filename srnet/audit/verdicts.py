"""The verdict for anybody's experiment, from predictions alone: no model is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from srnet import __version__
from srnet.audit.predictions import Answers, Run, one_of, read_predictions
from srnet.config.values import Share
from srnet.core.errors import UserError
from srnet.core.files import require_writable, write_bytes, write_json
from srnet.core.tables import Shown, Table, markdown_text, page_of_tables, plain
from srnet.evaluation import KEEPS_ID, MIN_SEEDS
from srnet.evaluation.evidence import Evidence
from srnet.evaluation.groups import FEWEST
from srnet.evaluation.metrics import baseline, reported, rows_by_case
from srnet.evaluation.significance import Interval, Spread, paired_bootstrap, points, spread
from srnet.evaluation.verdict import Verdict, judge_together, seeds_in_words, share_text
from srnet.report.groups import GroupRow, group_table, left_out
from srnet.report.results import is_below_majority, metrics_disagree
from srnet.report.tables import verdict_cells
from srnet.tasks.base import Task

_REFERENCES = {"full", "fullmodel", "fullcemodel", "baseline", "reference", "ace(pt)"}
"""Names of a reference, among them that of the full CE model in the files of `srnet evaluate --predictions`."""
_FEW_ROWS = 100
_FILES = ("verdict.html", "verdict.md", "verdict.json")
_Sides = Mapping[str, tuple[list[Run], list[Run]]]
"""The runs of each system, and those of the reference with the same seeds; the reference first."""


@dataclass(frozen=True)
class _Part:
    """A system on the rows of one label or sub-case of a split; without a `case`, on all of them.

    The score is the metric on all rows, accuracy on others. `equal` is the percentage of the reference's answers.
    """

    system: str
    split: str
    case: str
    rows: int
    score: Spread
    difference: Interval | None
    equal: float


@dataclass(frozen=True, repr=False)
class Verdicts(Shown, says="lines", table="parts"):
    """Whether each system keeps the ID score of `reference` and beats it on every OOD set of `task`.

    `verdicts` are by system, `parts` the scores by split, label and sub-case, `warnings` reasons to doubt them.
    `groups` has worst-group and pair accuracy, which are no part of a verdict; `left_out` names groups that are too
    small for it.
    """

    reference: str
    verdicts: Mapping[str, Verdict]
    parts: tuple[_Part, ...]
    task: Task
    warnings: tuple[str, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    left_out: str = ""

    @property
    def lines(self) -> list[str]:
        """What is asked, and the answer for each system."""
        keeps, ood = next(iter(self.verdicts.values())).keeps, ", ".join(self.task.ood)
        asked = f"keeps {share_text(keeps)} of the {self.task.metric} of {self.reference} on {self.task.dev.name}"
        judged = [f"{name}: {each.short.split(':')[0]}: {each.explained}." for name, each in self.verdicts.items()]
        return [f"Which system {asked} and beats it on {ood}?", *judged]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def tables(self) -> list[Table]:
        """Scores and verdicts, worst groups and pairs; then, as details, each system by label and sub-case."""
        rows = [[self.reference, "reference", *self._scores(self.reference), *[""] * 3]]
        for name, each in self.verdicts.items():
            rows.append([name, each.short, *self._scores(name), *verdict_cells(each)])
        rows.append(["constant answer", "", *(f"{score:.1f}" for score in _constant(self.task).values()), *[""] * 3])
        splits = [f"{self.task.splits[name].kind} {name}" for name in self.task.scored]
        columns = ["system", "verdict", *splits, "ID kept", "ID minus bar [95 %]", "OOD minus reference [95 %]"]
        title, last = f"{self.task.metric} in percent", len(rows) - 1
        scores = Table(columns, rows, title, texts=(0, 1), soft=(last,))
        groups = [group_table(self.groups, "reference", self.left_out)] if self.groups else []
        return [scores, *groups, *map(self._details, self.task.scored)]

    def _scores(self, system: str) -> list[str]:
        return [str(each.score) for each in self.parts if each.system == system and not each.case]

    def _details(self, split: str) -> Table:
        rows = []
        for each in (each for each in self.parts if each.split == split):
            minus = points(each.difference) if each.difference else ""
            figures = str(each.score), minus, f"{each.equal:.1f}"
            rows.append([each.case or "all", f"{each.rows:,}", each.system, *figures])
        columns = ("rows of", "rows", "system", "score", "minus reference", "equal answers, %")
        note = "All rows by the metric, those of a label or a sub-case by accuracy; intervals of 95 %."
        return Table(columns, rows, f"{split}, by label and sub-case", note, texts=(0, 2), detail=True)

    def to_json(self) -> dict[str, Any]:
        judged = {name: {**vars(each), "answer": each.answer} for name, each in self.verdicts.items()}
        splits = {"id": self.task.dev.name, "ood": [*self.task.ood], "metric": self.task.metric}
        groups = {"groups": [row._asdict() for row in self.groups], "left_out": self.left_out}
        said = {"says": self.lines, "warnings": self.warnings, "notes": self.task.notes}
        return {
            "reference": self.reference,
            **splits,
            **plain({"verdicts": judged, "parts": self.parts, **groups, **said}),
        }


def verdict(
    *tables: Any,
    reference: str | None = None,
    id: str | None = None,
    ood: tuple[str, ...] = (),
    metric: str = "accuracy",
    keep_id: Share = KEEPS_ID,
    out: Path | str | None = None,
) -> Verdicts:
    """Judge by its predictions whether a system keeps the ID score of the reference and beats it on every OOD set.

    `tables` are files (csv, tsv, jsonl, parquet), DataFrames, lists of dicts or dicts of lists, with a row for each
    system, seed, split and example: `system`, `seed`, `split`, `id`, `label`, `prediction`, or `p:LABEL` with the
    probability of each label, and optionally `group` and `pair`. `reference` and the split `id` are guessed only where
    their names leave no doubt; all other splits are `ood`, unless that is given: then the rest is scored and not
    judged. A system must keep the share `keep_id` by `metric`. With `out`, the folder gets `verdict.html`,
    `verdict.md`, `verdict.json`.
    """
    if out is not None:
        require_writable(Path(out), *_FILES)
    task, answers = read_predictions(tables, id, ood, metric)
    systems = list(dict.fromkeys(run.system for run in answers))
    full = one_of("system", "the reference", reference, systems, _REFERENCES, "--reference")
    if len(systems) < 2:
        raise UserError(f"'{full}' is the only system", "add the predictions of a system to compare with it")
    evidence, sides = Evidence(task, answers.__getitem__, keeps=keep_id), _sides(answers, full)
    judged = judge_together([replace(evidence.verdict(*sides[name]), full="reference") for name in [*sides][1:]])
    verdicts = dict(zip([*sides][1:], judged, strict=True))
    warnings = tuple(_doubts(evidence, sides, verdicts))
    groups = tuple(_groups(evidence, sides))
    small = left_out(evidence, task.scored)
    found = Verdicts(full, verdicts, tuple(_parts(evidence, sides)), task, warnings, groups, small)
    if out is not None:
        _write(found, Path(out))
    return found


def _sides(answers: Answers, full: str) -> _Sides:
    runs: dict[str, list[Run]] = {name: [] for name in (full, *(run.system for run in answers))}
    for run in sorted(answers, key=lambda run: (not run.seed.isdecimal(), run.seed.zfill(20))):
        if Run(full, run.seed) not in answers:
            raise UserError(f"{full} has no seed {run.seed}, which {run.system} has", "give the reference all seeds")
        runs[run.system].append(run)
    return {name: (own, [Run(full, run.seed) for run in own]) for name, own in runs.items()}


def _parts(evidence: Evidence[Run], sides: _Sides) -> Iterator[_Part]:
    task = evidence.task
    for split in map(task.splits.__getitem__, task.scored):
        cases = {"": np.arange(len(split))}
        if task.answer_kind.has_classes:
            cases |= {f"label {name}": np.flatnonzero(split.labels == n) for n, name in enumerate(task.labels)}
            cases |= rows_by_case(split.groups)
        for case, rows in ((case, rows) for case, rows in cases.items() if len(rows)):
            gold, metric = split.labels[rows], "accuracy" if case else task.metric
            for system, (own, full) in sides.items():
                ours, theirs = ([evidence.answers(run, split.name)[rows] for run in side] for side in (own, full))
                known = len(rows) >= FEWEST and own != full
                difference = paired_bootstrap(ours, theirs, gold, metric) if known else None
                equal = 100.0 * float(np.mean([a == b for a, b in zip(ours, theirs, strict=True)]))
                score = spread([reported(metric, each, gold) for each in ours])
                yield _Part(system, split.name, case, len(rows), score, difference, equal)


def _groups(evidence: Evidence[Run], sides: _Sides) -> Iterator[GroupRow]:
    for split in evidence.task.scored:
        for system, (own, full) in sides.items():
            figures = evidence.group_figures(own, full, split)
            if figures.worst or figures.pairs:
                yield GroupRow(system, f"{evidence.task.splits[split].kind} {split}", figures)


def _doubts(evidence: Evidence[Run], sides: _Sides, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    task = evidence.task
    for name, (runs, _) in sides.items():
        if len(runs) < MIN_SEEDS:
            yield f"{name}: {seeds_in_words(len(runs))} cannot tell a gain from luck; {MIN_SEEDS} are needed"
    for name in (name for name in task.scored if len(task.splits[name]) < _FEW_ROWS):
        yield f"{name}: {len(task.splits[name])} rows are few, and its intervals are rough"
    if not task.answer_kind.has_classes:
        return
    for run, split in ((run, split) for runs, _ in sides.values() for run in runs for split in task.scored):
        answers, labels = evidence.answers(run, split), task.splits[split].labels
        if len(np.unique(answers)) == 1 < len(np.unique(labels)):
            yield f"{run.key}: answers '{task.labels[answers[0]]}' to all rows of {split}"
        elif (other := answers[~np.isin(answers, labels)]).size:
            share = f"{100 * other.size / answers.size:.1f} % of its answers on {split}"
            yield f"{run.key}: {share} are none of the labels there, such as '{task.labels[other[0]]}'"
    for name, each in verdicts.items():
        means = {split: round(evidence.mean(sides[name][0], split), 4) for split in task.ood}
        if is_below_majority(each, means, _constant(task)):
            yield f"{name}: better than the reference OOD, but no better than the majority class"
        if metrics_disagree(evidence, *sides[name]):
            yield f"{name}: accuracy and F1 disagree about the OOD gain; answers may only have moved between classes"


def _constant(task: Task) -> dict[str, float]:
    """The score of a constant answer by split, rounded as in the tables of scores."""
    gold = {name: task.splits[name].labels for name in task.scored}
    return {name: round(baseline(task.answer_kind, task.metric, each), 4) for name, each in gold.items()}


def _write(found: Verdicts, out: Path) -> None:
    task, lead = found.task, [*found.lines, *(f"Warning: {each}." for each in found.warnings)]
    rest = {"rows": {name: len(task.splits[name]) for name in task.scored}, "notes": task.notes, "survey": None}
    about, details = f"Predictions were read, and no model. srnet {__version__}.", "By label and sub-case"
    text = ["# Verdict", *map(markdown_text, [*lead, *task.notes])]
    for table in found.tables:
        text += [f"## {markdown_text(table.title)}", table.markdown()]
    write_bytes(out / _FILES[0], page_of_tables("Verdict", lead, found.tables, about=about, details=details, **rest))
    write_bytes(out / _FILES[1], ("\n\n".join(text) + "\n").encode(errors="replace"))
    write_json(out / _FILES[2], found.to_json())
