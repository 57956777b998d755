"""Sparse and robust subnetworks inside pre-trained language models."""

from inspect import isfunction
from typing import Any

from srnet.core.lazy import exports

__version__ = "0.1.0"

# Imported at first use: `srnet --help` must not import torch.
_NAMES = {
    "experiment.nodes.objectives": "CE PoE Reweight ConfReg Distilled",
    "experiment.nodes.bias": "BiasModel BiasSpec WeakModel",
    "experiment.nodes.models": "Pretrained FineTuned Rewind Evaluate",
    "experiment.nodes.training": "FineTune Prune Trajectory Moment",
    "experiment.engine": "Engine",
    "experiment.store": "Store",
    "pruners.mask_training": "MaskTraining",
    "pruners.magnitude": "OneShot GradualMagnitude",
    "pruners.imp": "IMP RewoundIMP",
    "pruners.static": "StaticLocal StaticShared",
    "pruners.movement": "Movement",
    "pruners.soft_movement": "SoftMovement",
    "pruners.l0": "L0",
    "pruners.wanda": "Wanda",
    "api.attaching": "attach prune_once load_mask",
    "training.pruning": "Pruning",
    "masks.mask": "Mask",
    "masks.targets": "Targets",
    "tasks.synthetic": "SyntheticTask",
    "tasks.files": "FilesTask",
    "tasks.sources": "DataFile",
    "tasks.published": "published_task",
    "tasks.squad": "SquadTask squad_task",
    "tasks.check": "check_data",
    "tasks.describe": "describe_files write_csv",
    "training.settings": "TrainingSettings",
    "models.subnetwork": "Subnetwork",
    "models.open": "load_subnetwork open_model",
    "models.bank": "MaskBank",
    "models.formats.merged": "save_merged",
    "core.errors": "UserError",
    "recipes.order": "Order",
    "recipes.tasks": "DataOptions",
    "api.data": "task_from",
    "api.experiments": "demo run run_recipe reproduce claims claims_until_answered",
    "recipes.recipe": "plan",
    "recipes.demo": "demo_recipe",
    "recipes.files": "load_recipe",
    "api.models": "finetune prune evaluate bias_model latency pretrain export_model import_mask",
    "api.surveys": "shortcuts",
    "bias.survey": "Survey",
    "masks.timed": "Latency",
    "api.features": "shortcut_from",
    "api.speeds": "speed",
    "timing.pace": "Pace",
    "timing.measuring": "speed_against_scores",
    "api.finding": "find plan_find",
    "finding.settings": "FindSettings",
    "finding.search": "Find",
    "finding.found": "Found",
    "audit.run": "audit_models",
    "audit.options": "AuditOptions",
    "page.run": "open_page",
    "page.options": "PageOptions",
    "tasks.synthetic.pretrain_settings": "PretrainSettings",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_WHERE]

_find = exports(__name__, _WHERE)


def __getattr__(name: str) -> Any:
    found = _find(name)
    if not isfunction(found):
        return found
    from srnet.api.arguments import checked  # not at the top: the command line alone needs none of its imports

    return checked(found)
