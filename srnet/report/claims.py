"""The paper's statements as sentences that can be checked. A failure is never rounded up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from srnet.core.tables import Shown
from srnet.evaluation import KEEPS_ID, MIN_SEEDS
from srnet.evaluation.verdict import (
    ALPHA,
    FAILS,
    HOLDS,
    OPEN,
    Answer,
    Condition,
    all_of,
    answered,
    any_of,
    judge_together,
    seeds_in_words,
    share_text,
)
from srnet.recipes import figures
from srnet.report.evidence import Missing, Models, RecipeEvidence
from srnet.tasks.base import Task

VERDICTS: dict[str, Answer] = {"yes": HOLDS, "no": FAILS}
MODERATE = 0.7
"""The sparsity up to which the paper says that subnetworks stay good."""
MANY_SEEDS = 100_000
"""So many that nothing is left of the error of the seeds."""
MARGIN = 1.0
"""Points that "loses nothing" may lose."""

Check = Callable[[RecipeEvidence], list[Condition]]
"""Computes conditions of a claim from the evidence of its figure."""


def _by_sparsity(evidence: RecipeEvidence, label: str, **place: object) -> dict[float, Models]:
    """The models of a line by sparsity: up to the moderate one, or all of them if a place is given."""
    places = [point.place for point in evidence.recipe.points if point.label == label]
    sparsities = sorted({each.sparsity for each in places if place or each.sparsity <= MODERATE}) or [MODERATE]
    return {sparsity: evidence.models(label, sparsity=sparsity, **place) for sparsity in sparsities}


def _beats(
    ours: str, theirs: str, on: Literal["ID", "OOD", "both"] = "both", what: str = "", bar: float = 0.0,
    **places: tuple[object, object],
) -> Check:  # fmt: skip
    """One line minus another on each split, averaged over sparsities; `places` has ours and theirs by field."""
    first, second = ({name: sides[side] for name, sides in places.items()} for side in (0, 1))
    what = what or f"{ours} minus {theirs}"

    def conditions(evidence: RecipeEvidence) -> list[Condition]:
        by_sparsity = _by_sparsity(evidence, ours, **first)
        others = [evidence.models(theirs, sparsity=sparsity, **second) for sparsity in by_sparsity]
        found, share = [], 1.0 / len(by_sparsity)
        for split in {"ID": [evidence.id], "OOD": evidence.ood, "both": [evidence.id, *evidence.ood]}[on]:
            terms = [(share, models, split) for models in by_sparsity.values()]
            terms += [(-share, models, split) for models in others]
            found.append(Condition(f"{what}, {evidence.splits[split]}", evidence.contrast(*terms), bar))
        return found

    return conditions


def _keeps_id(evidence: RecipeEvidence) -> list[Condition]:
    return [
        Condition(f"{label} at {100 * sparsity:g} %, ID minus 95 % of the full model's", evidence.id_kept(models))
        for label in (figures.MASK_CE, figures.MASK_POE, figures.IMP_CE, figures.IMP_POE)
        for sparsity, models in _by_sparsity(evidence, label).items()
    ]


def _unbiased(evidence: RecipeEvidence) -> list[Condition]:
    own_id = [
        Condition(
            f"{label} at {100 * sparsity:g} %, OOD {split} minus 95 % of its own ID",
            evidence.contrast((1.0, models, split), (-KEEPS_ID, models, evidence.id)),
        )
        for label in (figures.OOD_A, figures.OOD_C)
        for sparsity, models in _by_sparsity(evidence, label).items()
        for split in evidence.ood
    ]
    half = evidence.models(figures.OOD_B, sparsity=0.5)
    what = f"{figures.OOD_B} at 50 %, OOD {{}} minus the full model's"
    return own_id + [Condition(what.format(split), evidence.gain(half, split)) for split in evidence.ood]


def _half_way(evidence: RecipeEvidence) -> list[Condition]:
    starts = [s for p in evidence.recipe.points if isinstance(s := p.place.start, float) and 0 < s < 1]
    nearest = min(starts, key=lambda start: abs(start - 0.5), default=0.5)
    what = f"start at {100 * nearest:.0f} % minus start at the end"
    return _beats(figures.START, figures.START, what=what, bar=-MARGIN, start=(nearest, 1.0))(evidence)


@dataclass(frozen=True)
class Claim:
    """A statement about one figure: `checks` whose conditions all must hold, or lines of which one must be an SRNet."""

    name: str
    statement: str
    source: str
    figure: str
    checks: tuple[Check, ...] = ()
    candidates: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return f"{self.statement} ({self.source})"

    def check(self, evidence: RecipeEvidence, seeds: int | None = None) -> tuple[Answer, list[Condition]]:
        """The answer and its conditions; with `seeds`, as expected with so many of the same mean and spread."""
        if self.candidates:
            return self._check_candidates(evidence, seeds)
        found = [condition for check in self.checks for condition in check(evidence)]
        if seeds is not None:
            found = [replace(each, interval=each.interval.with_seeds(seeds)) for each in found]
        # none is refuted where the verdict on the same subnetwork, with conditions for ID and each OOD split, is open
        found = answered(found, evidence.alpha, at_least=1 + len(evidence.ood))
        return all_of(each.answer for each in found), found

    def _check_candidates(self, evidence: RecipeEvidence, seeds: int | None) -> tuple[Answer, list[Condition]]:
        """From the verdicts in the figure's table, where all its subnetworks are judged together."""
        verdicts, found, answers = evidence.verdicts, list[Condition](), list[Answer]()
        if seeds is not None:
            expected = judge_together([verdict.with_seeds(seeds) for verdict in verdicts.values()])
            verdicts = dict(zip(verdicts, expected, strict=True))
        wanted = {(label, sparsity) for label in self.candidates for sparsity in _by_sparsity(evidence, label)}
        for (label, place), verdict in verdicts.items():
            if (label, place.sparsity) not in wanted:
                continue
            name = f"{label} at {100 * place.sparsity:g} % (SRNet? {verdict.short})"
            of = {"ID": f" {share_text(verdict.keeps)} of"}
            # a condition may hold by itself where the choice among many subnetworks leaves the verdict open
            certain = verdict.answer in ("yes", "no")
            for each in verdict.conditions:
                what = f"{name}, {each.what} minus{of.get(each.what, '')} the full model's"
                found.append(replace(each, what=what, answer=each.answer if certain else OPEN))
            answers.append(VERDICTS.get(verdict.answer, OPEN))
        return any_of(answers), found


