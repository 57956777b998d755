"""Every command as a function."""

# ruff: noqa: F401  what a user imports from here

from srnet.api.audits import audit_models
from srnet.api.experiments import claims, claims_until_answered, demo, reproduce, run, run_recipe
from srnet.api.models import bias_model, evaluate, export_model, finetune, import_mask, pretrain, prune
from srnet.api.pages import open_page
from srnet.recipes.plan import plan
