"""The demo, run the way people run it: scripted, live, folding, and against a model that does not answer."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import PATIENT_SECONDS

from ..support.openai_stub import ANSWER, ChatStub, running
from ..support.scratch import SCRATCH

ROOT = Path(__file__).parents[2]
CALL = re.compile(r"^ *(\d+) (.+?) +([\d,]+) +([\d,]+) +(\d+%|-)  [█▏▎▍▌▋▊▉]+·*$", re.MULTILINE)


@pytest.fixture
def out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for what the demo writes; its scratch files go to `<out>/tmp`.

    Its database is one of the tests' server, which need not be set up first; with `new_home` it is there.
    """
    if "new_home" not in request.fixturenames:
        monkeypatch.setenv("MEMORY_CONTEXT_URL", request.getfixturevalue("database_url"))
    out = Path(tempfile.mkdtemp(prefix="mc-out-", dir=SCRATCH))
    (out / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(out / "tmp"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    yield out
    shutil.rmtree(out)


def run_demo(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo by its path, from a folder that is not the checkout."""
    command = [sys.executable, str(ROOT / "samples" / "demo"), "--out", str(out), *arguments]
    env = {**os.environ, "PYTHONWARNINGS": "default", "PYTHONUTF8": "1"}
    env.pop("PYTHONPATH", None)
    return subprocess.run(
        command, cwd=out, env=env, capture_output=True, text=True, timeout=PATIENT_SECONDS, check=False
    )


def size_of_png(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", head[16:24])


def calls_in(text: str) -> list[tuple[int, int, int]]:
    """Return number, raw and view tokens of each call."""
    return [
        (int(number), int(raw.replace(",", "")), int(view.replace(",", "")))
        for number, _, raw, view, _ in CALL.findall(text)
    ]


def figures(row: str, text: str) -> list[str]:
    """Return the figures of a row of the closing table."""
    line = next(line for line in text.splitlines() if line.startswith(row))
    return re.split(r"  +", line.removeprefix(row).strip())


def test_demo_tells_the_whole_story(new_home: Path, out: Path) -> None:
    """Calls, placeholder, look-up, second process, table and chart, in plain lines of 80 columns."""
    run = run_demo(out)
    assert (run.returncode, run.stderr) == (0, "")
    text = run.stdout
    assert "\x1b" not in text
    assert max(map(len, text.replace(str(out), "").splitlines())) <= 80

    calls = calls_in(text)
    assert [number for number, _, _ in calls] == list(range(1, len(calls) + 1))
    assert len(calls) > 25
    this_session, new_session = text.split("A new session of the same user")
    assert all(view <= raw for _, raw, view in calls_in(this_session))
    assert text.count("answers") == 6

    flat = re.sub(r"\s*\n(│ )?\s*", " ", text)
    assert re.search(
        r"read_file succeeded\. \[MemoryRef: \S+ - path=\S+, Python, [\d,]+ lines: Assist.{9,99} - \d+ tokens\]",
        flat,
    )
    assert "retrieve_memory(memory_key=" in flat
    assert re.search(r"\[matches 1-\d+ of \d+ in 1,\d+ lines", flat)
    assert "Its view is byte-identical to the one of process" in flat
    assert "I looked them up in what the first process had read" in flat
    assert re.search(r"brought 1,\d+ tokens back into the view\. Why: read_file_\w+: rare word '\w", flat)
    assert "call_tool_stream. I called no tool for that" in flat
    assert re.search(
        r"1\. path=autogen_agentchat/teams/\S+, Python, [\d,]+ lines: \w.{9,90}, lines \d+-\d+\. Score 0\.\d+: words 0",
        flat,
    )
    assert figures("times folded", text)[1] == "0"
    assert max(map(float, figures("cost beside keeping everything", text))) < 0.5
    assert re.search(r"the model sees these observations, [\d,]+ tokens", flat)
    assert "texts were recalled" in new_session
    assert "Last time we found out: CancelledError is caught in _user_proxy_agent.py" in new_session

    calls = calls_in(text.split("The same session in a second process")[0])
    raw, view = figures(f"tokens sent in {len(calls)} calls", text)
    assert [raw, view] == [f"{sum(call[n] for call in calls):,}" for n in (1, 2)]
    assert figures("largest view, tokens", text) == [f"{max(call[n] for call in calls):,}" for n in (1, 2)]
    kept, sent = figures("relative cost of input", text)
    assert kept == "1.00"
    assert 0 < float(sent) < 0.5
    exact, of, large = figures("large results, exact when read back", text)[1].split()
    assert (of, exact) == ("of", large)
    assert int(large) > 10

    assert size_of_png(out / "demo_tokens.png") == (1500, 840)
    assert (out / "demo_tokens.png").stat().st_size > 20_000
    assert list((out / "tmp").iterdir()) == []


def test_with_a_key_the_same_agent_runs_on_a_live_model(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL decide; both processes use it."""
    with running(ChatStub) as stub:
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_MODEL", "a-model-nobody-knows")
        run = run_demo(out)
    assert (run.returncode, run.stderr) == (0, "")
    assert "The model is live" in run.stdout
    assert run.stdout.count(ANSWER) >= 6  # and those that the end recalls
    assert len(calls_in(run.stdout)) == len(stub.requests) == 12
    assert "Light model: the agent's own model" in run.stdout
    assert len(stub.light_requests) >= 2
    assert stub.keys == {"Bearer test-key"}
    assert {request["model"] for request in stub.requests} == {"a-model-nobody-knows"}
    tools = {tool["function"]["name"] for request in stub.requests for tool in request["tools"]}
    assert {"shell", "read_file", "grep", "retrieve_memory"} <= tools
    sent = [json.dumps(request["messages"]) for request in stub.requests]
    a_line = "class BaseMessage(BaseModel, ABC):"
    assert a_line in sent[1]  # at first the file itself
    assert all("[MemoryRef: read_file_" in messages for messages in sent[2:-2])  # the last two are a new session
    shown_again = [messages for messages in sent[2:-2] if a_line in messages]
    assert all("Opened from memory" in messages for messages in shown_again)  # by what the questions ask for
    assert len(shown_again) < len(sent) / 2
    assert "matches 1-" in re.sub(r"\s+", " ", run.stdout)
    assert "byte-identical" in run.stdout


def test_a_model_that_does_not_answer_is_told_in_one_line(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback, and a status other than 0."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    run = run_demo(out)
    assert run.returncode == 1
    (line,) = [line for line in run.stderr.splitlines() if not line.startswith("the light model ")]
    assert line.startswith("Call 1: the model did not answer. ")


def test_a_store_that_cannot_be_opened_is_told_in_one_line(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the place and leaves the password out."""
    monkeypatch.setenv("MEMORY_CONTEXT_URL", "postgresql://me:hidden@127.0.0.1:1/nowhere")
    run = run_demo(out)
    assert run.returncode == 1
    assert run.stderr.startswith("The store cannot be opened: ")
    assert "127.0.0.1" in run.stderr
    assert "hidden" not in run.stderr
    assert run.stderr.count("\n") == 1
