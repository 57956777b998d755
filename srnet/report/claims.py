"""The paper's statements as sentences that can be checked. A failure is never rounded up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from srnet.evaluation import ALPHA, MIN_SEEDS, Interval, Verdict, judge_together, seeds_in_words
from srnet.experiment import Store
from srnet.recipes.figures import (
    AUTO_START,
    FIGURES,
    FIXED,
    GRADUAL,
    IMP_CE,
    IMP_POE,
    ISOLATED_IMP_CE,
    ISOLATED_IMP_POE,
    ISOLATED_MASK_CE,
    ISOLATED_MASK_POE,
    MASK_CE,
    MASK_CONFREG,
    MASK_POE,
    MASK_REWEIGHT,
    OOD_A,
    OOD_B,
    OOD_C,
    RAW_POE,
    START,
)
from srnet.recipes.points import Place, Point, Start
from srnet.recipes.recipe import Recipe
from srnet.report.evidence import Evidence, Missing
from srnet.tasks.base import Task

Answer = Literal["holds", "does not hold", "not enough evidence"]
HOLDS: Answer = "holds"
FAILS: Answer = "does not hold"
OPEN: Answer = "not enough evidence"

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


def all_of(answers: Iterable[Answer]) -> Answer:
    """Every part must hold; one that fails is enough to refute."""
    given = list(answers)
    if FAILS in given:
        return FAILS
    return HOLDS if given and set(given) == {HOLDS} else OPEN


def any_of(answers: Iterable[Answer]) -> Answer:
    """One is enough; the claim is refuted only if every one is."""
    given = list(answers)
    if HOLDS in given:
        return HOLDS
    return FAILS if given and set(given) == {FAILS} else OPEN


@dataclass(frozen=True)
class Finding:
    """A claim's answer for one task, with everything it rests on."""

    claim: Claim
    task: str
    answer: Answer
    parts: tuple[Part, ...]
    seeds: int
    note: str = ""
    needs: int | None = None
    """About how many seeds in all would answer it; None if it is answered, or if no number of seeds would."""
    alpha: float = ALPHA
    """The one-sided level of the test: lower than that of the intervals where claims are tested repeatedly."""


Checked = tuple[Answer, list[Part]]


# --- what each claim looks at --------------------------------------------------------------------------------------


def _moderate(evidence: Evidence, label: str) -> list[float]:
    """The line's sparsities up to the moderate one."""
    found = sorted({p.place.sparsity for p in evidence.points(label) if p.place.sparsity <= MODERATE})
    if not found:
        raise Missing(evidence.recipe.name)
    return found


def _parts_of_a_verdict(evidence: Evidence) -> int:
    """A part of a claim is not refuted where the verdict on the same subnetwork is still open."""
    return 1 + len(evidence.ood)


def _all_hold(parts: list[Part], evidence: Evidence) -> Checked:
    parts = answered(parts, evidence.alpha, _parts_of_a_verdict(evidence))
    return all_of(part.answer for part in parts), parts


def _beats(
    evidence: Evidence,
    what: str,
    ours: Sequence[Sequence[Point]],
    theirs: Sequence[Sequence[Point]],
    splits: Iterable[str],
    bar: float = 0.0,
) -> list[Part]:
    """Ours minus theirs on each split, averaged over the places (sparsities) that are given pairwise."""
    parts, share = [], 1.0 / len(ours)
    for split in splits:
        terms = [evidence.term(share, points, split) for points in ours]
        terms += [evidence.term(-share, points, split) for points in theirs]
        parts.append(Part(f"{what}, {evidence.named(split)}", evidence.interval(terms), bar))
    return parts


def _lines_beat(*pairs: tuple[str, str], on: str = "ood") -> Callable[[Evidence], list[Part]]:
    """The first line of each pair beats the second, on average over the moderate sparsities."""

    def parts(evidence: Evidence) -> list[Part]:
        splits = {"ood": evidence.ood, "id": (evidence.id,), "both": (evidence.id, *evidence.ood)}[on]
        found = []
        for ours, theirs in pairs:
            places = _moderate(evidence, ours)
            first, second = ([evidence.points(label, sparsity=s) for s in places] for label in (ours, theirs))
            found += _beats(evidence, f"{ours} minus {theirs}", first, second, splits)
        return found

    return parts


def _keeps_id(evidence: Evidence) -> list[Part]:
    return [
        Part(
            f"{label} at {100 * s:g} %, ID minus 95 % of the full model's",
            evidence.id_kept(evidence.points(label, sparsity=s)),
        )
        for label in (MASK_CE, MASK_POE, IMP_CE, IMP_POE)
        for s in _moderate(evidence, label)
    ]


