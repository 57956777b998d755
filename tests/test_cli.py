"""The command line: happy paths print what one needs next."""

from __future__ import annotations

import re

import pytest
import typer
from commands import Shell
from made_up import remember_trainings

from srnet.cli.program import COMMANDS, app
from srnet.experiment.store import Store
from srnet.models.open import load_subnetwork
from srnet.recipes.figures import FIGURES
from srnet.recipes.order import Order
from srnet.report.claims import CLAIMS

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


def test_a_model_and_its_folder_are_scored_alike(shell: Shell) -> None:
    key = str(shell("prune", shell.key(), "--pruner", "one-shot", "--json", "--quiet").json["key"])
    shell("export", key, "--format", "subnetwork", "--out", "sub")
    stored, exported = shell("evaluate", key).out, shell("evaluate", "sub", "--task", shell.task).out
    assert stored.replace(f"key {key}", "folder sub") == exported
    assert "sparsity 0.500000, counted on the mask" in exported
    assert exported.index(" dev ") < exported.index(" challenge "), "ID comes first"


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


# --- the paper's figures -------------------------------------------------------------------------------------------


OPTIONS = {
    "reproduce": "--dry-run --profile --seeds --tasks --scale --backbone --as-published --without-vectors",
    "claims": "--as-published --until-answered --max-seeds --budget",
}


@pytest.mark.parametrize("command", OPTIONS)
def test_help_names_figures_profiles_and_options(command: str, shell: Shell) -> None:
    outcome = shell(command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    words = OPTIONS[command].split() + (["all", "toy", "cpu", "paper", *FIGURES] if command == "reproduce" else [])
    assert [word for word in words if word not in outcome.out] == []


def test_reproduce_can_say_what_it_would_do(shell: Shell) -> None:
    outcome = shell.reproduce("fig2", "fig8", "--seeds", 2, "--dry-run")
    assert (outcome.code, outcome.err) == (0, "")
    *planned, first, second, shared, written, last, lines, more, command = outcome.out.splitlines()
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
    assert shared.startswith("trainings are shared: figure by figure they would be 38 trainings, ")
    assert written.startswith("written: results ")
    assert last.startswith("32 distinct trainings, 0 of them stored; ")
    assert "no stored training gives their pace: --measure times a few; nothing was done" in last
    trainings = ("fine-tune (", "mask (", "imp (poe), every level", "imp (ce), every level")
    assert sum(line.split("  ")[2].strip().startswith(trainings) for line in planned) == 32
    assert not shell.store.exists()
    assert [path.name for path in shell.folder.iterdir()] == ["task.yaml"]


def test_a_dry_run_knows_what_is_stored(shell: Shell) -> None:
    order = Order(("fig8",), tasks=(str(shell.task),), backbone=shell.backbone, scale=0.01)
    remember_trainings(Store(shell.store), order.recipes()[0])
    outcome = shell.reproduce("fig8", "--scale", 0.01, "--seeds", 2, "--dry-run")
    stored = [line for line in outcome.out.splitlines() if "  stored  " in line]
    assert sum("seed 1" in line for line in stored) == 0
    assert "16 distinct trainings, 8 of them stored; " in outcome.out
    assert "by the pace of " in outcome.out


def test_claims_on_an_empty_store(shell: Shell) -> None:
    words = ("claims", "--tasks", shell.task, "--backbone", shell.backbone)
    outcome = shell(*words)
    assert (outcome.code, outcome.err) == (0, "")
    text = " ".join(outcome.out.split())
    assert [claim.name for claim in CLAIMS if claim.name not in text] == []
    assert "does not hold" not in text
    found = shell(*words, "--json").json
    assert [(each["claim"], each["statement"]) for each in found] == [(c.name, c.statement) for c in CLAIMS]
    assert {(each["task"], each["answer"], *each["figures"]) for each in found} == {
        ("inference", "not enough evidence")
    }
    assert not shell.store.exists()


def test_an_unknown_figure_is_answered_with_the_known_ones(shell: Shell) -> None:
    line = shell.fails("reproduce", "fig9")
    assert [name for name in ("'fig9'", "all", *FIGURES) if name not in line] == []


def test_help_lists_every_command_under_a_heading(shell: Shell) -> None:
    listed = shell("--help").out
    assert sorted(sum(COMMANDS.values(), ())) == sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert [heading for heading in COMMANDS if f"\n{heading}:\n" in listed] == ["Start", "Build", "Deploy", "Paper"]
    assert "..." not in listed.replace("[ARGS]...", ""), "no text is cut"


def test_options_for_experts_are_in_the_whole_help_alone(shell: Shell) -> None:
    usual, whole = (shell("prune", word).out for word in ("--help", "--help-all"))
    assert "--sparsity" in usual
    assert "--phi" not in usual
    assert {"--sparsity", "--phi", "--warmup", "--folds"} <= set(whole.split())