CLAIMS = (
    Claim("srnets-a", "A model fine-tuned with CE contains SRNets: masks that keep 95 % of ID and beat it OOD",
          "section 4.2", "fig2", candidates=(figures.MASK_CE, figures.MASK_POE)),
    Claim("srnets-b", "The raw model contains SRNets that can be fine-tuned in isolation", "section 4.3", "fig4",
          candidates=(figures.ISOLATED_MASK_CE, figures.ISOLATED_MASK_POE, figures.ISOLATED_IMP_CE,
                      figures.ISOLATED_IMP_POE)),
    Claim("srnets-c", "The raw model contains SRNets that need no fine-tuning", "section 4.4", "fig5",
          candidates=(figures.RAW_POE,)),
    Claim("poe-pruning", "Pruning with PoE beats pruning with CE out of distribution, on average up to 70 %",
          "section 4.2", "fig2",
          (_beats(figures.MASK_POE, figures.MASK_CE, "OOD"), _beats(figures.IMP_POE, figures.IMP_CE, "OOD"))),
    Claim("mask-or-imp", "Mask training beats IMP, in and out of distribution, on average up to 70 %", "section 4.2",
          "fig2", (_beats(figures.MASK_CE, figures.IMP_CE), _beats(figures.MASK_POE, figures.IMP_POE))),
    Claim("keeps-id", "Up to 70 %, every method keeps 95 % of the full model's ID score", "section 4.2", "fig2",
          (_keeps_id,)),
    Claim("poe-in-isolation", "Fine-tuned in isolation, PoE beats CE out of distribution", "section 4.3", "fig4",
          (_beats(figures.ISOLATED_MASK_POE, figures.ISOLATED_MASK_CE, "OOD"),
           _beats(figures.ISOLATED_IMP_POE, figures.ISOLATED_IMP_CE, "OOD"))),
    Claim("unbiased", "With OOD training data, subnetworks of the fine-tuned and of the raw model are almost unbiased "
          "at every sparsity up to 70 % (OOD at least 95 % of their own ID score); fine-tuned in isolation, they beat "
          "the full model at 50 %", "section 4.5", "fig6", (_unbiased,)),
    Claim("gradual", "At 90 %, gradual sparsity beats fixed sparsity", "section 5.2", "fig8",
          (_beats(figures.GRADUAL, figures.FIXED, what="gradual minus fixed", length=(1.0, 1.0)),)),
    Claim("late-start", f"A search from half-way through fine-tuning loses at most {MARGIN:g} point", "section 5.1",
          "fig7", (_half_way,)),
    Claim("early-stopping", f"Starting where early stopping says loses at most {MARGIN:g} point", "appendix E.1",
          "fig7", (_beats(figures.AUTO_START, figures.START, what="early-stopped start minus start at the end",
                          bar=-MARGIN, start=("auto", 1.0)),)),
    Claim("confreg", "Confidence regularisation keeps more ID and gains less OOD than PoE and reweighting",
          "appendix C.1", "figA1",
          (_beats(figures.MASK_CONFREG, figures.MASK_POE, "ID"),
           _beats(figures.MASK_CONFREG, figures.MASK_REWEIGHT, "ID"),
           _beats(figures.MASK_POE, figures.MASK_CONFREG, "OOD"),
           _beats(figures.MASK_REWEIGHT, figures.MASK_CONFREG, "OOD"))),
)  # fmt: skip


