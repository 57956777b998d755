"""Audits of tasks that have no second text, no named shortcut, or no classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from audited import Scripted
from refusals import refused

import srnet
from srnet.audit.report import CONFIDENCE, OVERLAP, SUPPORT
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasSpec
from srnet.tasks.files import FilesTask

BY_LENGTH = Scripted(lambda a, b: (1.0, float(len(a) % 3)), name="by length")


def files_task(folder: Path, **options: object) -> FilesTask:
    for name, rows in (("train", 40), ("dev", 20), ("hard", 20)):
        lines = [f"{name} text {row},second {row % 7},{('no', 'yes')[row % 2]}" for row in range(rows)]
        (folder / f"{name}.csv").write_text("\n".join(["text_a,text_b,label", *lines]) + "\n")
    files = {name: str(folder / f"{name}.csv") for name in ("train", "dev")}
    ood = (("hard", str(folder / "hard.csv")),)
    return FilesTask("mine", **{"labels": ("no", "yes"), "ood": ood, **files, **options})  # type: ignore[arg-type]


def test_single_texts_have_no_overlap_and_their_words_as_the_shortcut(tmp_path: Path, engine: Engine) -> None:
    options = srnet.AuditOptions(contrast=True)
    task = files_task(tmp_path, text_b=None)
    audit = srnet.audit_models(BY_LENGTH, task=task, options=options, out=tmp_path / "out", engine=engine)
    assert {each.over for each in audit.dependence} == {SUPPORT, CONFIDENCE}
    assert any(note.startswith("shortcut: ") and "words" in note for note in audit.notes)
    page = (tmp_path / "out" / "audit.html").read_text()
    assert '"pairs":false' in page
    assert "Words of the second text" not in page
    assert [each.rule for each in audit.contrast if each.invariance_rows] == ["case-and-punctuation"]


def test_scores_may_lack_an_ood_set(tmp_path: Path, engine: Engine) -> None:
    task = files_task(tmp_path)
    np.savez(tmp_path / "s.npz", train=np.full(40, 0.5), dev=np.linspace(0, 1, 20))
    bias = BiasSpec(f"scores:{tmp_path / 's.npz'}")
    audit = srnet.audit_models(BY_LENGTH, task=task, bias=bias, out=tmp_path / "out", engine=engine)
    assert [each.split for each in audit.dependence if each.over == "bias confidence"] == ["dev"]
    assert [each.split for each in audit.sides] == ["dev"]


def test_a_shortcut_without_a_name_is_noted_and_can_be_named(tmp_path: Path, engine: Engine) -> None:
    task = files_task(tmp_path, shortcut="unknown")
    plain = srnet.audit_models(BY_LENGTH, task=task, engine=engine)
    assert {each.over for each in plain.dependence} == {OVERLAP}
    named = srnet.audit_models(BY_LENGTH, task=task, bias=BiasSpec("claim"), engine=engine)
    assert {each.over for each in named.dependence} == {OVERLAP, SUPPORT, CONFIDENCE}
    with refused("--weak-backbone"):
        srnet.audit_models(BY_LENGTH, task=task, bias=BiasSpec("unknown"), engine=engine)


def test_a_bias_model_that_cannot_be_fitted_is_a_note_unless_it_was_requested(tmp_path: Path, engine: Engine) -> None:
    task = files_task(tmp_path, rows=(("train", 4),))
    audit = srnet.audit_models(BY_LENGTH, task=task, engine=engine)
    assert any("no bias model: 5 folds" in note for note in audit.notes)
    with refused("5 folds"):
        srnet.audit_models(BY_LENGTH, task=task, bias=BiasSpec("overlap"), engine=engine)


def test_numbers_are_no_classes(tmp_path: Path, engine: Engine) -> None:
    files = [str(tmp_path / f"{name}.csv") for name in ("train", "dev")]
    for file in files:
        Path(file).write_text("text_a,text_b,label\n" + "".join(f"{file} {n},b,{n}.5\n" for n in range(9)))
    with refused("an audit", "classes"):
        srnet.audit_models(BY_LENGTH, task=FilesTask("x", (), *files, answer="score", metric="pearson"), engine=engine)


@pytest.mark.parametrize("labels", [("-1", "1"), ("-1", "0", "1"), ("Yes", "yes")])
def test_labels_that_differ_in_hyphens_or_case_only(
    labels: tuple[str, ...], tmp_path: Path, tiny_backbone: str, engine: Engine
) -> None:
    """From training to the audit of the stored model and of its export."""
    task = files_task(tmp_path, labels=labels)
    for name in ("train", "dev", "hard"):
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        rows = [f"{line.rpartition(',')[0]},{labels[row % len(labels)]}" for row, line in enumerate(lines[1:])]
        (tmp_path / f"{name}.csv").write_text("\n".join([lines[0], *rows]))
    trained = srnet.finetune(task, backbone=tiny_backbone, training={"steps": 1, "eval_every": 1}, engine=engine)
    srnet.export_model(trained.key, tmp_path / "merged", engine=engine)
    audit = srnet.audit_models(trained.key, tmp_path / "merged", task=task, out=tmp_path / "out", engine=engine)
    assert set(audit.disagreements.values()) == {0}
    assert not any("name its outputs" in note for note in audit.notes)
