"""Any two classifiers compared on a task: scores, sub-cases, dependence on the shortcut, loyalty, changed rows."""

from typing import TYPE_CHECKING

from srnet.lazy import exports

if TYPE_CHECKING:
    from srnet.audit.classifiers import Classifier, Matched, Source, TorchClassifier, load_classifier, match, task_of
    from srnet.audit.contrast import FLIP, RULES, SAME, Changed, Row, Rule, register, rule
    from srnet.audit.disagreement import Found, disagreements, worst_first
    from srnet.audit.options import AuditOptions
    from srnet.audit.outcomes import Failure, RuleOutcome, apply_rule
    from srnet.audit.report import Audit, make_audit
    from srnet.audit.rows import Judged, Predictions, collect_logits, judge_split, predictions_of, word_overlap
    from srnet.audit.run import audit_models, find_shortcut, load_models, measure_shortcut, predict_splits
    from srnet.audit.tables import Table, tables_of
    from srnet.audit.writing import check_writable, write_audit

__all__ = [
    "FLIP",
    "RULES",
    "SAME",
    "Audit",
    "AuditOptions",
    "Changed",
    "Classifier",
    "Failure",
    "Found",
    "Judged",
    "Matched",
    "Predictions",
    "Row",
    "Rule",
    "RuleOutcome",
    "Source",
    "Table",
    "TorchClassifier",
    "apply_rule",
    "audit_models",
    "check_writable",
    "collect_logits",
    "disagreements",
    "find_shortcut",
    "judge_split",
    "load_classifier",
    "load_models",
    "make_audit",
    "match",
    "measure_shortcut",
    "predict_splits",
    "predictions_of",
    "register",
    "rule",
    "tables_of",
    "task_of",
    "word_overlap",
    "worst_first",
    "write_audit",
]

_NAMES = {
    "classifiers": ("Classifier", "Matched", "Source", "TorchClassifier", "load_classifier", "match", "task_of"),
    "contrast": ("FLIP", "RULES", "SAME", "Changed", "Row", "Rule", "register", "rule"),
    "disagreement": ("Found", "disagreements", "worst_first"),
    "options": ("AuditOptions",),
    "outcomes": ("Failure", "RuleOutcome", "apply_rule"),
    "report": ("Audit", "make_audit"),
    "rows": ("Judged", "Predictions", "collect_logits", "judge_split", "predictions_of", "word_overlap"),
    "run": ("audit_models", "find_shortcut", "load_models", "measure_shortcut", "predict_splits"),
    "tables": ("Table", "tables_of"),
    "writing": ("check_writable", "write_audit"),
}
__getattr__ = exports(__name__, {name: module for module, names in _NAMES.items() for name in names})
