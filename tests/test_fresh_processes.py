"""Every command that is documented runs once in a process that has imported nothing of srnet before.

`srnet` is a fresh interpreter. `forked` has torch and transformers, and nothing of srnet. No process may use the network,
or write anywhere but into the folders that it is given (`tests/guarded`); native code cannot be refused, so the home
folder must be empty at the end.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import typer
from processes import HERE, LIBRARIES, environment, small_recipe, started_fork_server

from srnet.cli import app

ROOT = HERE.parent

MODELS = """
srnet data write fewer.yaml --out mine
srnet data describe --train mine/train.csv --dev mine/dev.csv --ood challenge=mine/challenge.csv \
    --text-a text_a --text-b text_b --label label --group group --shortcut overlap --out mine/mine.yaml
srnet data check qqp --data qqp --ood paws_qqp=paws.tsv
forked pretrain --out backbone --mlm-steps 2 --pair-steps 1 --compare-steps 1 --batch-size 8 \
    --hidden-size 32 --layers 2 --heads 2 --quiet
full=$(srnet finetune --task qqp --data qqp --ood paws_qqp=paws.tsv --backbone backbone --objective ce $short --key)
forked finetune $full --objective poe --strength 0.5 --teacher $full --distil 0.5 --folds 2 $short --json
sparse=$(forked prune $full --pruner mask --sparsity 0.5 --objective poe --shortcut unknown --weak-examples 10 $short --key)
small=$(forked prune $full --granularity head,neuron --sparsity 0.5 --teacher $full --distil 0.5 $short --key)
forked prune --task qqp --data qqp --granularity head,neuron --speedup 1.05 $short
words=$(forked prune --pruner smp-s --sparsity 0.9 --task fewer.yaml --backbone backbone --label-words task --steps 2 --key)
forked evaluate $sparse --subcases
forked bias --task qqp --data qqp --vectors vectors.txt
forked bias --task mine/mine.yaml --shortcut unknown --weak-examples 20 --weak-backbone backbone --store store
srnet export $small --format onnx --int8 --out int8
forked export $small --format shrunk --out shrunk
forked export $sparse --format merged --out merged
forked export $sparse --format subnetwork --dtype float16 --out subnetwork --store store
forked export $words --format smp --out mask.npy
forked import smp mask.npy --backbone backbone --task fewer.yaml --out imported
srnet evaluate int8 --task qqp --data qqp --store store
srnet speed $full shrunk int8 --threads 1 --lengths 8 --rounds 2 --json --store store
srnet audit merged int8 --task qqp --data qqp --contrast --rules rules.py --folds 2 --out audit --quiet
forked store ls
srnet store show $full
srnet store verify
srnet store gc --store store
"""

EXPERIMENTS = """
srnet data write fewer.yaml --out mine
srnet data describe --train mine/train.csv --dev mine/dev.csv --ood challenge=mine/challenge.csv --out mine/mine.yaml
srnet find mine/mine.yaml --dry-run
"""
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
        programs.enter_context(started_fork_server(LIBRARIES, self.env)).write_srnet(self.bin, "forked")

    def _environment(self) -> dict[str, str]:
        """As a user's, without anything that changes what libraries do."""
        inherited = {key: value for key, value in environment().items() if not re.match("HF_|ORT_|RAY_|XDG_|TOKEN", key)}
        path = os.pathsep.join([str(HERE / "guarded"), str(ROOT)])
        folders = {"HOME": self.home, "TMPDIR": self.root / "tmp", "MPLCONFIGDIR": self.root / "tmp"}
        return inherited | {key: str(value) for key, value in folders.items()} | {"PYTHONPATH": path}

    def _write_program(self) -> None:
        """As pip writes it."""
        program = self.bin / "srnet"
        program.write_text(f"#!{sys.executable}\nfrom srnet.__main__ import main\nmain()\n")
        program.chmod(0o755)

    def run(self, script: str) -> str:
        """What the commands print."""
        programs = "".join(f'{name}() {{ time .venv/bin/{name} "$@"; }}\n' for name in ("srnet", "forked"))
        env = self.env | {"GUARDED": str(self.root), "SRNET_STORE": "store", "short": SHORT, "TIMEFORMAT": "%U+%S"}
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
    (folder / "rules.py").write_text("")
    (folder / "recipe.yaml").write_text(small_recipe("mine", "backbone", 0.5))


def test_commands_about_models(place: Place) -> None:
    place.run(MODELS)
    place.check_untouched()
