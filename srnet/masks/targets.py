"""The layers of a model that are masked: found by structure, in the same way for every architecture, or chosen."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from srnet.config.fields import Described, option
from srnet.core.errors import UserError
from srnet.core.lazy import nn
from srnet.masks.parametrization import is_score, raw_weights

Selector = str | tuple[str, ...]
ALL, OUTSIDE, STACK_ONLY = "all-linear", "outside-layers", "outside-stack"
BEYOND_REACH = 0.1
"""The largest share of the layers' weights that may lie outside linear layers, where no mask can be attached."""

VISION = {"vision_tower", "vision_model", "visual"}
"""The names of the parts that read images, which no text reaches: Gemma 3 has one."""


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Module name -> layer, in the model's order. A layer that a model uses many times (ALBERT) is listed once."""
    from transformers.pytorch_utils import Conv1D  # not at the top: it imports torch

    return {name: module for name, module in model.named_modules() if isinstance(module, (nn.Linear, Conv1D))}


def in_base(model: nn.Module, name: str) -> bool:
    """Whether `name` belongs to the pre-trained part, not to the head; a model without such a part is all base."""
    prefix = getattr(model, "base_model_prefix", "")
    return not hasattr(model, prefix) or name.startswith(f"{prefix}.")


def classifier_of(model: nn.Module) -> str | None:
    """The layer that gives the logits: the last one of the head. A dense layer before it is a pooler."""
    head = [name for name in linear_layers(model) if not in_base(model, name)]
    return head[-1] if head else None


@dataclass(frozen=True)
class Targets(Described):
    """Selection of the masked layers, as in PEFT.

    `modules` is "all-linear", a regular expression that a full module name must match, or a tuple of name endings.

    `exclude` has the same syntax and takes precedence. The default "outside-layers" is found by structure: everything
    except the stack of attention and feed-forward layers and the layer that gives the logits. So the pooler is not
    masked, as in the paper, nor its equivalents in other architectures, nor projections of embeddings. In an
    encoder-decoder (T5, BART) the encoder is masked and the decoder is not; `exclude=()` masks both.

    "outside-stack" excludes the layer that gives the logits as well, as static and movement pruning do.

    Embeddings, biases and norms are never masked, nor is a matrix that a module outside the selection uses as well,
    such as the output layer of a language model that shares it with the embeddings. Naming one in `modules` is refused.
    In a task for language models the output layer is never masked.
    """

    modules: Selector = option(ALL, name="--target-modules")
    """Layers to mask: all-linear, a regular expression for the full name, or name endings with commas."""
    exclude: Selector = option(OUTSIDE, name="--exclude-modules")
    """Layers to leave out, written in the same way. It takes precedence over --target-modules."""

    def find(self, model: nn.Module) -> dict[str, nn.Module]:
        """Module name -> layer, in the model's order."""
        layers = linear_layers(model)
        excluded = self._excluded(model, layers)
        wanted = self._without_output_layer(model, {n: m for n, m in layers.items() if _matches(self.modules, n)})
        chosen = {n: m for n, m in wanted.items() if n not in excluded}
        if wanted and not chosen:
            raise UserError(
                f"all layers that match target_modules={self.modules!r} are excluded", "set exclude_modules=''"
            )
        if not chosen:
            raise UserError(f"no layer matches target_modules={self.modules!r}", _endings(layers))
        found = self._used_here_only(model, chosen)
        _check_shared(found)
        if self.modules == ALL and self.exclude in (OUTSIDE, STACK_ONLY, ()):  # the defaults
            _check_reach(model, found)
        return found

    def _without_output_layer(self, model: nn.Module, wanted: dict[str, nn.Module]) -> dict[str, nn.Module]:
        """For tasks of language modelling, where the layer is what turns hidden states into tokens."""
        if not getattr(model, "models_language", False):
            return wanted
        output = next((name for name, layer in wanted.items() if _is_output_layer(model, layer)), None)
        if output is not None and self.modules != ALL:
            raise UserError(f"{output} is the output layer, which is never masked", "leave it out of target_modules")
        return {name: layer for name, layer in wanted.items() if name != output}

    def _used_here_only(self, model: nn.Module, chosen: dict[str, nn.Module]) -> dict[str, nn.Module]:
        """The layers whose matrices no other module uses: a mask would zero rows of an embedding, for example."""
        elsewhere = _used_elsewhere(model, chosen)
        found = {n: m for n, m in chosen.items() if n not in elsewhere}
        if elsewhere and (self.modules != ALL or not found):
            name, other = next(iter(elsewhere.items()))
            raise UserError(
                f"{name} shares its matrix with {other}, which is not masked", "leave it out of target_modules"
            )
        return found

    def _excluded(self, model: nn.Module, layers: dict[str, nn.Module]) -> set[str]:
        if self.exclude not in (OUTSIDE, STACK_ONLY):
            named = {name for name in layers if _matches(self.exclude, name)}
            if self.exclude and not named:  # a mistyped name would mask what was meant to stay
                raise UserError(f"no layer matches exclude_modules={self.exclude!r}", _endings(layers))
            return named
        classifier = classifier_of(model)
        if classifier is not None and _is_output_layer(model, model.get_submodule(classifier)):
            return {name for name in layers if not _in_stack(model, name)}
        if classifier is None and not decodes(model):  # not a transformers classifier: its structure is unknown
            return set()
        # a head with label words is pre-trained, so no part of it needs a mask
        excludes_head = self.exclude == STACK_ONLY or getattr(model, "label_words", False)
        return {name for name in layers if (excludes_head or name != classifier) and not _in_stack(model, name)}


