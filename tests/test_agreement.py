"""The command line parses, calls a function and prints: with nothing but what it requires, both do the same."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from commands import every_command
from refusals import refused

import srnet
from srnet.cli.options import Choice, Fields
from srnet.cli.program import app
from srnet.config.fields import options_of
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.store import Store
from srnet.recipes.order import Order
from srnet.tasks.synthetic import SyntheticTask

ROOT = Path(__file__).parent.parent
NO_PROGRESS = "nothing is computed that has a progress to show"


@dataclass(frozen=True)
class Call:
    """A command with as few words as it needs, and the call in Python that does the same."""

    words: str
    function: str
    """A name in `srnet`, or in a class of it."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that the words stand for; all others have their defaults."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """Why the default on the command line is another, by argument."""

    @property
    def command(self) -> str:
        words = self.words.split()
        return " ".join(words[:2] if words[0] in ("data", "store") else words[:1])

    @property
    def target(self) -> tuple[Any, str]:
        """The module or class, and the name in it."""
        *owner, name = self.function.split(".")
        return (getattr(srnet, owner[0]) if owner else srnet), name

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(getattr(*self.target)).parameters


TASK, DESCRIBED = {"task": SyntheticTask("inference")}, "--train a.csv --dev b.csv --out c.yaml"
CALLS = (
    Call("demo", "demo", differs={"engine.name": "a script that starts a pool must be importable"}),
    Call("demo --dry-run", "demo_recipe"),
    Call("run r.yaml", "run", {"spec": Path("r.yaml")}),
    Call("run r.yaml --dry-run", "load_recipe", {"path": Path("r.yaml")}),
    Call("reproduce fig2", "reproduce", {"order": Order(("fig2",))}),
    Call("reproduce fig2 --tasks t.yaml --dry-run", "plan", {"recipes": ANY}),
    Call("claims", "claims", {"order": Order()}, {"engine.quiet": NO_PROGRESS}),
    Call("claims --until-answered", "claims_until_answered", {"order": Order()}),
    Call("shortcuts inference", "shortcuts", TASK),
    Call("find inference", "find", {**TASK, "command": "srnet find inference"}),
    Call("find inference --dry-run", "plan_find", TASK),
    Call("finetune", "finetune", {"model": TASK["task"]}),
    Call("finetune KEY", "finetune", {"model": "KEY"}),
    Call("prune KEY", "prune", {"model": "KEY", "pruner": srnet.MaskTraining()}),
    Call("prune", "prune", {"model": TASK["task"], "pruner": srnet.MaskTraining()}),
    Call("evaluate KEY", "evaluate", {"model": "KEY"}),
    Call("bias", "bias_model", TASK),
    Call(
        "import smp f.npy --backbone B --out o",
        "import_mask",
        {"file": Path("f.npy"), "format": "smp", "backbone": "B", "out": Path("o")},
    ),
    Call("export KEY --out o", "export_model", {"model": "KEY", "out": Path("o")}, {"engine.quiet": NO_PROGRESS}),
    Call("speed KEY", "speed", {"models": ("KEY",)}, {"engine.quiet": "a status line shows the progress"}),
    Call("audit A", "audit_models", {"a": "A"}, {"out": "a command leaves its result in a folder"}),
    Call("page A B", "open_page", {"a": "A", "b": "B"}),
    Call("verdict p.csv", "verdict", {"tables": ("p.csv",)}),
    Call("pretrain --out o", "pretrain", {"out": Path("o")}),
    Call("data check inference", "check_data", {"spec": SyntheticTask("inference")}),
    Call(
        f"data describe {DESCRIBED}",
        "describe_files",
        {"out": Path("c.yaml"), "train": Path("a.csv"), "dev": Path("b.csv")},
    ),
    Call("data write t.yaml --out o", "write_csv", {"task": ANY, "folder": Path("o")}),
    Call(
        "data plant inference --out o",
        "plant",
        {"task": SyntheticTask("inference"), "folder": Path("o")},
    ),
    Call("store ls", "Store.entries"),
    Call("store show KEY", "Store.find", {"prefix": "KEY"}),
    Call("store verify", "Store.verify"),
    Call("store gc", "Store.gc"),
)
ONLY_PRINTED = {
    "ctx": "the line as it was typed",
    "figures": "of the order; a plan is of all by default",
    "device": "another function: use_device, for all that follows in a script",
    "json": "how the result is printed",
    "key": "how the result is printed",
    "task": "finetune and prune: with a backbone, the model",
    "subcases": "how the result is printed",
    "dry_run": "another function: plan, plan_find",
    "measure": "of that function",
    "until_answered": "another function: claims_until_answered",
}
"""Parameters of commands that are none of the function's."""
RENAMED = {"task": "model", "folder": "out", "path": "out", "out_file": "out"}
ENGINE = {"engine": "name", "workers": "workers", "report_to": "report_to", "quiet": "quiet", "store": "store"}
"""Fields of the command line's `Run` and the parts of an engine."""


