"""The paper's own numbers, to stand beside ours. They are of BERT-sized models on real data, four seeds each."""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = {
    "mnli": ("MNLI", "HANS"),
    "qqp": ("QQP", "PAWS-qqp", "PAWS-wiki"),
    "fever": ("FEVER", "Symm1", "Symm2"),
}
LIKE = {"inference": "mnli", "paraphrase": "qqp", "verification": "fever"}
"""Which of the paper's tasks an embedded one is shaped like."""

Rows = dict[str, tuple[tuple[float, float], ...]]
"""Line -> (mean, standard deviation) by column."""

TAB5: dict[str, Rows] = {
    "mnli": {
        "fixed, hard": ((72.09, 0.92), (52.56, 0.92)),
        "fixed, soft": ((72.63, 0.31), (52.82, 0.47)),
        "gradual, from 20 %": ((73.61, 0.28), (53.90, 0.87)),
        "gradual, from 50 %": ((75.06, 0.31), (54.99, 1.28)),
        "gradual, from 70 %": ((76.84, 0.46), (56.72, 0.75)),
    },
    "qqp": {
        "fixed, hard": ((71.64, 1.85), (55.70, 1.92), (49.59, 1.84)),
        "fixed, soft": ((77.08, 0.66), (46.48, 3.55), (49.38, 0.98)),
        "gradual, from 20 %": ((75.79, 0.39), (51.57, 0.69), (47.94, 0.98)),
        "gradual, from 50 %": ((77.54, 0.47), (50.92, 0.97), (48.86, 0.89)),
        "gradual, from 70 %": ((79.49, 0.58), (46.59, 1.81), (51.15, 0.73)),
    },
    "fever": {
        "fixed, hard": ((49.56, 5.09), (27.45, 2.94), (29.75, 1.40)),
        "fixed, soft": ((72.80, 0.95), (46.67, 0.73), (52.33, 0.75)),
        "gradual, from 20 %": ((73.53, 1.36), (46.47, 1.66), (52.42, 1.39)),
        "gradual, from 50 %": ((77.01, 0.43), (49.87, 0.95), (56.57, 0.22)),
        "gradual, from 70 %": ((79.01, 0.68), (51.74, 0.71), (58.17, 0.33)),
    },
}

TAB6: dict[str, Rows] = {
    "RoBERTa-base": {
        "full model (CE)": ((87.14, 0.21), (68.33, 0.88)),
        "full model (PoE)": ((86.56, 0.18), (76.15, 1.35)),
        "mask training (PoE), 50 %": ((85.40, 0.14), (75.17, 0.55)),
        "mask training (PoE), 70 %": ((83.48, 0.29), (68.63, 1.33)),
        "gradual, from 50 %, 70 %": ((84.41, 0.15), (71.95, 1.23)),
    },
    "BERT-large": {
        "full model (CE)": ((86.84, 0.13), (69.44, 2.39)),
        "full model (PoE)": ((86.25, 0.17), (76.27, 1.55)),
        "mask training (PoE), 50 %": ((85.47, 0.28), (75.40, 0.64)),
        "mask training (PoE), 70 %": ((77.54, 6.10), (60.19, 7.56)),
        "gradual, from 50 %, 70 %": ((84.83, 0.26), (70.18, 2.24)),
    },
}

