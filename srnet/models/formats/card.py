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
from srnet.tasks.answers.base import METRICS

if TYPE_CHECKING:
    from srnet.models.formats.base import Source
    from srnet.models.subnetwork import Subnetwork

NOT_TESTED = (
    "Texts of other domains, languages or lengths than those of the task.",
    "Shortcuts other than the one above.",
    "Fairness, safety, calibration, and texts written to mislead the model.",
)
LANGUAGE_NOT_TESTED = (
    "Texts of other domains, languages or lengths than those of the task.",
    "Stereotypes and other biases that the task does not measure.",
    "Text that it generates: its truth, its safety, and how well it follows instructions.",
)
EXAMPLES = {
    "text-classification": """\
print(model(**tokenizer("a text", "another text", return_tensors="pt")).logits)
""",
    "text-generation": """\
tokens = tokenizer("The story begins", return_tensors="pt")
print(tokenizer.decode(model.generate(**tokens, max_new_tokens=20)[0]))
""",
    "fill-mask": """\
tokens = tokenizer(f"The story begins {tokenizer.mask_token} .", return_tensors="pt")
at_mask = tokens["input_ids"][0] == tokenizer.mask_token_id
print(tokenizer.decode(model(**tokens).logits[0, at_mask].argmax(-1)))
""",
}
"""Python that uses `model` and `tokenizer`, by pipeline of the Hub."""
SCORES = "scores"
"""Where an ONNX folder has the scores that were measured on its graph."""
_PREDICTS = {"text-generation": "the next token", "fill-mask": "masked tokens"}
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
    metric: str = ""
    """If it is another one than the task's."""

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
    """By the task's metric."""
    verdict: Verdict | None = None
    remarks: tuple[str, ...] = field(default=())
    """What was found out during the export."""
    precision: str = "float32"
    """What the scores were computed in."""
    others: tuple[Scored, ...] = ()
    """By the other metrics, of language models, which are read together."""

    def with_remarks(self, remarks: Sequence[str]) -> About:
        return replace(self, remarks=(*self.remarks, *remarks))

    def with_own_scores(self, own: Mapping[str, float]) -> About:
        """`own` by data and metric, as `score_name` gives it."""
        named = [(each, score_name(self.task, each.split, each.kind, self.metric)) for each in self.scores]
        return replace(self, scores=tuple(replace(each, own=own.get(name)) for each, name in named))


def write_card(folder: Path, source: Source, format: str, load: str) -> None:
    """`load` is Python that loads the folder."""
    text = _card_text(source.subnetwork, source.about, format, load, source.pipeline)
    write_text(folder / README, text)


def _card_text(
    subnetwork: Subnetwork, about: About, format: str, load: str, pipeline: str = "text-classification"
) -> str:
    title = f"{_public_name(subnetwork.backbone)} on {about.task}" if about.task else _public_name(subnetwork.backbone)
    metadata = _metadata(title, subnetwork, about, format, pipeline)
    header = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    parts = [f"---\n{header}---\n", f"# {title}\n", _what(subnetwork, about, format, pipeline), _scores(about)]
    is_language = subnetwork.head.language
    if not is_language:
        parts += ["## The shortcut\n", about.shortcut or "No shortcut is on record for this model.", ""]
    parts += ["## How to load it\n", f"```python\n{load.strip()}\n```\n"]
    ood = any(each.kind == "OOD" for each in about.scores)
    untested = [] if ood else ["Data out of distribution."]
    untested += LANGUAGE_NOT_TESTED if is_language else NOT_TESTED
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
        found = dict(map(_named, results))
    except Exception:  # a card may have been written by anybody
        return {}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def scores_by_name(about: About) -> dict[str, float]:
    """The same for a model that has no card yet."""
    return dict(_named(_result(each, about, "")) for each in (*about.scores, *about.others))


def score_name(task: str, split: str, kind: str, metric: str) -> str:
    return f"{_data_name(task, split, kind)}, {metric}"


def _data_name(task: str, split: str, kind: str) -> str:
    return f"{task} {split} ({kind})"


def _named(result: dict[str, Any]) -> tuple[str, float]:
    (metric,) = result["metrics"]
    return f"{result['dataset']['name']}, {metric['type']}", float(metric["value"])


