"""Every command that is documented runs once in a process that has imported nothing of srnet before.

`srnet` is a fresh interpreter. `forked` has imported torch and transformers before, but nothing of srnet: it takes a
second instead of five, and a script may do the same. No process may use the network, or write anywhere but into the
folders that it is given (`tests/guarded`); native code cannot be refused, so the home folder must be empty at the end.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest
import typer
from commands import every_command
from processes import HERE, LIBRARIES, environment, small_recipe, started_fork_server

ROOT = HERE.parent

DATA = """
srnet data write fewer.yaml --out mine
srnet data describe --train mine/train.csv --dev mine/dev.csv --ood challenge=mine/challenge.csv \
    --text-a text_a --text-b text_b --label label --group group --shortcut overlap --out mine/mine.yaml
forked data check --train mine/train.csv --dev mine/dev.csv --leaks keep
forked data write qqp --data qqp --out written
srnet data check qqp --data qqp --ood paws_qqp=paws.tsv --json
forked pretrain --out backbone --mlm-steps 2 --pair-steps 1 --compare-steps 1 --batch-size 8 \
    --hidden-size 32 --layers 2 --heads 2 --quiet
"""
MODELS = """
full=$(forked finetune --task qqp --data qqp --ood paws_qqp=paws.tsv --backbone backbone --objective ce $short --key)
forked finetune $full --device cpu --objective poe --strength 0.5 --teacher $full --distil 0.5 --folds 2 $short --json
sparse=$(forked prune $full --pruner mask --sparsity 0.5 --objective poe --shortcut unknown --weak-examples 10 \
    $short --key)
small=$(forked prune $full --granularity head,neuron --sparsity 0.5 --teacher $full --distil 0.5 $short --key)
forked prune $full --pruner mask --sparsity 0.5 --accumulate 2 --checkpointing --precision bf16 --score-rate 1e-3 $short
forked prune --task stereotypes --pruner mask --sparsity 0.2 --objective balance --keep 2 --weight 0.5 $short
narrow=$(forked prune --task sentences --pruner one-shot --granularity neuron --sparsity 0.3 --key)
forked export $narrow --format shrunk --uniform --out narrow
forked speed srnet-decoder narrow --device cpu --threads 1 --lengths 8 --new-tokens 4 --prompts 2 --rounds 2 --no-memory
words=$(forked prune --pruner smp-s --sparsity 0.9 --task fewer.yaml --backbone backbone --label-words task \
    $short --key)
forked prune --task qqp --data qqp --granularity head,neuron --speedup 1.05 $short
forked evaluate $sparse --subcases --predictions sparse.csv --system sparse
forked evaluate $full --predictions full.csv --system full --seed 0
srnet verdict sparse.csv full.csv --reference full --id dev --ood paws_qqp --metric f1 --keep-id 0.9 --subcases \
    --out judged
forked bias --task qqp --data qqp --vectors vectors.txt
forked bias --task mine/mine.yaml --shortcut unknown --weak-examples 10 --weak-backbone backbone --store store
forked export $small --format onnx --int8 --out int8
forked export $small --format shrunk --out shrunk
forked export $sparse --format merged --out merged
forked export $sparse --format subnetwork --dtype float16 --out subnetwork --store store
forked export $words --format smp --out mask.npy
forked import smp mask.npy --backbone backbone --task fewer.yaml --out imported
forked evaluate int8 --task qqp --data qqp --store store
forked speed shrunk int8 --device cpu --threads 1 --lengths 8 --rounds 2 --no-memory --json --store store
mkdir -p $HF_HUB_CACHE/models--somebody--merged/{refs,snapshots}
cp -r merged $HF_HUB_CACHE/models--somebody--merged/snapshots/1
printf 1 > $HF_HUB_CACHE/models--somebody--merged/refs/main
srnet audit somebody/merged int8 --task qqp --data qqp --contrast --shortcut claim --folds 2 --out audit \
    --quiet
forked bias --task qqp --data qqp --vectors somebody/merged
named=duplicate=duplicate,not_duplicate=not_duplicate
own=$(forked prune somebody/merged --task qqp --data qqp --labels-are $named --sparsity 0.5 $short --key)
forked evaluate merged --task qqp --data qqp --labels-are $named
forked export $own --format onnx --out own --store store
srnet store ls --store store
srnet store show $full --store store
srnet store verify --store store
srnet store gc --older-than 1 --store store
"""
EXPERIMENTS = """
srnet shortcuts --train mine/train.csv --dev mine/dev.csv --ood challenge=mine/challenge.csv --text text_b \
    --label label --leaks keep --out surveyed
