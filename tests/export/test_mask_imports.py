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

from srnet import api
from srnet.cli.program import main
from srnet.core.errors import UserError
from srnet.models.backbones import load_backbone
from srnet.models.formats.imports import outputs_of, read_reference
from srnet.models.formats.smp import read_smp, stack_shapes
from srnet.models.heads import Head
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


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no file .*m\.npy"):
        read_smp(tmp_path / "m.npy", TWO)
    with pytest.raises(UserError, match=r"there is no file .*mask\.pt"):
        read_reference(tmp_path / "mask.pt", TWO)


# --- labels and words ----------------------------------------------------------------------------------------------


def test_a_missing_file_is_said_before_labels_are_asked_for(deep: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.npy does not exist"):
        api.import_mask(tmp_path / "nothing.npy", tmp_path / "sub", format="smp", backbone=deep)


def test_a_published_task_brings_labels_and_words_without_its_data() -> None:
    labels, head = outputs_of("smp", "srnet-tiny", (), (), published_task("mnli"))
    assert (labels, head.words) == (("entailment", "neutral", "contradiction"), ("Yes", "Maybe", "No"))
    assert outputs_of("srnet-reference", "srnet-tiny", (), (), published_task("mnli")) == (labels, Head())
    assert outputs_of("smp", "srnet-tiny", (), ("a", "b", "c"), published_task("mnli"))[1] == Head(("a", "b", "c"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give either labels or a task"),
        ({"labels": LABELS, "task": published_task("mnli")}, "give either labels or a task"),
        ({"labels": LABELS, "label_words": ("lawyer",)}, "1 label words for 2 labels"),
        ({"labels": LABELS, "format": "srnet-reference", "label_words": WORDS}, "go with a classifier"),
        ({"labels": LABELS, "format": "onnx"}, "unknown format 'onnx'; choose one of: smp, srnet-reference"),
    ],
)
def test_what_the_file_does_not_say_must_be_said(
    options: dict[str, Any], said: str, deep: str, released: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        api.import_mask(released, tmp_path / "sub", backbone=deep, **{"format": "smp", **options})


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
    assert "scores mean nothing until it is trained" in said
    assert Subnetwork.load(tmp_path / "sub").labels == ("yes", "no")


def test_the_help_teaches(run: Callable[..., str]) -> None:
    def taught(*words: str) -> str:
        return " ".join(run(*words, "--help").split())

    assert "Import masks that others have published" in taught()
    assert "smp" in taught("import")
    assert "srnet-reference" in taught("import")
    for word in ("--backbone", "--labels", "--task", "--label-words", "[CLS]", "srnet evaluate DIR"):
        assert word in taught("import", "smp")
    assert "nothing in it is run" in taught("import", "srnet-reference")
    for word in (
        "merged A plain checkpoint",
        "subnetwork Only what the backbone lacks",
        "smp The mask bits alone",
        "--format",
        "--out",
    ):
        assert word in taught("export")