def _metadata(title: str, subnetwork: Subnetwork, about: About, format: str, pipeline: str) -> dict[str, Any]:
    """What the Hub reads. A backbone that is no name on the Hub is left out."""
    found: dict[str, Any] = {
        "library_name": "onnx" if format == "onnx" else "transformers",
        "pipeline_tag": pipeline,
        "tags": ["srnet", format] + (["pruned", "sparse"] if subnetwork.mask is not None else []),
    }
    backbone = subnetwork.backbone
    if backbone not in SHIPPED and _HUB_NAME.fullmatch(backbone) and not Path(backbone).exists():
        found["base_model"] = backbone
    if about.scores:
        every = (*about.scores, *about.others)
        found["metrics"] = list(dict.fromkeys(each.metric or about.metric for each in every))
        found["model-index"] = [{"name": title, "results": [_result(each, about, pipeline) for each in every]}]
    return found


def _result(scored: Scored, about: About, pipeline: str) -> dict[str, Any]:
    dataset = {"name": _data_name(about.task, scored.split, scored.kind), "type": about.task, "split": scored.split}
    measured = seeds_in_words(scored.score.seeds) if scored.own is None else "this folder"
    name, score = scored.metric or about.metric, scored.score.mean if scored.own is None else scored.own
    metric = {"type": name, "value": round(score, 1 + _decimals(name)), "name": f"{name}, {measured}"}
    return {"task": {"type": pipeline}, "dataset": dataset, "metrics": [metric]}


def _public_name(backbone: str) -> str:
    """A path of this machine says nothing to others."""
    return backbone if _HUB_NAME.fullmatch(backbone) else Path(backbone).name or "a local model"


def _what(subnetwork: Subnetwork, about: About, format: str, pipeline: str) -> str:
    mask = subnetwork.mask
    sparsity = (
        "none: a full model"
        if mask is None
        else f"{100 * mask.sparsity:.2f} % of {mask.total:,} weights in {len(mask)} matrices, counted on the mask"
    )
    facts = {
        "Backbone": f"{_public_name(subnetwork.backbone)} (sha256 {subnetwork.backbone_sha256[:16]})",
        "Task": about.task or "not on record",
        **({"Predicts": _PREDICTS[pipeline]} if pipeline in _PREDICTS else {"Labels": ", ".join(subnetwork.labels)}),
        "Sparsity": sparsity,
        "Made by": about.how,
        "Format": format,
    }
    lines = [f"- {name}: {value}" for name, value in facts.items() if value]
    return "\n".join([*lines, *(f"- {each}" for each in about.remarks), ""])


def _scores(about: About) -> str:
    if not about.scores:
        return "## Scores\n\nNone are on record for this model.\n"
    if about.others:
        return "\n\n".join(["## Scores", *_by_metric(about)]) + "\n"
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


def _by_metric(about: About) -> list[str]:
    """Scores of a language model: a row for each split, a column for each metric."""
    every = [replace(each, metric=each.metric or about.metric) for each in (*about.scores, *about.others)]
    metrics = dict.fromkeys(each.metric for each in every)
    splits = dict.fromkeys((each.split, each.kind) for each in (*about.others, *every))
    cells = {(each.split, each.metric): each.score.rounded(_decimals(each.metric)) for each in every}
    rows = [[*split, *(cells.get((split[0], name), "") for name in metrics)] for split in splits]
    lines = [Table(["split", "kind", *metrics], rows).markdown()]
    if about.precision != "float32":
        lines.append(f"Computed in {about.precision}.")
    return [*lines, *_how_sure(every[0].score.seeds, about.verdict)]


def _decimals(metric: str) -> int:
    """One for a percentage, three for other scores."""
    return 1 if METRICS[metric].scale == 100.0 else 3


def _rounded(score: float | None) -> str:
    return "" if score is None else f"{score:.1f}"


def _how_sure(seeds: int, verdict: Verdict | None) -> Sequence[str]:
    if seeds < MIN_SEEDS:
        return [f"From {seeds_in_words(seeds)}: how much scores vary between seeds is not known, so no verdict."]
    lines = [f"Mean ± standard deviation of {seeds} seeds. This folder holds the model of one of them."]
    return lines if verdict is None else [*lines, f"Verdict: {verdict}."]