_MNLI, _QQP, _SQUAD = ("MNLI m/mm",), ("QQP accuracy/F1",), ("SQuAD EM/F1",)
SMP: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "mnli": (
        _MNLI,
        {
            "full model": "84.5/84.9",
            "SMP-S, 50 % kept": "85.7/85.5",
            "magnitude, 10 % kept": "78.3/79.3",
            "L0, 10 % kept": "78.7/79.7",
            "movement, 10 % kept": "80.1/80.4",
            "soft movement, 10 % kept": "81.2/81.8",
            "SMP-S, 10 % kept": "83.7/83.6",
            "magnitude, 3 % kept": "69.4/70.6",
            "L0, 3 % kept": "76.0/76.2",
            "movement, 3 % kept": "76.5/77.4",
            "soft movement, 3 % kept": "79.5/80.1",
            "SMP-S, 3 % kept": "81.8/82.0",
        },
    ),
    "qqp": (
        _QQP,
        {
            "full model": "91.4/88.4",
            "SMP-S, 50 % kept": "91.7/88.8",
            "magnitude, 10 % kept": "79.8/65.0",
            "L0, 10 % kept": "88.1/82.8",
            "movement, 10 % kept": "89.7/86.2",
            "soft movement, 10 % kept": "90.2/86.8",
            "SMP-S, 10 % kept": "91.0/87.9",
            "magnitude, 3 % kept": "72.4/57.8",
            "L0, 3 % kept": "87.0/81.9",
            "movement, 3 % kept": "86.1/81.5",
            "soft movement, 3 % kept": "89.1/85.5",
            "SMP-S, 3 % kept": "90.5/87.4",
        },
    ),
    "squad": (
        _SQUAD,
        {
            "full model": "80.4/88.1",
            "SMP-S, 50 % kept": "82.8/89.8",
            "magnitude, 10 % kept": "70.2/80.1",
            "L0, 10 % kept": "72.4/81.9",
            "movement, 10 % kept": "75.6/84.3",
            "soft movement, 10 % kept": "76.6/84.9",
            "SMP-S, 10 % kept": "79.3/87.2",
            "magnitude, 3 % kept": "45.5/59.6",
            "L0, 3 % kept": "64.3/75.8",
            "movement, 3 % kept": "67.5/78.0",
            "soft movement, 3 % kept": "72.7/82.3",
            "SMP-S, 3 % kept": "75.0/84.1",
        },
    ),
}
"""With distillation, on BERT-base."""

SAID = {
    "fig2": "Up to 70 % sparsity every method keeps at least 95 % of the full model's ID score; pruning with PoE beats "
    "the full CE model out of distribution from 20 to 70 %.",
    "fig3": "Subnetworks of the PoE model keep up with it to 70 % but do not surpass it, and those of the CE model, "
    "pruned with PoE, are as good.",
    "fig4": "Subnetworks fine-tuned in isolation are less biased than the full model; PoE fine-tuning beats CE.",
    "fig5": "Up to 50 % sparsity the raw model's subnetworks compete with the fine-tuned full model.",
    "fig6": "HANS reaches about 100 % from 20 to 70 % sparsity, and about 90 % at 50 % when fine-tuned in isolation.",
    "fig7": "Starting after 55 % of fine-tuning (MNLI) is as good as at its end.",
    "fig8": "Gradual sparsity beats fixed sparsity at 90 %, at lower cost.",
    "figA1": "Confidence regularisation keeps more ID score and gains less out of distribution.",
    "figA2": "PAWS and Symmetric gain much, but do not reach 100 %.",
    "figA3": "Starting after 44 % of fine-tuning (QQP, FEVER) is as good as at its end.",
    "smp": "At 10 and 3 % kept static pruning beats all methods that also train the weights, and at 50 % with "
    "distillation it beats the full model.",
}


@dataclass(frozen=True)
class PublishedTable:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def published_table(figure: str, task: str) -> PublishedTable | None:
    """The paper's numbers for a figure on a task like this one, if it prints any."""
    like = LIKE.get(task, task)
    if figure == "tab5" and like in TAB5:
        return PublishedTable(COLUMNS[like], tuple((label, _cells(cells)) for label, cells in TAB5[like].items()))
    if figure == "tab6" and like == "mnli":
        named = [(f"{name}: {label}", _cells(cells)) for name, rows in TAB6.items() for label, cells in rows.items()]
        return PublishedTable(COLUMNS["mnli"], tuple(named))
    if figure == "smp" and like in SMP:
        columns, rows = SMP[like]
        return PublishedTable(columns, tuple((label, (cell,)) for label, cell in rows.items()))
    return None


def _cells(cells: tuple[tuple[float, float], ...]) -> tuple[str, ...]:
    return tuple(f"{mean:.1f} ± {sd:.1f}" for mean, sd in cells)
