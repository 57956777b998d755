"""Sparse and robust subnetworks inside pre-trained language models."""

from srnet.lazy import exports

__version__ = "0.1.0"

# Loaded on first use: `srnet --help` must not import torch.
_WHERE = {
    "CE": "experiment", "PoE": "experiment", "Reweight": "experiment", "ConfReg": "experiment",
    "Distilled": "experiment",
    "BiasModel": "experiment", "BiasSpec": "experiment", "WeakModel": "experiment",
    "Pretrained": "experiment", "FineTune": "experiment", "Prune": "experiment",
    "Rewind": "experiment", "Evaluate": "experiment", "Engine": "experiment", "Store": "experiment",
    "MaskTraining": "pruners", "OneShot": "pruners", "IMP": "pruners", "RewoundIMP": "pruners",
    "StaticLocal": "pruners", "StaticShared": "pruners", "Movement": "pruners", "SoftMovement": "pruners",
    "GradualMagnitude": "pruners", "L0": "pruners", "Wanda": "pruners",
    "Mask": "masks", "Targets": "masks",
    "SyntheticTask": "tasks.synthetic", "FilesTask": "tasks.files", "DataFile": "tasks.files",
    "published_task": "tasks.published", "SquadTask": "tasks.squad", "squad_task": "tasks.squad",
    "check_data": "tasks.check", "describe_files": "tasks.describe", "write_csv": "tasks.writing",
    "TrainingSettings": "training",
    "Subnetwork": "subnetwork", "load_subnetwork": "subnetwork", "MaskBank": "bank", "save_merged": "export",
    "UserError": "errors",
    "Trajectory": "experiment", "Moment": "experiment", "Order": "recipes", "DataOptions": "recipes",
    "demo": "api.experiments", "run": "api.experiments", "run_recipe": "api.experiments",
    "reproduce": "api.experiments", "claims": "api.experiments", "claims_until_answered": "api.experiments",
    "plan": "recipes.plan", "demo_recipe": "recipes", "load_recipe": "recipes",
    "finetune": "api.models", "prune": "api.models", "prune_backbone": "api.models",
    "evaluate": "api.models", "bias_model": "api.models",
    "train_on": "api.models", "export_model": "api.models", "import_mask": "api.models",
    "latency": "api.models", "Latency": "masks.latency",
    "speed": "api.speeds", "Pace": "pace", "speed_against_scores": "timing",
    "find": "api.finding", "plan_find": "api.finding", "FindSettings": "find_settings", "Find": "finding",
    "audit_models": "audit", "AuditOptions": "audit",
    "open_page": "page", "PageOptions": "page",
    "pretrain": "api.models", "PretrainSettings": "tasks.synthetic.pretrain_settings",
}  # fmt: skip

__all__ = ["__version__", *_WHERE]


__getattr__ = exports(__name__, _WHERE)