# --- what a command calls ------------------------------------------------------------------------------------------


class Called(Exception):
    """Raised in place of the computation, with its arguments."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))
    (tmp_path / "store" / "artifacts").mkdir(parents=True)
    (tmp_path / "t.yaml").write_text("{name: inference, train_size: 9, dev_size: 9, ood_size: 9}")
    return tmp_path


def arguments(call: Call, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Those that the command calls the function with."""

    def stop(*args: Any, **kwargs: Any) -> None:
        raise Called(args, kwargs)

    function = getattr(*call.target)
    monkeypatch.setattr(*call.target, stop)
    with pytest.raises(Called) as caught:
        app(shlex.split(call.words), standalone_mode=False)
    positional, named = caught.value.args
    return dict(inspect.signature(function).bind(*positional, **named).arguments)


def parts_of(engine: Engine) -> dict[str, Any]:
    parts = {name: getattr(engine, name) for name in ("name", "workers", "report_to")}
    root = engine.store.root
    return {**parts, "quiet": engine.reporter.quiet, "store": None if root == Store().root else root}


def differences(name: str, value: Any, default: Any) -> Iterator[str]:
    """The argument if it is not the default, or those of its parts that are not."""
    if isinstance(value, Engine):
        usual = parts_of(Engine())
        yield from (f"{name}.{part}" for part, own in parts_of(value).items() if own != usual[part])
    elif isinstance(value, Reporter):
        yield from [f"{name}.quiet"] if value.quiet else []
    elif callable(value) and callable(default):  # how progress and remarks are printed
        return
    elif is_dataclass(value) and (default is None or default == getattr(value, "name", "")):
        yield from [] if value == type(value)() else [name]  # type: ignore[operator]
    elif isinstance(value, Path) and default is not None:
        yield from [] if value == Path(default) else [name]
    elif value != default and not (default is None and value == {}):
        yield name


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.words} -> {call.function}")
@pytest.mark.usefixtures("folder")
def test_a_command_passes_the_defaults_of_its_function(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, found = call.parameters, arguments(call, monkeypatch)
    other = []
    for name, value in found.items():
        if name in call.given:
            assert value == call.given[name], name
        elif parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            other += list(value)
        elif name != "self":
            other += differences(name, value, parameters[name].default)
    assert set(other) == set(call.differs)
    required = [
        name for name, each in parameters.items() if each.default is each.empty and each.kind < each.VAR_KEYWORD
    ]
    assert not set(required) - found.keys()


# --- what a command shows ------------------------------------------------------------------------------------------


def shown_defaults(function: Any) -> Iterator[tuple[str, Any]]:
    """The parameters of a command with their defaults: its own, and the fields of dataclasses that only it has.

    Those of the API's own dataclasses are the defaults of the functions too.
    """
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        markers = [
            each for each in getattr(parameter.annotation, "__metadata__", ()) if isinstance(each, Fields | Choice)
        ]
        if not markers:
            yield name, parameter.default
        elif isinstance(markers[0], Choice):
            yield name, markers[0].default
        elif isinstance(markers[0].where, type):
            names = set(markers[0].only or (each.path[0] for each in options_of(markers[0].where)))
            in_engine = markers[0].where.__name__ == "Run"
            for option in options_of(markers[0].where):
                field = option.path[0]
                if field in names - set(markers[0].without):
                    yield f"engine.{ENGINE[field]}" if in_engine and field in ENGINE else field, option.default


def default_of(call: Call, name: str) -> Any:
    """The default of the function's parameter; empty if it is required or there is no such parameter."""
    if name.startswith("engine."):
        return parts_of(Engine())[name.removeprefix("engine.")]
    return call.parameters[name].default if name in call.parameters else inspect.Parameter.empty


FUNCTIONS = {" ".join(words): inspect.unwrap(each.callback) for words, each in every_command().items()}


@pytest.mark.parametrize("command", FUNCTIONS)
@pytest.mark.usefixtures("folder")
def test_a_command_shows_the_defaults_of_its_function(command: str) -> None:
    calls = [call for call in CALLS if call.command == command]
    assert calls, f"name the function that `srnet {command}` calls in CALLS"
    for shown, default in shown_defaults(FUNCTIONS[command]):
        if default in (MISSING, inspect.Parameter.empty):  # the words of its calls give it
            continue
        name = shown if any(shown in call.parameters for call in calls) else RENAMED.get(shown, shown)
        known = [(call, default_of(call, name)) for call in calls]
        known = [(call, usual) for call, usual in known if usual is not inspect.Parameter.empty]
        assert known or shown in ONLY_PRINTED or any(name in call.given for call in calls), shown
        for call, usual in known:
            assert name in call.differs or not [*differences(name, default, usual)], shown


def test_every_command_is_listed() -> None:
    assert {call.command for call in CALLS} == FUNCTIONS.keys()


def test_the_documentation_lists_every_function() -> None:
    (listed,) = re.findall(
        r"All are also functions(.*?)Results are stored", (ROOT / "docs" / "commands.md").read_text(), re.S
    )
    named = set(re.findall(r"`srnet\.(\w+)`", listed))
    called = {call.function.split(".")[0] for call in CALLS}
    assert called - named == set(), "not in docs/commands.md"
    assert not [name for name in named if not hasattr(srnet, name)]


# --- the same call, the same result --------------------------------------------------------------------------------


def test_claims_have_as_many_seeds_as_an_answer_needs(folder: Path) -> None:
    found = srnet.claims(Order(tasks=(str(folder / "t.yaml"),)))
    assert {finding.needs for finding in found} == {3}


def test_what_label_words_exclude_is_refused(tiny_backbone: str, folder: Path) -> None:
    task = SyntheticTask(train_size=9, dev_size=9, ood_size=9)
    model = srnet.Pretrained(tiny_backbone, task, words=("yes", "no"))
    for given in ((task, srnet.StaticLocal()), (model, srnet.StaticShared())):
        words = {"words": ("task",)} if given[0] is task else {}
        with refused("--score-rate"):
            srnet.prune(*given, **words, training={"learning_rate": 0.1})


def test_a_task_without_label_words_has_none(folder: Path) -> None:
    (folder / "a.csv").write_text("text_a,text_b,label\n" + "a,b,yes\nc,d,no\n" * 9)
    task = srnet.FilesTask("own", ("yes", "no"), str(folder / "a.csv"), str(folder / "a.csv"), leaks="keep")
    for function, more in ((srnet.finetune, ()), (srnet.prune, (srnet.OneShot(),))):
        with refused("'own'", "label words"):
            function(task, *more, words=("task",))


def test_described_files_have_the_metric_of_their_answers(folder: Path) -> None:
    (folder / "s.csv").write_text("text_a,label\n" + "".join(f"text {n},{n}.5\n" for n in range(9)))
    made = srnet.describe_files("s.yaml", "s.csv", "s.csv", answer="score", text_b="")
    spec = srnet.DataOptions().task(str(made))
    assert (spec.metric, spec.text_b) == ("pearson", None)  # type: ignore[attr-defined]


def test_a_busy_machine_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 0.0, 0.0), raising=False)
    monkeypatch.setattr("srnet.api.speeds.measure_speed", lambda *given: [])
    srnet.speed("KEY", pace=srnet.Pace(threads=1))
    assert "load before was 99.0" in capsys.readouterr().err


# --- names ---------------------------------------------------------------------------------------------------------


def names_read(code: str) -> set[str]:
    """What is read from the module `srnet` itself, but for what the code imports by its full name."""
    tree = ast.parse(code)
    imported = {
        alias.name.split(".")[1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.startswith("srnet.")
    }
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "srnet"
    } - imported


SCRIPTS = [path for name in ("srnet", "examples", "benchmarks") for path in sorted((ROOT / name).rglob("*.py"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_names_of_the_package_are_among_its_exports() -> None:
    """A module such as `srnet.api` is an attribute only after something else has imported it."""
    codes = {path: path.read_text(encoding="utf-8") for path in SCRIPTS}
    for page in PAGES:
        codes[page] = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S))
    unknown = {
        str(path): names_read(code) - {*srnet.__all__, "__getattr__", "__file__"} for path, code in codes.items()
    }
    assert not {path: names for path, names in unknown.items() if names}
