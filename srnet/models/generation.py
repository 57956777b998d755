"""Texts that decoders generate: greedily, with the key-value cache of transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from srnet.core.device import current_device
from srnet.core.lazy import torch, transformers
from srnet.models.heads import fills_masks
from srnet.models.model import Batch, OpenModel, TorchModel

OnTokens = Callable[[], object]


def generates(model: OpenModel) -> bool:
    """Whether a model is a decoder that continues texts."""
    if not isinstance(model, TorchModel) or not model.module.can_generate():
        return False
    return not model.module.config.is_encoder_decoder and not fills_masks(model.module.config)


@dataclass(frozen=True)
class _Watched:
    """What `generate` calls a streamer: it is given the prompt, and then the next token of every row, on the host."""

    on_tokens: OnTokens

    def put(self, tokens: torch.Tensor) -> None:
        self.on_tokens()

    def end(self) -> None:
        """Nothing is left to do."""


def generate(
    model: TorchModel,
    batch: Batch,
    most: int,
    ends: Sequence[int] = (),
    on_tokens: OnTokens = lambda: None,
    stopped: Callable[[], bool] = lambda: False,
) -> torch.Tensor:
    """The likeliest next tokens, one after another, on the host: at most `most` for each row of a batch.

    They stop after one of `ends`, or after the token during which `stopped` became true. `on_tokens` is called when the
    prompts are there, and then with each new token. What the checkpoint says about generation, such as sampling or
    penalties, is not used.
    """
    module: Any = model.module.eval()
    device = current_device()
    module.to(device)
    inputs = {name: tensor.to(device) for name, tensor in batch.items()}
    prompt = inputs["input_ids"].shape[1]
    with _plain_settings(module, most, ends), torch.inference_mode():
        found: torch.Tensor = module.generate(
            **inputs, streamer=_Watched(on_tokens), stopping_criteria=[lambda ids, _: _all_rows(ids, stopped())]
        )
    return found[:, prompt:].cpu()


def _all_rows(ids: torch.Tensor, value: bool) -> torch.Tensor:
    return torch.full((len(ids),), value, dtype=torch.bool, device=ids.device)


@contextmanager
def _plain_settings(module: Any, most: int, ends: Sequence[int]) -> Iterator[None]:
    """Greedy search for a while: settings that `generate` is given are completed by those of the model."""
    own, level = module.generation_config, transformers.logging.get_verbosity()
    end = {"eos_token_id": list(ends), "pad_token_id": ends[0]} if ends else {}
    module.generation_config = transformers.GenerationConfig(do_sample=False, max_new_tokens=most, **end)
    transformers.logging.set_verbosity_error()  # it warns of lengths that a model was not trained with
    try:
        yield
    finally:
        module.generation_config = own
        transformers.logging.set_verbosity(level)
