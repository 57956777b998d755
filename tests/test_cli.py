"""The command line: happy paths print what one needs next, mistakes are one line and exit code 2."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import srnet
from srnet.cli import main
from srnet.experiment import Store
from srnet.recipes import FIGURES
from srnet.report import CLAIMS
from srnet.subnetwork import load_subnetwork


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Shell:
    """`srnet ...` in this process, with a tiny task, a tiny backbone and a store of its own."""

    def __init__(
        self, folder: Path, backbone: str, trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        self.folder, self.store, self.backbone, self.trained = folder, folder / "store", backbone, trained
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.task = folder / "task.yaml"
        self.task.write_text("{name: inference, train_size: 100, dev_size: 50, ood_size: 50}\n")
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SRNET_STORE", str(self.store))

    def __call__(self, *words: object) -> Outcome:
        self._monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        captured = self._capsys.readouterr()
        return Outcome(int(exit.value.code or 0), captured.out, captured.err)

    def fails(self, *words: object) -> str:
        """The one line that a mistake is answered with."""
        outcome = self(*words)
        assert outcome.code == 2, outcome
        lines = [line for line in outcome.err.splitlines() if not line.startswith("[")]  # but for progress
        assert len(lines) == 1, outcome.err
        assert lines[0].startswith("srnet: ")
        return lines[0]

    def reproduce(self, *words: object) -> Outcome:
        return self("reproduce", *words, "--tasks", self.task, "--backbone", self.backbone)

    def finetune(self, *words: object) -> Outcome:
        return self("finetune", "--task", self.task, "--backbone", self.backbone, "--steps", 10, *words)

    def key(self) -> str:
        """A fine-tuned model in the store, which was empty; it is trained once for all tests."""
        if self.trained.exists():
            shutil.copytree(self.trained, self.store)
        key = str(self.finetune("--json", "--quiet").json["key"])
        if not self.trained.exists():
            shutil.copytree(self.store, self.trained)
        return key


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that needs a fine-tuned model leaves its store for the others."""
    return tmp_path_factory.mktemp("trained") / "store"


