"""Any two classifiers compared on a task: scores, sub-cases, dependence on the shortcut, loyalty, changed rows."""
