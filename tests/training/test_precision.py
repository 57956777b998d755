"""Precisions of training and evaluation: what a device lacks is refused, and a scaled loss trains the same masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
from driven import Attempts, Interrupted, same
from gpus import Simulated
from methods import TRAINING
from refusals import refused

import srnet
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about, read_scores
from srnet.experiment.nodes.bias import BiasModel
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import PoE
from srnet.experiment.nodes.training import FineTune
from srnet.experiment.store import read_logits
from srnet.models.formats.base import Source
from srnet.models.formats.card import write_card
from srnet.models.subnetwork import Subnetwork
from srnet.report import results
from srnet.training import hardware, trainer
from srnet.training.hardware import computing_in, hardware_arguments
from srnet.training.method import Method, Snapshot
from srnet.training.settings import TrainingSettings
from srnet.training.trainer import train

SETTINGS = TrainingSettings(learning_rate=1e-2, steps=12, eval_every=6, batch_size=8)


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> list[torch.amp.GradScaler]:
    """fp16 as on a GPU: the loss is scaled and gradients are unscaled. The layers compute in float32.

    Scales are powers of two, so that the result is that of float32. The scalers that were made.
    """
    made: list[torch.amp.GradScaler] = []
    real = accelerate.Accelerator.__init__

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        if self.state.mixed_precision == "fp16":
            self.native_amp, self.scaler = True, torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=4)
            made.append(self.scaler)

    monkeypatch.setattr(accelerate.Accelerator, "__init__", start)
    off = torch.autocast("cpu", enabled=False)
    monkeypatch.setattr(accelerate.accelerator, "get_mixed_precision_context_manager", lambda *given: off)
    monkeypatch.setattr(hardware, "check_precision", lambda precision: None)
    return made


def method_of(name: str) -> Method:
    pruner = TRAINING[name].shared_run() if name.startswith("imp") else TRAINING[name]
    return pruner.method(fine_tuned=True, eval_every=6)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("name", TRAINING)
def test_a_scaled_loss_finds_the_same_model(
    name: str, parts: int, scaled: list[torch.amp.GradScaler], make_run: Any, tmp_path: Path
) -> None:
    """The penalty is scaled with the loss: it would weigh a thousandth otherwise."""
    found: list[Snapshot] = []
    for precision in ("float32", "fp16"):
        settings = replace(SETTINGS, precision=precision, accumulate=parts)  # type: ignore[arg-type]
        found.append(train(make_run(method_of(name), tmp_path / precision, settings=settings)).snapshot)
    assert [each.get_scale() > 2.0**10 for each in scaled] == [True], "it was used, and has grown"
    assert found[0].keys() == found[1].keys()
    for each in found[0]:
        torch.testing.assert_close(found[1][each], found[0][each], rtol=0.0, atol=1e-6, msg=each)


def test_an_overflow_leaves_out_a_step_and_is_no_error(
    scaled: list[torch.amp.GradScaler], make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the first steps on a GPU do, until the scale fits."""
    real, calls = trainer._SubnetworkTrainer._loss, []

    def loss(self: Any, *given: Any) -> torch.Tensor:
        calls.append(1)
        return real(self, *given) * (float("inf") if len(calls) == 6 else 1.0)

    monkeypatch.setattr(trainer._SubnetworkTrainer, "_loss", loss)
    result = train(make_run(method_of("smp-s"), tmp_path, settings=replace(SETTINGS, precision="fp16")))
    assert result.steps == len(calls) == 12
    assert scaled[0].get_scale() < 2.0**13, "halved once"
    assert ["grad_norm" in each for each in result.log if "loss" in each] == [False, True], "step 6 and step 12"
    assert all(bool(each.isfinite().all()) for each in result.snapshot.values() if each.is_floating_point())


@pytest.mark.parametrize("name", ["mask", "smp-s"])
def test_a_resumed_run_has_its_scale(
    name: str, scaled: list[torch.amp.GradScaler], make_run: Any, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, precision="fp16")

    def attempts(folder: str) -> Attempts:
        return Attempts(make_run, tmp_path / folder, lambda: method_of(name), settings=settings)

    whole, broken = attempts("whole")(), attempts("broken")
    with pytest.raises(Interrupted):
        broken(9)
    assert same(broken().snapshot, whole.snapshot)
    first, _, resumed = scaled
    assert resumed.state_dict() == first.state_dict()


# --- what a device does not have -----------------------------------------------------------------------------------


