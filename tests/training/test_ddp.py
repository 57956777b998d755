"""Two processes that share a training come to what one process comes to with the same batch.

This file is also what the two processes run: every scenario in one launch, since starting takes longer than training.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from driven import Interrupted, mask_in, same
from filelock import FileLock
from methods import STEERED, TRAINING
from safetensors.torch import load_file, save_file

from srnet.core.errors import UserError
from srnet.masks.mask import Mask
from srnet.models.backbones import load_backbone
from srnet.objectives.base import StatefulLoss, parse_objective
from srnet.pruners.imp import IMP, RewoundIMP
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.static import StaticShared
from srnet.tasks.synthetic import SyntheticTask
from srnet.training.data import encode, training_order
from srnet.training.hardware import ALONE, Ranks, connect
from srnet.training.method import Method, Snapshot, split_snapshot
from srnet.training.predict import predict
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Run, train

FAST = TrainingSettings(learning_rate=1e-2, steps=20, eval_every=5, batch_size=8)
"""Fast enough for masks to move."""


def hard() -> Method:
    return MaskTraining(0.5, refresh_every=3).method(fine_tuned=True, eval_every=5)


def gradual() -> Method:
    return MaskTraining(0.8, init="soft", initial_sparsity=0.2).method(fine_tuned=False, eval_every=5)


def imp() -> Method:
    return IMP(0.5).shared_run().method(fine_tuned=True, eval_every=5)


def static() -> Method:
    """With a penalty that two ranks must not count twice."""
    return StaticShared(0.5, ramp=0.5, penalty=20.0).method(fine_tuned=False, eval_every=5)


COMPARED: dict[str, tuple[Callable[[], Method], str]] = {
    "fine-tuning": (Method, "ce"),
    "hard mask": (hard, "poe"),
    "gradual mask": (gradual, "reweight"),
    "imp": (imp, "confreg"),
    "static": (static, "ce"),
    "groups": (Method, "group-dro:eta=1"),
}
"""Trained without dropout by one process and by two."""
IN_PARTS = {"static, in parts": "static", "groups, in parts": "groups"}
"""Each process computes its share in two parts, with checkpoints: the name of the same training in one piece."""


def stopping(method: Method, stop: int) -> Method:
    """The method, until a step at which the whole run ends."""
    act = method.after_step

    def after_step(step: int) -> dict[str, float]:
        if step == stop:
            raise Interrupted
        return act(step)

    method.after_step = after_step  # type: ignore[method-assign]
    return method


class Laboratory:
    """Trainings on a tiny model, made again and again from the same start, and what this rank saw of them."""

    def __init__(self, backbone: Path, folder: Path) -> None:
        self.ranks, self.backbone, self.work = connect(), str(backbone), folder / "work"
        self.notes = folder / f"rank{self.ranks.rank}"
        self.notes.mkdir(parents=True)
        self.task = SyntheticTask("inference", train_size=200, dev_size=60, ood_size=60).load()

    def run(self, method: Method, objective: str, folder: str, dropout: float = 0.0, **changes: Any) -> Run:
        base, task = load_backbone(self.backbone, self.task.labels, seed=0), self.task
        for module in base.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
        base.model.unused = torch.nn.Parameter(torch.ones(3))  # no output depends on it, as on a pooler nobody asks
        rng = np.random.default_rng(0)
        extras = {name: np.log(rng.dirichlet([1.0, 1.0], len(task.train.labels))) for name in ("bias", "teacher")}
        extras["group"] = np.arange(len(task.train.labels)) % 3
        registered, options = parse_objective(objective)
        loss = registered.make(options)
        dev = encode(task.dev, base.tokenizer, 64)

        def likelihood(logits: np.ndarray) -> float:
            """A score without steps: two that differ by a rounding error choose the same moment."""
            logs = torch.log_softmax(torch.from_numpy(logits), dim=-1).numpy()
            return float(logs[np.arange(len(logs)), task.dev.labels].mean())

        defaults: dict[str, Any] = {
            "loss": loss,
            "needs": registered.needs,
            "loss_state": loss if isinstance(loss, StatefulLoss) else None,
            "settings": FAST,
            "train": encode(task.train, base.tokenizer, 64, {need: extras[need] for need in registered.needs}),
            "dev": dev,
            "score": likelihood,
            "trace": {"again": (dev, likelihood)},
        }
        return Run(model=base.model, method=method, folder=self.work / folder, **{**defaults, **changes})

    def train(self, name: str, run: Run) -> None:
        watched: list[int] = []
        emitted: dict[float, Snapshot] = {}
        run.method.emit = emitted.__setitem__
        result = train(replace(run, watch=lambda step, total, figures: watched.append(step)))
        save_file(result.snapshot, self.notes / f"{name}.safetensors")
        seen = {"watched": watched, "emitted": sorted(emitted), "seed": torch.initial_seed()}
        self.note(name, {**asdict(replace(result, snapshot={})), **seen})

    def note(self, name: str, value: Any) -> None:
        (self.notes / f"{name}.json").write_text(json.dumps(value))

    def note_error(self, name: str, run: Run) -> None:
        try:
            train(run)
        except UserError as error:
            self.note(name, str(error))

    # --- what is tried ---------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """What one process and two are to agree on."""
        for name, (method, objective) in COMPARED.items():
            trackers = {"report_to": ("tensorboard",), "tracker_folder": self.work / "tracker"} if name == "imp" else {}
            self.train(name, self.run(method(), objective, name, **trackers))
        in_parts = replace(FAST, accumulate=2, checkpointing=True)
        for name, whole in IN_PARTS.items():
            method, objective = COMPARED[whole]
            self.train(name, self.run(method(), objective, name, settings=in_parts))

    def half(self) -> None:
        """What a rank would come to that did not share its gradients: it would train on its part of every batch."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("srnet.training.trainer.training_order", lambda *args: training_order(*args)[:, ::2])
            self.train("half", self.run(hard(), "poe", "half"))

    def interrupt(self) -> None:
        """Dropout is on: the random numbers of every rank must be found again."""
        self.train("whole", self.run(hard(), "poe", "whole", dropout=0.1))
        try:
            train(self.run(stopping(hard(), 13), "poe", "broken", dropout=0.1))
        except Interrupted:
            self.train("resumed", self.run(hard(), "poe", "broken", dropout=0.1))
        self.train("whole again", self.run(hard(), "poe", "whole", dropout=0.1))

    def agree(self) -> None:
        """This rank's masks after 50 steps of every pruner, before an evaluation gives all ranks those of the main."""
        for name, pruner in TRAINING.items():
            # a penalty moves the scores of some of them a long way before they prune anything
            settings = replace(FAST, steps=50, eval_every=50, score_rate=1.0 if name in STEERED else 0.1)
            method, found = pruner.method(fine_tuned=True, eval_every=50), dict[int, Mask]()
            act = method.after_step

            def after_step(step: int, method: Method = method, act: Any = act, found: Any = found) -> dict[str, float]:
                figures: dict[str, float] = act(step)
                found[step] = method.current_mask()
                return figures

            method.after_step = after_step  # type: ignore[method-assign]
            train(self.run(method, "ce", f"agree {name}", settings=settings))
            last = found[max(found)]
            digest = hashlib.sha256(last.to_bytes()).hexdigest()
            self.note(f"agree {name}", {"digest": digest, "steps": max(found), "sparsity": last.sparsity})

    def fail(self) -> None:
        self.note_error("uneven", self.run(hard(), "poe", "uneven", settings=replace(FAST, batch_size=7)))
        run = self.run(RewoundIMP(0.5).shared_run().method(fine_tuned=True, eval_every=5), "ce", "full")

        def full(level: float, snapshot: Snapshot) -> None:
            assert self.ranks.is_main
            raise UserError("no space left", "free some")

        run.method.emit = full
        self.note_error("disk", run)

    def evaluate(self) -> None:
        run = self.run(Method(), "ce", "nowhere")
        pair = replace(run.dev, labels=run.dev.labels[:2], lengths=run.dev.lengths[:2])  # fits into one batch
        same = [np.array_equal(predict(run.model, d, self.ranks), predict(run.model, d)) for d in (run.dev, pair)]
        self.note("logits", same)


