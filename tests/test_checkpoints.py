"""Checkpoints that cannot be used: the cause, and what to do about it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers
from refusals import refused

from srnet.core.errors import UserError
from srnet.models.backbones import load_backbone
from srnet.models.open import open_model

LORA = {"peft_type": "LORA", "base_model_name_or_path": "bert-base-uncased", "r": 4}


def configured(backbone: str, folder: Path, config: dict[str, Any]) -> Path:
    shutil.copytree(backbone, folder)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as error:
        load_backbone(str(folder), ("no", "yes"), seed=0)
    assert "safetensors checkpoint" not in str(error.value), "it has one"
    return str(error.value)


@pytest.mark.parametrize("kind", [transformers.MambaConfig, transformers.ViTConfig, transformers.WhisperConfig])
def test_a_model_that_cannot_classify_texts(kind: Any, tiny_backbone: str, tmp_path: Path) -> None:
    said = refusal(configured(tiny_backbone, tmp_path / "model", {"model_type": kind.model_type}))
    assert f"'{kind.model_type}'" in said
    assert "sequence classification is not supported" in said


@pytest.mark.parametrize("method", ["bitsandbytes", "gptq", "fp8", "unknown"])
def test_a_quantised_checkpoint(method: str, tiny_backbone: str, tmp_path: Path) -> None:
    config = json.loads((Path(tiny_backbone) / "config.json").read_text())
    quantised = configured(
        tiny_backbone, tmp_path / "model", {**config, "quantization_config": {"quant_method": method}}
    )
    assert "quantised" in refusal(quantised)


def test_a_fault_of_the_hash_is_none_of_the_tokenizer(tiny_backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.models.backbones.hash_tensors", lambda tensors: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        load_backbone(tiny_backbone, ("no", "yes"), seed=0)


def test_code_of_its_own(tiny_backbone: str, tmp_path: Path) -> None:
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "code.Config"}}
    assert "never run" in refusal(configured(tiny_backbone, tmp_path / "model", config))


@pytest.mark.parametrize("complete", [True, False])
def test_an_adapter_must_be_merged_first(complete: bool, tiny_backbone: str, tmp_path: Path) -> None:
    """Beside a complete model it would be left out silently."""
    folder = tmp_path / "model"
    if complete:
        shutil.copytree(tiny_backbone, folder)
    else:
        folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(LORA))
    assert "merge_and_unload" in refusal(folder)
    with refused(folder, "merge_and_unload"):
        open_model(folder)
