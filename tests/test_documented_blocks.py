"""Every code block of README.md and docs/ is executed, or its commands are read as the program reads them."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import every_command
from documented import BLOCKS, EXCEPTIONS, ROOT, Block, exception, is_that, of_language
from test_guide import GUIDES

from srnet.experiment.nodes.base import answer_of_spec
from srnet.recipes.files import load_recipe
from srnet.recipes.tasks import read_task
from srnet.tasks.answers.base import ANSWERS


def test_every_block_is_checked_and_every_exception_is_needed() -> None:
    """tests/test_documented_python.py runs Python, tests/test_guide.py what is for the console; the rest is below."""
    assert len(BLOCKS) > 80
    guides = {path.relative_to(ROOT).as_posix() for path in GUIDES}
    known = {"python", "yaml", ""}
    unknown = [str(b) for b in BLOCKS if not (b.language in known or (b.language == "console" and b.page in guides))]
    assert unknown == [], "write Python, YAML, commands (indented), or in guides `console`"
    assert [key for key in EXCEPTIONS if not any(is_that(block, *key) for block in BLOCKS)] == []


# --- commands ------------------------------------------------------------------------------------------------------

COMMANDS = every_command()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def lines_of(block: Block) -> Iterator[str]:
    """The commands of a block, each on one line, without comments and what a shell does with their output."""
    variables = dict(re.findall(r'^ *(\w+)="(.*)"$', (ROOT / block.page).read_text(encoding="utf-8"), re.MULTILINE))
    for line in block.text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^| )#.*", "", line)
        line = re.sub(r"^\w+=\$\((.*)\)$", r"\1", line)
        line = re.sub(r"\$(\w+)", lambda name: variables.get(name[1], name[1]), line)
        if line.strip() and not re.match(r'\w+="', line):
            yield line.strip()


def read_srnet(line: str) -> None:
    """As the program reads it: commands, options, choices and numbers that do not exist are errors."""
    words = shlex.split(line)[1:]
    if "|" in words:  # several commands of a group: `srnet store ls | show KEY`
        group, *rest = words
        for each in " ".join(rest).split(" | "):
            assert (group, each.split()[0]) in COMMANDS, each
        return
    name = next(name for name in ((*words[:2],), (*words[:1],)) if name in COMMANDS)
    COMMANDS[name].make_context(" ".join(name), [word for word in words[len(name) :] if word != "..."])


def read_python(line: str) -> None:
    script = line.split()[1]
    assert (ROOT / script).is_file() or (ROOT / "examples" / script).is_file(), script


def read_pip(line: str) -> None:
    assert all(extra in EXTRAS for extra in re.findall(r"\[(\w+)\]", line))


def read_make(line: str) -> None:
    for part in line.split("&&"):
        words = part.split()
        assert words[0] == "source" or set(words[1:]) <= set(TARGETS), part


def read_torchrun(line: str) -> None:
    _, after = re.split(r" --nproc-per-node \d+ (?:-m )?", line)
    read_srnet(after) if after.startswith("srnet ") else read_python(f"python {after}")


def read_ray(line: str) -> None:
    assert re.fullmatch(r"ray start (--head --port \d+|--address [A-Z]+:\d+)", line.partition("#")[0].strip()), line


READERS: dict[str, Callable[[str], None]] = {
    "srnet": read_srnet, "python": read_python, "pip": read_pip, "make": read_make, "torchrun": read_torchrun,
    "ray": read_ray,
}  # fmt: skip


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "" and not exception(b)], ids=str)
def test_every_command_can_be_given(block: Block) -> None:
    lines = [*lines_of(block)]
    assert lines
    for line in lines:
        assert line.split()[0] in READERS, line
        READERS[line.split()[0]](line)


@pytest.mark.parametrize("line", ["srnet find --bugdet 60m", "srnet export KEY --format zip --out D", "srnet fnd x"])
def test_a_wrong_command_is_found(line: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011  (typer's own errors, StopIteration)
        read_srnet(line)


# --- YAML ----------------------------------------------------------------------------------------------------------

WHOLE = {"task": "inference", "lines": [{"label": "full model"}]}
"""What a recipe needs at least."""
OWN = {"name": "own", "train": "train.csv", "dev": "dev.csv", "labels": ["entailment", "neutral", "contradiction"]}


def recipe_of(text: str) -> dict[str, Any]:
    """A recipe with the keys of the text, which may be those of a part."""
    found = yaml.safe_load(text)
    if found.get("answer") in ANSWERS and ANSWERS[found["answer"]].language:  # a task's own file
        return {**WHOLE, "task": found}
    return {**WHOLE, "task": {**OWN, **found}} if "ood" in found else {**WHOLE, **found}


@pytest.mark.parametrize("block", [b for page in of_language("yaml").values() for b in page], ids=str)
def test_every_yaml_is_a_recipe_or_a_part_of_one(block: Block, tmp_path: Path) -> None:
    (tmp_path / "snli").mkdir()
    for name in ("train", "dev"):
        (tmp_path / "snli" / f"{name}.csv").touch()
    path, recipe = tmp_path / "recipes" / "recipe.yaml", recipe_of(block.text)
    path.parent.mkdir()
    if answer_of_spec(read_task(recipe["task"], "task", path.parent)).language:
        return  # recipes do not have such tasks
    path.write_text(yaml.safe_dump(recipe))
    assert load_recipe(path).profile