def _unbiased(evidence: Evidence) -> list[Part]:
    parts = []
    for label in (OOD_A, OOD_C):
        for s in _moderate(evidence, label):
            points = evidence.points(label, sparsity=s)
            for split in evidence.ood:
                terms = [evidence.term(1.0, points, split), evidence.term(-0.95, points, evidence.id)]
                what = f"{label} at {100 * s:g} %, OOD {split} minus 95 % of its own ID"
                parts.append(Part(what, evidence.interval(terms)))
    half = evidence.points(OOD_B, sparsity=0.5)
    return parts + [
        Part(f"{OOD_B} at 50 %, OOD {split} minus the full model's", evidence.gain(half, split))
        for split in evidence.ood
    ]


def _gradual(evidence: Evidence) -> list[Part]:
    gradual, fixed = (evidence.points(label, length=1.0) for label in (GRADUAL, FIXED))
    return _beats(evidence, "gradual minus fixed", [gradual], [fixed], (evidence.id, *evidence.ood))


def _half_way(evidence: Evidence) -> list[Part]:
    starts = [s for p in evidence.recipe.points if isinstance(s := p.place.start, float) and 0 < s < 1]
    if not starts:
        raise Missing(evidence.recipe.name)
    nearest = min(starts, key=lambda start: abs(start - 0.5))
    return _against_the_end(evidence, START, nearest, f"start at {100 * nearest:.0f} % minus start at the end")


def _early_stopped(evidence: Evidence) -> list[Part]:
    return _against_the_end(evidence, AUTO_START, "auto", "early-stopped start minus start at the end")


def _against_the_end(evidence: Evidence, label: str, start: Start, what: str) -> list[Part]:
    early, late = evidence.points(label, start=start), evidence.points(START, start=1.0)
    return _beats(evidence, what, [early], [late], (evidence.id, *evidence.ood), bar=-MARGIN)


def _confreg(evidence: Evidence) -> list[Part]:
    more = _lines_beat((MASK_CONFREG, MASK_POE), (MASK_CONFREG, MASK_REWEIGHT), on="id")(evidence)
    return more + _lines_beat((MASK_POE, MASK_CONFREG), (MASK_REWEIGHT, MASK_CONFREG))(evidence)


def _candidates(labels: Sequence[str], evidence: Evidence) -> dict[tuple[str, Place], Verdict]:
    """What the figure's own table, in which all its subnetworks are judged together, says of these lines."""
    wanted = {(label, sparsity) for label in labels for sparsity in _moderate(evidence, label)}
    return {each: verdict for each, verdict in evidence.verdicts.items() if (each[0], each[1].sparsity) in wanted}


def _one_is_enough(verdicts: Iterable[Verdict]) -> Answer:
    answers: dict[str, Answer] = {"yes": HOLDS, "no": FAILS}
    return any_of(answers.get(verdict.answer, OPEN) for verdict in verdicts)


def _parts_of(name: str, verdict: Verdict, alpha: float) -> list[Part]:
    id = Part(f"{name}, ID minus 95 % of the full model's", verdict.id_kept)
    ood = [Part(f"{name}, OOD {split} minus the full model's", gain) for split, gain in verdict.gains.items()]
    # a part may hold by itself where the choice among many subnetworks leaves the verdict open
    return answered([id, *ood], alpha) if verdict.answer in ("yes", "no") else [id, *ood]


# --- the claims ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A statement about one figure: either `parts` that must all hold, or lines of which one must hold an SRNet."""

    name: str
    statement: str
    source: str
    figure: str
    parts: Callable[[Evidence], list[Part]] | None = None
    candidates: tuple[str, ...] = ()

    def check(self, evidence: Evidence) -> Checked:
        if self.parts is not None:
            return _all_hold(self.parts(evidence), evidence)
        verdicts = _candidates(self.candidates, evidence)
        parts: list[Part] = []
        for (label, place), verdict in verdicts.items():
            parts += _parts_of(
                f"{label} at {100 * place.sparsity:g} % (SRNet: {verdict.short})", verdict, evidence.alpha
            )
        return _one_is_enough(verdicts.values()), parts

    def expected(self, parts: Sequence[Part], evidence: Evidence, seeds: int) -> Answer:
        """The answer if more seeds had the same mean and spread as those that were run."""
        if self.parts is not None:
            more = [replace(part, interval=part.interval.with_seeds(seeds)) for part in parts]
            return all_of(part.answer for part in answered(more, evidence.alpha, _parts_of_a_verdict(evidence)))
        table = judge_together([verdict.with_seeds(seeds) for verdict in evidence.verdicts.values()])
        wanted = _candidates(self.candidates, evidence)
        return _one_is_enough(v for place, v in zip(evidence.verdicts, table, strict=True) if place in wanted)


