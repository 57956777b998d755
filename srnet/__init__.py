"""Sparse and robust subnetworks inside pre-trained language models."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Loaded when first used: `srnet --help` must not wait for torch.
_WHERE = {
    "CE": "experiment", "PoE": "experiment", "Reweight": "experiment", "ConfReg": "experiment",
    "Distilled": "experiment",
    "BiasModel": "experiment", "BiasSpec": "experiment", "WeakModel": "experiment",
    "Pretrained": "experiment", "FineTune": "experiment", "Prune": "experiment",
    "Rewind": "experiment", "Evaluate": "experiment", "Engine": "experiment", "Store": "experiment",
    "MaskTraining": "pruners", "OneShot": "pruners", "IMP": "pruners", "RewoundIMP": "pruners",
    "StaticLocal": "pruners", "StaticShared": "pruners", "Movement": "pruners", "SoftMovement": "pruners",
    "GradualMagnitude": "pruners", "L0": "pruners",
    "Mask": "masks", "Targets": "masks",
    "SyntheticTask": "tasks.synthetic", "FilesTask": "tasks.files", "DataFile": "tasks.files",
    "published_task": "tasks.published", "SquadTask": "tasks.squad", "squad_task": "tasks.squad",
    "check_data": "tasks.check", "describe_files": "tasks.describe",
    "TrainingSettings": "training",
    "Subnetwork": "subnetwork", "load_subnetwork": "subnetwork", "save_merged": "export",
    "UserError": "errors",
    "Trajectory": "experiment", "Moment": "experiment", "Order": "recipes",
    "demo": "api", "run": "api", "run_recipe": "api", "reproduce": "api", "claims": "api", "plan": "api",
    "claims_until_answered": "api",
    "finetune": "api", "prune": "api", "evaluate": "api",
    "speed": "api", "Pace": "speed", "speed_against_score": "speed",
    "bias_model": "api", "pretrain": "api", "export_model": "api", "import_mask": "api",
}  # fmt: skip

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'srnet' has no attribute '{name}'")
    return getattr(import_module(f"srnet.{_WHERE[name]}"), name)