def matching_parameters(model: nn.Module, selector: Selector) -> list[nn.Parameter]:
    """The parameters of the modules that a selector names."""
    modules = [module for name, module in model.named_modules() if name and selector and _matches(selector, name)]
    if selector and not modules:
        raise UserError(f"no module matches {selector!r}", "give name endings, or an expression for a full name")
    return [parameter for module in modules for parameter in module.parameters()]


LAYERS = Targets(exclude=STACK_ONLY)
"""Only the matrices of attention and feed-forward layers: 72 in BERT-base."""


def _endings(layers: Collection[str]) -> str:
    if not layers:
        return "the model has no linear layer, and masks are for these alone"
    return f"linear layers end in: {', '.join(sorted({name.rsplit('.', 1)[-1] for name in layers}))}"


def _matches(selector: Selector, name: str) -> bool:
    if selector == ALL:
        return True
    if isinstance(selector, str):
        try:
            return re.fullmatch(selector, name) is not None
        except re.error as error:
            raise UserError(f"'{selector}' is not a regular expression: {error}") from error
    return any(name == end or name.endswith(f".{end}") for end in selector)


def _in_stack(model: nn.Module, name: str) -> bool:
    """Whether `name` belongs to the layers that are masked: those in a backbone's `ModuleList`."""
    parts = name.split(".")
    if not in_base(model, name) or (decodes(model) and "decoder" in parts) or VISION & set(parts):
        return False
    return any(isinstance(model.get_submodule(".".join(parts[:n])), nn.ModuleList) for n in range(1, len(parts)))


def _is_output_layer(model: nn.Module, layer: nn.Module) -> bool:
    """Whether a layer gives a language model's logits over its vocabulary."""
    find = getattr(model, "get_output_embeddings", None)
    return find is not None and find() is layer


def decodes(model: nn.Module) -> bool:
    """Whether a model is an encoder-decoder."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def _used_elsewhere(model: nn.Module, chosen: dict[str, nn.Module]) -> dict[str, str]:
    """Chosen layer -> a module that is not chosen and uses the same matrix."""
    users: dict[int, set[str]] = {}
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            users.setdefault(id(parameter), set()).add(name.removesuffix(".parametrizations.weight"))
    others = {
        name: users.get(id(weight), set()) - chosen.keys()
        for name, weight in zip(chosen, raw_weights(chosen).values(), strict=True)
    }
    return {name: min(some) for name, some in others.items() if some}


def _check_shared(found: dict[str, nn.Module]) -> None:
    """Refuse two layers with one tensor: they would get two masks, and only one could be saved."""
    owners: dict[int, str] = {}
    for name, weight in zip(found, raw_weights(found).values(), strict=True):
        owner = owners.setdefault(id(weight), name)
        if owner != name:
            raise UserError(f"{owner} and {name} share one matrix, so they cannot have a mask each", "exclude both")


def _check_reach(model: nn.Module, found: dict[str, nn.Module]) -> None:
    """Refuse models with most weights outside linear layers (mixtures of experts): "50 %" would be wrong for them."""
    masked = {id(weight) for weight in raw_weights(found).values()}
    stack = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and not is_score(name) and _in_stack(model, name)  # scores belong to a mask
    }
    missed = {name: parameter.numel() for name, parameter in stack.items() if id(parameter) not in masked}
    reached = sum(parameter.numel() for name, parameter in stack.items() if name not in missed)
    if sum(missed.values()) > BEYOND_REACH * (reached + sum(missed.values())):
        raise UserError(
            f"the layers of a {type(model).__name__} have weights where no mask can be attached, such as "
            f"{max(missed, key=lambda name: missed[name])}",
            "name the layers to mask with target_modules; the sparsity then refers to these layers only",
        )
