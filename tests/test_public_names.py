"""The public names: one list, which `dir`, type checkers, `help` and the reference agree on."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import srnet
from srnet.core.tables import Shown

ROOT = Path(srnet.__file__).parent.parent
STUB = ast.parse((ROOT / "srnet" / "__init__.pyi").read_text(encoding="utf-8"))
IMPORTS = [node for node in STUB.body if isinstance(node, ast.ImportFrom)]
NAMES = [alias.name for node in IMPORTS for alias in node.names]


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_package_reads_every_name_of_the_stub() -> None:
    assert len(NAMES) == len(set(NAMES)) > 80
    assert all(alias.asname == alias.name for node in IMPORTS for alias in node.names), "without `as` it is private"
    assert sorted(srnet.__all__) == sorted(["__version__", *NAMES])
    assert all(getattr(srnet, name) is not None for name in NAMES)


def test_dir_lists_the_public_names_alone() -> None:
    import srnet.experiment.pool  # leaves `experiment` in the package

    assert dir(srnet) == sorted(["__version__", *NAMES])
    assert {"isfunction", "Any", "experiment", "_WHERE"}.isdisjoint(dir(srnet))


def test_no_import_of_a_module_can_replace_a_public_name() -> None:
    modules = {path.stem for path in (ROOT / "srnet").iterdir() if path.suffix == ".py" or path.is_dir()}
    own = {alias.name for node in IMPORTS if node.module == "srnet" for alias in node.names}
    assert modules & set(NAMES) == own


def test_a_misspelt_name_is_answered_with_the_right_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import srnet; srnet.prun"], capture_output=True, text=True, env=_env()
    )
    assert "Did you mean: 'prune'?" in done.stderr.splitlines()[-1]


def test_modules_and_functions_of_a_package_are_found_by_its_stub(tmp_path: Path, monkeypatch: Any) -> None:
    """The package's own file with another stub: a module, a class and a function, whose arguments are checked."""
    package = tmp_path / "sample"
    package.mkdir()
    (package / "__init__.py").write_bytes((ROOT / "srnet" / "__init__.py").read_bytes())
    (package / "__init__.pyi").write_text(
        "from sample import part as part\nfrom sample.part import Thing as Thing, twice as twice\n"
    )
    (package / "part.py").write_text("class Thing: ...\ndef twice(n: int) -> int:\n    return 2 * n\n")
    monkeypatch.syspath_prepend(tmp_path)
    import sample  # type: ignore[import-not-found]

    assert dir(sample) == ["Thing", "__version__", "part", "twice"]
    assert isinstance(sample.part, ModuleType)
    assert sample.Thing is sample.part.Thing
    assert sample.twice(2) == 4
    with pytest.raises(srnet.UserError, match="n: "):
        sample.twice("two")


# --- help ------------------------------------------------------------------------------------------------------------


