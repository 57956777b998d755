"""`examples/beside_peft.py`: a tiny run of all methods, its rules for what trains and what is chosen, its report."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import srnet
from srnet.models.backbones import load_backbone

EXAMPLES = Path(__file__).parent.parent / "examples"
METHODS = ("full", "lora-2", "mask")
ROWS, SEEDS = 60, 2


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("beside_peft")


@pytest.fixture
def run(module: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def start(*options: str) -> None:
        monkeypatch.setattr("sys.argv", ["beside_peft.py", *options])
        module.main()

    return start


def test_all_methods_end_to_end_and_nothing_twice(
    module: Any, run: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft", reason="the example needs peft, which the package does not")
    for method in METHODS:
        monkeypatch.setattr(module.METHODS[method], "rates", (1e-3,))
    measure = module.medians
    monkeypatch.setattr(module, "medians", lambda calls, rounds: measure(calls, 2))
    options = ("--methods", ",".join(METHODS), "--rows", str(ROWS), "--seeds", str(SEEDS), "--steps", "3")
    run(*options, "--batch", "4", "--out", str(tmp_path))

    results = json.loads((tmp_path / "results.json").read_text())
    assert [(each["method"], each["loss"]) for each in results["systems"]] == [
        (method, loss) for method in METHODS for loss in ("ce", "poe")
    ]
    assert {each["method"]: each["sparsity"] for each in results["systems"]} == {"full": 0, "lora-2": 0, "mask": 0.5}
    sizes = {each["method"]: each["bytes"] for each in results["systems"]}
    assert sizes["mask"] < sizes["lora-2"] < sizes["full"]
    memory = {method: cost["memory"] for method, cost in results["costs"].items()}
    assert memory["lora-2"] < memory["full"] < memory["mask"]

    with (tmp_path / "predictions.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(METHODS) * 2 * SEEDS * 2 * ROWS
    assert {row["prediction"] for row in rows} <= {row["label"] for row in rows}
    scores = results["systems"][0]["scores"]["dev"]
    first = [r for r in rows if r["system"] == "full fine-tuning (CE)" and r["split"] == "dev" and r["seed"] == "0"]
    assert 100 * sum(row["label"] == row["prediction"] for row in first) / ROWS == pytest.approx(scores[0])
    assert (tmp_path / "beside-peft.png").stat().st_size > 10_000

    monkeypatch.setattr(module, "train", lambda *args: pytest.fail("a finished run was trained again"))
    run(*options, "--batch", "4", "--out", str(tmp_path))
    with pytest.raises(srnet.UserError, match="other settings"):
        run(*options, "--batch", "5", "--out", str(tmp_path))


def test_what_trains(module: Any) -> None:
    pytest.importorskip("peft", reason="the example needs peft, which the package does not")
    trained = {}
    for name, method in module.METHODS.items():
        loaded = load_backbone("srnet-tiny", ("no", "yes"), seed=0).model
        trained[name] = sum(each.numel() for each in method(loaded, ["classifier"], 10).trained())
    # BERT of 3 layers, width 128, 4 heads and 512 neurons in each, and a classifier of 2 x 128 + 2 parameters
    stack, classifier = 3 * (4 * 128 * 128 + 2 * 128 * 512), 258
    of_rank_1 = 3 * (4 * (128 + 128) + 2 * (128 + 512))
    assert trained.pop("full") > stack + classifier
    assert trained == {
        "head": classifier,
        "lora-8": classifier + 8 * of_rank_1,
        "lora-2": classifier + 2 * of_rank_1,
        "mask": classifier + stack,
        "units": classifier + 3 * (4 + 512),
    }


def test_the_dry_run_counts_trainings(
    run: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--dry-run", "--methods", "full,head", "--seeds", "5", "--out", str(tmp_path / "new"))
    assert capsys.readouterr().out.startswith("36 trainings of 700 steps (16 to choose learning rates); 0 finished")
    assert not (tmp_path / "new").exists()


def test_mistakes_are_one_line(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(srnet.UserError, match="methods: full, head"):
        run("--methods", "full,lora")
    with pytest.raises(srnet.UserError, match="add full"):
        run("--methods", "head")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(srnet.UserError, match="pip install peft"):
        run("--dry-run")


def test_the_rate_is_that_of_the_best_held_out_score(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {5e-5: 70.0, 1.5e-4: 80.0, 5e-4: 80.0, 1.5e-3: 60.0}
    seeds = []

    def finished(run: Any, data: Any, options: Any) -> dict[str, Any]:
        seeds.append(run.seed)
        return {"scores": {"held out": scores[run.rate]}}

    monkeypatch.setattr(module, "finished", finished)
    data = SimpleNamespace(held_out=SimpleNamespace(name="held out"))
    assert module.choose_rate("full", "ce", data, None) == 1.5e-4
    assert set(seeds) == {module.TUNING_SEED}


def test_held_out_rows_do_not_train(module: Any) -> None:
    task = srnet.SyntheticTask("inference", train_size=200, dev_size=20, ood_size=20).load()
    data = module.Data(task, "srnet-tiny", 64)
    assert len(data.held_out) == 20
    assert sorted((*data.held_out.ids, *data.task.train.ids)) == sorted(task.train.ids)
    assert len(data.train) == len(data.bias_of_train) == 180


def test_batches_depend_on_the_seed_alone(module: Any) -> None:
    def rows(seed: int) -> list[list[int]]:
        return [each.tolist() for each in module.batches(10, 4, 5, seed)]

    assert rows(0) == rows(0) != rows(1)
    assert [len(each) for each in rows(0)] == [4] * 5
    assert len({*rows(0)[0], *rows(0)[1]}) == 8  # one pass


def test_peak_bytes(module: Any) -> None:
    def allocate() -> None:
        first = torch.empty(1_000_000)
        torch.empty(2_000_000)
        del first
        torch.empty(1_500_000)

    assert module.peak_bytes(allocate) == pytest.approx(12_000_000, rel=0.001)


def test_differences_are_paired_by_seed(module: Any) -> None:
    report = importlib.import_module("beside_peft_report")
    task = srnet.SyntheticTask("inference", train_size=20, dev_size=10, ood_size=10).load()
    labels = {name: task.splits[name].labels for name in task.scored}

    def record(method: str, seed: int, wrong: int) -> dict[str, Any]:
        answers = {name: np.where(np.arange(10) < wrong, 1 - each, each).tolist() for name, each in labels.items()}
        scores = dict.fromkeys(task.scored, 100.0 - 10 * wrong)
        same = {"loss": "ce", "rate": 1e-3, "trained": 1, "bytes": 1, "sparsity": 0.0}
        return {"method": method, "seed": seed, "scores": scores, "predictions": answers, **same}

    # the others make one error more than the full model of the same seed, whatever the seed
    records = [record("head", 1, 4), record("full", 0, 1), record("head", 0, 2), record("full", 1, 3)]
    full, head = report.summary(records, task, {"full": "full", "head": "head"})
    assert full["scores"]["dev"] == [90.0, 70.0]
    assert "minus full CE" not in full
    difference = head["minus full CE"]["challenge"]
    assert difference["difference"] == pytest.approx(-10)
    assert difference["low"] < -10 < difference["high"] < 15  # without pairing, seeds alone would make it 127 wide
