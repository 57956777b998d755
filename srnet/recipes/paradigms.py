"""Profiles and paradigms: from the settings of all trainings to the models of a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

from srnet.config.fields import Described
from srnet.config.values import Positive, arguments_of
from srnet.core.errors import UserError
from srnet.core.names import EMBEDDED
from srnet.experiment.nodes.base import TaskSpec, answer_of_spec
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import FineTuned, ModelNode, Pretrained, Quantised, Rewind
from srnet.experiment.nodes.objectives import Distilled, Objective, ObjectiveSources, make_objective
from srnet.experiment.nodes.training import FineTune, Moment, Prune, Trajectory
from srnet.masks.budget import Sparsity
from srnet.masks.timed import Latency
from srnet.objectives.base import parse_objective
from srnet.pruners.base import OfUnits, Pruner, Speedup, TimedOn, get_pruner, speedup_text
from srnet.tasks.base import TrainingData
from srnet.training.settings import TrainingSettings, Update

# --- points --------------------------------------------------------------------------------------------------------

Axis = Literal["sparsity", "kept", "start", "length"]
"""What a figure varies. `kept` is 100 % minus the sparsity, on a logarithmic scale."""
Start = float | Literal["auto"]
"""When the search begins: after this share of the fine-tuning, or `auto`: when the ID dev score stops rising."""


class Place(NamedTuple):
    """Where a model is in its series: the requested values."""

    sparsity: float = 0.0
    start: Start | None = None
    """None where the search does not start from a fine-tuning."""
    length: float = 1.0
    """The length of the search, relative to the profile's."""
    speedup: float | None = None
    """Where the budget is in time; `sparsity` is then the share of the time that goes."""

    @property
    def aim(self) -> str:
        """The target in a few characters."""
        return f"{100 * self.sparsity:g} %" if self.speedup is None else speedup_text(self.speedup)

    @property
    def target(self) -> float:
        """The number that was given: a sparsity, or a speed-up."""
        return self.sparsity if self.speedup is None else self.speedup


@dataclass(frozen=True)
class Point:
    """One model of a figure. Points with the same label are a series; at one place of it there is one a seed."""

    label: str
    place: Place
    seed: int
    node: ModelNode
    is_baseline: bool = False
    """Whether it is judged as subnetworks are, though it may be dense."""
    is_control: bool = False
    """Whether it shows what something else than the method does. It is judged alone, and never chosen."""

    @property
    def search(self) -> Prune | None:
        """The pruning behind the model; None for a full model."""
        return search_behind(self.node)

    @property
    def is_pruned(self) -> bool:
        return self.search is not None

    @property
    def is_judged(self) -> bool:
        """Whether it is compared with the full CE model."""
        return self.is_pruned or self.is_baseline

    @property
    def backbone(self) -> str:
        return self.node.pretrained.backbone

    @property
    def paradigm(self) -> Literal["full", "a", "b", "c"]:
        """(a) a fine-tuned model, pruned; (b) then rewound and fine-tuned in isolation; (c) the raw model, pruned."""
        if self.search is None:
            return "full"
        if isinstance(self.node, FineTune) and isinstance(self.node.parent, Rewind):
            return "b"
        return "c" if self.place.start is None else "a"


def search_behind(model: ModelNode) -> Prune | None:
    node = model.parent if isinstance(model, FineTune) else model
    node = node.subnetwork if isinstance(node, Rewind) else node
    return node if isinstance(node, Prune) else None


def labels_of(points: Iterable[Point]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(point.label for point in points))


# --- searches and profiles -----------------------------------------------------------------------------------------

Options = dict[str, Any]
"""Fields of a pruner with their values."""
OF_WEIGHTS, OF_SCORES = ("finetuning", "finetuning_of", "stopping", "pruning_of"), ("pruning", "with_ood")
"""The fields of a profile with settings for training weights, and for training the scores of masks."""
TRAININGS = OF_WEIGHTS + OF_SCORES


