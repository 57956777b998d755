"""The script that kills runs at random moments (`python -m tests.kills`), with few kills."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import kills
import pytest
from processes import ForkServer

from srnet.core.files import write_bytes


def test_runs_killed_at_random_moments_leave_nothing_and_come_to_the_same(
    fork_server: ForkServer, tiny_backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "OUTLIVING_SECONDS", kills.LIMIT)  # a busy machine may need longer
    report = kills.run_kills(fork_server, tmp_path, Path(tiny_backbone), "local", kills=2, seed=0)
    assert report.problems == []
    assert report.kills == 2
    assert report.whole >= 1


def test_leftovers_other_results_and_bad_ends_are_noticed(tmp_path: Path) -> None:
    class Ended:
        pid, code, said, lines = 1, 1, "Traceback", ["Traceback"]

    campaign = object.__new__(kills.Campaign)
    campaign.root, campaign.report = tmp_path, kills.Report("local")
    campaign.expected = ({"mask.bits": b"1"}, b"")
    for name in ("store/artifacts/.new-a", "store/work/a", "out/.results.csv.x"):
        (campaign.folder / name).mkdir(parents=True)
    (campaign.folder / "out" / "results.csv").write_bytes(b"")
    campaign._check_end(Ended())  # type: ignore[arg-type]
    campaign._check_whole(campaign.folder / "store")
    ended, left, differs = campaign.report.problems
    assert ended.startswith("exit code 1: Traceback")
    assert left == "leftovers: ['store/artifacts/.new-a', 'store/work/a', 'out/.results.csv.x']"
    assert "the results differ" in differs


def test_a_kill_while_a_file_is_written_leaves_the_old_one_alone(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_bytes(path, b"old")
    if (writer := os.fork()) == 0:
        os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
        write_bytes(path, b"new")
        os._exit(1)
    assert os.waitpid(writer, 0)[1] == signal.SIGKILL
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("report.md", b"old")]
