"""What users of masks fall into: each works, or one line says why not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from looped import batch, logits, made, train_in_own_loop
from methods import TRAINING
from refusals import refused
from torch import nn

import srnet
from srnet.masks.parametrization import is_masked

STEPS = 20


def attached(name: str = "bert", method: str = "mask", **options: Any) -> tuple[Any, srnet.Pruning]:
    model = made(name)
    return model, srnet.attach(model, TRAINING[method], steps=STEPS, **options)


# --- saving with masks attached ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", TRAINING)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_model_saved_with_its_masks_is_the_masked_model(name: str, method: str, tmp_path: Path) -> None:
    """`from_pretrained` would otherwise initialise every masked matrix anew."""
    model, pruning = attached(name, method)
    train_in_own_loop(model, pruning, name, range(9))
    model.save_pretrained(tmp_path)
    kind = hf.AutoModelForSequenceClassification if name == "bert" else hf.AutoModelForCausalLM
    plain, info = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    torch.testing.assert_close(logits(plain, name), logits(model, name), rtol=0, atol=1e-6)


@pytest.mark.parametrize("granularity", [("head", "neuron"), ("layer",)], ids=",".join)
def test_units_saved_with_their_masks(granularity: Any, tmp_path: Path) -> None:
    model = made("bert")
    pruning = srnet.attach(model, srnet.MaskTraining(0.5, granularity=granularity), steps=STEPS)
    train_in_own_loop(model, pruning, "bert", range(9))
    model.save_pretrained(tmp_path)
    plain = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(logits(plain, "bert"), logits(model, "bert"), rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["mask", "smp-l", "l0", "imp"])
def test_the_state_of_a_masked_model_is_loaded_as_it_was(method: str) -> None:
    model, pruning = attached("mlp", method)
    train_in_own_loop(model, pruning, "mlp", range(9))
    other, again = attached("mlp", method)
    other.load_state_dict(model.state_dict())  # strict
    assert again.mask == pruning.mask
    assert torch.equal(logits(other, "mlp"), logits(model, "mlp"))
    pruning.bake()
    made("mlp").load_state_dict(model.state_dict())  # without masks there is nothing more


def test_torch_refuses_to_pickle_a_masked_model(tmp_path: Path) -> None:
    model, _ = attached("mlp")
    with pytest.raises(RuntimeError, match="state_dict"):
        torch.save(model, tmp_path / "model.pt")


# --- the training loop ---------------------------------------------------------------------------------------------


def test_an_optimiser_from_before_the_masks_is_noticed() -> None:
    model = made("mlp")
    optimizer = torch.optim.AdamW(model.parameters())
    pruning = srnet.attach(model, srnet.MaskTraining(0.5), steps=STEPS)
    with refused("the optimiser does not train the scores of the masks", "pruning.parameters()"):
        train_in_own_loop(model, pruning, "mlp", range(1), optimizer)


def test_a_loop_without_an_optimiser_is_told_what_to_call() -> None:
    model, pruning = attached("mlp")
    with refused("without a step of an optimiser", "advance(step)"):
        for _ in range(1000):
            pruning.step()
    for step in range(1, STEPS + 1):
        batch("mlp", step).loss(model).backward()
        with torch.no_grad():
            for scores in pruning.scores():
                scores -= 0.1 * scores.grad
        model.zero_grad()
        pruning.advance(step)
    assert pruning.finished


def test_the_optimiser_of_another_model_does_not_count() -> None:
    model, pruning = attached("mlp")
    optimizer = train_in_own_loop(model, pruning, "mlp", range(1))
    other = nn.Linear(2, 2)
    second = torch.optim.SGD(other.parameters())
    other(torch.ones(1, 2)).sum().backward()
    second.step()
    pruning.step()
    assert pruning.done == 1
    train_in_own_loop(model, pruning, "mlp", range(1, 3), optimizer)
    assert pruning.done == 3


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
def test_every_implementation_of_an_optimiser_counts(options: Any) -> None:
    model, pruning = attached("mlp")
    optimizer = torch.optim.AdamW(pruning.parameters(lr=1e-3), **options)
    train_in_own_loop(model, pruning, "mlp", range(7), optimizer)
    assert pruning.done == 7


def test_accumulation_counts_steps_of_the_optimiser() -> None:
    """A call of `step` for each batch: only those after a step of the optimiser count."""
    whole, one = attached("mlp")
    parts, two = attached("mlp")
    first, second = (torch.optim.SGD(each.parameters(score_lr=0.05)) for each in (one, two))
    for step in range(STEPS):
        (batch("mlp", step).loss(whole) + batch("mlp", step).loss(whole)).backward()
        first.step()
        one.step()
        first.zero_grad()
        for part in range(2):
            batch("mlp", step).loss(parts).backward()
            if part:
                second.step()
                second.zero_grad()
            two.step()
    assert one.done == two.done == STEPS
    assert one.mask == two.mask


def test_scores_have_no_weight_decay_whatever_the_optimiser_has() -> None:
    _, pruning = attached("bert", "movement")
    optimizer = torch.optim.AdamW(pruning.parameters(), weight_decay=0.1)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]


@pytest.mark.parametrize("method", TRAINING)
def test_autocast(method: str) -> None:
    model, pruning = attached("bert", method)
    optimizer = torch.optim.AdamW(pruning.parameters())
    for step in range(STEPS):
        with torch.autocast("cpu", torch.bfloat16):
            loss = batch("bert", step).loss(model) + pruning.penalty()
        loss.backward()
        optimizer.step()
        pruning.step()
        optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        masked = logits(model, "bert")
        pruning.bake()
        if method != "imp-rw":
            torch.testing.assert_close(logits(model, "bert"), masked, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["mask", "smp-l", "l0"])
def test_torch_compile_after_attach(method: str) -> None:
    """Without a C++ compiler, but with the part that traces the model; thresholds must not become constants."""
    model, pruning = attached("mlp", method)
    compiled = torch.compile(model, backend="aot_eager")
    torch.manual_seed(1)
    train_in_own_loop(compiled, pruning, "mlp", range(STEPS))
    plain, other = attached("mlp", method)
    torch.manual_seed(1)
    train_in_own_loop(plain, other, "mlp", range(STEPS))
    if method != "l0":  # whose noise a compiler draws in another order
        torch.testing.assert_close(logits(compiled, "mlp"), logits(plain, "mlp"), rtol=0, atol=1e-5)
        assert pruning.mask == other.mask
    pruning.bake()
    assert not is_masked(model)


def test_wrapped_models_are_refused_before_anything_changes() -> None:
    model = made("mlp")
    for wrapped in (torch.compile(model, backend="eager"), nn.DataParallel(model)):
        with refused("is wrapped in", "attach to the model itself"):
            srnet.attach(wrapped, srnet.MaskTraining(0.5), steps=STEPS)
    assert not is_masked(model)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_deep_copy_is_the_same_model_and_a_copy_of_both_trains_alone() -> None:
    model, pruning = attached("bert")
    train_in_own_loop(model, pruning, "bert", range(5))
    teacher = copy.deepcopy(model)
    assert torch.equal(logits(teacher, "bert"), logits(model, "bert"))
    twin, other = copy.deepcopy((model, pruning))
    train_in_own_loop(twin, other, "bert", range(5, STEPS))
    assert other.done == STEPS
    assert pruning.done == 5
    assert torch.equal(logits(teacher, "bert"), logits(model, "bert")), "the first is untouched"
    other.bake()
    assert not is_masked(twin)
    assert all(parameter.requires_grad for parameter in twin.parameters())
    assert is_masked(model)


def test_parameters_that_are_named_as_scores_are_not_taken_for_those_of_masks() -> None:
    model = made("mlp")
    model.body.scores = nn.Parameter(torch.ones(2))
    pruning = srnet.attach(model, srnet.Movement(0.5), steps=STEPS)
    assert len(pruning.scores()) == 3
    assert any(each is model.body.scores for each in pruning.parameters()[0]["params"])


@pytest.mark.parametrize("method", ["mask", "movement"])
def test_parameters_that_a_user_froze_stay_frozen(method: str) -> None:
    model, before = made("bert"), made("bert").state_dict()
    model.bert.embeddings.requires_grad_(False)
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    pruning = srnet.attach(model, TRAINING[method], steps=STEPS)
    train_in_own_loop(model, pruning, "bert", range(STEPS))
    pruning.bake()
    assert {name for name, parameter in model.named_parameters() if not parameter.requires_grad} == frozen
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in frozen)


# --- what cannot be masked -----------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight


def broken(value: float) -> nn.Module:
    model = made("mlp")
    with torch.no_grad():
        model.head.weight[0, 0] = value
    return model  # type: ignore[no-any-return]


def test_what_cannot_be_masked_is_refused() -> None:
    with refused("share one matrix"):
        srnet.attach(Tied(), srnet.MaskTraining(0.5), steps=STEPS)
    with refused("linear layer itself", "nn.Sequential"):
        srnet.prune_once(nn.Linear(4, 4), srnet.OneShot(0.5))
    with refused("non-finite"):
        srnet.attach(broken(float("nan")), srnet.MaskTraining(0.5), steps=STEPS)
    with refused("floating-point"):
        srnet.prune_once(nn.Sequential(nn.Linear(4, 4, device="meta")), srnet.OneShot(0.5))
    with refused("no layer matches"):
        srnet.attach(nn.Sequential(nn.Conv2d(1, 1, 3)), srnet.MaskTraining(0.5), steps=STEPS)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    with refused("has masks on it already, or another parametrisation"):
        srnet.attach(nn.Sequential(normed), srnet.MaskTraining(0.5), steps=STEPS)


def test_mistakes_of_one_line() -> None:
    model, pruning = attached()
    with refused("has masks on it already", "bake() or detach()"):
        srnet.attach(model, srnet.MaskTraining(0.5), steps=STEPS)
    with refused("has masks on it already"):
        srnet.load_mask(model, "nowhere")
    with refused("srnet.prune_once"):
        srnet.attach(made("mlp"), srnet.Wanda(0.5), steps=STEPS)
    with refused("srnet.attach"):
        srnet.prune_once(made("mlp"), srnet.MaskTraining(0.5))
    with refused("there are no batches", "give batches"):
        srnet.prune_once(made("mlp"), srnet.Wanda(0.5))
    for rows in ([1], [(torch.ones(2, 16), torch.ones(2))]):
        with refused("cannot be run on a batch", "give inputs alone"):
            srnet.prune_once(made("mlp"), srnet.Wanda(0.5), rows)
    with refused("0 steps"):
        srnet.attach(made("mlp"), srnet.MaskTraining(0.5), steps=0)
    with refused("3 steps are too few for imp"):
        srnet.attach(made("mlp"), srnet.IMP(0.5), steps=3)
    with refused("pruner", "give a pruner"):
        srnet.attach(made("mlp"), "mask", steps=STEPS)  # type: ignore[arg-type]
    with refused("the masks were not trained", "call step()"):
        pruning.bake()
    train_in_own_loop(model, pruning, "bert", range(1))
    pruning.bake()
    with refused("bake() or detach()"):
        pruning.step()


def test_scores_in_half_precision_are_refused() -> None:
    """Steps and thresholds would be rounded away, and the sparsity with them."""
    model, pruning = attached("mlp")
    model.half()
    with refused("half precision", "before attach"):
        pruning.advance(1)


def test_a_diverged_training_is_not_baked() -> None:
    model, pruning = attached("mlp")
    optimizer = torch.optim.AdamW(pruning.parameters())
    (batch("mlp", 0).loss(model) * float("nan")).backward()
    optimizer.step()
    pruning.step()
    with refused("training diverged", "lower the learning rates"):
        pruning.bake()


@pytest.mark.parametrize("remove", ["bake", "detach"])
def test_parameters_are_in_their_order_again(remove: str) -> None:
    model = made("bert")
    before = [name for name, _ in model.named_parameters()]
    pruning = srnet.prune_once(model, srnet.OneShot(0.5))
    getattr(pruning, remove)()
    assert [name for name, _ in model.named_parameters()] == before


def test_a_refused_pruner_leaves_the_model_as_it_was() -> None:
    model = made("bert")
    with refused("sparsity"):
        srnet.attach(model, srnet.MaskTraining(0.99, granularity=("head",)), steps=STEPS)
    assert not is_masked(model)
    assert all(parameter.requires_grad for parameter in model.parameters())


# --- folders -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    srnet.prune_once(made("mlp"), srnet.OneShot(0.5)).save(tmp_path / "mask")
    return tmp_path / "mask"


def test_other_weights_are_refused_and_can_be_asked_for(folder: Path) -> None:
    with refused("is not the tensor that the mask", "load the same checkpoint", "strict=False"):
        srnet.load_mask(made("mlp", seed=1), folder)
    other = made("mlp", seed=1)
    mask = srnet.load_mask(other, folder, strict=False)
    assert all(torch.equal(other.state_dict()[name] != 0, keep) for name, keep in mask.items())
    with refused("does not fit this model"):
        srnet.load_mask(made("bert"), folder, strict=False)


def test_damaged_folders(folder: Path, tmp_path: Path) -> None:
    with refused("already"):
        srnet.prune_once(made("mlp"), srnet.OneShot(0.5)).save(folder)
    with refused("holds no mask.json"):
        srnet.load_mask(made("mlp"), tmp_path)
    bits = folder / "mask.bits"
    bits.write_bytes(bits.read_bytes()[:-1] + b"\\xff")
    with refused("checksum"):
        srnet.load_mask(made("mlp"), folder)
    bits.unlink()
    with refused("missing"):
        srnet.load_mask(made("mlp"), folder)


@pytest.mark.parametrize("method", ["mask", "movement"])
def test_a_mask_of_a_named_backbone_is_coded(method: str, tmp_path: Path) -> None:
    made("bert").save_pretrained(tmp_path / "backbone")

    def loaded() -> Any:
        return hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "backbone")

    model = loaded()
    pruning = srnet.attach(model, TRAINING[method], steps=STEPS)
    train_in_own_loop(model, pruning, "bert", range(STEPS))
    pruning.save(tmp_path / "mask")
    is_coded = (tmp_path / "mask" / "mask.coded").exists()
    assert is_coded is (method == "mask"), "weights that train are not known to the receiver"
    other = loaded()
    assert srnet.load_mask(other, tmp_path / "mask") == pruning.mask
    assert torch.equal(logits(other, "bert"), logits(pruning.bake(), "bert"))
    if is_coded:
        with refused("is not the tensor", str(tmp_path / "backbone")):
            srnet.load_mask(made("bert", seed=1), tmp_path / "mask", strict=False)


def test_tied_weights_that_train_are_saved_once(tmp_path: Path) -> None:
    model, pruning = attached("gpt2", "movement")
    train_in_own_loop(model, pruning, "gpt2", range(STEPS))
    pruning.save(tmp_path / "mask")
    other = made("gpt2")
    srnet.load_mask(other, tmp_path / "mask")
    assert other.lm_head.weight is other.transformer.wte.weight
    assert torch.equal(logits(other, "gpt2"), logits(pruning.bake(), "gpt2"))