forked shortcuts mine/mine.yaml --json --leaks keep
forked bias --train mine/train.csv --dev mine/dev.csv --ood challenge=mine/challenge.csv --text text_b \
    --label label --shortcut length --folds 2 --leaks keep
forked finetune --train mine/train.csv --dev mine/dev.csv --ood challenge=mine/challenge.csv --text text_b \
    --label label --backbone backbone --leaks keep $short
forked find --train mine/train.csv --dev mine/dev.csv --ood challenge=mine/challenge.csv --text text_b \
    --label label --shortcut words --leaks keep --dry-run
srnet find mine/mine.yaml --dry-run
forked find mine/mine.yaml --speedup 1.05 --format shrunk --dry-run
forked find mine/mine.yaml --backbone backbone --sparsities 0.5 --scale 0.01 --folds 2 --budget 60m --measure
forked find mine/mine.yaml --backbone backbone --sparsities 0.5 --seeds 1 --scale 0.01 --leaks keep --store store \
    --out found
forked data plant mine/mine.yaml --strength 0.7 --leaks keep --out planted
forked find mine/mine.yaml --control --baselines --leaks keep --device cpu --engine pool --workers 2 --dry-run
forked reproduce fig2 --tasks fewer.yaml --backbone backbone --plant 0.7 --baselines --device cpu --dry-run
forked find qqp --data qqp --full merged --max-length 32 --sparsities 0.5 --dry-run
forked run recipe.yaml --dry-run
forked run recipe.yaml --out report --store store
forked reproduce fig2 --profile cpu --tasks qqp --data qqp --ood paws_qqp=paws.tsv --backbone backbone --dry-run
forked reproduce fig2 --tasks fewer.yaml --backbone backbone --as-published --engine pool --workers 2 --dry-run
forked reproduce fig2 --tasks fewer.yaml --backbone backbone --scale 0.02 --sparsities 0.5 --seeds 1 --folds 2 \
    --line 'mask training (PoE)' --out fig2 --store store
