"""The base classes of pruners, and their registry.

A `Pruner` is a frozen description, part of an experiment's identity. Its `method` acts during one training run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from srnet.config.fields import Described, option
from srnet.config.values import Fraction, Range, Share
from srnet.core.errors import UserError, choose
from srnet.core.lazy import nn
from srnet.masks.budget import Sparsity
from srnet.masks.granularity import WEIGHT, Granularity, Groups, check_granularity, groups_of
from srnet.masks.mask import Mask
from srnet.masks.scores import Schedule
from srnet.masks.targets import LAYERS, Targets
from srnet.masks.timed import Latency
from srnet.training.method import Method

Batches = Iterable[Any]
"""Batches of a model's inputs: by name, with `labels`; of a user's own model also tuples or single tensors."""
Frozen = Literal["float32", "bf16"]
"""How frozen weights are kept in training."""
Speedup = Annotated[float, Range(above=1.0)]
TimedOn = Literal["device", "cpu"]


@dataclass(frozen=True)
class Pruner(Described):
    """A description of what to prune and how. Subclasses are registered under `name`."""

    name: ClassVar[str]
    trains: ClassVar[bool] = True
    has_scores: ClassVar[bool] = False
    """Whether it learns a score for every weight, with a learning rate of its own."""
    rate: ClassVar[float] = 5e-5
    """The published learning rate of the weights."""
    score_rate: ClassVar[float] = 0.0
    """The published learning rate of the scores."""
    score_travel: ClassVar[float] = 0.0
    """Learning rate times steps that the scores need at least, by what worked in short runs."""
    sparsity: Sparsity = 0.5
    """Share of the weights to prune."""

    @property
    def share(self) -> float:
        """The share of the budget's total (weights or time) that is pruned."""
        return self.sparsity

    @property
    def aim(self) -> str:
        """The target in a few characters."""
        return f"{100 * self.sparsity:g} %"

    def rates(self, steps: int) -> tuple[float, float]:
        """The learning rates of weights and of scores for a run; that of scores is higher where steps are few."""
        return self.rate, max(self.score_rate, self.score_travel / max(1, steps))

    def schedule(self) -> Schedule:
        """The sparsity over time; by default it is fixed."""
        return Schedule(self.share, self.share)

    def groups(self, model: nn.Module) -> Groups:
        """The weights or units that are ranked, in groups."""
        raise TypeError(f"{self.name} ranks nothing")

    def method(self, *, fine_tuned: bool, eval_every: int) -> Method:
        """The training method; `fine_tuned`: whether the model was trained on the task before."""
        raise TypeError(f"{self.name} does not train")

    @property
    def rows(self) -> int:
        """The number of rows of the ID training data that `mask` needs."""
        return 0

    def mask(self, model: nn.Module, batches: Batches = ()) -> Mask:
        """The mask of a pruner that does not train; `batches` hold `rows` examples, with their labels."""
        raise TypeError(f"{self.name} finds its mask by training")

    def check_steps(self, total_steps: int) -> None:
        """Refuse a run that is too short."""

    @property
    def needs_units(self) -> bool:
        """Whether it prunes units, so that `check_model` may refuse a model."""
        return False

    @property
    def needs_latency(self) -> bool:
        """Whether its budget is in time and it has no latency table."""
        return False

    def check_model(self, model: nn.Module) -> None:
        """Refuse a model that cannot be pruned in this way. Called before any training."""

    def check_removes(self, model: nn.Module) -> None:
        """Refuse a budget that rounds to no unit at all. A search for a smaller model calls it before any training."""

    def shared_run(self) -> Pruner:
        """The description of the training run, the same for every sparsity that the run yields."""
        return self