CLAIMS = (
    Claim("srnets-a", "A model fine-tuned with CE contains SRNets: masks that keep 95 % of ID and beat it OOD",
          "section 4.2", "fig2", candidates=(MASK_CE, MASK_POE)),
    Claim("srnets-b", "The raw model contains SRNets that can be fine-tuned in isolation", "section 4.3", "fig4",
          candidates=(ISOLATED_MASK_CE, ISOLATED_MASK_POE, ISOLATED_IMP_CE, ISOLATED_IMP_POE)),
    Claim("srnets-c", "The raw model contains SRNets that need no fine-tuning", "section 4.4", "fig5",
          candidates=(RAW_POE,)),
    Claim("poe-pruning", "Pruning with PoE beats pruning with CE out of distribution, on average up to 70 %",
          "section 4.2", "fig2", _lines_beat((MASK_POE, MASK_CE), (IMP_POE, IMP_CE))),
    Claim("mask-or-imp", "Mask training beats IMP, in and out of distribution, on average up to 70 %", "section 4.2",
          "fig2", _lines_beat((MASK_CE, IMP_CE), (MASK_POE, IMP_POE), on="both")),
    Claim("keeps-id", "Up to 70 %, every method keeps 95 % of the full model's ID score", "section 4.2", "fig2",
          _keeps_id),
    Claim("poe-in-isolation", "Fine-tuned in isolation, PoE beats CE out of distribution", "section 4.3", "fig4",
          _lines_beat((ISOLATED_MASK_POE, ISOLATED_MASK_CE), (ISOLATED_IMP_POE, ISOLATED_IMP_CE))),
    Claim("unbiased", "With OOD training data, subnetworks of the fine-tuned and of the raw model are almost unbiased "
          "at every sparsity up to 70 % (OOD at least 95 % of their own ID score); fine-tuned in isolation, they beat "
          "the full model at 50 %", "section 4.5", "fig6", _unbiased),
    Claim("gradual", "At 90 %, gradual sparsity beats fixed sparsity", "section 5.2", "fig8", _gradual),
    Claim("late-start", f"A search from half-way through fine-tuning loses at most {MARGIN:g} point", "section 5.1",
          "fig7", _half_way),
    Claim("early-stopping", f"Starting where early stopping says loses at most {MARGIN:g} point", "appendix E.1",
          "fig7", _early_stopped),
    Claim("confreg", "Confidence regularisation keeps more ID and gains less OOD than PoE and reweighting",
          "appendix C.1", "figA1", _confreg),
)  # fmt: skip


def main_figure(name: str) -> str:
    """The appendix shows some figures on the other tasks: the same evidence under another name."""
    return FIGURES[name].same_as or name if name in FIGURES else name


def check_claims(recipes: Sequence[Recipe], store: Store) -> list[Finding]:
    """Every claim, on the figures of one task."""
    return answer_claims([Evidence(recipe, store) for recipe in recipes])


def answer_claims(figures: Sequence[Evidence]) -> list[Finding]:
    """Every claim, on the evidence of one task's figures, each with seeds of its own."""
    by_name = {main_figure(evidence.recipe.name): evidence for evidence in figures}
    return [find(claim, figures[0].task, by_name.get(claim.figure)) for claim in CLAIMS]


def find(claim: Claim, task: Task, evidence: Evidence | None) -> Finding:
    if not task.ood:
        return Finding(claim, task.name, OPEN, (), 0, "the task has no OOD data")
    try:
        if evidence is None:
            raise Missing(claim.figure)
        answer, parts = claim.check(evidence)
    except Missing:
        note = f"{claim.figure} has not been computed with these seeds and sparsities"
        return Finding(claim, task.name, OPEN, (), 0, note, evidence.seeds if evidence else None)
    if evidence.seeds < MIN_SEEDS:
        note = f"{seeds_in_words(evidence.seeds)}; at least {MIN_SEEDS} are needed"
        parts = [replace(part, answer=OPEN) for part in parts]
        return Finding(claim, task.name, OPEN, tuple(parts), evidence.seeds, note, MIN_SEEDS)
    if answer != OPEN:
        return Finding(claim, task.name, answer, tuple(parts), evidence.seeds, alpha=evidence.alpha)
    needs = _seeds_needed(claim, parts, evidence)
    return Finding(claim, task.name, OPEN, tuple(parts), evidence.seeds, _outlook(needs), needs, evidence.alpha)


def _seeds_needed(claim: Claim, parts: Sequence[Part], evidence: Evidence) -> int | None:
    """More seeds narrow every interval, so the number is found by halving; None if the examples alone are too few."""
    if claim.expected(parts, evidence, MANY_SEEDS) == OPEN:
        return None
    further = range(evidence.seeds + 1, MANY_SEEDS + 1)
    return further[bisect_left(further, True, key=lambda seeds: claim.expected(parts, evidence, seeds) != OPEN)]


def _outlook(needs: int | None) -> str:
    if needs is None:
        return "no number of seeds would answer it: more test examples are needed"
    return f"about {needs:,} seeds would answer it, if further ones are like these"


def plain_finding(finding: Finding) -> dict[str, Any]:
    """As JSON."""
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
        "figures": [
            {
                "what": part.what,
                "difference": part.interval.difference,
                "low": part.interval.low,
                "high": part.interval.high,
                "level": part.interval.level,
                "bar": part.bar,
                "answer": part.answer,
            }
            for part in finding.parts
        ],
    }