forked claims --tasks mine/mine.yaml --seeds 3 --scale 0.02 --leaks keep --folds 2 --store store
forked claims --tasks fewer.yaml --backbone backbone --until-answered --seeds 3 --max-seeds 3 --budget 1s --engine pool
"""
DEMO = """
srnet demo --seeds 3 --sparsities 0.5 --steps 2 --train-size 40 --dev-size 20 --ood-size 20 --engine local --store store
"""
SCRIPTS = (DATA, MODELS, EXPERIMENTS, DEMO)
"""Each needs what those before it left. The page is opened with the command that the demo prints."""
PAGE = "--task mine/mine.yaml --port 0 --folds 2 --leaks keep --new-tokens 8"
SHORT = "--steps 2 --eval-every 2 --batch-size 8 --quiet"
"""Options of a training."""


class Place:
    """A folder to work in, with a home folder that must stay empty, and programs that are not on PATH."""

    def __init__(self, root: Path, programs: ExitStack) -> None:
        self.root, self.work, self.home = root.resolve(), root / "work", root / "home"
        self.bin = self.work / ".venv" / "bin"
        for folder in (self.bin, self.home, root / "tmp"):
            folder.mkdir(parents=True)
        self.env = self._environment()
        self._write_program()
        # it imports matplotlib before srnet says where that may write
        server = self.env | {"MPLCONFIGDIR": str(self.root / "tmp")}
        programs.enter_context(started_fork_server(LIBRARIES, server)).write_srnet(self.bin, "forked")

    def _environment(self) -> dict[str, str]:
        """As a user's, without anything that changes what libraries do."""
        changing = re.compile("HF_|ORT_|RAY_|XDG_|MPL|TOKEN|TORCH")
        inherited = {key: value for key, value in environment().items() if not changing.match(key)}
        path = os.pathsep.join([str(HERE / "guarded"), str(ROOT)])
        folders = {
            "HOME": self.home,
            "TMPDIR": self.root / "tmp",
            "HF_HUB_CACHE": self.work / "hub",
        }
        return inherited | {key: str(value) for key, value in folders.items()} | {"PYTHONPATH": path}

    def _write_program(self) -> None:
        """As pip writes it."""
        program = self.bin / "srnet"
        program.write_text(f"#!{sys.executable}\nfrom srnet.__main__ import main\nmain()\n")
        program.chmod(0o755)

    def run(self, script: str) -> str:
        """What the commands print."""
        programs = "".join(f'{name}() {{ .venv/bin/{name} "$@"; }}\n' for name in ("srnet", "forked"))
        env = self.env | {"GUARDED": str(self.root), "SRNET_STORE": "store", "short": SHORT}
        command = ["bash", "-euo", "pipefail", "-c", programs + "set -x\n" + script]
        done = subprocess.run(command, cwd=self.work, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def check_untouched(self) -> None:
        """Nothing was refused, also where a library hid it, and native code wrote nothing."""
        refused = self.root / "refused"
        assert not refused.exists(), refused.read_text()
        assert list(self.home.rglob("*")) == []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as programs:
        made = Place(tmp_path, programs)
        write_inputs(made.work)
        yield made


def write_inputs(folder: Path) -> None:
    (folder / "fewer.yaml").write_text("{name: inference, train_size: 60, dev_size: 30, ood_size: 30}\n")
    (folder / "qqp").mkdir()
    questions = [(f"who is doctor {n}", f"who is {'doctor' if n % 2 else 'lawyer'} {n}", n % 2) for n in range(40)]
    for name, part in {"train": questions[:24], "dev": questions[24:]}.items():
        rows = "".join(f"{n}\t1\t2\t{a}\t{b}\t{same}\n" for n, (a, b, same) in enumerate(part))
        (folder / "qqp" / f"{name}.tsv").write_text(f"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n{rows}")
    rows = "".join(f"{n}\tis {n} a b\tis {n} b a\t{n % 2}\n" for n in range(12))
    (folder / "paws.tsv").write_text(f"id\tsentence1\tsentence2\tlabel\n{rows}")
    (folder / "vectors.txt").write_text("who 1 0\nis 0 1\ndoctor 1 1\nlawyer 1 2\n")
    (folder / "recipe.yaml").write_text(small_recipe("mine", "backbone", 0.5, steps=4))


def test_every_command_runs_in_a_fresh_process(place: Place) -> None:
    printed = [place.run(script) for script in SCRIPTS][-1]
    open_page(place, re.findall(r"side by side: (.*)", printed)[0])
    place.check_untouched()


def open_page(place: Place, command: str) -> None:
    """The command that the demo printed, in the shell of the user."""
    env = place.env | {"GUARDED": str(place.root), "LOOPBACK": "1"}
    words = ["bash", "-c", f"exec {command} {PAGE}"]
    with subprocess.Popen(words, cwd=place.work, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        with urlopen(address, timeout=60) as answer:
            assert b"<html" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("closed\n", None)
    assert process.returncode == 0


# --- is everything in these scripts? -------------------------------------------------------------------------------

DOCUMENTS = (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md"))
HELP = (ROOT / "srnet" / "cli").glob("*.py")


COMMANDS = {" ".join(words): command for words, command in every_command().items()}


def options_in(text: str) -> dict[str, set[str]]:
    """The options in the command lines of a text, by command."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in re.findall(
        r"(?:^ *|`|\$\(|-m )(?:srnet|forked) +([^`#\n]*)", text.replace("\\\n", " "), flags=re.MULTILINE
    ):
        words = line.split()
        for name in (" ".join(words[:2]), " ".join(words[:1])):
            if name in COMMANDS:
                found[name] |= set(re.findall(r"(?<= )--[a-z0-9-]+", line)) - {"--help"}
    return found


RUN = options_in("".join(SCRIPTS).replace("$short", SHORT) + f"srnet page A B --store store {PAGE}\n")


def test_every_documented_option_of_every_command_is_run() -> None:
    documented = options_in("".join(path.read_text() for path in (*DOCUMENTS, *HELP)))
    assert len(documented) > 15
    assert {name: missing for name in COMMANDS if (missing := documented[name] - RUN[name])} == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_group_of_options_is_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in RUN
    with pytest.raises(typer.Exit):
        COMMANDS[name].make_context(name, ["--help"])
    headings: dict[str, set[str]] = defaultdict(set)
    for each in COMMANDS[name].params:
        if each.param_type_name == "option" and each.name != "help":
            headings[each.rich_help_panel or "Options"] |= set(each.opts)
    assert [heading for heading, options in headings.items() if not options & RUN[name]] == []