@dataclass(frozen=True)
class Search(Described):
    """Which masks are searched for, and how."""

    pruner: str
    prune: str | None = None
    """The objective; None for a pruner that does not train."""
    sparsities: tuple[Sparsity, ...] = ()
    options: Options = field(default_factory=dict)
    """Further options of the pruner."""
    options_at: dict[float, Options] = field(default_factory=dict)
    """Those at one sparsity each."""
    lengths: tuple[Positive, ...] = (1.0,)
    """Lengths of the search, relative to the profile's."""
    lengths_at: dict[float, Positive] = field(default_factory=dict)
    """Factors at one sparsity each."""
    data: TrainingData = "id"
    """`id+ood` gives an upper bound."""
    distil: bool = False
    """Whether the search also imitates the full CE model of the same seed."""
    speedups: tuple[Speedup, ...] = ()
    """Instead of sparsities: budgets in time, for a pruner of units."""

    def check(self) -> None:
        if not self.lengths:
            raise UserError("a search needs lengths", "e.g. lengths: [1, 2]")
        if bool(self.sparsities) == bool(self.speedups):
            raise UserError(
                "a search needs sparsities, or else speedups", "e.g. sparsities: [0.5, 0.7], or speedups: [2]"
            )
        if self.speedups and not issubclass(get_pruner(self.pruner), OfUnits):
            raise UserError(f"pruner '{self.pruner}' prunes no units, so it has no speedups", "give sparsities")
        trains = get_pruner(self.pruner).trains
        if trains != (self.prune is not None):
            raise UserError(f"pruner '{self.pruner}' {'needs an' if trains else 'takes no'} objective")
        if not trains and (self.data, self.lengths, self.lengths_at, self.distil) != ("id", (1.0,), {}, False):
            raise UserError(f"pruner '{self.pruner}' does not train", "leave out data, lengths and distil")

    def places(self) -> list[Place]:
        """One for each target and length."""
        targets = [Place(sparsity) for sparsity in self.sparsities]
        targets += [Place(self.at(speedup=speedup).share, speedup=speedup) for speedup in self.speedups]
        return [target._replace(length=length) for target in targets for length in self.lengths]

    def at(self, sparsity: float = 0.0, speedup: float | None = None) -> Pruner:
        """The pruner for one target; the speed-up takes precedence."""
        target = {"sparsity": sparsity} if speedup is None else {"speedup": speedup}
        options = self.options if speedup is not None else {**self.options, **self.options_at.get(sparsity, {})}
        make = get_pruner(self.pruner)
        known = tuple(each.name for each in fields(make) if each.name not in ("sparsity", "speedup"))
        return make(**target, **arguments_of(make, options, known))


