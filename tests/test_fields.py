"""Every field with limits: one table of values that Python, YAML and the command line all refuse by its name."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from refusals import refused

import srnet.audit.options
import srnet.finding.settings
import srnet.page.options
import srnet.recipes.demo
import srnet.recipes.files
import srnet.recipes.order
import srnet.report.rounds
import srnet.tasks.synthetic.pretrain_settings
import srnet.timing.pace  # noqa: F401  these modules define the classes below
from srnet.config.fields import DESCRIBED, Described, Option
from srnet.config.values import OneOf, Range, arguments_of, hints_of, kind_of
from srnet.experiment.nodes.base import Node
from srnet.tasks.synthetic import SyntheticTask

NAN, INF = math.nan, math.inf
SHARE = (0.0, -0.1, 1.1, NAN)
FRACTION = (-0.1, 1.0, 1.5, NAN)
POSITIVE = (0.0, -1.0, NAN, INF)
COUNT = (0, -1, 10**10, 1.5, True)
RATE = (*POSITIVE, 1e4)
SIZE = (0, -1, 10**12)
MAX_LENGTH = (7, 2**21)
SEED = (-1, 2**32)
SEEDS = (0, 1001)
NAME = ("nonsense",)
MILLISECONDS = (-1.0, NAN, INF, "x", True, None)
BAD: dict[str, dict[str, tuple[Any, ...]]] = {
    "SubnetworkFolder": {"dtype": ("float64",)},
    "Pruner": {"sparsity": FRACTION},
    "Ramped": {"begin": FRACTION, "ramp": SHARE},
    "OfUnits": {"granularity": (NAME,), "speedup": (1.0, 0.0, NAN, INF), "timed_on": (NAME,)},
    "OverFrozen": {"frozen": NAME},
    "MaskTraining": {
        "init": NAME, "initial_sparsity": FRACTION, "ramp": SHARE, "scope": NAME, "phi": POSITIVE,
        "alpha": (0.9, NAN, INF), "refresh_every": COUNT, "cut": NAME,
    },
    "IMP": {"step_sparsity": (*SHARE, 1.0), "interval": SHARE, "scope": NAME},
    "OneShot": {"scope": NAME},
    "GradualMagnitude": {"scope": NAME, "refresh_every": COUNT},
    "Wanda": {"calibration": COUNT},
    "StaticLocal": {"ramp": SHARE, "penalty": (-1.0, NAN, INF), "penalty_until": NAME},
    "StaticShared": {"temperature": POSITIVE},
    "Penalised": {"penalty": (-1.0, NAN, INF)},
    "SoftMovement": {"threshold": (0.0, 0.5, NAN), "floor": FRACTION},
    "L0": {"open_at_first": (1 / 12, 1.0, NAN)},
    "Schedule": {"initial": FRACTION, "final": FRACTION, "ramp": SHARE, "begin": FRACTION},
    "Latency": dict.fromkeys(("head", "neuron", "attention", "feed_forward", "rest"), MILLISECONDS),
    "ProductOfExperts": {"strength": (*POSITIVE, 101.0)},
    "PermutedExperts": {"strength": (*POSITIVE, 101.0)},
    "JustTrainTwice": {"upweight": POSITIVE, "early_share": SHARE},
    "GroupDRO": {"eta": POSITIVE},
    "Balance": {"weight": (-1.0, NAN, INF), "keep": (-1.0, NAN, INF), "smooth": (*POSITIVE, 101.0)},
    "Objective": {"distillation": SHARE, "temperature": (*POSITIVE, 1001.0)},
    "Needs": {"distil": SHARE, "temperature": (*POSITIVE, 1001.0)},
    "BiasSpec": {"examples": COUNT, "learning_rate": RATE},
    "TrainingSettings": {
        "learning_rate": RATE, "score_rate": RATE, "epochs": (*POSITIVE, 1e7), "steps": COUNT, "batch_size": SIZE,
        "warmup": (-0.1, 1.0, NAN), "eval_every": COUNT, "max_length": MAX_LENGTH, "max_grad_norm": (-1.0, NAN, INF),
        "patience": COUNT, "min_gain": (-1.0, NAN, INF), "trace": (-1, 10**10), "seed": SEED, "dev_rows": COUNT,
        "precision": NAME, "selection": NAME, "update": NAME, "eval_precision": NAME, "accumulate": COUNT,
        "weight_decay": (-0.1, 10.1, NAN),
    },
    "TrainingOptions": {
        "scale": (*POSITIVE, 101.0), "learning_rate": RATE, "score_rate": RATE, "max_length": MAX_LENGTH,
        "precision": NAME, "eval_precision": NAME, "accumulate": COUNT, "weight_decay": (-0.1, 10.1, NAN),
    },
    "Order": {"figures": (NAME,), "profile": NAME, "sparsities": ((1.0,), (-0.1,))},
    "FindSettings": {
        "timed_on": (NAME,),
        "keep_id": SHARE, "sparsities": ((1.0,), (0.5, NAN)), "speedups": ((1.0,), (2.0, INF)),
        "granularity": (NAME,), "seeds": SEEDS,
    },
    "DemoSettings": {"seeds": SEEDS, "sparsities": ((1.0,), (NAN,)), "steps": COUNT},
    "Search": {
        "sparsities": ((1.0,), (NAN,)), "speedups": ((1.0,),), "lengths": ((0.0,), (-1.0,), (INF,)),
        "lengths_at": ({0.5: -2.0},), "data": NAME,
    },
    "_RecipeFile": {"seeds": SEEDS, "axis": NAME},
    "Engine": {"name": NAME, "workers": COUNT},
    "SyntheticTask": {
        "name": NAME, "noise": (-0.1, 0.5, NAN), "strengths": ((0.0, 1.0, 21.0), (0.0, -1.0, 2.0)),
        "frequencies": ((0.0, 1.0, -1.0), (0.0, 1.0, INF)), "train_size": SIZE, "dev_size": SIZE, "ood_size": SIZE,
    },
    "PretrainSettings": {
        "mlm_steps": COUNT, "pair_steps": COUNT, "compare_steps": COUNT, "pair_share": (-0.1, 1.1, NAN),
        "batch_size": SIZE, "learning_rate": RATE, "compare_rate": RATE, "warmup": COUNT, "mask_share": (0.0, 1.1),
        "hidden_size": (0, 8193), "layers": (0, 101), "heads": (0, 8193), "seed": SEED,
    },
    "FilesTask": {
        "decision": NAME, "leaks": NAME, "bad_rows": NAME, "ood_copies": COUNT,
        "rows": ((("train", 0),), (("dev", -1),)), "dev_share": (0.0, -0.1, 0.6, NAN),
    },
    "PlantedTask": {"strength": (0.0, 1.0, -0.1, NAN), "cue": NAME},
    "SquadTask": {"answer": NAME, "metric": NAME, "bad_rows": NAME, "rows": ((("train", 0),),)},
    "TextTask": {
        "answer": NAME, "metric": NAME, "bad_rows": NAME, "rows": ((("train", 0),),), "dev_share": (0.0, 0.6, NAN),
    },
    "PairFile": {"scoring": NAME},
    "GrammarTask": {"name": NAME, "train_size": SIZE, "dev_size": SIZE, "neutral_size": SIZE},
    "PairsTask": {
        "answer": NAME, "metric": NAME, "bad_rows": NAME, "rows": ((("train", 0),),), "dev_share": (0.0, 0.6, NAN),
        "neutral_share": (0.0, 0.6, NAN), "scoring": NAME,
    },
    "DataOptions": {
        "leaks": NAME, "bad_rows": NAME, "decision": NAME, "rows": ((("train", 0),),), "dev_share": (0.0, 0.6),
        "plant": (0.0, 1.0),
    },
    "Pace": {
        "rounds": (1, 10**7), "lengths": ((0,), (32, 2**21)), "batch": (0, 2**21), "threads": (0, 1025),
        "prompts": (0, 2**21), "new_tokens": (0, 2**21),
    },
    "PageOptions": {"port": (-1, 65536), "max_length": MAX_LENGTH, "new_tokens": (0, 1001)},
    "AuditOptions": {"contrast_rows": COUNT, "max_length": MAX_LENGTH},
}  # fmt: skip
"""Values that a field refuses, by class and field; subclasses refuse them too."""
NEEDED: dict[str, dict[str, Any]] = {
    "Latency": dict.fromkeys(("head", "neuron", "attention", "feed_forward", "rest"), 1.0),
    "Schedule": {"initial": 0.0, "final": 0.5},
    "Objective": {"name": "ce"},
    "Search": {"pruner": "mask"},
    "_RecipeFile": {"task": "inference", "lines": ()},
    "FilesTask": {"name": "mine", "labels": ("no", "yes"), "train": "a.csv", "dev": "b.csv"},
    "SquadTask": {"train": "a.json", "dev": "b.json"},
    "TextTask": {"train": "a.txt"},
    "PairFile": {"path": "a.csv"},
    "PairsTask": {"train": "a.csv"},
    "PlantedTask": {"of": SyntheticTask()},
}
"""Fields without a default."""
BUILT_ELSEWHERE = {"Task", "Rounds"}
"""Classes whose other fields are not plain: tests/tasks/test_training_data.py and tests/test_rounds.py."""


def cases_of(cls: type[Described]) -> list[tuple[str, Any]]:
    rows = {field: bad for base in reversed(cls.__mro__) for field, bad in BAD.get(base.__name__, {}).items()}
    return [(field, value) for field, bad in rows.items() for value in bad]


def is_limited(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return any(isinstance(each, Range | OneOf) for each in get_args(hint)[1:])
    return get_origin(hint) is Literal or any(map(is_limited, get_args(hint)))


def plain(value: Any) -> Any:
    """A value as YAML writes it."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


CLASSES = {name: cls for name, cls in DESCRIBED.items() if cases_of(cls)}


@pytest.mark.parametrize("name", CLASSES)
def test_a_bad_value_is_refused_by_the_name_of_its_field(name: str) -> None:
    cls: Any = CLASSES[name]
    needed = next((NEEDED[base.__name__] for base in cls.__mro__ if base.__name__ in NEEDED), {})
    for field, value in cases_of(cls):
        with refused(f"{field}: "):
            cls(**{**needed, field: value})
        with refused(f"{field}: "):
            arguments_of(cls, {field: plain(value)})
        kind = kind_of(hints_of(cls)[field])
        if kind.metavar:
            with refused("--option: "):
                Option((field,), ("--option",), kind, "", None).read(kind.write(value)[0])


def test_the_table_has_every_field_with_limits() -> None:
    for name, cls in DESCRIBED.items():
        if is_dataclass(cls) and not issubclass(cls, Node) and cls.__module__.startswith("srnet."):
            found = {each.name for each in fields(cls) if each.init and is_limited(hints_of(cls)[each.name])}
            assert name in BUILT_ELSEWHERE or found == {field for field, _ in cases_of(cls)}, name
