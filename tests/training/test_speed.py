"""Training in bf16, and compiled: faster where the hardware can do it, and the same in what must be exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from driven import Attempts, Interrupted, same
from refusals import refused

from srnet.masks.modules import ScoreMask
from srnet.models.backbones import load_backbone
from srnet.pruners.imp import IMP
from srnet.pruners.mask_training import MaskTraining
from srnet.pruners.movement import Movement
from srnet.pruners.static import StaticShared
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import hardware, trainer
from srnet.training.data import encode
from srnet.training.method import Method, Snapshot
from srnet.training.predict import predict
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import Result, Run, train

SETTINGS = TrainingSettings(learning_rate=1e-2, steps=6, eval_every=3, batch_size=8, precision="bf16")
COMPILED = replace(SETTINGS, precision="float32", compile=True)


def mask_training() -> Method:
    return MaskTraining(0.5, refresh_every=2).method(fine_tuned=False, eval_every=3)


def assert_exact(snapshot: Snapshot) -> None:
    masks = {name: keep for name, keep in snapshot.items() if name.startswith("mask:")}
    assert masks
    for name, keep in masks.items():
        assert int((~keep).sum()) == round(0.5 * keep.numel()), name


def whole_and_resumed(make_run: Any, folder: Path, **changes: Any) -> tuple[Result, Result]:
    """A run from beginning to end, and one that is interrupted between two checkpoints."""
    whole = Attempts(make_run, folder / "whole", mask_training, **changes)()
    broken = Attempts(make_run, folder / "broken", mask_training, **changes)
    with pytest.raises(Interrupted):
        broken(4)
    return whole, broken()


@pytest.mark.parametrize(
    "make_method",
    [
        mask_training,
        lambda: IMP(0.5, step_sparsity=0.5, interval=1.0).method(fine_tuned=True, eval_every=3),
        lambda: StaticShared(0.5).method(fine_tuned=False, eval_every=3),
        lambda: Movement(0.5).method(fine_tuned=False, eval_every=3),
    ],
    ids=["mask", "imp", "smp-s", "movement"],
)
def test_bf16_keeps_budgets_and_tensors_exact(make_method: Any, make_run: Any, tmp_path: Path) -> None:
    run = make_run(make_method(), tmp_path, settings=SETTINGS)
    snapshot = train(run).snapshot
    assert_exact(snapshot)
    assert {t.dtype for t in snapshot.values()} <= {torch.float32, torch.bool}
    state = run.model.state_dict().values()
    assert {t.dtype for t in state if t.is_floating_point()} == {torch.float32}  # scores and thresholds among them


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("float32", torch.float32)])
def test_training_and_its_evaluations_compute_alike(
    precision: Any, dtype: torch.dtype, make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(mask_training(), tmp_path, settings=replace(SETTINGS, precision=precision))
    seen: dict[bool, set[torch.dtype]] = {True: set(), False: set()}
    layer = run.model.bert.encoder.layer[0].output.dense
    layer.register_forward_hook(lambda module, _, out: seen[module.training].add(out.dtype))
    logits: list[np.ndarray] = []

    def spy(*args: Any) -> np.ndarray:
        logits.append(predict(*args))
        return logits[-1]

    monkeypatch.setattr(trainer, "predict", spy)
    train(run)
    assert seen == {True: {dtype}, False: {dtype}}
    assert {each.dtype for each in logits} == {np.dtype("float32")}


def test_bf16_resumes(make_run: Any, tmp_path: Path) -> None:
    whole, resumed = whole_and_resumed(make_run, tmp_path, settings=SETTINGS)
    assert same(whole.snapshot, resumed.snapshot)


needs_compiler = pytest.mark.skipif(hardware._missing_tool() is not None, reason="no C++ compiler on this machine")


@pytest.fixture
def equally_long(tiny_backbone: str, tiny_task: SyntheticTask) -> Any:
    """Training examples of one length: a second one would be compiled once more."""
    return encode(tiny_task.load().train, load_backbone(tiny_backbone, ("a", "b"), seed=0).tokenizer, 8)


@pytest.fixture
def plain_loops() -> Iterator[None]:
    """Without vector instructions, which the compiler tries out first, and without workers that wait for kernels."""
    from torch._inductor import config

    with config.patch({"cpp.vec_isa_ok": False, "compile_threads": 1}):
        yield


@needs_compiler
@pytest.mark.usefixtures("plain_loops")
def test_a_compiled_run_is_exact_and_resumes(make_run: Any, equally_long: Any, tmp_path: Path) -> None:
    made: list[Run] = []

    def make(*args: Any, **changes: Any) -> Run:
        run: Run = make_run(*args, settings=COMPILED, train=equally_long, **changes)
        run.model.bert.encoder.layer = run.model.bert.encoder.layer[:0]  # each has twenty kernels for the compiler
        made.append(run)
        return run

    names = set(make(mask_training(), tmp_path).model.state_dict())
    whole, resumed = whole_and_resumed(make, tmp_path)
    assert not any(isinstance(run.model, torch._dynamo.OptimizedModule) for run in made)
    assert {name for name in whole.snapshot if not name.startswith("mask:")} == names
    assert_exact(whole.snapshot)
    assert same(whole.snapshot, resumed.snapshot)


@needs_compiler
def test_every_layer_is_traced(
    make_run: Any, equally_long: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a compiled run, but without kernels, whose compilation takes half a minute."""
    backend = {"torch_compile_backend": "aot_eager"}
    real = hardware.hardware_arguments
    monkeypatch.setattr(trainer, "hardware_arguments", lambda each, world: real(each, world) | backend)
    whole = train(make_run(mask_training(), tmp_path / "traced", settings=COMPILED, train=equally_long))
    settings = replace(COMPILED, compile=False)
    plain = train(make_run(mask_training(), tmp_path / "plain", settings=settings, train=equally_long))
    assert same(whole.snapshot, plain.snapshot)
    assert sum(name.startswith("mask:") for name in whole.snapshot) > 1, "attention and feed-forward layers"