@pytest.fixture
def shell(
    tmp_path: Path,
    tiny_backbone: str,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(tmp_path, tiny_backbone, trained, monkeypatch, capsys)


# --- what works ----------------------------------------------------------------------------------------------------


def test_finetune_prune_evaluate_export(shell: Shell) -> None:
    tuned = shell.finetune()
    assert tuned.code == 0, tuned.err
    assert "fine-tune (ce)" in tuned.err, "progress goes to stderr"
    found = re.search(r"key (\w{16})", tuned.out)
    assert found
    key = found[1]

    pruned = shell("prune", key[:8], "--sparsity", 0.7, "--objective", "poe", "--steps", 10, "--json", "-q")
    assert (pruned.code, pruned.err) == (0, "")
    subnetwork = pruned.json
    assert subnetwork["sparsity"] == pytest.approx(0.7, abs=1e-3)
    assert {name: split["kind"] for name, split in subnetwork["scores"].items()} == {"dev": "ID", "challenge": "OOD"}

    again = shell("evaluate", subnetwork["key"], "--json")
    assert again.err == "", "nothing was computed"
    assert again.json == subnetwork

    assert shell("export", subnetwork["key"], "--format", "subnetwork", "--out", "sub").out.strip() == "sub"
    assert shell("export", subnetwork["key"], "--format", "merged", "--out", "merged").code == 0
    assert load_subnetwork("sub").config.num_labels == 2
    assert (shell.folder / "merged" / "model.safetensors").is_file()
    scored = shell("evaluate", "sub", "--task", shell.task, "--json")
    assert scored.json["scores"] == subnetwork["scores"]


@pytest.mark.parametrize(
    "options",
    [
        ("--pruner", "one-shot", "--sparsity", 0.3, "--scope", "global"),
        ("--pruner", "imp", "--sparsity", 0.5, "--steps", 10),
        ("--init", "soft", "--initial-sparsity", 0.2, "--steps", 10, "--target-modules", "query,key"),
    ],
    ids=lambda options: options[1],
)
def test_prune_the_raw_backbone(options: tuple[object, ...], shell: Shell) -> None:
    outcome = shell("prune", "--task", shell.task, "--backbone", shell.backbone, "-q", "--json", *options)
    assert outcome.code == 0, outcome.err
    wanted = options[3] if "--sparsity" in options else 0.5
    assert outcome.json["sparsity"] == pytest.approx(wanted, abs=1e-3)


def test_confreg_takes_the_key_of_a_teacher(shell: Shell) -> None:
    key = shell.key()
    assert shell.finetune("--objective", "confreg", "--teacher", key, "-q").code == 0
    assert "needs a teacher" in shell.fails("prune", key, "--objective", "confreg", "--steps", 10)


def test_bias(shell: Shell) -> None:
    outcome = shell("bias", "--task", shell.task)
    assert outcome.code == 0
    assert {"train", "dev", "challenge"} <= set(outcome.out.split())
    claims = shell.folder / "claims.yaml"
    claims.write_text("{name: verification, train_size: 100, dev_size: 50, ood_size: 50}")
    assert shell("bias", "--task", claims, "--vectors", shell.backbone, "-q").code == 0
    words = ("--task", claims, "--backbone", shell.backbone, "--objective", "poe", "--steps", 2, "-q")
    assert shell("finetune", *words).code == 0, "the backbone's own vectors serve where none are named"


def test_the_store(shell: Shell) -> None:
    key = shell.key()
    assert len(Store(shell.store).keys()) == 3
    listed = shell("store", "ls")
    assert str(shell.store) in listed.out.replace("\n", "")
    assert key[:8] in listed.out
    shown = shell("store", "show", key[:6]).json
    assert (shown["key"], shown["type"]) == (key, "FineTune")
    assert shown["expression"]["training"]["steps"] == 10
    assert "3 artifacts, all whole" in shell("store", "verify").out
    (shell.store / "work" / "0123456789abcdef").mkdir(parents=True)
    assert "removed" in shell("store", "gc").out
    assert shell("store", "gc").out == ""
    assert len(Store(shell.store).keys()) == 3


def test_pretrain(shell: Shell) -> None:
    assert shell("pretrain", "--out", "bb", "--mlm-steps", 1, "--pair-steps", 1, "--compare-steps", 1, "-q").code == 0
    assert (shell.folder / "bb" / "README.md").is_file()
    assert "bb exists already" in shell.fails("pretrain", "--out", "bb")


def test_help_and_version_are_quick() -> None:
    """They import neither torch nor transformers."""
    script = (
        "import sys; from srnet.cli import main\n"
        "try: main()\n"
        "except SystemExit as exit: assert not exit.code\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    for option, words in (("--version", srnet.__version__), ("--help", "demo")):
        done = subprocess.run(
            [sys.executable, "-c", script, option], capture_output=True, text=True, check=True, timeout=60
        )
        assert words in done.stdout


# --- the paper's figures -------------------------------------------------------------------------------------------


def taught(shell: Shell, command: str) -> str:
    """The help of a command, on one line."""
    outcome = shell(command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    return " ".join(outcome.out.split())


def test_reproduce_teaches_what_there_is(shell: Shell) -> None:
    text = taught(shell, "reproduce")
    for figure in ("fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "figA1", "figA2", "figA3", "tab5", "tab6"):
        assert figure in text
    for word in ("all", "toy", "cpu", "paper", "--dry-run", "--seeds", "--tasks", "--scale", "--backbone"):
        assert word in text
    for word in ("--as-published", "--without-vectors", "4 with the profile paper"):
        assert word in text
    assert "Start with --dry-run" in text
    assert "the same command continues" in text


def test_claims_teaches_what_it_needs(shell: Shell) -> None:
    text = taught(shell, "claims")
    assert "holds, does not hold, or not enough evidence" in text
    assert "srnet reproduce all --seeds 3" in text
    assert "--as-published" in text
    assert "4 with the profile paper" in text
    assert "Nothing is computed" in text
    for word in ("--until-answered", "--max-seeds", "--budget", "divided by the number of planned looks"):
        assert word in text


def test_reproduce_can_say_what_it_would_do(shell: Shell) -> None:
    outcome = shell.reproduce("fig2", "fig8", "--seeds", 2, "--dry-run")
    assert (outcome.code, outcome.err) == (0, "")
    *planned, first, second, last, lines, more, command = outcome.out.splitlines()
    assert command.startswith("srnet reproduce fig2 fig8 --profile toy ")
    assert "--seeds 2" in command
    assert lines.startswith("--line of fig2: 'full model (CE)', ")
    assert "'mask training (PoE)'" in lines
    assert more.startswith("--line of fig8: ")
    keys = [line.split()[0] for line in planned]
    assert len(set(keys)) == len(keys), "each step once, whichever figures need it"
    assert all("  to do   " in line for line in planned)
    # a seed: two full models and a control, six masks, two runs of IMP; then six masks at 90 %, one of which fig2 has
    # as well, and the same full model and control
    assert first == "fig2 on inference: 30 models, 22 trainings, 22 to do"
    assert second == "fig8 on inference: 16 models, 16 trainings, 16 to do"
    assert last.startswith("32 distinct trainings, 0 of them stored; ")
    assert "no stored training gives their pace: --measure times a few; nothing was done" in last
    trainings = ("fine-tune (", "mask (", "imp (poe), every level", "imp (ce), every level")
    assert sum(line.split("  ")[2].strip().startswith(trainings) for line in planned) == 32
    assert not shell.store.exists()
    assert [path.name for path in shell.folder.iterdir()] == ["task.yaml"]


def test_a_dry_run_imports_nothing_that_draws(shell: Shell) -> None:
    code = "import sys; from srnet.cli import main\ntry: main()\nfinally: print(*sorted(sys.modules))"
    words = ("reproduce", "fig2", "--tasks", str(shell.task), "--dry-run")
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    *planned, modules = done.stdout.splitlines()
    assert "nothing was done" in planned[-3]
    assert {"matplotlib", "plotly"}.isdisjoint(modules.split())


def test_a_dry_run_knows_what_is_stored(shell: Shell) -> None:
    assert (
        shell("reproduce", "fig8", "--tasks", shell.task, "--backbone", shell.backbone, "--scale", 0.01, "-q").code == 0
    )
    outcome = shell.reproduce("fig8", "--scale", 0.01, "--seeds", 2, "--dry-run")
    stored = [line for line in outcome.out.splitlines() if "  stored  " in line]
    assert sum("seed 1" in line for line in stored) == 0
    assert "16 distinct trainings, 8 of them stored; " in outcome.out
    assert "by the pace of " in outcome.out


def test_claims_on_an_empty_store(shell: Shell) -> None:
    outcome = shell("claims", "--tasks", shell.task, "--backbone", shell.backbone)
    assert (outcome.code, outcome.err) == (0, "")
    text = " ".join(outcome.out.split())
    for claim in CLAIMS:
        assert claim.name in text
    assert "does not hold" not in text
    assert not shell.store.exists()


def test_claims_as_json(shell: Shell) -> None:
    outcome = shell("claims", "--tasks", shell.task, "--backbone", shell.backbone, "--json")
    assert [(each["claim"], each["statement"]) for each in outcome.json] == [(c.name, c.statement) for c in CLAIMS]
    for each in outcome.json:
        assert (each["task"], each["answer"], each["figures"]) == ("inference", "not enough evidence", [])
        assert "has not been computed" in each["note"]


def test_an_unknown_figure_is_answered_with_the_known_ones(shell: Shell) -> None:
    line = shell.fails("reproduce", "fig9")
    assert "unknown recipe 'fig9'; choose one of: all, fig2, fig3" in line
    assert all(name in line for name in FIGURES)


# --- what does not -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("finetune", "--task", "gossip"), "unknown task 'gossip'; choose one of: cola, fever, inference"),
        (("finetune", "--task", "gone.yaml"), "gone.yaml cannot be read: No such file"),
        (("finetune", "--task", "task.yaml", "--objective", "mse"), "unknown objective 'mse'"),
        (("finetune", "--task", "task.yaml", "--objective", "confreg"), "needs a teacher"),
        (("finetune", "--task", "task.yaml", "--distil", 0.5), "distillation needs a teacher; give the key"),
        (("finetune", "--task", "task.yaml", "--teacher", "0123"), "'ce' takes no teacher; leave out --teacher"),
        (("finetune", "--task", "task.yaml", "--steps", 0), "steps 0 is out of range"),
        (("finetune", "--task", "task.yaml", "--learning-rate", -1), "learning_rate -1 is out of range"),
        (("finetune", "--task", "task.yaml", "--backbone", "gone"), "backbone 'gone' cannot be loaded"),
        (("prune", "--sparsity", "1.0"), "sparsity 1 is out of range"),
        (("prune", "--sparsity", "-0.1"), "sparsity -0.1 is out of range"),
        (("prune", "--pruner", "lasso"), "unknown pruner 'lasso'"),
        (("prune", "--pruner", "imp", "--sparsity", 0.55), "cannot stop at sparsity 0.55"),
        (("prune", "--pruner", "imp", "--init", "soft"), "pruner 'imp' has no option --init; give --pruner mask"),
        (
            ("finetune", "--objective", "poe:strength=0.5"),
            "on the command line, options of poe are options of their own; give --objective poe --strength VALUE",
        ),
        (("prune", "--init", "warm"), "--init: unknown value 'warm'; choose one of: hard, soft"),
        (("prune", "--cut", "top"), "--cut: unknown value 'top'; choose one of: kth, middle"),
        (("prune", "--penalty-until", "end"), "no option --penalty-until; give --pruner smp-l or smp-s"),
        (("prune", "--pruner", "smp-l", "--penalty-until", "x"), "--penalty-until: unknown value 'x'"),
        (("prune", "--pruner", "soft-movement", "--floor", 2), "floor 2 is out of range"),
        (
            ("finetune", "--task", "task.yaml", "--max-length", 1),
            "--max-length: 1 is too small; give at least 8",
        ),
        (("prune", "--initial-sparsity", 0.9), "initial sparsity 0.9 exceeds the final 0.5"),
        (("prune", "0123"), "no artifact in"),
        (("evaluate", "0123"), "no artifact in"),
        (("evaluate", "gone/folder", "--task", "task.yaml"), "with a key that begins with 'gone/folder'"),
        (("evaluate", "."), "say which task to score it on: --task TASK"),
        (("evaluate", ".", "--task", "task.yaml"), "holds no subnetwork.json"),
        (("bias", "--task", "task.yaml", "--shortcut", "length"), "--shortcut: unknown value 'length'"),
        (("bias", "--task", "task.yaml", "--folds", 1), "1 folds do not fit"),
        (("demo", "--sparsities", "half"), "--sparsities: 'half' is not a number"),
        (("demo", "--sparsities", "0.5,1.0"), "sparsity 1 is out of range"),
        (("demo", "--noise", 2), "noise 2 is out of range"),
        (("demo", "--out", "task.yaml"), "task.yaml is a file"),
        (("reproduce", "fig2", "--profile", "cpu"), "profile 'cpu' needs a backbone and data; give --backbone"),
        (
            ("reproduce", "fig2", "--profile", "cpu", "--backbone", "b"),
            "profile 'cpu' needs a backbone and data; give --backbone",
        ),
        (
            ("reproduce", "fig2", "--profile", "paper"),
            "set SRNET_DOWNLOAD=1 to allow a download, or give files with --data",
        ),
        (("reproduce", "fig2", "--profile", "paper", "--tasks", "task.yaml"), "unknown task of the paper 'inference'"),
        (("reproduce", "fig2", "--vectors", "v.vec", "--without-vectors"), "exclude each other; keep one of them"),
        (("reproduce", "fig2", "--tasks", "gossip"), "unknown task 'gossip'"),
        (("reproduce", "fig2", "--scale", 0), "scale 0 is out of range"),
        (("reproduce", "fig2", "--tasks", "task.yaml", "--sparsities", "some"), "'some' is not a number"),
        (("reproduce", "fig2", "--tasks", "task.yaml", "--out", "task.yaml"), "task.yaml is a file"),
        (
            ("reproduce", "fig2", "--engine", "cloud"),
            "--engine: unknown value 'cloud'; choose one of: local, pool, ray",
        ),
        (("claims", "--profile", "cpu"), "profile 'cpu' needs a backbone"),
        (("claims", "--max-seeds", 5), "--max-seeds is for --until-answered; without it nothing is computed"),
        (("claims", "--budget", "5m"), "--budget is for --until-answered"),
        (("claims", "--engine", "pool"), "--engine is for --until-answered"),
        (("claims", "--until-answered", "--budget", "soon"), "'soon' is not a duration; write 90s, 60m or 2h"),
        (
            ("claims", "--until-answered", "--tasks", "task.yaml", "--max-seeds", 2),
            "at most 2 seeds, but 3 to start with; give a larger --max-seeds",
        ),
        (("run", "gone.yaml"), "gone.yaml cannot be read"),
        (("run", "task.yaml"), "task.yaml: unknown key 'train_size'"),
        (("export", "0123", "--format", "merged", "--out", "x"), "no artifact in"),
        (("export", "0123", "--format", "merged"), "Missing option '--out'"),
        (("export", "0123", "--int8", "--out", "x"), "format 'merged' has no option --int8; give --format onnx"),
        (("speed",), "Missing argument"),
        (
            ("speed", "nowhere"),
            "backbone 'nowhere' cannot be loaded (no such folder, not in the cache, and downloads are off)",
        ),
        (("prune", "--backbone", "./nowhere", "--task", "inference"), "'./nowhere' cannot be loaded (no such folder)"),
        (("find", "mine.csv"), "'mine.csv' is not the YAML file of a task; describe your files first"),
        (("speed", "nowhere", "--rounds", "1"), "1 is too small; give at least 2"),
        (
            ("export", "0123", "--format", "pickle", "--out", "x"),
            "unknown format 'pickle'; choose one of: merged, onnx, shrunk, smp, subnetwork",
        ),
        (("import", "smp", "task.yaml", "--backbone", "b", "--out", "x"), "the labels of the model are unclear"),
        (
            ("import", "smp", "task.yaml", "--backbone", "b", "--out", "x", "--labels", "a,a"),
            "['a', 'a'] are not labels of a model",
        ),
        (("import", "smp", "task.yaml", "--backbone", "b", "--out", "task.yaml", "--labels", "a,b"), "exists already"),
        (("store", "show", "0123"), "there is no store at"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_mistakes(words: tuple[object, ...], said: str, shell: Shell) -> None:
    assert said in shell.fails(*words)
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
    assert "sub knows the labels not_entailment, entailment, the task has" in told
    assert told.endswith("; give the task that it was trained on")


def test_a_model_and_its_folder_are_scored_alike(shell: Shell) -> None:
    key = str(shell("prune", shell.key(), "--pruner", "one-shot", "--json", "--quiet").json["key"])
    shell("export", key, "--format", "subnetwork", "--out", "sub")
    stored, exported = shell("evaluate", key).out, shell("evaluate", "sub", "--task", shell.task).out
    assert stored.replace(f"key {key}", "folder sub") == exported
    assert "sparsity 0.500000, counted on the mask" in exported
    assert exported.index(" dev ") < exported.index(" challenge "), "ID comes first"


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


def refusing(code: int) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise OSError(code, os.strerror(code), "somewhere")

    return refuse


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("srnet.files.os.fsync", errno.ENOSPC, "no space left; free some space"),
        ("srnet.files.os.fsync", errno.EDQUOT, "disk quota exceeded; free some space"),
        ("srnet.files.tempfile.mkdtemp", errno.EROFS, "read-only file system; choose a folder"),
        ("srnet.files.tempfile.mkstemp", errno.EACCES, "permission denied; choose a folder"),
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
