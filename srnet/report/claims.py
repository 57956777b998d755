"""The paper's statements as sentences that can be checked. A failure is never rounded up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from srnet.evaluation import KEEPS_ID, Interval, Term, contrast
from srnet.experiment import Evaluate, Store, load_task
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
from srnet.recipes.recipe import Point, Recipe, Start
from srnet.report.results import predictions

Answer = Literal["holds", "does not hold", "not enough evidence"]

MIN_SEEDS = 3
"""With fewer, nobody knows how much of a difference is luck."""
MODERATE = 0.7
"""The sparsity up to which the paper says that subnetworks stay good."""
MARGIN = 1.0
"""Points that "loses nothing" may lose."""


class Missing(Exception):
    """What a claim needs has not been computed."""


@dataclass(frozen=True)
class Part:
    """One figure of a claim. It holds if the whole interval lies above `bar`, and fails if it lies below."""

    what: str
    interval: Interval
    bar: float = 0.0

    def __str__(self) -> str:
        level = "" if self.interval.level == 0.95 else f" (level {100 * self.interval.level:.1f} %)"
        bar = "" if not self.bar else f" (bar {self.bar:+.1f})"
        return f"{self.what}: {self.interval}{level}{bar}"

    @property
    def answer(self) -> Answer:
        if self.interval.low > self.bar:
            return "holds"
        return "does not hold" if self.interval.high < self.bar else "not enough evidence"


def all_of(answers: Iterable[Answer]) -> Answer:
    """Every part must hold; one that fails is enough to refute."""
    given = list(answers)
    if "does not hold" in given:
        return "does not hold"
    return "holds" if given and set(given) == {"holds"} else "not enough evidence"


def any_of(answers: Iterable[Answer]) -> Answer:
    """One is enough; the claim is refuted only if every one is."""
    given = list(answers)
    if "holds" in given:
        return "holds"
    return "does not hold" if given and set(given) == {"does not hold"} else "not enough evidence"


@dataclass(frozen=True)
class Finding:
    """A claim's answer for one task, with everything it rests on."""

    claim: Claim
    task: str
    answer: Answer
    parts: tuple[Part, ...]
    seeds: int
    note: str = ""


# --- evidence ------------------------------------------------------------------------------------------------------


class Evidence:
    """The stored predictions of one task's figures."""

    def __init__(self, recipes: Sequence[Recipe], store: Store) -> None:
        self.recipes = {_main_figure(recipe.name): recipe for recipe in recipes}
        self.store = store
        self.task = load_task(recipes[0].task)
        self.seeds = len(recipes[0].seeds)

    def points(
        self, figure: str, label: str, sparsity: float | None = None, start: Start = 1.0, length: float = 1.0
    ) -> list[Point]:
        """The points of a line, one a seed; every one of them is in the store."""
        recipe = self.recipes.get(figure)
        wanted = [] if recipe is None else [
            point for point in recipe.points()
            if (point.line.label, point.start, point.length) == (label, start, length)
            and sparsity in (None, point.sparsity)
        ]  # fmt: skip
        if not wanted or not all(self.store.has(Evaluate(point.node).key) for point in wanted):
            raise Missing(figure)
        return wanted

    def sparsities(self, figure: str, label: str) -> list[float]:
        """The line's sparsities up to the moderate one."""
        found = sorted({p.sparsity for p in self.points(figure, label) if p.sparsity <= MODERATE})
        if not found:
            raise Missing(figure)
        return found

    def terms(self, weight: float, points: Sequence[Point], split: str) -> Term:
        return Term(weight, split, [predictions(self.store, point.node)[split] for point in points])

    def full(self, weight: float, points: Sequence[Point], split: str) -> Term:
        """The full CE models of the same seeds."""
        any_recipe = next(iter(self.recipes.values()))
        models = [any_recipe.full_model(point.seed) for point in points]
        if not all(self.store.has(Evaluate(model).key) for model in models):
            raise Missing("fig2")
        return Term(weight, split, [predictions(self.store, model)[split] for model in models])

    def interval(self, terms: Sequence[Term], level: float = 0.95) -> Interval:
        labels = {term.split: self.task.splits[term.split].labels for term in terms}
        return contrast(terms, labels, self.task.metric, level=level, few_seeds=True)

    def beats(
        self, what: str, ours: Sequence[Sequence[Point]], theirs: Sequence[Sequence[Point]], splits: Iterable[str],
        bar: float = 0.0,
    ) -> list[Part]:  # fmt: skip
        """Ours minus theirs on each split, averaged over the places (sparsities) that are given pairwise."""
        parts = []
        for split in splits:
            share = 1.0 / len(ours)
            terms = [self.terms(share, points, split) for points in ours]
            terms += [self.terms(-share, points, split) for points in theirs]
            parts.append(Part(f"{what}, {self.kind(split)}", self.interval(terms), bar))
        return parts

    def kind(self, split: str) -> str:
        return f"ID {split}" if split == self.id else f"OOD {split}"

    @property
    def id(self) -> str:
        return self.task.dev.name

    @property
    def ood(self) -> tuple[str, ...]:
        return tuple(self.task.ood)