@dataclass(frozen=True)
class Profile:
    """All settings of a figure: task, backbone, seeds, trainings, and what the figures vary."""

    task: TaskSpec
    backbone: str = EMBEDDED
    seeds: tuple[int, ...] = (0,)
    finetuning: TrainingSettings = field(default_factory=TrainingSettings)
    pruning: TrainingSettings = field(default_factory=TrainingSettings)
    finetuning_of: dict[str, TrainingSettings] = field(default_factory=dict)
    """Settings by objective, where they differ from `finetuning`."""
    pruning_of: dict[str, TrainingSettings] = field(default_factory=dict)
    """Settings by pruner, where they differ from `pruning`."""
    stopping: TrainingSettings | None = None
    """The fine-tuning before a search that starts `auto`: with `patience`."""
    with_ood: TrainingSettings | None = None
    """The pruning with OOD training data, where it differs from `pruning`."""
    bias: BiasSpec = field(default_factory=BiasSpec)
    """How the shortcut is measured. Default: what the task suspects, on words alone."""
    words: tuple[str, ...] = ()
    """One word a label: models have the backbone's own language-model head instead of a classifier."""
    own: FineTuned | None = None
    """A model of the user's own, fine-tuned elsewhere: the full CE model of `backbone`, for every seed."""
    latencies: dict[tuple[str, TimedOn], Latency] = field(default_factory=dict)
    """Latency tables by backbone and by where it is timed, for budgets in time: `with_latencies` measures them."""

    # what the figures of the papers vary
    sparsities: tuple[float, ...] = (0.2, 0.5, 0.7, 0.9)
    sparsities_of: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Sparsities by figure, where it shows others."""
    starts: tuple[Start, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, "auto")
    timing_sparsity: float = 0.7
    lengths: tuple[float, ...] = (1 / 3, 2 / 3, 1.0)
    ablation_length: float = 1.0
    """The length of the searches in the ablation of initialisation and schedule."""
    high_sparsity: float = 0.9
    other_backbones: tuple[str, ...] = ()
    searches: dict[str, Search] = field(default_factory=dict)
    """Templates by pruner or by kind of search, such as `gradual`: options, and how much longer it trains."""

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise UserError("at least one seed is needed, each once", f"not {list(self.seeds)}")

    @property
    def models_language(self) -> bool:
        """Whether models are language models, of which the checkpoint is the full model."""
        return answer_of_spec(self.task).language

    def each_training(self, names: tuple[str, ...] = TRAININGS, scale: float = 1.0, **changes: Any) -> Profile:
        """With changes of every training, or of those in some fields; `scale`: longer, with as many evaluations."""

        def changed(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: changed(each) for name, each in value.items()}
            if value is None:
                return None
            every = max(1, round(scale * value.eval_every))
            return replace(value.lengthened(scale), **{"eval_every": every, **changes})

        return replace(self, **{name: changed(getattr(self, name)) for name in names})

    def search(self, pruner: str, prune: str | None, kind: str = "", **changes: Any) -> Search:
        """A search from the profile's template for that kind, or else for the pruner, with changes."""
        template = self.searches.get(kind) or self.searches.get(pruner) or Search(pruner)
        options = template.options | changes.pop("options", {})
        return replace(template, **{"prune": prune, "sparsities": self.sparsities, **changes, "options": options})

    def starting_from(self, own: FineTuned) -> Profile:
        """With the user's own full model. All trainings cut texts where it does."""
        return replace(self.each_training(max_length=own.max_length), backbone=own.backbone, own=own)

    def raw(self, seed: int, backbone: str | None = None) -> Pretrained:
        """The model at the root of all others: the raw one, or the user's own."""
        if self.own is not None and backbone in (None, self.own.backbone):
            return replace(self.own, seed=seed)
        return Pretrained(backbone or self.backbone, self.task, seed, self.words)

    def full(self, seed: int, objective: str = "ce", backbone: str | None = None) -> ModelNode:
        """The full model. With another objective than CE, the user's own is trained on."""
        return self.shared(self.start(seed, objective, backbone))

    def start(self, seed: int, objective: str = "ce", backbone: str | None = None) -> ModelNode:
        """The full model from which a training with this seed starts."""
        raw = self.raw(seed, backbone)
        return raw if raw.is_full and objective == "ce" else self.fine_tuned(raw, objective)

    def shared(self, model: ModelNode) -> ModelNode:
        """`model`, or of the first seed if nothing was trained in it: language models have no random head."""
        if not self.models_language or model.pretrained.seed == self.seeds[0]:
            return model
        if isinstance(model, Pretrained):
            return replace(model, seed=self.seeds[0])
        if isinstance(model, Prune | Quantised) and not model.trains:
            return replace(model, parent=self.shared(model.parent))
        return model

    def fine_tuned(self, model: ModelNode, objective: str, settings: TrainingSettings | None = None) -> FineTune:
        """`model`, fine-tuned with the settings for the objective, or with others."""
        settings = settings or self.settings_for(objective)
        return FineTune(model, self.objective(objective, model), _of_run(settings, objective, model))

    def settings_for(self, objective: str) -> TrainingSettings:
        """The settings of a fine-tuning: those of the objective with its options, or else without."""
        return self.finetuning_of.get(objective) or self.finetuning_of.get(
            parse_objective(objective)[0].name, self.finetuning
        )

    def pruned(self, model: ModelNode, search: Search, place: Place) -> Prune:
        """The subnetwork that a search finds in `model`."""
        raw, longer = model.pretrained, search.lengths_at.get(place.sparsity, 1.0) if place.speedup is None else 1.0
        pruner = search.at(place.sparsity, place.speedup)
        if isinstance(pruner, OfUnits) and pruner.needs_latency:  # None until the table is known
            pruner = replace(pruner, latency=self.latencies.get((raw.backbone, pruner.timed_on)))
        if search.prune is None:
            return Prune(model, pruner)
        objective = self.objective(search.prune, model)
        if search.distil:
            objective = Distilled(objective, self.full(raw.seed, backbone=raw.backbone))
        settings = self.pruning_of.get(pruner.name, self.pruning)
        settings = self.with_ood or settings if search.data == "id+ood" else settings
        # `pruning` is for several pruners, and not all of them have scores
        settings = settings if pruner.has_scores else replace(settings, score_rate=None)
        # where only this sparsity trains longer, it warms up for as many steps as the others
        settings = replace(settings.lengthened(place.length * longer), warmup=settings.warmup / max(1.0, longer))
        return Prune(model, pruner, objective, _of_run(settings, search.prune, model), search.data)

    def objective(self, name: str, model: ModelNode) -> Objective:
        raw = model.pretrained
        sources = ObjectiveSources(
            bias=lambda: self.bias.node(raw.task, raw.weak_backbone),
            full=lambda: self.full(raw.seed, backbone=raw.backbone),
        )
        return make_objective(name, sources)


