"""The command line: mistakes, full disks and damaged files are one line and exit code 2, and nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from commands import Shell

from srnet.experiment.store import Store

# --- mistakes ------------------------------------------------------------------------------------------------------


MISTAKES = {
    "finetune --task gossip": ("'gossip'", "cola, fever, imdb, inference"),
    "finetune --task gone.yaml": ("gone.yaml", "No such file"),
    "finetune --task task.yaml --objective mse": ("'mse'",),
    "finetune --task task.yaml --objective confreg": ("teacher",),
    "finetune --task task.yaml --distil 0.5": ("distillation", "teacher"),
    "finetune --task task.yaml --teacher 0123": ("'ce'", "--teacher"),
    "finetune --task task.yaml --backbone gone": ("'gone'",),
    "finetune --task task.yaml --steps 0": ("--steps: 0",),
    "finetune --objective poe:strength=0.5": ("--objective poe --strength VALUE",),
    "prune --pruner lasso": ("'lasso'",),
    "prune --pruner imp --sparsity 0.55": ("0.55",),
    "prune --pruner imp --init soft": ("'imp'", "--init", "--pruner mask"),
    "prune --penalty-until end": ("--penalty-until", "--pruner smp-l or smp-s"),
    "prune --initial-sparsity 0.9": ("0.9", "0.5"),
    "prune --backbone ./nowhere --task inference": ("'./nowhere'", "no such folder"),
    "prune 0123": ("'0123'",),
    "evaluate 0123": ("'0123'",),
    "evaluate gone/folder --task task.yaml": ("gone/folder",),
    "evaluate .": ("--task TASK",),
    "evaluate . --task task.yaml": (".",),
    "bias --task task.yaml --folds 1": ("1 folds",),
    "demo --sparsities half": ("--sparsities: 'half'",),
    "demo --out task.yaml": ("task.yaml",),
    "reproduce fig2 --profile cpu": ("'cpu'", "--backbone", "--tasks"),
    "reproduce fig2 --profile cpu --backbone b": ("'cpu'", "--backbone", "--tasks"),
    "reproduce fig2 --profile paper": ("SRNET_DOWNLOAD=1", "--data"),
    "reproduce fig2 --profile paper --tasks task.yaml": ("'inference'",),
    "reproduce fig2 --vectors v.vec --without-vectors": ("--vectors", "--without-vectors"),
    "reproduce fig2 --tasks gossip": ("'gossip'",),
    "reproduce fig2 --tasks task.yaml --out task.yaml": ("task.yaml",),
    "reproduce fig2 --engine cloud": ("--engine", "'cloud'", "local, pool, ray"),
    "claims --profile cpu": ("'cpu'",),
    "claims --max-seeds 5": ("--max-seeds", "--until-answered"),
    "claims --budget 5m": ("--budget", "--until-answered"),
    "claims --engine pool": ("--engine", "--until-answered"),
    "claims --until-answered --budget soon": ("'soon'", "90s, 60m or 2h"),
    "claims --until-answered --tasks task.yaml --max-seeds 2": ("2 seeds", "--max-seeds"),
    "run gone.yaml": ("gone.yaml",),
    "run task.yaml": ("task.yaml", "'train_size'"),
    "find mine.csv": ("'mine.csv'", "--train"),
    "find inference --dry-run --json": ("JSON", "--json"),
    "speed": ("argument",),
    "speed nowhere": ("'nowhere'",),
    "export 0123 --format merged --out x": ("'0123'",),
    "export 0123 --format merged": ("'--out'",),
    "export 0123 --int8 --out x": ("'merged'", "--int8", "--format onnx"),
    "export 0123 --format pickle --out x": ("'pickle'", "merged, onnx, shrunk, smp, subnetwork"),
    "import smp task.yaml --backbone b --out x": ("labels",),
    "import smp task.yaml --backbone b --out x --labels a,a": ("['a', 'a']",),
    "import smp task.yaml --backbone b --out task.yaml --labels a,b": ("task.yaml", "exists"),
    "import smp m.npy": ("--backbone",),
    "import nonsense m.npy --backbone b --out o": ("'nonsense'",),
    "store show 0123": ("store",),
    "store nonsense": ("'nonsense'",),
    "nonsense": ("'nonsense'",),
    "demo --nope": ("--nope",),
    "reproduce": ("figure",),
    "reproduce fig2 --seeds 0": ("--seeds: 0",),
    "claims --seeds three": ("--seeds: 'three'",),
    "export": ("model",),
}


@pytest.mark.parametrize("command", MISTAKES)
def test_mistakes(command: str, shell: Shell) -> None:
    line = shell.fails(*command.split())
    assert [name for name in MISTAKES[command] if name not in line] == [], line
    assert Store(shell.store).keys() == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "data.csv is empty"),
        ("text_a,text_b,label\n", "data.csv holds no rows"),
        ("text_a,text_b,label\na,b,yes\nc,d\n", "data.csv, line 3: 2 cells under 3 columns"),
        ("text_a,text_b,label\na,b,yes\nc,d,perhaps\n", "data.csv, line 3: label 'perhaps' was never declared"),
    ],
)
def test_mistakes_in_the_data(rows: str, said: str, shell: Shell) -> None:
    (shell.folder / "data.csv").write_text(rows)
    shell.task.write_text("{name: mine, labels: ['yes', 'no'], train: data.csv, dev: data.csv}")
    assert said in shell.fails("finetune", "--task", "task.yaml")


@pytest.mark.parametrize(
    "name", ["report.html", "results.csv", "demo-inference.png", "find.json", "find-inference.png"]
)
def test_a_folder_where_a_file_of_the_report_goes(name: str, shell: Shell) -> None:
    (shell.folder / "out" / name).mkdir(parents=True)
    command = ("find", "inference") if name.startswith("find") else ("demo",)
    assert f"{name} is a folder; choose another folder for the results" in shell.fails(*command, "--out", "out")
    assert Store(shell.store).keys() == []


def test_export_does_not_overwrite(shell: Shell) -> None:
    key = shell.key()
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / "thesis.txt").write_text("")
    assert "mine exists already" in shell.fails("export", key, "--format", "merged", "--out", "mine")
    assert (shell.folder / "mine" / "thesis.txt").exists()


def test_a_folder_with_other_labels(shell: Shell) -> None:
    shell("export", shell.key(), "--format", "subnetwork", "--out", "sub")
    told = shell.fails("evaluate", "sub", "--task", "verification")
    assert all(name in told for name in ("sub", "not_entailment, entailment", "supports, refutes, not_enough_info"))


def test_a_misspelt_file_of_a_task_is_found_among_the_keys_of_files(shell: Shell) -> None:
    for wrong, right in (("trian", "dev"), ("dve", "train")):
        (shell.folder / "mine.yaml").write_text(
            f"{{name: mine, labels: ['no', 'yes'], {wrong}: a.csv, {right}: b.csv}}\n"
        )
        told = shell.fails("data", "check", "mine.yaml")
        assert f"unknown key '{wrong}'; known: " in told
        assert all(f" {key}," in told for key in ("train", "dev", "text_a"))


# --- disks ---------------------------------------------------------------------------------------------------------


def test_a_file_where_the_store_should_be(shell: Shell) -> None:
    shell.store.write_text("")
    assert f"cannot write {shell.store}" in shell.fails(
        "finetune", "--task", shell.task, "--backbone", shell.backbone, "--steps", 10
    )


@pytest.mark.parametrize(
    "words",
    [
        ("data", "write", "inference", "--out", "x\udcff"),
        ("audit", "\udcff", "--task", "inference"),
        ("data", "check", "\udcff.yaml"),
        ("finetune", "--store", "/tmp/\udcff"),
    ],
)
def test_what_is_not_unicode_is_refused(words: tuple[str, ...], shell: Shell) -> None:
    assert "is not valid Unicode" in shell.fails(*words)
    assert list(shell.folder.iterdir()) == [shell.task]


def refusing(code: int) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code), ".somewhere")

    return refuse


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("srnet.core.files.os.fsync", errno.ENOSPC, "no space left; free some space"),
        ("srnet.core.files.os.fsync", errno.EDQUOT, "disk quota exceeded; free some space"),
        ("srnet.core.files.tempfile.mkdtemp", errno.EROFS, "read-only file system; choose a folder"),
        ("srnet.core.files._unnamed_file", errno.EACCES, "permission denied; choose a folder"),
    ],
)
def test_a_full_or_read_only_disk(
    function: str, code: int, said: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = shell.key()
    prune = ("prune", key, "--pruner", "one-shot", "-q")
    with monkeypatch.context() as patch:
        patch.setattr(function, refusing(code))
        assert said in shell.fails(*prune)
    store = Store(shell.store)
    assert len(store.keys()) == 3, "what was there stays"
    assert store.verify() == {}
    assert [path.name for path in store.artifacts.iterdir() if path.name.startswith(".")] == []
    assert shell(*prune).code == 0, "and one goes on from there"


def test_a_disk_that_fills_up_during_training(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("srnet.training.checkpoint.write_bytes", refusing(errno.ENOSPC))
        line = shell.fails("finetune", "--task", shell.task, "--backbone", shell.backbone, "--steps", 10)
    assert "no space left" in line
    assert len(Store(shell.store).keys()) == 1, "the raw model had been made"
    assert shell.finetune("-q").code == 0


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(shell: Shell) -> str:
    """The key of a fine-tuned model whose weights were altered."""
    key = shell.key()
    path = shell.store / "artifacts" / key / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    return key


@pytest.mark.parametrize(
    "command", [("prune",), ("evaluate",), ("export", "--format", "merged", "--out", "out")], ids=lambda c: c[0]
)
def test_a_damaged_model_is_refused_by_name(command: tuple[str, ...], damaged: str, shell: Shell) -> None:
    line = shell.fails(command[0], damaged, *command[1:])
    assert f"artifact {damaged} is damaged" in line
    assert "weights.safetensors does not match its checksum" in line


def test_verify_and_gc_of_a_damaged_store(damaged: str, shell: Shell) -> None:
    outcome = shell("store", "verify")
    assert outcome.code == 2
    assert outcome.out.startswith(f"{damaged}: ")
    assert outcome.err.startswith("srnet: 1 damaged of 3 artifacts")
    assert damaged in shell("store", "gc").out
    assert shell("store", "verify").code == 0
    assert len(Store(shell.store).keys()) == 2, "the others stay"