@dataclass(frozen=True)
class Ramped(Pruner):
    """A pruner that starts dense and reaches its sparsity on the cubic schedule while the weights train."""

    sparsity: Sparsity = 0.9
    begin: Fraction = 0.1
    """Share of the run before pruning begins."""
    ramp: Share = 0.8
    """Share of the run after which the final sparsity is held; only checkpoints after it count."""
    targets: Targets = LAYERS
    """Which matrices are masked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schedule()

    def schedule(self) -> Schedule:
        return Schedule(0.0, self.share, self.ramp, self.begin)


@dataclass(frozen=True)
class OfUnits(Pruner):
    """A pruner that can prune whole units."""

    counts_units: ClassVar[bool] = False
    """Whether its budget is a number of units, which must then be of one size."""
    _: KW_ONLY
    targets: Targets = Targets()
    """Which matrices are masked."""
    granularity: Granularity = WEIGHT
    """What is pruned as a whole: weight; head, neuron, or head,neuron; layer (an attention or feed-forward part; not
    with movement, smp-l and smp-s)."""
    speedup: Speedup | None = option(None, instead_of="sparsity")
    """Instead of --sparsity: how many times as fast the encoder is when its units are removed, by a latency table that
    is measured on this machine once. Shares, such as initial ones, are then of its time."""
    timed_on: TimedOn = option("device", name="--speedup-on")
    """Where --speedup counts: device is that of the run; cpu is for a model that is searched for on a GPU and used on a
    CPU."""
    latency: Latency | None = option(None, name=None)
    """The table, which is part of the result's identity. Commands measure it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "granularity", check_granularity(self.granularity))
        self._check_speedup()
        if self.counts_units and self.granularity == ("layer",):
            raise UserError(
                f"{self.name} counts units of one size, and layers differ", "give weight, head, neuron or head,neuron"
            )

    def _check_speedup(self) -> None:
        if self.speedup is None:
            if self.timed_on != "device":
                raise UserError("where a speed-up counts, without a speed-up", "give the speed-up as well: --speedup 2")
            if self.latency is not None:
                raise UserError("a latency table without a speed-up", "give the speed-up as well, e.g. 2")
            return
        if self.granularity == WEIGHT:
            raise UserError("single weights give no speed-up, whole units do", "give --granularity head,neuron")
        if self.sparsity != type(self).sparsity:
            raise UserError("speed-up and sparsity exclude each other", "keep one of them")

    @property
    def share(self) -> float:
        return self.sparsity if self.speedup is None else 1.0 - 1.0 / self.speedup

    @property
    def needs_units(self) -> bool:
        return self.granularity != WEIGHT

    @property
    def needs_latency(self) -> bool:
        return self.speedup is not None and self.latency is None

    @property
    def aim(self) -> str:
        aim = super().aim if self.speedup is None else speedup_text(self.speedup)
        return aim + (f" by {', '.join(self.granularity)}" if self.needs_units else "")

    def groups(self, model: nn.Module) -> Groups:
        if self.needs_latency:
            raise UserError("a speed-up needs a latency table", "give latency=srnet.latency(backbone)")
        return groups_of(model, self.targets.find(model), self.granularity, self.latency)

    def check_model(self, model: nn.Module) -> None:
        groups = self.groups(model)
        groups.keep(groups.magnitudes(), self.share, getattr(self, "scope", "local"))

    def check_removes(self, model: nn.Module) -> None:
        self.groups(model).check_removes(self.share, getattr(self, "scope", "local"))


@dataclass(frozen=True)
class OverFrozen(OfUnits):
    """A pruner that trains masks over frozen weights."""

    _: KW_ONLY
    frozen: Frozen = option("float32", name="--frozen-weights")
    """How frozen weights are kept in training: bf16 rounds them once, before it, and takes half of the memory. The
    result has the rounded weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen != "float32" and self.needs_units:  # only some of the matrices of units have a mask
            raise UserError(
                f"frozen weights in {self.frozen} need single weights", "give granularity weight, or float32"
            )

    @property
    def aim(self) -> str:
        return super().aim + ("" if self.frozen == "float32" else f", weights in {self.frozen}")


def speedup_text(speedup: float) -> str:
    return f"{speedup:g} times as fast"


PRUNERS: dict[str, type[Pruner]] = {}
P = TypeVar("P", bound=type[Pruner])


def register(pruner: P) -> P:
    PRUNERS[pruner.name] = pruner
    return pruner


def get_pruner(name: str) -> type[Pruner]:
    return PRUNERS[choose("pruner", name, PRUNERS)]