def _of_run(settings: TrainingSettings, objective: str, model: ModelNode) -> TrainingSettings:
    """With the model's seed, and with the default `selection` where it has no effect: the same training has one key."""
    selection = settings.selection if parse_objective(objective)[0].debiases else TrainingSettings.selection
    return replace(settings, seed=model.pretrained.seed, selection=selection)


# --- series of points: full models, and the three paradigms --------------------------------------------------------


_RATES = {"all": 1.0, "head": 20.0, "lora": 5.0}
"""Learning rates relative to that of fine-tuning: usual ones, which were best or as good on held-out ID rows of the
embedded benchmark (docs/results/beside-peft.md)."""


def full(
    profile: Profile,
    label: str,
    *,
    finetune: str = "ce",
    after: str | None = None,
    update: Update = "all",
    weights: Literal["float32", "int8"] = "float32",
    backbone: str | None = None,
) -> list[Point]:
    """A full model, fine-tuned with the objective `finetune`, and then with `after`.

    The last of its trainings updates all weights, the head alone, or LoRA matrices. Then the weights of linear layers
    are rounded if `weights` says so; activations stay float32.
    """

    def model(seed: int) -> ModelNode:
        found = profile.start(seed, finetune, backbone)
        found = updating(found if after is None else profile.fine_tuned(found, after), update)
        return profile.shared(found if weights == "float32" else Quantised(found))

    return [Point(label, Place(), seed, model(seed)) for seed in profile.seeds]


def updating(model: ModelNode, update: Update) -> ModelNode:
    """`model`, whose last training updates only what `update` names, at the learning rate that is usual for it."""
    if update == "all":
        return model
    if not isinstance(model, FineTune):
        raise UserError(f"'{update}' needs a training, and {model.label} has none", "give another objective")
    rate = _RATES[update] * model.training.learning_rate
    return replace(model, training=replace(model.training, update=update, learning_rate=rate))


