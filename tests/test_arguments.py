"""Arguments of every public function: a wrong type is an error of one line, before anything is computed."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from refusals import refused

import srnet
from srnet.api.arguments import _argument, _hints, checked
from srnet.tasks.synthetic import SyntheticTask

FUNCTIONS = {name: found for name in srnet.__all__ if inspect.isfunction(found := getattr(srnet, name))}
WRONG = (
    3,
    2.5,
    True,
    b"x",
    object(),
    [object()],
    {"nonsense": 1},
    pd.DataFrame({"a": [1]}),
    srnet.SyntheticTask,
    print,
)
NO_ARGUMENT = {"CE": "it takes none"}
SMALL = SyntheticTask(train_size=9, dev_size=9, ood_size=9)


def call(name: str, first: Any, **given: Any) -> Any:
    """The function with this first argument, and a text for each other that it requires."""
    required = [
        each
        for each in list(inspect.signature(FUNCTIONS[name]).parameters.values())[1:]
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    return FUNCTIONS[name](first, **({each.name: "x" for each in required} | given))


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - NO_ARGUMENT.keys()))
def test_a_wrong_type_is_refused(name: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))
    first = next(iter(inspect.signature(FUNCTIONS[name]).parameters))
    with refused(first):
        call(name, value)


def test_most_public_names_are_checked() -> None:
    assert len(FUNCTIONS) > 30
    assert {"find", "finetune", "prune", "evaluate", "audit_models", "task_from", "check_data"} <= FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [
        ("find", {"engine": "local"}, ("engine", "'local'", "srnet.Engine")),
        ("find", {"engine": srnet.Engine}, ("engine", "srnet.Engine")),
        ("find", {"settings": {"keep": 1}}, ("settings", "'keep'", "keep_id")),
        ("find", {"settings": 3}, ("settings", "3")),
        ("find", {"budget": "60m"}, ("budget", "'60m'")),
        ("find", {"out": 3}, ("out", "3")),
        ("finetune", {"objective": 3}, ("objective", "3")),
        ("finetune", {"words": "yes"}, ("words", "'yes'")),
        ("finetune", {"training": 3}, ("training", "3")),
        ("finetune", {"stepz": 3}, ("'stepz'", "teacher")),
        ("prune", {"pruner": "mask"}, ("pruner", "'mask'", "srnet.MaskTraining")),
        ("bias_model", {"spec": "overlap"}, ("spec", "'overlap'")),
    ],
)
def test_other_arguments(name: str, given: dict[str, Any], named: tuple[str, ...]) -> None:
    with refused(*named):
        call(name, SMALL, **given)


@pytest.mark.parametrize("value", [None, 3, pd.DataFrame({"a": [1]}), SMALL.load()], ids=lambda v: type(v).__name__)
def test_what_is_no_task_says_how_to_make_one(value: Any) -> None:
    for name in ("find", "bias_model", "check_data"):
        with refused("srnet.task_from"):
            call(name, value)
    with refused("--train", "srnet.task_from(train="):
        srnet.find("mine.csv")


def test_a_task_by_name_by_file_and_by_its_fields(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("{name: inference, train_size: 9, dev_size: 9, ood_size: 9}")
    fields = {"name": "inference", "train_size": 9, "dev_size": 9, "ood_size": 9}
    given = (SMALL, tmp_path / "t.yaml", str(tmp_path / "t.yaml"), fields)
    found = [srnet.check_data(each).fingerprint for each in given]
    assert len(set(found)) == 1
    written = srnet.write_csv(tmp_path / "t.yaml", tmp_path / "out")
    assert [path.name for path in written][:2] == ["train.csv", "dev.csv"]


def test_settings_may_be_a_dict(tmp_path: Path) -> None:
    engine = srnet.Engine(srnet.Store(tmp_path))
    plans = [
        srnet.plan_find(SMALL, settings, engine=engine)
        for settings in ({"sparsities": [0.5], "seeds": 1}, srnet.FindSettings(sparsities=(0.5,), seeds=1))
    ]
    assert [node.key for node, _ in plans[0].steps] == [node.key for node, _ in plans[1].steps]


def test_fields_that_are_objects_are_checked() -> None:
    for make in (
        lambda: srnet.Engine("store"),
        lambda: srnet.Pretrained("srnet-tiny", 3),
        lambda: srnet.Pretrained("srnet-tiny", SyntheticTask),
        lambda: srnet.Evaluate(3),
        lambda: srnet.FineTune(SMALL),
    ):
        with refused("not of type"):
            make()


def test_values_as_commands_pass_them(tmp_path: Path) -> None:
    """Tuples of pairs, paths and lists are what the command line makes of options."""

    def function(pairs: tuple[tuple[str, str], ...] = (), names: tuple[str, ...] = (), path: Path | None = None) -> Any:
        return pairs, names, path

    own = checked(function)
    assert own((("a", "b"),), ["x"], "here") == ((("a", "b"),), ("x",), Path("here"))
    assert own({"a": "b"}, ("x",), Path("here")) == own((("a", "b"),), ["x"], "here")
    with refused("pairs", "list of pairs"):
        own((("a", "b", "c"),))
    with refused("names", "'x'"):
        own(names="x")


def test_every_default_is_of_its_own_type() -> None:
    """An annotation that refuses the function's own default would refuse what a command passes."""
    for name, function in FUNCTIONS.items():
        for each in inspect.signature(function).parameters.values():
            if each.default is not each.empty:
                hint = _hints(inspect.unwrap(function)).get(each.name, Any)
                assert _argument(name, hint, each.default) == each.default or callable(each.default)


def test_mistakes_inside_arguments_are_one_line_too(tmp_path: Path) -> None:
    raw = srnet.Pretrained("srnet-tiny", SMALL)
    with refused("step", "eval_every"):
        srnet.finetune(SMALL, training={"step": 3}, engine=srnet.Engine(srnet.Store(tmp_path)))
    with refused("pruner", 0.5):
        srnet.Prune(raw, 0.5)  # type: ignore[arg-type]


def test_one_expression_need_not_be_in_a_list(tmp_path: Path) -> None:
    bias = srnet.BiasModel(SyntheticTask(train_size=60, dev_size=20, ood_size=20))
    engine = srnet.Engine(srnet.Store(tmp_path))
    engine.execute(bias)
    assert engine.store.has(bias.key)


def test_a_call_with_other_arguments_is_pythons_own_error_and_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"^srnet\.prune\(\): missing a required argument: 'pruner'$"):
        srnet.prune(SMALL)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^srnet\.shortcuts\(\): got an unexpected keyword argument 'output'$"):
        srnet.shortcuts(SMALL, output="folder")  # type: ignore[call-arg]