@contextmanager
def several_evaluation_batches() -> Iterator[None]:
    """So few tokens a batch that each rank gets some of dev."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["srnet.training.predict"], "EVAL_TOKENS", 256)
        yield


if __name__ == "__main__":
    torch.set_num_threads(1)
    with several_evaluation_batches():
        laboratory = Laboratory(Path(sys.argv[1]), Path(sys.argv[2]))
        for trial in (laboratory.compare, laboratory.agree, laboratory.interrupt, laboratory.fail, laboratory.evaluate):
            trial()


# --- the tests -----------------------------------------------------------------------------------------------------


class Seen:
    """What one rank wrote down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text())

    def snapshot(self, name: str) -> Snapshot:
        return load_file(self.folder / f"{name}.safetensors")


@pytest.fixture(scope="module")
def shared(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`one` and `two`: what one process and two came to. Made once, however many workers pytest has."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    root = tmp_path_factory.mktemp("ddp") if worker is None else tmp_path_factory.getbasetemp().parent / "ddp"
    with FileLock(f"{root}.lock"):
        if not (root / "done").exists():
            shutil.copytree(tiny_backbone, root / "backbone")
            launched = launch(root / "backbone", root / "two")
            with several_evaluation_batches():
                alone = Laboratory(root / "backbone", root / "one")
                alone.compare()
                alone.half()
            output, _ = launched.communicate(timeout=1800)
            assert launched.returncode == 0, output
            (root / "done").touch()
    return root


def launch(*arguments: Path) -> subprocess.Popen[str]:
    """Two processes under torchrun, on a free port."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
    return subprocess.Popen(
        [*command, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture
def one(shared: Path) -> Seen:
    return Seen(shared / "one" / "rank0")


@pytest.fixture
def two(shared: Path) -> tuple[Seen, Seen]:
    return Seen(shared / "two" / "rank0"), Seen(shared / "two" / "rank1")


def agreement(one: Mask, other: Mask) -> float:
    """The share of entries in which two masks are equal."""
    equal = sum(int((one[name] == other[name]).sum()) for name in one)
    return equal / sum(keep.numel() for keep in one.values())


def figures(log: list[dict[str, float]]) -> list[dict[str, float]]:
    """What was logged, but for times, and for the work done, which counts the padding."""
    left_out = ("runtime", "second", "flos", "data_percent")
    return [{k: v for k, v in entry.items() if not k.endswith(left_out)} for entry in log]


# Two processes add the same numbers up in another order, so gradients differ in the last bit, and a score that lies
# within that of the threshold may fall on the other side of it. Here 0 to 2 of 24640 entries did, with learning rates
# of 1e-3 to 1e-2 and 20 to 60 steps. No bound holds for ever: an entry that flips changes all gradients after it, and
# one process that only reads its batches backwards parts from itself just as far.
AGREEMENT = 0.999


@pytest.mark.parametrize("name", ["hard mask", "gradual mask", "imp"])
def test_two_processes_find_the_mask_of_one(name: str, one: Seen, two: tuple[Seen, Seen]) -> None:
    alone, together = mask_in(one.snapshot(name)), mask_in(two[0].snapshot(name))
    assert alone.keys() == together.keys()
    assert all(int(alone[n].sum()) == int(together[n].sum()) for n in alone), "the budget is met to the weight"
    assert agreement(alone, together) >= AGREEMENT


def test_the_bound_means_something(one: Seen) -> None:
    assert agreement(mask_in(one.snapshot("half")), mask_in(one.snapshot("hard mask"))) < 0.98


@pytest.mark.parametrize("name", [*COMPARED, *IN_PARTS])
def test_two_processes_find_the_weights_of_one(name: str, one: Seen, two: tuple[Seen, Seen]) -> None:
    # a step moves a weight by up to 1e-2; after 20 of them the largest difference was 1e-4, where Adam divides a
    # gradient that is all rounding error by its own size
    alone, together = split_snapshot(one.snapshot(name))[0], split_snapshot(two[0].snapshot(name))[0]
    assert alone.keys() == together.keys()
    for each in alone:
        torch.testing.assert_close(together[each], alone[each], rtol=0.0, atol=2e-3)
        assert (together[each] - alone[each]).abs().mean() < 1e-4, each


@pytest.mark.parametrize("name", [*COMPARED, *IN_PARTS])
def test_two_processes_log_what_one_does(name: str, one: Seen, two: tuple[Seen, Seen]) -> None:
    """Loss, the norm of the gradient (which Adam would hide), scores, sparsity, at every step that is logged."""
    alone, together = one[IN_PARTS.get(name, name)], two[0][name]
    assert [entry.keys() for entry in alone["log"]] == [entry.keys() for entry in together["log"]]
    for expected, entry in zip(figures(alone["log"]), figures(together["log"]), strict=True):
        assert entry == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert (together["step"], together["steps"]) == (alone["step"], alone["steps"])
    assert (together["dev_score"] is None) == (alone["dev_score"] is None) == (name == "imp")
    assert together["dev_score"] is None or together["dev_score"] == pytest.approx(alone["dev_score"], rel=1e-4)


@pytest.mark.parametrize("name", [*COMPARED, *IN_PARTS, "whole", "resumed", "whole again"])
def test_the_ranks_have_the_same_result(name: str, two: tuple[Seen, Seen]) -> None:
    main, other = two
    for key in ("step", "dev_score", "steps", "step_seconds", "log"):
        assert main[name][key] == other[name][key], key
    assert same(main.snapshot(name), other.snapshot(name))


@pytest.mark.parametrize("name", TRAINING)
def test_the_ranks_have_the_same_mask_before_it_is_shared(name: str, two: tuple[Seen, Seen]) -> None:
    main, other = (seen[f"agree {name}"] for seen in two)
    assert main == other
    assert main["steps"] == (50 if not name.startswith("imp") else {"imp": 25, "imp-rw": 20}[name])
    assert 0.0 < main["sparsity"] < 1.0, "a mask that never moved would be alike in any case"


def test_only_the_main_process_is_seen_from_outside(shared: Path, one: Seen, two: tuple[Seen, Seen]) -> None:
    main, other = two
    assert main["imp"]["watched"] == one["imp"]["watched"] == list(range(1, 19))
    assert main["imp"]["emitted"] == one["imp"]["emitted"] == pytest.approx(np.arange(0.1, 0.95, 0.1))
    assert (other["imp"]["watched"], other["imp"]["emitted"]) == ([], [])
    assert len(list((shared / "two" / "work" / "tracker").rglob("events.*"))) == 1


def test_a_resumed_run_ends_bit_identical_on_every_rank(two: tuple[Seen, Seen]) -> None:
    for seen in two:
        assert seen["resumed"]["steps"] == seen["whole"]["steps"] == 20
        assert seen["resumed"]["dev_score"] == seen["whole"]["dev_score"]
        assert same(seen.snapshot("resumed"), seen.snapshot("whole"))
    assert two[0]["resumed"]["watched"] == list(range(11, 21)), "it did continue"


def test_a_run_that_is_over_trains_no_more(two: tuple[Seen, Seen]) -> None:
    for seen in two:
        assert seen["whole again"]["watched"] == []
        assert seen["whole again"]["log"] == seen["whole"]["log"][: len(seen["whole again"]["log"])]
        assert same(seen.snapshot("whole again"), seen.snapshot("whole"))


def test_each_rank_has_its_own_dropout(two: tuple[Seen, Seen]) -> None:
    assert two[0]["whole"]["seed"] == FAST.seed != two[1]["whole"]["seed"]


def test_a_batch_that_cannot_be_divided(two: tuple[Seen, Seen]) -> None:
    for seen in two:
        assert seen["uneven"].startswith("a batch of 7 cannot be divided equally among 2 processes; choose a batch")


def test_an_error_of_the_main_process_reaches_all(two: tuple[Seen, Seen]) -> None:
    assert two[0]["disk"] == two[1]["disk"] == "no space left; free some"


def test_divided_evaluation_gives_the_logits_of_one_process(two: tuple[Seen, Seen]) -> None:
    assert two[0]["logits"] == two[1]["logits"] == [True, True]


def test_the_shares_are_the_batch() -> None:
    assert [Ranks(rank, 4).share(32) for rank in range(4)] == [8] * 4
    assert ALONE.share(7) == 7
    assert (Ranks(0, 2).is_main, Ranks(1, 2).is_main) == (True, False)
