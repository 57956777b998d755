"""The paper's statements as sentences that can be checked. A failure is never rounded up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from srnet.evaluation.significance import Interval
from srnet.evaluation.verdict import ALPHA, KEEPS_ID, MIN_SEEDS, judge_together, seeds_in_words
from srnet.recipes import figures
from srnet.report.evidence import Evidence, Missing, Models
from srnet.tasks.base import Task

Answer = Literal["holds", "does not hold", "not enough evidence"]
HOLDS: Answer = "holds"
FAILS: Answer = "does not hold"
OPEN: Answer = "not enough evidence"
VERDICTS: dict[str, Answer] = {"yes": HOLDS, "no": FAILS}
MODERATE = 0.7
"""The sparsity up to which the paper says that subnetworks stay good."""
MANY_SEEDS = 100_000
"""So many that nothing is left of the error of the seeds."""
MARGIN = 1.0
"""Points that "loses nothing" may lose."""


@dataclass(frozen=True)
class Part:
    """One difference that a claim rests on, and the bar that it must lie above."""

    what: str
    interval: Interval
    bar: float = 0.0
    answer: Answer = OPEN

    def __str__(self) -> str:
        bar = "" if not self.bar else f" (bar {self.bar:+.1f})"
        return f"{self.what}: {self.interval}{bar}"


Check = Callable[[Evidence], list[Part]]
"""Computes parts of a claim from the evidence of its figure."""


def answered(parts: Sequence[Part], alpha: float = ALPHA, at_least: int = 1) -> list[Part]:
    """Each part that must hold, with its answer.

    To hold, all of them must lie above their bars, so none needs a correction. One that lies below refutes them all,
    and the more parts there are, the more often one does so by chance: that is corrected for (Bonferroni), for at least
    as many parts as `at_least`.
    """
    level = alpha / max(len(parts), at_least)

    def answer(part: Part) -> Answer:
        if part.interval.p_above(part.bar) < alpha:
            return HOLDS
        return FAILS if part.interval.p_below(part.bar) < level else OPEN

    return [replace(part, answer=answer(part)) for part in parts]


def _combined(decisive: Answer, unanimous: Answer, answers: Iterable[Answer]) -> Answer:
    given = set(answers)
    if decisive in given:
        return decisive
    return unanimous if given == {unanimous} else OPEN


all_of = partial(_combined, FAILS, HOLDS)
"""Every part must hold; one that fails is enough to refute."""
any_of = partial(_combined, HOLDS, FAILS)
"""One is enough; the claim is refuted only if every one is."""


def _by_sparsity(evidence: Evidence, label: str, **place: object) -> dict[float, Models]:
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

    def parts(evidence: Evidence) -> list[Part]:
        by_sparsity = _by_sparsity(evidence, ours, **first)
        others = [evidence.models(theirs, sparsity=sparsity, **second) for sparsity in by_sparsity]
        found, share = [], 1.0 / len(by_sparsity)
        for split in {"ID": [evidence.id], "OOD": evidence.ood, "both": [evidence.id, *evidence.ood]}[on]:
            terms = [(share, models, split) for models in by_sparsity.values()]
            terms += [(-share, models, split) for models in others]
            found.append(Part(f"{what}, {evidence.splits[split]}", evidence.contrast(*terms), bar))
        return found

    return parts


def _keeps_id(evidence: Evidence) -> list[Part]:
    return [
        Part(f"{label} at {100 * sparsity:g} %, ID minus 95 % of the full model's", evidence.id_kept(models))
        for label in (figures.MASK_CE, figures.MASK_POE, figures.IMP_CE, figures.IMP_POE)
        for sparsity, models in _by_sparsity(evidence, label).items()
    ]


def _unbiased(evidence: Evidence) -> list[Part]:
    own_id = [
        Part(
            f"{label} at {100 * sparsity:g} %, OOD {split} minus 95 % of its own ID",
            evidence.contrast((1.0, models, split), (-KEEPS_ID, models, evidence.id)),
        )
        for label in (figures.OOD_A, figures.OOD_C)
        for sparsity, models in _by_sparsity(evidence, label).items()
        for split in evidence.ood
    ]
    half = evidence.models(figures.OOD_B, sparsity=0.5)
    what = f"{figures.OOD_B} at 50 %, OOD {{}} minus the full model's"
    return own_id + [Part(what.format(split), evidence.gain(half, split)) for split in evidence.ood]


def _half_way(evidence: Evidence) -> list[Part]:
    starts = [s for p in evidence.recipe.points if isinstance(s := p.place.start, float) and 0 < s < 1]
    nearest = min(starts, key=lambda start: abs(start - 0.5), default=0.5)
    what = f"start at {100 * nearest:.0f} % minus start at the end"
    return _beats(figures.START, figures.START, what=what, bar=-MARGIN, start=(nearest, 1.0))(evidence)


@dataclass(frozen=True)
class Claim:
    """A statement about one figure: either `parts` that must all hold, or lines of which one must hold an SRNet."""

    name: str
    statement: str
    source: str
    figure: str
    parts: tuple[Check, ...] = ()
    candidates: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return f"{self.statement} ({self.source})"

    def check(self, evidence: Evidence, seeds: int | None = None) -> tuple[Answer, list[Part]]:
        """The answer and its parts; with `seeds`, as expected if so many had the same mean and spread as those run."""
        if self.candidates:
            return self._check_candidates(evidence, seeds)
        parts = [part for check in self.parts for part in check(evidence)]
        if seeds is not None:
            parts = [replace(part, interval=part.interval.with_seeds(seeds)) for part in parts]
        # no part is refuted where the verdict on the same subnetwork, with a part for ID and each OOD split, is open
        parts = answered(parts, evidence.alpha, at_least=1 + len(evidence.ood))
        return all_of(part.answer for part in parts), parts

    def _check_candidates(self, evidence: Evidence, seeds: int | None) -> tuple[Answer, list[Part]]:
        """From the verdicts in the figure's table, where all its subnetworks are judged together."""
        verdicts, parts, answers = evidence.verdicts, [], []
        if seeds is not None:
            expected = judge_together([verdict.with_seeds(seeds) for verdict in verdicts.values()])
            verdicts = dict(zip(verdicts, expected, strict=True))
        wanted = {(label, sparsity) for label in self.candidates for sparsity in _by_sparsity(evidence, label)}
        for (label, place), verdict in verdicts.items():
            if (label, place.sparsity) not in wanted:
                continue
            name = f"{label} at {100 * place.sparsity:g} % (SRNet? {verdict.short})"
            bars = {"ID minus 95 % of": verdict.id_kept, **{f"OOD {s} minus": g for s, g in verdict.gains.items()}}
            every = [Part(f"{name}, {what} the full model's", interval) for what, interval in bars.items()]
            # a part may hold by itself where the choice among many subnetworks leaves the verdict open
            parts += answered(every, evidence.alpha) if verdict.answer in ("yes", "no") else every
            answers.append(VERDICTS.get(verdict.answer, OPEN))
        return any_of(answers), parts


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


