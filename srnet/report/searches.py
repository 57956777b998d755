"""How searches went: their scores over their steps."""

from __future__ import annotations

from itertools import cycle

import numpy as np

from srnet.experiment import Prune
from srnet.files import read_json
from srnet.report.evidence import Evidence
from srnet.report.pictures import COLOURS, Picture, Style, line, panel


def search_pictures(evidence: Evidence) -> list[Picture]:
    """Score over the steps of the search, mean over seeds: one picture a split, one line a start."""
    names = {evidence.id: "eval_score", **{split: f"trace/{split}" for split in evidence.ood}}
    searches = []
    for points in evidence.groups.values():
        if all(isinstance(point.node, Prune) and point.node.trains for point in points):
            logs = [read_json(evidence.store.path(point.node.key) / "training.json")["log"] for point in points]
            # of the evaluations those that also looked out of distribution, by step
            logs = [{e["step"]: e for e in log if e.keys() >= {*names.values()}} for log in logs]
            steps = sorted(set.intersection(*map(set, logs)))
            start = points[0].place.start
            label = "from " + ("early stopping" if start == "auto" else f"{100 * (start or 0.0):g} % of fine-tuning")
            searches += [(label, steps, logs)] if steps else []
    pictures = []
    for split, name in names.items() if searches else ():
        traces = []
        for (label, steps, logs), colour in zip(searches, cycle(COLOURS), strict=False):
            scores = [float(np.mean([log[step][name] for log in logs])) for step in steps]
            notes = [f"{label}\nstep {step}: {score:.1f}" for step, score in zip(steps, scores, strict=True)]
            traces.append(line(label, steps, scores, notes, Style(colour, symbol="circle")))
        x_axis, y_axis = ({"title": {"text": text}} for text in ("steps of the search", f"{evidence.task.metric} (%)"))
        pictures.append(panel(f"{split}, during the search", x_axis, y_axis, traces))
    return pictures