def of_fine_tuned(
    profile: Profile,
    label: str,
    search: Search,
    *,
    finetune: str = "ce",
    starts: tuple[Start, ...] = (1.0,),
    after: str | None = None,
    backbone: str | None = None,
) -> list[Point]:
    """(a) Prune the model as it is after each of `starts`, shares of its fine-tuning with `finetune`.

    With `after`, the weights that are left are trained further with that objective.
    """
    if not starts or not all(start == "auto" or 0.0 <= start <= 1.0 for start in starts):
        raise UserError("starts are shares of the fine-tuning, from 0 to 1, or auto")
    raw = [profile.raw(seed, backbone) for seed in profile.seeds]
    models = [(start, _started(profile, each, finetune, start, starts)) for each in raw for start in starts]
    found = _pruned(profile, label, search, models)
    if after:
        return [replace(each, node=profile.fine_tuned(each.node, after)) for each in found]
    return [replace(each, node=profile.shared(each.node)) for each in found]


def _started(profile: Profile, raw: Pretrained, objective: str, start: Start, starts: tuple[Start, ...]) -> ModelNode:
    """The model that a search starts from. Those in the course of the fine-tuning share one run."""
    if raw.is_full:
        if start != 1.0:
            raise UserError(f"a search in {raw.backbone} starts from it as it is", "leave out starts")
        return raw if objective == "ce" else profile.full(raw.seed, objective, raw.backbone)
    full = profile.fine_tuned(raw, objective)
    if start in (0.0, 1.0):
        return full if start else raw
    if start != "auto":
        steps = {
            each: max(1, round(each * full.planned_steps)) for each in starts if each != "auto" and 0.0 < each < 1.0
        }
        return Moment(Trajectory(raw, full.objective, full.training, tuple(sorted({*steps.values()}))), steps[start])
    if profile.stopping is None or profile.stopping.patience is None:
        raise UserError("a search that starts auto needs early stopping", "set stopping: patience")
    return profile.fine_tuned(raw, objective, profile.stopping)


def in_isolation(
    profile: Profile,
    label: str,
    search: Search,
    *,
    finetune: str = "ce",
    isolated: str = "ce",
    backbone: str | None = None,
) -> list[Point]:
    """(b) Find a mask, apply it to the raw weights and fine-tune them with `isolated`.

    IMP with rewinding trains from the raw weights. Other pruners learn the structure from the fine-tuned model.
    """
    _check_raw(profile, backbone, "b")
    rewinds = search.pruner == "imp-rw"
    if rewinds and finetune != "ce":
        raise UserError("imp-rw in paradigm b starts from the raw model", "leave finetune out")
    models = [profile.raw(s, backbone) if rewinds else profile.start(s, finetune, backbone) for s in profile.seeds]
    found = _pruned(profile, label, search, [(None, model) for model in models])
    return [replace(each, node=profile.fine_tuned(Rewind(each.node, each.node.pretrained), isolated)) for each in found]


def of_raw(profile: Profile, label: str, search: Search, *, backbone: str | None = None) -> list[Point]:
    """(c) Prune the raw model; nothing is fine-tuned."""
    _check_raw(profile, backbone, "c")
    found = _pruned(profile, label, search, [(None, profile.raw(seed, backbone)) for seed in profile.seeds])
    return [replace(each, node=profile.shared(each.node)) for each in found]


def _check_raw(profile: Profile, backbone: str | None, paradigm: str) -> None:
    own = profile.raw(0, backbone)
    if isinstance(own, FineTuned):
        fix = "use paradigm a, or give the raw model as backbone"
        raise UserError(f"paradigm {paradigm} needs the raw weights of {own.backbone}, which are not known", fix)


def _pruned(
    profile: Profile, label: str, search: Search, models: Sequence[tuple[Start | None, ModelNode]]
) -> list[Point]:
    """The subnetworks that a search finds in models, which are given with their starts."""
    search.check()
    return [
        Point(label, place, model.pretrained.seed, profile.pruned(model, search, place))
        for start, model in models
        for place in (place._replace(start=start) for place in search.places())
    ]


PARADIGMS: dict[str, Callable[..., list[Point]]] = {"full": full, "a": of_fine_tuned, "b": in_isolation, "c": of_raw}
