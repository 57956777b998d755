"""Importing the masks of others: what the file does not say, and the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign import LABELS, TWO, WORDS, saved
from refusals import refused

import srnet
from srnet.cli.program import main
from srnet.models.backbones import load_backbone
from srnet.models.formats.smp import read_smp, stack_shapes
from srnet.models.heads import Head
from srnet.models.published import _read_reference, outputs_of
from srnet.models.subnetwork import Subnetwork
from srnet.tasks.published import published_task


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(tmp_path / "store"))

    def srnet(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["srnet", *map(str, words)])
        with pytest.raises(SystemExit) as exit:
            main()
        said = capsys.readouterr()
        assert not exit.value.code, said.err
        return said.out

    return srnet


def test_a_missing_file(deep: str, tmp_path: Path) -> None:
    """The command says so before labels are required."""
    with refused("m.npy"):
        read_smp(tmp_path / "m.npy", TWO)
    with refused("mask.pt"):
        _read_reference(tmp_path / "mask.pt", TWO)
    with refused("nothing.npy"):
        srnet.import_mask(tmp_path / "nothing.npy", tmp_path / "sub", format="smp", backbone=deep)


# --- labels and words ----------------------------------------------------------------------------------------------


def test_a_published_task_brings_labels_and_words_without_its_data() -> None:
    labels, head = outputs_of("smp", "srnet-tiny", (), (), published_task("mnli"))
    assert (labels, head.words) == (("entailment", "neutral", "contradiction"), ("Yes", "Maybe", "No"))
    assert outputs_of("srnet-reference", "srnet-tiny", (), (), published_task("mnli")) == (labels, Head())
    assert outputs_of("smp", "srnet-tiny", (), ("a", "b", "c"), published_task("mnli"))[1] == Head(("a", "b", "c"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "labels or a task"),
        ({"labels": LABELS, "task": published_task("mnli")}, "labels or a task"),
        ({"labels": ("one",)}, "one"),
        ({"labels": LABELS, "label_words": ("lawyer",)}, "1 label words for 2 labels"),
        ({"labels": LABELS, "format": "srnet-reference", "label_words": WORDS}, "srnet-reference"),
        ({"labels": LABELS, "format": "onnx"}, "onnx"),
    ],
)
def test_what_the_file_does_not_have_must_be_given(
    options: dict[str, Any], named: str, deep: str, released: Path, tmp_path: Path
) -> None:
    with refused(named):
        srnet.import_mask(released, tmp_path / "sub", backbone=deep, **{"format": "smp", **options})


# --- the command line ----------------------------------------------------------------------------------------------


def test_import_evaluate_export(run: Callable[..., str], deep: str, released: Path, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("{name: inference, train_size: 20, dev_size: 20, ood_size: 20}")
    said = run(
        *("import", "smp", released, "--backbone", deep, "--out", "sub"),
        *("--task", "task.yaml", "--label-words", "lawyer, doctor"),
    )
    folder, sparsity = said.splitlines()
    kept = int(np.unpackbits(np.load(released)).sum())
    assert folder == "sub"
    assert sparsity == (
        f"sparsity {1 - kept / 9216:.6f}, counted on the mask: {kept:,} of 9,216 weights kept in 72 matrices"
    )
    scored = json.loads(run("evaluate", "sub", "--task", "task.yaml", "-q", "--json"))
    assert set(scored["scores"]) == {"dev", "challenge"}
    assert scored["sparsity"] == pytest.approx(1 - kept / 9216)
    assert run("export", "sub", "--format", "smp", "--out", "again.npy").strip() == "again.npy"
    assert (tmp_path / "again.npy").read_bytes() == released.read_bytes()


def test_import_a_reference_mask(run: Callable[..., str], deep: str, tmp_path: Path) -> None:
    shapes = stack_shapes(load_backbone(deep, LABELS, 0).model)
    saved({name: torch.ones(shape) for name, shape in shapes.items()}, tmp_path)
    said = run("import", "srnet-reference", "mask.pt", "--backbone", deep, "--out", "sub", "--labels", "yes, no")
    assert "sparsity 0.000000" in said
    assert "randomly initialised" in said
    assert Subnetwork.load(tmp_path / "sub").labels == ("yes", "no")


def test_the_help_names_every_format_and_option(run: Callable[..., str]) -> None:
    names = {
        ("import",): ("smp", "srnet-reference"),
        ("import", "smp"): ("--backbone", "--labels", "--task", "--label-words", "[CLS]"),
        ("export",): ("merged", "subnetwork", "smp", "--format", "--out"),
    }
    for words, expected in names.items():
        said = run(*words, "--help")
        assert all(name in said for name in expected), words