def _main_figure(name: str) -> str:
    """The appendix shows some figures on the other tasks: the same evidence under another name."""
    return FIGURES[name].same_as or name if name in FIGURES else name


# --- what each claim looks at --------------------------------------------------------------------------------------


def _lines_beat(figure: str, *pairs: tuple[str, str], on: str = "ood") -> Callable[[Evidence], list[list[Part]]]:
    """The first line of each pair beats the second, on average over the moderate sparsities."""

    def check(evidence: Evidence) -> list[list[Part]]:
        splits = {"ood": evidence.ood, "id": (evidence.id,), "both": (evidence.id, *evidence.ood)}[on]
        found = []
        for ours, theirs in pairs:
            places = evidence.sparsities(figure, ours)
            first, second = ([evidence.points(figure, label, s) for s in places] for label in (ours, theirs))
            found += evidence.beats(f"{ours} minus {theirs}", first, second, splits)
        return [found]

    return check


def _srnets(figure: str, *labels: str) -> Callable[[Evidence], list[list[Part]]]:
    """Candidates for an SRNet: each must keep 95 % of ID and beat the full CE model OOD."""

    def check(evidence: Evidence) -> list[list[Part]]:
        candidates = [(label, s) for label in labels for s in evidence.sparsities(figure, label)]
        # one lucky candidate among many proves nothing: each has to pass a stricter test
        level = 1.0 - 0.05 / len(candidates)
        return [_candidate(evidence, figure, label, s, level) for label, s in candidates]

    return check


def _candidate(evidence: Evidence, figure: str, label: str, sparsity: float, level: float) -> list[Part]:
    points, name = evidence.points(figure, label, sparsity), f"{label} at {100 * sparsity:g} %"
    id = [evidence.terms(1.0, points, evidence.id), evidence.full(-KEEPS_ID, points, evidence.id)]
    parts = [Part(f"{name}, ID minus 95 % of the full model's", evidence.interval(id, level))]
    for split in evidence.ood:
        terms = [evidence.terms(1.0, points, split), evidence.full(-1.0, points, split)]
        parts.append(Part(f"{name}, OOD {split} minus the full model's", evidence.interval(terms, level)))
    return parts


def _keeps_id(evidence: Evidence) -> list[list[Part]]:
    parts = []
    for label in (MASK_CE, MASK_POE, IMP_CE, IMP_POE):
        for s in evidence.sparsities("fig2", label):
            points = evidence.points("fig2", label, s)
            terms = [evidence.terms(1.0, points, evidence.id), evidence.full(-KEEPS_ID, points, evidence.id)]
            what = f"{label} at {100 * s:g} %, ID minus 95 % of the full model's"
            parts.append(Part(what, evidence.interval(terms)))
    return [parts]


def _unbiased(evidence: Evidence) -> list[list[Part]]:
    parts = []
    for label in (OOD_A, OOD_C):
        for s in evidence.sparsities("fig6", label):
            points = evidence.points("fig6", label, s)
            for split in evidence.ood:
                terms = [evidence.terms(1.0, points, split), evidence.terms(-0.95, points, evidence.id)]
                what = f"{label} at {100 * s:g} %, OOD {split} minus 95 % of its own ID"
                parts.append(Part(what, evidence.interval(terms)))
    half = evidence.points("fig6", OOD_B, 0.5)
    for split in evidence.ood:
        terms = [evidence.terms(1.0, half, split), evidence.full(-1.0, half, split)]
        parts.append(Part(f"{OOD_B} at 50 %, OOD {split} minus the full model's", evidence.interval(terms)))
    return [parts]


def _gradual(evidence: Evidence) -> list[list[Part]]:
    gradual, fixed = (evidence.points("fig8", label) for label in (GRADUAL, FIXED))
    return [evidence.beats("gradual minus fixed", [gradual], [fixed], (evidence.id, *evidence.ood))]


def _half_way(evidence: Evidence) -> list[list[Part]]:
    recipe = evidence.recipes.get("fig7")
    starts = [s for line in recipe.lines for s in line.starts if isinstance(s, float) and 0 < s < 1] if recipe else []
    if not starts:
        raise Missing("fig7")
    nearest = min(starts, key=lambda start: abs(start - 0.5))
    return _against_the_end(evidence, START, nearest, f"start at {100 * nearest:.0f} % minus start at the end")