def documented_fields(cls: type) -> set[str]:
    """The fields of a class and of its bases that have a docstring of their own."""
    found = set()
    for each in cls.__mro__:
        if each.__module__.startswith("srnet"):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            assert isinstance(tree, ast.ClassDef)
            for field, text in zip(tree.body, tree.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found.add(ast.unparse(field.target))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_help_has_a_sentence_and_every_argument(name: str) -> None:
    assert not undocumented(getattr(srnet, name))


def undocumented(thing: Any) -> set[str]:
    """The parameters that its docstring does not name, nor that of the public name to which it refers (`as in`)."""
    text = (vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__) or ""
    assert re.match(r"[A-Z]|f\(", text), "no docstring of its own that begins as a sentence"
    assert text.splitlines()[0].rstrip().endswith((".", ":")), "the first line is no sentence"
    if isinstance(thing, ModuleType) or (isinstance(thing, type) and issubclass(thing, Shown)):
        return set()  # users make no results
    fields = documented_fields(thing) if dataclasses.is_dataclass(thing) else set()
    if isinstance(thing, type) and not fields:
        text += thing.__init__.__doc__ or ""
    listed = set(re.findall(r"^ +(\w+): \S", text.partition("Args:\n")[2], re.M))
    named = {word for quoted in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", quoted)}
    missing = set(inspect.signature(thing).parameters) - fields - listed - named
    for other in re.findall(r"as in `(\w+)`", text):
        missing -= set(inspect.signature(getattr(srnet, other)).parameters) - undocumented(getattr(srnet, other))
    return missing


def test_editors_see_functions_as_they_were_written() -> None:
    from srnet.api.models import prune

    assert srnet.prune is not prune, "its arguments are checked"
    assert srnet.prune.__doc__ == prune.__doc__
    assert inspect.signature(srnet.prune) == inspect.signature(prune)
    assert inspect.getsource(srnet.prune) == inspect.getsource(prune)


# --- types -----------------------------------------------------------------------------------------------------------

ORDINARY = """
import srnet
from torch import nn

pruning = srnet.attach(nn.Linear(4, 2), srnet.MaskTraining(sparsity=0.5), steps=100)
counted: float = pruning.mask.sparsity
task = srnet.SyntheticTask("inference", train_size=100)
engine = srnet.Engine(srnet.Store("store"), report_to="tensorboard", name="pool", workers=2)
trained = srnet.prune(task, srnet.MaskTraining(sparsity=0.5), "poe", training={"steps": 10}, engine=engine)
key: str = trained.key
score: float = srnet.evaluate("folder", task=task, labels_are={"LABEL_0": "no"}).sparsity
best: str | None = srnet.shortcuts(task).best
names: list[str] = [each.name for each in srnet.speed(key, "folder", pace=srnet.Pace(rounds=3))]
answers: list[str] = [each.answer for each in srnet.claims(srnet.Order())]
raw = srnet.Pretrained("srnet-tiny", task)
engine.execute([srnet.Evaluate(srnet.Prune(raw, srnet.Wanda(0.7), srnet.PoE(srnet.BiasModel(task))))])


def kept(mask: srnet.Mask, other: srnet.Mask) -> float:
    return mask.union(other).sparsity


try:
    srnet.audit_models(key, "folder", task=task, options=srnet.AuditOptions(contrast=True)).to_pandas()
except srnet.UserError as error:
    print(error)

# what is wrong is an error: without one, the comment itself is
srnet.attach(nn.Linear(4, 2), 0.5, steps=100)  # type: ignore[arg-type]
srnet.prune(task, 0.5)  # type: ignore[arg-type]
srnet.prune(task)  # type: ignore[call-arg]
srnet.MaskTraining(sparsty=0.5)  # type: ignore[call-arg]
srnet.Engine(name="threads")  # type: ignore[arg-type]
srnet.prun  # type: ignore[attr-defined]
trained.keys  # type: ignore[attr-defined]
number: int = trained.key  # type: ignore[assignment]
kept("mask", "mask")  # type: ignore[arg-type]
"""
QUICK = "[mypy]\nstrict = true\nfollow_imports = skip\n[mypy-srnet,srnet.*]\nfollow_imports = normal\n"
"""As `mypy --strict`, without looking into other libraries, which would take most of a minute."""


def test_a_typed_script_can_use_every_public_name(tmp_path: Path) -> None:
    """As a user runs mypy: of the package only what the script uses is looked at, and no settings are needed."""
    (tmp_path / "ordinary.py").write_text(ORDINARY)
    every = "".join(f"reveal_type(srnet.{name})\n" for name in NAMES)
    (tmp_path / "every.py").write_text(f"import srnet\n{every}")
    (tmp_path / "quick.ini").write_text(QUICK)
    command = [sys.executable, "-m", "mypy", "--config-file", "quick.ini", "ordinary.py", "every.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=_env())
    assert done.returncode == 0, done.stdout + done.stderr
    types = dict(re.findall(r'every\.py:(\d+): note: Revealed type is "(.*)"', done.stdout))
    unknown = [name for line, name in enumerate(NAMES, start=2) if types[str(line)] in ("Any", "def (*Any, **Any)")]
    assert not unknown


def _env() -> dict[str, str]:
    """The tree of these tests as an installed package."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
