"""Every command as a function."""

from srnet.api.exchange import IMPORTS, Imported, export_model, import_mask, pretrain
from srnet.api.experiments import claims, claims_until_answered, demo, folder_of, reproduce, run, run_recipe
from srnet.api.models import Trained, bias_model, bias_remarks, evaluate, finetune, make_objective, prune
from srnet.api.speed import speed
from srnet.recipes.plan import Plan, plan

__all__ = [
    "IMPORTS",
    "Imported",
    "Plan",
    "Trained",
    "bias_model",
    "bias_remarks",
    "claims",
    "claims_until_answered",
    "demo",
    "evaluate",
    "export_model",
    "finetune",
    "folder_of",
    "import_mask",
    "make_objective",
    "plan",
    "pretrain",
    "prune",
    "reproduce",
    "run",
    "run_recipe",
    "speed",
]
