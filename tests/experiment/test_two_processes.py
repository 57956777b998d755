"""Two real processes that want the same node: one computes it, the other waits and reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from srnet.experiment import Evaluate, FineTune, Pretrained, Store
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

SCRIPT = """
import os, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
import srnet.experiment.compute_once as module
from srnet.experiment import Engine, Evaluate, FineTune, Pretrained, Store
from srnet.tasks.synthetic import SyntheticTask
from srnet.training import TrainingSettings

folder, backbone = Path(sys.argv[1]), sys.argv[2]
compute = module.compute

def counted(node, *rest):
    with open(folder / "computed.txt", "a") as file:
        file.write(node.key + "\\n")
    time.sleep(0.2)  # long enough for the other one to come along
    compute(node, *rest)

module.compute = counted
task = SyntheticTask("inference", train_size=50, dev_size=20, ood_size=20)
tuned = FineTune(Pretrained(backbone, task), training=TrainingSettings(steps=10, eval_every=5, batch_size=4))
(folder / f"ready-{os.getpid()}").touch()
while len(list(folder.glob("ready-*"))) < 2:
    time.sleep(0.01)
Engine(Store(folder / "store")).execute([Evaluate(tuned)])
"""


def test_a_node_is_computed_once(tiny_backbone: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), tiny_backbone]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    task = SyntheticTask("inference", train_size=50, dev_size=20, ood_size=20)
    raw = Pretrained(tiny_backbone, task)
    tuned = FineTune(raw, training=TrainingSettings(steps=10, eval_every=5, batch_size=4))
    computed = (tmp_path / "computed.txt").read_text().split()
    assert sorted(computed) == sorted([raw.key, tuned.key, Evaluate(tuned).key])
    assert Store(tmp_path / "store").verify() == {}
    assert "waiting for another process" in "".join(said)