# --- findings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Finding(Shown, says="sentence"):
    """A claim's answer for one task, with everything it rests on."""

    claim: Claim
    task: str
    answer: Answer = OPEN
    conditions: tuple[Condition, ...] = ()
    seeds: int = 0
    note: str = ""
    needs: int | None = None
    """About how many seeds in all would answer it; None if it is answered, or if no number of seeds would."""
    alpha: float = ALPHA
    """The one-sided level of the test: lower than that of the intervals where claims are tested repeatedly."""

    @property
    def sentence(self) -> str:
        return f"{self.claim.name} on {self.task}: {self.answer}"

    @property
    def further_seeds(self) -> int:
        """About how many more seeds would answer it; 0 if nothing was computed."""
        return (self.needs or 0) - self.seeds if self.conditions else 0

    @property
    def details(self) -> list[str]:
        """The differences that it rests on, and the note."""
        return [*map(str, self.conditions), *([self.note] if self.note else [])]

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "claim": self.claim.name,
            "statement": self.claim.statement,
            "source": self.claim.source,
            "answer": self.answer,
            "seeds": self.seeds,
            "note": self.note,
            "seeds_needed": self.needs,
            "tested_at": self.alpha,
            "figures": [_figures(each) for each in self.conditions],
        }


def _figures(condition: Condition) -> dict[str, Any]:
    numbers = {name: getattr(condition.interval, name) for name in ("difference", "low", "high", "level")}
    return {"what": condition.what, **numbers, "bar": condition.bar, "answer": condition.answer}


def main_figure(name: str) -> str:
    """The appendix shows some figures on the other tasks: the same evidence under another name."""
    return figures.FIGURES[name].same_as or name if name in figures.FIGURES else name


def answer_claims(evidence: Sequence[RecipeEvidence]) -> list[Finding]:
    """Every claim on every task, on the evidence of its figures, each with seeds of its own."""
    tasks = {each.recipe.task: each.task for each in evidence}
    by_place = {(each.recipe.task, main_figure(each.recipe.name)): each for each in evidence}
    return [answer_claim(claim, tasks[spec], by_place.get((spec, claim.figure))) for spec in tasks for claim in CLAIMS]


def answer_claim(claim: Claim, task: Task, evidence: RecipeEvidence | None) -> Finding:
    """The answer, or a note on why there is none."""
    finding = Finding(claim, task.name)
    if not task.ood:
        return replace(finding, note="the task has no OOD data")
    try:
        if evidence is None:
            raise Missing(claim.figure)
        answer, conditions = claim.check(evidence)
    except Missing:
        note = f"{claim.figure} has not been computed with these seeds and sparsities"
        return replace(finding, note=note, needs=evidence.seeds if evidence else None)
    finding = replace(finding, conditions=tuple(conditions), seeds=evidence.seeds, alpha=evidence.alpha)
    if evidence.seeds < MIN_SEEDS:
        note = f"{seeds_in_words(evidence.seeds)}; at least {MIN_SEEDS} are needed"
        unanswered = tuple(replace(each, answer=OPEN) for each in conditions)
        return replace(finding, conditions=unanswered, note=note, needs=MIN_SEEDS)
    if answer != OPEN:
        return replace(finding, answer=answer)
    needs = _seeds_needed(claim, evidence)
    if needs is None:
        return replace(finding, note="no number of seeds would answer it: more test examples are needed")
    return replace(finding, note=f"about {needs:,} seeds would answer it, if further ones are like these", needs=needs)


def _seeds_needed(claim: Claim, evidence: RecipeEvidence) -> int | None:
    """More seeds narrow every interval, so the number is found by halving; None if the examples alone are too few."""
    further = range(evidence.seeds + 1, MANY_SEEDS + 1)
    needed = bisect_left(further, True, key=lambda seeds: claim.check(evidence, seeds)[0] != OPEN)
    return further[needed] if needed < len(further) else None