def _early_stopped(evidence: Evidence) -> list[list[Part]]:
    return _against_the_end(evidence, AUTO_START, "auto", "early-stopped start minus start at the end")


def _against_the_end(evidence: Evidence, label: str, start: Start, what: str) -> list[list[Part]]:
    early, late = evidence.points("fig7", label, start=start), evidence.points("fig7", START, start=1.0)
    return [evidence.beats(what, [early], [late], (evidence.id, *evidence.ood), bar=-MARGIN)]


def _confreg(evidence: Evidence) -> list[list[Part]]:
    more = _lines_beat("figA1", (MASK_CONFREG, MASK_POE), (MASK_CONFREG, MASK_REWEIGHT), on="id")(evidence)
    less = _lines_beat("figA1", (MASK_POE, MASK_CONFREG), (MASK_REWEIGHT, MASK_CONFREG))(evidence)
    return [more[0] + less[0]]


# --- the claims ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """`check` gives groups of parts: a group holds if all its parts do, the claim if `combine` of the groups does."""

    name: str
    statement: str
    source: str
    check: Callable[[Evidence], list[list[Part]]]
    combine: Callable[[Iterable[Answer]], Answer] = all_of


CLAIMS = (
    Claim("srnets-a", "A model fine-tuned with CE contains SRNets: masks that keep 95 % of ID and beat it OOD",
          "section 4.2", _srnets("fig2", MASK_CE, MASK_POE), any_of),
    Claim("srnets-b", "The raw model contains SRNets that can be fine-tuned in isolation",
          "section 4.3", _srnets("fig4", ISOLATED_MASK_CE, ISOLATED_MASK_POE, ISOLATED_IMP_CE, ISOLATED_IMP_POE),
          any_of),
    Claim("srnets-c", "The raw model contains SRNets that need no fine-tuning", "section 4.4",
          _srnets("fig5", RAW_POE), any_of),
    Claim("poe-pruning", "Pruning with PoE beats pruning with CE out of distribution, on average up to 70 %",
          "section 4.2", _lines_beat("fig2", (MASK_POE, MASK_CE), (IMP_POE, IMP_CE))),
    Claim("mask-or-imp", "Mask training beats IMP, in and out of distribution, on average up to 70 %", "section 4.2",
          _lines_beat("fig2", (MASK_CE, IMP_CE), (MASK_POE, IMP_POE), on="both")),
    Claim("keeps-id", "Up to 70 %, every method keeps 95 % of the full model's ID score", "section 4.2", _keeps_id),
    Claim("poe-in-isolation", "Fine-tuned in isolation, PoE beats CE out of distribution", "section 4.3",
          _lines_beat("fig4", (ISOLATED_MASK_POE, ISOLATED_MASK_CE), (ISOLATED_IMP_POE, ISOLATED_IMP_CE))),
    Claim("unbiased", "With OOD training data, subnetworks of the fine-tuned and of the raw model are almost unbiased "
          "at every sparsity up to 70 % (OOD at least 95 % of their own ID score); fine-tuned in isolation, they beat "
          "the full model at 50 %", "section 4.5", _unbiased),
    Claim("gradual", "At 90 %, gradual sparsity beats fixed sparsity", "section 5.2", _gradual),
    Claim("late-start", f"A search from half-way through fine-tuning loses at most {MARGIN:g} point", "section 5.1",
          _half_way),
    Claim("early-stopping", f"Starting where early stopping says loses at most {MARGIN:g} point", "appendix E.1",
          _early_stopped),
    Claim("confreg", "Confidence regularisation keeps more ID and gains less OOD than PoE and reweighting",
          "appendix C.1", _confreg),
)  # fmt: skip


def check_claims(recipes: Sequence[Recipe], store: Store) -> list[Finding]:
    """Every claim, on the figures of one task."""
    evidence = Evidence(recipes, store)
    return [_find(claim, evidence) for claim in CLAIMS]


def _find(claim: Claim, evidence: Evidence) -> Finding:
    task = evidence.task.name
    if not evidence.ood:
        return Finding(claim, task, "not enough evidence", (), 0, "the task has no OOD data")
    try:
        groups = claim.check(evidence)
    except Missing as missing:
        return Finding(
            claim,
            task,
            "not enough evidence",
            (),
            0,
            f"{missing} has not been computed with these seeds and sparsities",
        )
    parts = tuple(part for group in groups for part in group)
    if evidence.seeds < MIN_SEEDS:
        note = f"{evidence.seeds} seed{'s' if evidence.seeds > 1 else ''}; at least {MIN_SEEDS} are needed"
        return Finding(claim, task, "not enough evidence", parts, evidence.seeds, note)
    answer = claim.combine(all_of(part.answer for part in group) for group in groups)
    return Finding(claim, task, answer, parts, evidence.seeds)
