"""Logs and dumps, as the environment turns them on."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitcore.ir import log
from jitcore.ir.log import Level
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.dce import dead_code_elimination

DEAD = "graph(%x : Float32[n]):\n  %0 : Float32[n] = np::sin(%x)\n  return (%x)"


@pytest.mark.parametrize(
    ("setting", "channel", "level"),
    [
        ("", "dce", 0),
        ("dce", "dce", 1),
        (">dce", "dce", 2),
        (">>dce", "dce", 3),
        (">>>dce", "dce", 3),
        ("cse:>dce:>>lower", "dce", 2),
        ("cse:>dce:>>lower", "lower", 3),
        # A mark after a name belongs to the next one, as one writes "dce:>fusion:>>lower".
        ("dce:>fusion:>>lower", "dce", 1),
        ("dce:>fusion:>>lower", "other", 0),
        (">*", "dce", 2),
        ("*:>>dce", "dce", 3),
    ],
)
def test_levels(setting: str, channel: str, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_LOG", setting)
    assert [log.enabled(channel, one) for one in Level] == [one <= level for one in Level]


def test_messages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JITCORE_LOG", ">dce")
    log.graph_dump("dce", "before", "graph():\n  return ()")
    log.update("dce", "one change")
    log.debug("dce", "a detail")
    log.update("cse", "another pass")
    assert capsys.readouterr().err == (
        "[DUMP dce] before\n[DUMP dce] graph():\n[DUMP dce]   return ()\n[UPDATE dce] one change\n"
    )


def test_messages_nobody_wants_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise AssertionError("this message was made")

    monkeypatch.delenv("JITCORE_LOG", raising=False)
    monkeypatch.delenv("JITCORE_DUMP", raising=False)
    log.update("dce", fail)
    log.graph_dump("dce", "before", fail)
    assert log.dump("dce", fail) is None


def test_passes_log_their_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JITCORE_LOG", ">dce")
    assert dead_code_elimination(parse_graph(DEAD))
    assert capsys.readouterr().err == "[UPDATE dce] remove <np::sin(%x)>\n"


def test_dumps_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_DUMP", str(tmp_path / "dumps"))
    first = log.dump("fusion", "one")
    second = log.dump("kernel f/g", lambda: "two", ".ll")
    assert first is not None
    assert second is not None
    assert [path.read_text() for path in (first, second)] == ["one", "two"]
    assert first.name.endswith("_fusion.txt")
    assert second.name.endswith("_kernel_f_g.ll")
    assert sorted(tmp_path.glob("dumps/*")) == [first, second]