@needs_compiler
@pytest.mark.usefixtures("plain_loops")
def test_a_compiled_mask_follows_its_threshold() -> None:
    """A compiler that took phi for a constant would go on with the mask of the first step."""
    scores = torch.tensor([0.1, 0.2, 0.3, 0.4])
    weight = torch.tensor([1.0, -2.0, 3.0, -4.0])
    mask = ScoreMask(scores, phi=0.25)
    compiled = torch.compile(mask)
    for keep in ([False, False, True, True], [False, True, True, True], [False, False, False, True]):
        mask.set_cut(torch.tensor(keep))
        mask.scores.grad = None
        out = compiled(weight)
        (out * torch.tensor([1.0, 10.0, 100.0, 1000.0])).sum().backward()
        assert torch.equal(out, mask(weight))
        assert out.tolist() == [w if k else 0.0 for w, k in zip(weight.tolist(), keep, strict=True)]
        assert mask.scores.grad.tolist() == [1.0, -20.0, 300.0, -4000.0]  # pruned entries learn as well


def test_a_plain_run_has_the_arguments_of_its_device_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hardware.hardware_arguments(TrainingSettings()) == {"use_cpu": True}
    monkeypatch.setattr(hardware, "on_cpu", lambda: False)
    assert hardware.hardware_arguments(TrainingSettings()) == {"use_cpu": False}


def test_what_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_missing_tool", lambda: "a C++ compiler")
    with refused("compile", "a C++ compiler"):
        hardware.hardware_arguments(TrainingSettings(compile=True))
    monkeypatch.setattr(hardware, "on_cpu", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Old GPU")
    with refused("Old GPU", "bf16", "float32"):
        hardware.hardware_arguments(TrainingSettings(precision="bf16"))


def test_a_machine_without_a_compiler_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "on_cpu", lambda: True)
    from torch._inductor import config

    with config.patch({"cpp.cxx": ("no-such-compiler",)}):  # monkeypatch would remove the setting afterwards
        assert hardware._missing_tool() == "a C++ compiler"