@dataclass(frozen=True)
class Finding:
    """A claim's answer for one task, with everything it rests on."""

    claim: Claim
    task: str
    answer: Answer = OPEN
    parts: tuple[Part, ...] = ()
    seeds: int = 0
    note: str = ""
    needs: int | None = None
    """About how many seeds in all would answer it; None if it is answered, or if no number of seeds would."""
    alpha: float = ALPHA
    """The one-sided level of the test: lower than that of the intervals where claims are tested repeatedly."""

    @property
    def details(self) -> list[str]:
        """The differences that it rests on, and the note."""
        return [*map(str, self.parts), *([self.note] if self.note else [])]


def main_figure(name: str) -> str:
    """The appendix shows some figures on the other tasks: the same evidence under another name."""
    return figures.FIGURES[name].same_as or name if name in figures.FIGURES else name


def answer_claims(evidence: Sequence[Evidence]) -> list[Finding]:
    """Every claim on every task, on the evidence of its figures, each with seeds of its own."""
    tasks = {each.recipe.task: each.task for each in evidence}
    by_place = {(each.recipe.task, main_figure(each.recipe.name)): each for each in evidence}
    return [find(claim, tasks[spec], by_place.get((spec, claim.figure))) for spec in tasks for claim in CLAIMS]


def find(claim: Claim, task: Task, evidence: Evidence | None) -> Finding:
    """The answer, or a note on why there is none."""
    found = Finding(claim, task.name)
    if not task.ood:
        return replace(found, note="the task has no OOD data")
    try:
        if evidence is None:
            raise Missing(claim.figure)
        answer, parts = claim.check(evidence)
    except Missing:
        note = f"{claim.figure} has not been computed with these seeds and sparsities"
        return replace(found, note=note, needs=evidence.seeds if evidence else None)
    found = replace(found, answer=answer, parts=tuple(parts), seeds=evidence.seeds, alpha=evidence.alpha)
    if evidence.seeds < MIN_SEEDS:
        note = f"{seeds_in_words(evidence.seeds)}; at least {MIN_SEEDS} are needed"
        parts = [replace(part, answer=OPEN) for part in parts]
        return replace(found, answer=OPEN, parts=tuple(parts), note=note, needs=MIN_SEEDS)
    if answer != OPEN:
        return found
    needs = _seeds_needed(claim, evidence)
    if needs is None:
        return replace(found, note="no number of seeds would answer it: more test examples are needed")
    return replace(found, note=f"about {needs:,} seeds would answer it, if further ones are like these", needs=needs)


def _seeds_needed(claim: Claim, evidence: Evidence) -> int | None:
    """More seeds narrow every interval, so the number is found by halving; None if the examples alone are too few."""
    further = range(evidence.seeds + 1, MANY_SEEDS + 1)
    needed = bisect_left(further, True, key=lambda seeds: claim.check(evidence, seeds)[0] != OPEN)
    return further[needed] if needed < len(further) else None


def plain_finding(finding: Finding) -> dict[str, Any]:
    """As JSON."""

    def numbers(interval: Interval) -> dict[str, float]:
        return {name: getattr(interval, name) for name in ("difference", "low", "high", "level")}

    return {
        "task": finding.task,
        "claim": finding.claim.name,
        "statement": finding.claim.statement,
        "source": finding.claim.source,
        "answer": finding.answer,
        "seeds": finding.seeds,
        "note": finding.note,
        "seeds_needed": finding.needs,
        "tested_at": finding.alpha,
        "figures": [{"what": p.what, **numbers(p.interval), "bar": p.bar, "answer": p.answer} for p in finding.parts],
    }
