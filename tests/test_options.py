"""Options made from dataclass fields: every field is reachable, help is grouped, and a printed command parses back."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import srnet
from srnet.cli.program import app
from srnet.config.fields import Option, _docs_of, as_cli_args, option, options_of
from srnet.config.values import FLAG, NAMED_FILES
from srnet.core.errors import UserError
from srnet.experiment.nodes.bias import BiasSpec
from srnet.masks.targets import Targets
from srnet.pruners.base import PRUNERS, Pruner, register
from srnet.recipes.order import Order
from srnet.recipes.tasks import DataOptions
from srnet.training.settings import TrainingSettings


class Called(Exception):
    """Raised in place of the computation, with its arguments."""


def called(function: str, *words: str) -> Any:
    """The arguments with which a command calls `srnet.FUNCTION`."""

    def stop(*args: Any, **kwargs: Any) -> None:
        raise Called(args, kwargs)

    with mock.patch(f"{srnet._WHERE[function]}.{function}", stop):
        result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, Called), result
    return result.exception.args


def pruner_of(*words: str) -> Pruner:
    _, given = called("prune", "prune", *words)
    return given["pruner"]  # type: ignore[no-any-return]


def error_of(*words: str, names: Iterable[str] = ()) -> str:
    """The message of the error that a command ends with, which names `names`."""
    exception = CliRunner().invoke(app, list(words)).exception
    assert isinstance(exception, UserError), exception
    assert [name for name in names if name not in str(exception)] == [], exception
    return str(exception)


def help_of(*words: str) -> str:
    result = CliRunner().invoke(app, [*words, "--help-all"], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def headings(text: str) -> list[str]:
    return [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]


# --- every field of every pruner -----------------------------------------------------------------------------------

CANDIDATES = ["0.2", "0.25", "2.5", "3", "soft", "global", "kth", "end", "neuron", "query,key", "bf16", "cpu"]
NEEDED = {"--speedup": {"granularity": ["neuron"]}, "--speedup-on": {"granularity": ["neuron"], "speedup": 2.0}}
"""Options that an option requires."""


def pruner_values(cls: type[Pruner], each: Option) -> Iterator[str]:
    """Texts that the option accepts and that change the pruner."""
    for text in CANDIDATES:
        try:
            value = each.read(text)
            inner = Targets(**{each.path[1]: value}) if len(each.path) == 2 else value
            needed = NEEDED.get(each.name, {})
            if value != each.default and cls(**{each.path[0]: inner}, **needed) != cls(**needed):
                yield text
        except UserError:
            pass


CASES = [(name, each) for name, cls in PRUNERS.items() for each in options_of(cls)]


def test_every_field_of_every_pruner_has_an_option() -> None:
    for name, cls in PRUNERS.items():
        measured = {"latency"}  # by the command, not by the user
        assert {f.name for f in fields(cls)} - measured == {each.path[0] for each in options_of(cls)}, name


@pytest.mark.parametrize(("name", "each"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_field_is_reached_from_the_command_line(name: str, each: Option) -> None:
    text = next(pruner_values(PRUNERS[name], each))
    given = {name: ",".join(own) if isinstance(own, list) else own for name, own in NEEDED.get(each.name, {}).items()}
    needed = [str(word) for name, own in given.items() for word in (f"--{name}", own)]
    found: Any = pruner_of("--pruner", name, each.name, text, *needed)
    assert type(found) is PRUNERS[name]
    for part in each.path:
        found = getattr(found, part)
    assert found == each.read(text)


def test_defaults_are_the_fields_own() -> None:
    for name, cls in PRUNERS.items():
        assert pruner_of(f"--pruner={name}") == cls()


def test_a_part_of_the_targets_keeps_the_rest() -> None:
    assert pruner_of("--pruner", "movement", "--target-modules", "query,key").targets == Targets(  # type: ignore[attr-defined]
        ("query", "key"), "outside-stack"
    )


def test_an_option_of_another_pruner_is_an_error_that_names_its_owners() -> None:
    owners = {name for name, each in CASES if each.name == "--ramp"}
    said = error_of("prune", "--pruner", "one-shot", "--ramp", "0.5", names=("one-shot", "--ramp", *owners))
    assert not (PRUNERS.keys() - owners - {"one-shot"}) & {*said.split()}


def test_options_that_exclude_each_other_are_refused_even_as_defaults() -> None:
    words = ("--granularity", "head", "--speedup", "2", "--sparsity", "0.5")
    error_of("prune", *words, names=("--speedup", "--sparsity"))
    words = ("inference", "--speedup", "2", "--sparsities", "0.3,0.5,0.7,0.9")
    error_of("find", *words, names=("--speedup", "--sparsities"))


def test_an_option_without_its_value_is_not_one_of_another_pruner() -> None:
    assert "'--init' requires an argument" in CliRunner().invoke(app, ["prune", "--init"]).output
    assert "No such option: --nope" in CliRunner().invoke(app, ["prune", "--nope"]).output


def test_every_training_setting_is_reached() -> None:
    given = {"--warmup": "0.1", "--patience": "2", "--min-gain": "1", "--trace": "7", "--max-grad-norm": "2"}
    words = [word for pair in given.items() for word in pair]
    _, found = called("finetune", "finetune", *words, "--dev-rows", "9", "--seed", "5", "--compile")
    numbers = {"warmup": 0.1, "patience": 2, "min_gain": 1.0, "trace": 7, "max_grad_norm": 2.0}
    assert found["training"] == {**numbers, "dev_rows": 9, "seed": 5, "compile": True}
    assert {each.path[0] for each in options_of(TrainingSettings)} == {f.name for f in fields(TrainingSettings)}


# --- a pruner that someone else wrote ------------------------------------------------------------------------------


@pytest.fixture
def foreign() -> Iterator[type[Pruner]]:
    @register
    @dataclass(frozen=True)
    class Foreign(Pruner):
        """Prunes by a rule of its own."""

        name: ClassVar[str] = "foreign"
        trains: ClassVar[bool] = False
        rule: Literal["odd", "even"] = "odd"
        """Which weights go."""
        limits: tuple[float, ...] = (0.1, 0.9)
        """Lowest and highest score."""
        weights: tuple[tuple[str, int], ...] = option((), name="--layer-weights")
        """Weight of a layer."""
        strict: bool = True
        """Refuse ties."""

    yield Foreign
    del PRUNERS["foreign"]


def test_a_foreign_pruner_gets_its_options(foreign: Any) -> None:
    words = ("--rule", "even", "--limits", "0.2,0.3", "--layer-weights", "a=1,b=2", "--no-strict", "--sparsity", "0.4")
    assert pruner_of("--pruner", "foreign", *words) == foreign(
        sparsity=0.4, rule="even", limits=(0.2, 0.3), weights=(("a", 1), ("b", 2)), strict=False
    )
    text = help_of("prune", "--pruner", "foreign")
    for part in ("Pruner foreign:", "--rule odd|even", "Which weights go.", "[default: 0.1,0.9]", "--no-strict"):
        assert part in text
    assert "foreign        Prunes by a rule of its own." in help_of("prune")
    error_of("prune", "--rule", "odd", names=["--pruner foreign"])


def test_two_fields_cannot_have_one_option(foreign: Any) -> None:
    @register
    @dataclass(frozen=True)
    class Clashing(foreign):  # type: ignore[misc]
        steps: int = 3

    result = CliRunner().invoke(app, ["prune", "--pruner", "foreign"])
    assert "two fields make the option --steps" in str(result.exception)


# --- help ----------------------------------------------------------------------------------------------------------


def test_help_has_headings() -> None:
    text = help_of("prune")
    assert headings(text) == [
        "Arguments",
        "Without a key",
        "Pruner",
        "Objective",
        "Bias model",
        "Data",
        "Training (defaults depend on task, backbone and pruner)",
        "Run",
        "Options",
        "Pruners",
        "Objectives",
    ]
    assert headings(help_of("reproduce")) == ["Arguments", "Options", "Training", "Data", "Bias model", "Run"]


def test_help_without_a_pruner_lists_the_pruners() -> None:
    text = " ".join(help_of("prune").split())
    for name, cls in PRUNERS.items():
        assert f" {name} {(cls.__doc__ or '').partition(chr(10))[0]}" in text
    assert "--init" in text, "the options of the default pruner, which work without --pruner"
    assert "--step-sparsity" not in text
    assert "--pruner NAME --help" in text


def test_help_of_a_pruner_shows_its_options_only() -> None:
    for name, cls in PRUNERS.items():
        text = help_of("prune", "--pruner", name)
        section = text[text.index(f"Pruner {name}:") : text.index("Objective:")]
        shown = {word.rstrip(",") for line in section.splitlines() for word in line.split()[:1] if word[:2] == "--"}
        assert shown == {"--pruner", *(each.name for each in options_of(cls))}
        assert (cls.__doc__ or "").partition("\n")[0] in " ".join(section.split()), "and what it does"


@pytest.mark.parametrize("cls", [*PRUNERS.values(), TrainingSettings, BiasSpec, DataOptions, Order, Targets])
def test_every_option_has_a_help_text(cls: type) -> None:
    assert [each.name for each in options_of(cls) if not each.help] == []


# --- the mechanism -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    modules: str | tuple[str, ...] = option("all", name="--modules")
    """Which modules."""


@dataclass(frozen=True)
class Sample:
    path: Path | None = None
    """Where
    it lies."""
    flag: bool = False
    pairs: tuple[tuple[str, str], ...] = ()
    inner: Inner = Inner("layers")
    hidden: int = option(1, name=None)


def test_docs_are_read_below_the_fields() -> None:
    assert _docs_of(Sample) == {"path": "Where it lies."}
    assert _docs_of(type("Made", (), {})) == {}, "without a source there is no text"


def test_names_defaults_and_what_is_left_out() -> None:
    found = options_of(Sample)
    assert [each.name for each in found] == ["--path", "--flag", "--pairs", "--modules"]
    assert [each.shown_default for each in found] == ["", "", "", "layers"]
    assert (found[1].kind, found[1].negation) == (FLAG, "--no-flag")


def test_an_instance_is_written_as_options() -> None:
    sample = Sample(Path("a b"), True, (("x", "1"), ("y", "2")), Inner(("q", "k")))
    expected = "--path 'a b' --flag --pairs x=1 --pairs y=2 --modules q,k"
    assert shlex.join(as_cli_args(sample)) == expected
    assert as_cli_args(Sample()) == []


@pytest.mark.parametrize("value", ["a.*b", ("a", "b"), ("a",), ()])
def test_a_selector_is_read_as_it_was_written(value: Any) -> None:
    sample = Sample(inner=Inner(value))
    name, text = as_cli_args(sample)
    (modules,) = [each for each in options_of(Sample) if each.name == name]
    assert modules.read(text) == value


def test_a_type_without_a_way_to_write_it() -> None:
    made = make_dataclass("Made", [("counts", dict[str, int], field(default_factory=dict))])
    with pytest.raises(TypeError, match="'counts'"):
        options_of(made)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("--ood", "x"), ("--ood: ", "'x'", "NAME=FILE")),
        (("--ood", "x=a", "--ood", "x=b"), ("--ood: ", "'x'", "twice")),
        (("--rows", "train=many"), ("--rows: ", "'many'", "whole number")),
        (("--rows", "train=0"), ("--rows: ", "train", "0")),
        (("--store", ""), ("--store: ", "empty")),
        (("--steps", "5e3"), ("--steps: ", "'5e3'", "whole number")),
        (("--learning-rate", "fast"), ("--learning-rate: ", "'fast'", "number")),
        (("--precision", "f8"), ("--precision: ", "'f8'", "bf16, float32")),
        (("--steps", "3", "--epochs", "1"), ("steps", "epochs")),
    ],
)
def test_what_cannot_be_read_is_named(words: tuple[str, ...], names: tuple[str, ...]) -> None:
    error_of("finetune", *words, names=names)


# --- the printed command -------------------------------------------------------------------------------------------

TEXTS = st.text("abZ -='\"$\\é.%#", min_size=1, max_size=6).filter(lambda text: text == text.strip())
LISTS = st.lists(TEXTS, max_size=3).map(tuple)
SHARES = st.floats(0.001, 0.999)


def test_a_file_without_a_name_is_named_by_its_own() -> None:
    assert NAMED_FILES.parse("data/hard.csv.gz", "other=b.csv") == {"hard": "data/hard.csv.gz", "other": "b.csv"}
    with pytest.raises(UserError, match="'hard' is given twice"):
        NAMED_FILES.parse("a/hard.csv", "b/hard.csv")


NAMES = TEXTS.filter(lambda text: "=" not in text)


def pairs(values: Any) -> Any:
    return st.dictionaries(NAMES, values, max_size=2).map(lambda each: tuple(each.items()))


DATA = st.builds(
    DataOptions,
    data=st.none() | TEXTS,
    ood=pairs(TEXTS),
    ood_train=pairs(TEXTS),
    rows=pairs(st.integers(1, 10**6)),
    leaks=st.sampled_from([None, "check", "drop", "keep"]),
    bad_rows=st.sampled_from([None, "refuse", "skip"]),
    decision=st.sampled_from([None, "argmax", "sum"]),
)
BIAS = st.builds(
    BiasSpec,
    shortcut=st.sampled_from([None, "overlap", "claim", "unknown", "scores:p", ("length", "source"), ("x,y",)]),
    vectors=st.none() | st.sampled_from(["/some folder/v.vec", "bert-base"]),
    folds=st.integers(2, 9),
    extended=st.booleans(),
    examples=st.integers(1, 10**5),
    epochs=st.floats(0.1, 9),
    learning_rate=SHARES,
    backbone=st.none() | TEXTS,
)
ORDERS = st.builds(
    Order,
    figures=st.lists(st.sampled_from(["fig2", "tab5", "smp", "all"]), min_size=1, max_size=2).map(tuple),
    profile=st.sampled_from(["toy", "paper"]),
    tasks=LISTS,
    seeds=st.integers(1, 5).map(lambda count: tuple(range(count))),
    sparsities=st.lists(SHARES, max_size=3).map(tuple),
    backbone=st.none() | TEXTS,
    other_backbones=LISTS,
    scale=st.floats(0.01, 100),
    data=DATA,
    bias=BIAS,
    learning_rate=st.none() | SHARES,
    precision=st.sampled_from(["float32", "tf32", "bf16", "fp16"]),
    eval_precision=st.sampled_from(["float32", "fp16"]),
    compile=st.booleans(),
    accumulate=st.integers(1, 64),
    checkpointing=st.booleans(),
    weight_decay=st.floats(0.0, 1.0),
    lines=LISTS,
    words=st.none() | LISTS,
    as_published=st.booleans(),
)


@settings(max_examples=30)
@given(order=ORDERS)
def test_a_printed_command_parses_back(order: Order) -> None:
    program, *words = shlex.split(order.command())
    assert program == "srnet"
    (found, *_), _ = called("reproduce", *words)
    assert found == order


def test_what_is_not_given_is_not_printed() -> None:
    assert Order(("fig2",)).command() == "srnet reproduce fig2 --profile toy --seeds 1"
    assert Order(("fig2",), without_vectors=True).command().endswith("--without-vectors")