@pytest.fixture
def old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU from before bf16 and tf32."""
    Simulated(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Old GPU")


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_a_cpu_has_neither_tf32_nor_fp16(precision: Any, make_run: Any, tmp_path: Path) -> None:
    with refused(f"precision {precision}", "GPU", "CPU", "bf16 or float32"):
        train(make_run(Method(), tmp_path, settings=replace(SETTINGS, precision=precision)))
    with refused(f"precision {precision}"), computing_in(precision):
        pass


@pytest.mark.usefixtures("old_gpu")
def test_an_old_gpu_has_fp16_alone() -> None:
    for precision in ("bf16", "tf32"):
        with refused("Old GPU", precision, "float32"):
            hardware_arguments(replace(SETTINGS, precision=precision))
    assert hardware_arguments(replace(SETTINGS, precision="fp16")) == {"use_cpu": False, "fp16": True}


def test_the_arguments_of_every_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch, 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(hardware, "_missing_tool", lambda: None)
    for precision, expected in {"float32": {}, "tf32": {}, "bf16": {"bf16": True}, "fp16": {"fp16": True}}.items():
        settings = replace(SETTINGS, precision=precision)  # type: ignore[arg-type]
        assert hardware_arguments(settings) == {"use_cpu": False, **expected}
        compiled = hardware_arguments(replace(settings, compile=True))
        assert compiled["tf32"] == (precision == "tf32"), "float32 stays what it is under the compiler"


def test_tf32_ends_with_the_training(make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch belongs to the process, in which a training in float32 may follow."""
    monkeypatch.setattr(hardware, "check_precision", lambda precision: None)
    matmul, seen = torch.backends.cuda.matmul, []
    before = matmul.fp32_precision
    for precision in ("tf32", "float32"):
        run = make_run(Method(), tmp_path / precision, settings=replace(SETTINGS, precision=precision))
        train(replace(run, watch=lambda *given: seen.append(matmul.fp32_precision)))
    assert seen == ["tf32"] * 12 + [before] * 12
    with pytest.raises(ZeroDivisionError), computing_in("tf32"):
        raise ZeroDivisionError
    assert matmul.fp32_precision == before


@pytest.mark.parametrize(("name", "field"), [("finetune", "precision"), ("finetune", "eval_precision")])
def test_a_plan_is_refused_before_anything_is_computed(name: str, field: str, raw: Pretrained, engine: Engine) -> None:
    settings = replace(SETTINGS, **{field: "fp16"})
    node = FineTune(raw, PoE(BiasModel(raw.task)), settings)
    with refused("precision fp16", "CPU"):
        engine.execute([node, Evaluate(node)])
    assert not engine.store.keys()


# --- evaluation ----------------------------------------------------------------------------------------------------


def test_results_are_evaluated_in_the_requested_precision(raw: Pretrained, engine: Engine) -> None:
    plain, half = (FineTune(raw, training=replace(SETTINGS, eval_precision=each)) for each in ("float32", "bf16"))
    engine.execute([Evaluate(plain)])
    models = set(engine.store.keys())
    engine.execute([Evaluate(half)])
    assert engine.store.has(Evaluate(plain).key)
    assert set(engine.store.keys()) - models == {Evaluate(half).key}, "the model was not trained again"
    exact, rounded = (read_logits(engine.store, Evaluate(each).key) for each in (plain, half))
    for split, logits in exact.items():
        assert rounded[split].dtype == np.float32
        assert not np.array_equal(rounded[split], logits)
        np.testing.assert_allclose(rounded[split], logits, atol=0.1)
    stored = engine.models.find(Evaluate(half).model.key)
    assert Evaluate(stored).key == Evaluate(plain).key, "the expression that was computed first is the stored one"


def test_the_card_says_in_what_scores_were_computed(raw: Pretrained, engine: Engine, tmp_path: Path) -> None:
    nodes = [FineTune(raw, training=replace(SETTINGS, eval_precision=each)) for each in ("float32", "bf16")]
    engine.execute([Evaluate(each) for each in nodes])
    exact, rounded = (known_about(engine.store, each) for each in nodes)
    assert (exact.precision, rounded.precision) == ("float32", "bf16")
    assert [each.score.seeds for each in (*exact.scores, *rounded.scores)] == [1] * 2 * len(exact.scores)
    for node, about in zip(nodes, (exact, rounded), strict=True):
        stored = read_scores(engine.store, node)["splits"]
        for each in about.scores:
            assert each.score.mean == pytest.approx(stored[each.split]["metrics"]["accuracy"])
    subnetwork = Subnetwork.load(engine.store.path(nodes[0].key))
    cards = []
    for number, about in enumerate((exact, rounded)):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_card(folder, Source(subnetwork, about=about), "merged", "load()")
        cards.append((folder / "README.md").read_text())
    assert "bf16" not in cards[0]
    assert "Computed in bf16." in cards[1]


@pytest.mark.parametrize(("precision", "remarks"), [("float32", ()), ("bf16", ("evaluated in bf16",))])
def test_printed_scores_say_in_what_they_were_computed(
    raw: Pretrained, engine: Engine, precision: Any, remarks: tuple[str, ...]
) -> None:
    node = FineTune(raw, training=replace(SETTINGS, eval_precision=precision))
    engine.execute([node, Evaluate(node)])
    assert srnet.evaluate(node.key, engine=engine).remarks == remarks


def test_the_report_says_in_what_results_were_computed(raw: Pretrained) -> None:
    nodes = [FineTune(raw, training=replace(SETTINGS, eval_precision=each)) for each in ("float32", "bf16")]
    notes = [
        results._precision_notes(SimpleNamespace(recipe=SimpleNamespace(points=[SimpleNamespace(node=each)])))  # type: ignore[arg-type]
        for each in nodes
    ]
    assert notes == [[], ["Results were evaluated in bf16."]]
