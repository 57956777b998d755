"""Where the pre-trained model comes from: the embedded one, a local folder, or a hub name."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers import logging as transformers_logging

from srnet.errors import UserError
from srnet.names import DOWNLOAD_VARIABLE, EMBEDDED, EMBEDDED_OTHER

_SYNTHETIC = Path(__file__).parent / "tasks" / "synthetic"
_SHIPPED = {EMBEDDED: _SYNTHETIC / "backbone", EMBEDDED_OTHER: _SYNTHETIC / "backbone_small"}


@dataclass(frozen=True)
class LoadedBackbone:
    """A classifier on a backbone. `fresh` names what is not part of it: the head, and what the checkpoint lacks."""

    name: str
    sha256: str
    model: PreTrainedModel
    tokenizer: Any
    fresh: frozenset[str]

    def max_length(self, wanted: int) -> int:
        """`wanted`, or less if the backbone has fewer positions."""
        return int(min(wanted, self.tokenizer.model_max_length, self.model.config.max_position_embeddings))

    def pretrained(self) -> dict[str, torch.Tensor]:
        """The backbone's own tensors, without the head."""
        return {name: t for name, t in self.model.state_dict().items() if name not in self.fresh}


def folder_or_name(name: str) -> str:
    return str(_SHIPPED.get(name, name))


def load_backbone(name: str, labels: tuple[str, ...], seed: int) -> LoadedBackbone:
    """Load `name` with a head for `labels`, drawn from `seed`. Never runs code from the checkpoint."""
    source = folder_or_name(name)
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": os.environ.get(DOWNLOAD_VARIABLE) != "1"}
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # "some weights are newly initialised" is what we want here
    transformers_logging.disable_progress_bar()
    try:
        # `fork_rng`: drawing the head must not disturb anybody else's random numbers
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, info = AutoModelForSequenceClassification.from_pretrained(
                source,
                num_labels=len(labels),
                id2label=dict(enumerate(labels)),
                label2id={label: index for index, label in enumerate(labels)},
                output_loading_info=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # a head for other labels is replaced, not an error
                dtype=torch.float32,
                **options,
            )
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(
            f"backbone '{name}' cannot be loaded ({str(error).splitlines()[0]})",
            f"give a folder with a safetensors checkpoint, or set {DOWNLOAD_VARIABLE}=1 to allow a download",
        ) from error
    finally:
        transformers_logging.set_verbosity(level)
    head = {key for key in model.state_dict() if not key.startswith(f"{model.base_model_prefix}.")}
    fresh = frozenset(head | set(info["missing_keys"]))
    state = {key: tensor for key, tensor in model.state_dict().items() if key not in fresh}
    return LoadedBackbone(name, _identity(state, model.config, tokenizer), model, tokenizer, fresh)


@lru_cache(maxsize=32)
def backbone_hash(name: str) -> str:
    """The identity of a backbone is its content: tensors, settings and vocabulary."""
    return load_backbone(name, ("a", "b"), seed=0).sha256


def _identity(state: dict[str, torch.Tensor], config: Any, tokenizer: Any) -> str:
    """The same tensors under other heads, other activations or another vocabulary are another backbone."""
    ignored = {"_name_or_path", "transformers_version", "id2label", "label2id", "num_labels", "architectures", "dtype"}
    settings = {key: value for key, value in config.to_dict().items() if key not in ignored}
    parts = (hash_tensors(state), json.dumps(settings, sort_keys=True, default=str), tokenizer.get_vocab())
    return hashlib.sha256(json.dumps([*parts[:2], sorted(parts[2].items())]).encode()).hexdigest()


def hash_tensors(tensors: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for key in sorted(tensors):
        tensor = tensors[key].detach().cpu().contiguous()
        digest.update(f"{key}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
