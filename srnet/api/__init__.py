"""Every command as a function."""

from srnet.lazy import exports

_EXPERIMENTS = ("claims", "claims_until_answered", "demo", "reproduce", "run", "run_recipe")
_MODELS = (
    "bias_model", "evaluate", "export_model", "finetune", "import_mask", "latency", "pretrain", "prune", "train_on",
)  # fmt: skip

# imported at first use: plans do without torch
__getattr__ = exports(
    __name__,
    {
        **dict.fromkeys(_EXPERIMENTS, "experiments"),
        **dict.fromkeys(_MODELS, "models"),
        "audit_models": "audits",
        "find": "finding",
        "open_page": "pages",
        "speed": "speeds",
    },
)
