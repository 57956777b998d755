"""The model card of an exported folder: README.md with the metadata header that the Hub reads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from srnet.core.files import read_bytes, write_text
from srnet.core.sealed import README
from srnet.core.tables import Table
from srnet.evaluation import MIN_SEEDS
from srnet.evaluation.significance import Interval, Spread
from srnet.evaluation.verdict import Verdict, seeds_in_words
from srnet.models.checkpoints import SHIPPED
from srnet.models.exported import EXPORT, Exported

if TYPE_CHECKING:
    from srnet.models.subnetwork import Subnetwork

NOT_TESTED = (
    "Texts of other domains, languages or lengths than those of the task.",
    "Shortcuts other than the one above.",
    "Fairness, safety, calibration, and texts written to mislead the model.",
)
SCORES = "scores"
"""Where an ONNX folder has the scores that were measured on its graph."""
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class Scored:
    """The score on one split, over the seeds that the store has."""

    split: str
    kind: str
    score: Spread
    gain: Interval | None = None
    """Minus the full cross-entropy model's, where there is one."""
    constant: float | None = None
    """Of a constant answer, such as the majority class."""
    own: float | None = None
    """Measured on the exported graph itself, if it was quantised."""

    @property
    def is_doubtful(self) -> bool:
        """Whether it beats the full model, but not a constant answer."""
        gained = self.gain is not None and self.gain.difference > 0.0
        score = self.score.mean if self.own is None else self.own
        return gained and self.constant is not None and score <= self.constant


@dataclass(frozen=True)
class About:
    """What is known about a model that is exported."""

    task: str = ""
    shortcut: str = ""
    """The suspected shortcut as a sentence."""
    metric: str = ""
    how: str = ""
    """How it was made, as an expression."""
    scores: tuple[Scored, ...] = ()
    verdict: Verdict | None = None
    remarks: tuple[str, ...] = field(default=())
    """What was found out during the export."""
    precision: str = "float32"
    """What the scores were computed in."""

    def with_remarks(self, remarks: Sequence[str]) -> About:
        return replace(self, remarks=(*self.remarks, *remarks))

    def with_own_scores(self, own: Mapping[str, float]) -> About:
        """`own` by data and metric, as `score_name` gives it."""
        named = [(each, score_name(self.task, each.split, each.kind, self.metric)) for each in self.scores]
        return replace(self, scores=tuple(replace(each, own=own.get(name)) for each, name in named))


def write_card(folder: Path, subnetwork: Subnetwork, about: About, format: str, load: str) -> None:
    """`load` is Python that loads the folder."""
    write_text(folder / README, _card_text(subnetwork, about, format, load))


def _card_text(subnetwork: Subnetwork, about: About, format: str, load: str) -> str:
    title = f"{_public_name(subnetwork.backbone)} on {about.task}" if about.task else _public_name(subnetwork.backbone)
    header = yaml.safe_dump(_metadata(title, subnetwork, about, format), sort_keys=False, allow_unicode=True)
    parts = [f"---\n{header}---\n", f"# {title}\n", _what(subnetwork, about, format), _scores(about)]
    parts += ["## The shortcut\n", about.shortcut or "No shortcut is on record for this model.", ""]
    parts += ["## How to load it\n", f"```python\n{load.strip()}\n```\n"]
    ood = any(each.kind == "OOD" for each in about.scores)
    untested = NOT_TESTED if ood else ("Data out of distribution.", *NOT_TESTED)
    parts += ["## What it was not tested for\n", *(f"- {each}" for each in untested), ""]
    return "\n".join(parts)


def scores_of_folder(folder: Path) -> dict[str, float]:
    """The scores of an exported model, by data and metric: measured on its graph, or else named on its card."""
    own, is_rounded = _measured(folder)
    # a card without own scores has those from before rounding
    return own if own or is_rounded else _scores_on_card(folder)


def scores_of_graph(folder: Path) -> dict[str, float]:
    """The scores that the export measured on an ONNX graph; none for other folders."""
    return _measured(folder)[0]


def _measured(folder: Path) -> tuple[dict[str, float], bool]:
    """The scores of a graph, and whether its weights were rounded."""
    facts = Exported.read(folder).more if EXPORT.is_in(folder) else {}
    own = facts[SCORES].items() if isinstance(facts.get(SCORES), dict) else ()
    finite = {name: value for name, value in own if isinstance(value, int | float) and math.isfinite(value)}
    return finite, bool(facts.get("int8"))


