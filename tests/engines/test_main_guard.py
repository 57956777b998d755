"""Engine pool in a script: its processes import the script, so that its calls must be under a guard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RUN = """
import srnet
task = srnet.SyntheticTask("inference", train_size=100, dev_size=20, ood_size=20)
srnet.Engine(srnet.Store("store"), name="pool", workers=2).execute([srnet.BiasModel(task)])
"""
CHECK = "from srnet.core.processes import require_main_guard as check\n"
GUARDED = {
    "under the guard": "if __name__ == '__main__':\n    check()\n    print('passed')",
    "in a function": "def main():\n    check()\n    print('passed')\nif __name__ == '__main__':\n    main()",
    "in a block": "with open(__file__):\n    if '__main__' == __name__:\n        check()\n        print('passed')",
    "in a thread": "import threading\nthreading.Thread(target=lambda: (check(), print('passed'))).start()",
}
BARE = {
    "at the top": "check()",
    "in a function": "def main():\n    check()\nmain()",
    "after a guard": "if __name__ == '__main__':\n    pass\ncheck()",
    "under another condition": "if True:\n    check()",
    "in a module that is imported": "import other",
}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def refusal(done: subprocess.CompletedProcess[str], file: str) -> None:
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("srnet.UserError: ")
    assert file in last
    assert 'if __name__ == "__main__":' in last
    assert done.stderr.count("Traceback") == 1, "one process says it, and only one"


def test_a_script_without_a_guard_is_told_before_any_process_starts(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RUN)
    refusal(run(tmp_path, "script.py"), "script.py")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("place", BARE)
def test_calls_outside_a_guard_are_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "other.py").write_text(CHECK + "check()")
    (tmp_path / "script.py").write_text(CHECK + BARE[place])
    refusal(run(tmp_path, "script.py"), "script.py")
    if place == "at the top":
        refusal(run(tmp_path, "-m", "script"), "script.py")


@pytest.mark.parametrize("place", GUARDED)
def test_calls_under_a_guard_pass(tmp_path: Path, place: str) -> None:
    (tmp_path / "script.py").write_text(CHECK + GUARDED[place])
    assert run(tmp_path, "script.py").stdout == "passed\n"


def test_what_has_no_file_needs_no_guard(tmp_path: Path) -> None:
    assert run(tmp_path, "-c", f"{CHECK}check()\nprint('passed')").stdout == "passed\n"