def _scores_on_card(folder: Path) -> dict[str, float]:
    """The scores that the card of an exported folder names, by data and metric; none if it names none."""
    try:
        _, header, _ = read_bytes(folder / README).decode().split("---\n", 2)
        results = yaml.safe_load(header)["model-index"][0]["results"]
        found = dict(_named(each) for each in results)
    except Exception:  # a card may have been written by anybody
        return {}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def scores_by_name(about: About) -> dict[str, float]:
    """The same for a model that has no card yet."""
    return dict(_named(_result(each, about)) for each in about.scores)


def score_name(task: str, split: str, kind: str, metric: str) -> str:
    return f"{_data_name(task, split, kind)}, {metric}"


def _data_name(task: str, split: str, kind: str) -> str:
    return f"{task} {split} ({kind})"


def _named(result: dict[str, Any]) -> tuple[str, float]:
    (metric,) = result["metrics"]
    return f"{result['dataset']['name']}, {metric['type']}", float(metric["value"])


def _metadata(title: str, subnetwork: Subnetwork, about: About, format: str) -> dict[str, Any]:
    """What the Hub reads. A backbone that is no name on the Hub is left out."""
    found: dict[str, Any] = {
        "library_name": "onnx" if format == "onnx" else "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["srnet", format] + (["pruned", "sparse"] if subnetwork.mask is not None else []),
    }
    backbone = subnetwork.backbone
    if backbone not in SHIPPED and _HUB_NAME.fullmatch(backbone) and not Path(backbone).exists():
        found["base_model"] = backbone
    if about.scores:
        found["metrics"] = [about.metric]
        found["model-index"] = [{"name": title, "results": [_result(each, about) for each in about.scores]}]
    return found


def _result(scored: Scored, about: About) -> dict[str, Any]:
    dataset = {"name": _data_name(about.task, scored.split, scored.kind), "type": about.task, "split": scored.split}
    measured = seeds_in_words(scored.score.seeds) if scored.own is None else "this folder"
    value = round(scored.score.mean if scored.own is None else scored.own, 2)
    metric = {"type": about.metric, "value": value, "name": f"{about.metric}, {measured}"}
    return {"task": {"type": "text-classification"}, "dataset": dataset, "metrics": [metric]}


def _public_name(backbone: str) -> str:
    """A path of this machine says nothing to others."""
    return backbone if _HUB_NAME.fullmatch(backbone) else Path(backbone).name or "a local model"


def _what(subnetwork: Subnetwork, about: About, format: str) -> str:
    mask = subnetwork.mask
    sparsity = (
        "none: a full model"
        if mask is None
        else f"{100 * mask.sparsity:.2f} % of {mask.total:,} weights in {len(mask)} matrices, counted on the mask"
    )
    facts = {
        "Backbone": f"{_public_name(subnetwork.backbone)} (sha256 {subnetwork.backbone_sha256[:16]})",
        "Task": about.task or "not on record",
        "Labels": ", ".join(subnetwork.labels),
        "Sparsity": sparsity,
        "Made by": about.how,
        "Format": format,
    }
    lines = [f"- {name}: {value}" for name, value in facts.items() if value]
    return "\n".join([*lines, *(f"- {each}" for each in about.remarks), ""])


def _scores(about: About) -> str:
    if not about.scores:
        return "## Scores\n\nNone are on record for this model.\n"
    measured = any(each.own is not None for each in about.scores)
    before = " before rounding" if measured else ""
    columns = ["split", "kind", about.metric + before, "minus the full model [95 %]", "constant answer"]
    rows = []
    for each in about.scores:
        row = [each.split, each.kind, str(each.score), str(each.gain or ""), _rounded(each.constant)]
        rows.append(row + [_rounded(each.own)] * measured)
    lines = [Table(columns + ["this folder"] * measured, rows).markdown()]
    if measured:
        lines.append("All but the last column are from before rounding, and so is a verdict.")
    if about.precision != "float32":
        lines.append(f"Computed in {about.precision}.")
    lines += _how_sure(about.scores[0].score.seeds, about.verdict)
    if doubtful := ", ".join(each.split for each in about.scores if each.is_doubtful):
        lines.append(f"Warning: better than the full model on {doubtful}, but no better than a constant answer.")
    return "\n\n".join(["## Scores", *lines]) + "\n"


def _rounded(score: float | None) -> str:
    return "" if score is None else f"{score:.1f}"


def _how_sure(seeds: int, verdict: Verdict | None) -> Sequence[str]:
    if seeds < MIN_SEEDS:
        return [f"From {seeds_in_words(seeds)}: how much scores vary between seeds is not known, so no verdict."]
    lines = [f"Mean ± standard deviation of {seeds} seeds. This folder holds the model of one of them."]
    return lines if verdict is None else [*lines, f"Verdict: {verdict}."]
