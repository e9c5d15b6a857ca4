"""The numbered samples as people run them: in a fresh Python, from another folder, without a key, and then once more.

One Python runs them all, each in a namespace of its own, since starting it costs more than most of them.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Server
from tests.support.waiting import PATIENT_SECONDS

SAMPLES = Path(__file__).parents[2] / "samples"
NUMBERED = sorted(SAMPLES.glob("[01][0-9]_*.py"))
AGAIN = ["02_code_agent", "03_sub_agents", "04_team", "05_fastapi_chat", "07_own_compactor", "09_it_remembers_you"]
BROWSER = ["11_browser_agent"] if shutil.which("chromium") else []
ONCE = [
    *AGAIN,
    "08_production_postgres",
    "10_long_session",
    *BROWSER,
    "12_code_agent_connectors",
    "13_own_connector",
]  # new servers and new times in each run
WITH_STORE = ["01_quickstart", *AGAIN, "06_mcp", "samples.demo", "samples.web_chat", "samples.chainlit_web"]

Ended = tuple[str, str, str, int]
"""A sample's name, what it printed on stdout and on stderr, and its exit code."""

RUNNER = """
import contextlib, io, json, os, runpy, sys, warnings
folder, *names = sys.argv[1:]
sys.path[0] = folder  # as for a script
sys.path.append(os.path.dirname(folder))
told = []
for name in names:
    if name == "UNUSABLE":
        del os.environ["MEMORY_CONTEXT_URL"]
        os.environ["MEMORY_CONTEXT_HOME"] = "/dev/null/x"
        continue
    is_module, code = name.startswith("samples."), 0
    if name == "samples.chainlit_web":
        warnings.simplefilter("ignore")  # Chainlit and what it imports
    sys.argv = [f"{folder}/{name}.py"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            runpy.run_module(name, run_name="__main__") if is_module else runpy.run_path(sys.argv[0], None, "__main__")
        except SystemExit as stop:
            code = stop.code or 0
            if isinstance(code, str):  # as the interpreter does
                print(code, file=sys.stderr)
                code = 1
    told.append((out.getvalue(), err.getvalue(), code))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(server: Server, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Ended]]:
    """What each sample printed, on stdout and stderr, and how it ended: twice on a database, and without a store."""
    server.execute("CREATE DATABASE samples_path TEMPLATE {template}", template=template)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "MEMORY_"))}
    environment |= {"MEMORY_CONTEXT_URL": server.url("samples_path"), "PYTHONUTF8": "1", "NO_PROXY": "127.0.0.1"}
    environment.pop("PYTHONPATH", None)
    names = [*ONCE, *AGAIN, *WITH_STORE]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUNNER, str(SAMPLES), *ONCE, *AGAIN, "UNUSABLE", *WITH_STORE],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENT_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    yield [(name, *ended) for name, ended in zip(names, json.loads(done.stdout), strict=True)]
    server.execute("DROP DATABASE samples_path WITH (FORCE)")


@pytest.fixture(scope="module")
def runs(told: list[Ended]) -> dict[str, list[str]]:
    """What each sample printed on a database, at first and when it was run again."""
    printed: dict[str, list[str]] = {name: [] for name in ONCE}
    for name, out, err, code in told[: len(ONCE) + len(AGAIN)]:
        assert (err, code) == ("", 0), name
        printed[name].append(out)
    return printed


@pytest.mark.parametrize("name", WITH_STORE)
def test_sample_without_a_usable_store_says_what_to_do_in_one_line(told: list[Ended], name: str) -> None:
    """And ends with exit code 1, without a traceback and before anything else is tried."""
    ((_, out, err, code),) = [one for one in told[len(ONCE) + len(AGAIN) :] if one[0] == name]
    (line,) = [one for one in f"{out}{err}".splitlines() if "MEMORY_CONTEXT_HOME" in one]
    assert "store cannot be opened: the embedded Postgres in /dev/null/x cannot be used" in line
    assert code == 1
    assert "Traceback" not in out
    assert err in (f"{line}\n", "")


@pytest.mark.parametrize("name", AGAIN)
def test_a_sample_says_the_same_when_it_is_run_again(runs: dict[str, list[str]], name: str) -> None:
    """On the store where it has been before."""
    first, second = runs[name]
    assert first == second


def test_an_agent_gets_a_detail_back_without_reading_the_file_again(runs: dict[str, list[str]]) -> None:
    """One file is read, its placeholder stands in the view, and less was sent than keeping it."""
    text = runs["02_code_agent"][0]
    assert text.count('calls read_file({"path": "policy.py"})') == 1
    key = re.search(r'calls retrieve_memory\(\{"memory_key": "(read_file_\w+)"', text)
    assert key is not None
    assert f"read_file succeeded. [MemoryRef: {key[1]} - path=policy.py" in text
    assert "batch_seconds: float = Field(default=60.0" in text
    sent, kept = re.findall(r"read ([\d,]+) tokens; keeping everything would have been ([\d,]+)\.", text)[0]
    assert int(sent.replace(",", "")) < int(kept.replace(",", "")) / 2


def test_sub_agents_read_what_their_sharing_allows(runs: dict[str, list[str]]) -> None:
    """A handed-over key opens for two of them; the notes of one can be read by the lead."""
    looked_up, notes = runs["03_sub_agents"][0].split("Each has stored notes of its own.")
    for name in ("researcher (shared)", "reviewer (read_only)"):
        assert f"{name}: 62: harbour-061  263 m3  LEAK?" in looked_up
    assert re.search(r"auditor \(isolated\): item 'read_meters_\w+' belongs to another agent", looked_up)
    assert "researcher (shared): Notes of the researcher." in notes
    for name in ("reviewer", "auditor"):
        assert re.search(rf"{name} \(\w+\): item 'store_memory_\w+' is private to agent '{name}'", notes)


def test_a_team_is_loaded_from_json_and_goes_on_in_another(runs: dict[str, list[str]]) -> None:
    """The second one reads nothing: what the first had read is opened by the key that one agent names."""
    first, second = runs["04_team"][0].split("Another team")
    read, saved = (int(number.replace(",", "")) for number in re.findall(r"(?:read|context is) ([\d,]+)", first))
    assert read == (SAMPLES / "code_agent.py").stat().st_size
    assert saved < read / 2
    assert re.search(r"reader: Three things; see where \[MemoryRef: read_file_\w+\] raises an error\.", second)
    assert second.count("raise ValueError(f") == 3
    assert "writer: Written up:" in second


def test_a_chat_goes_on_after_a_restart_of_its_server(runs: dict[str, list[str]]) -> None:
    """Whole and streamed; the person and the agent both know what was said before."""
    before, after = runs["05_fastapi_chat"][0].split("The server was stopped")
    assert "your message number 1;" in before
    assert "This |is |your |message |number |2; " in before
    assert "Whole:     This is your message number 3; the first was: My boat is called Wanderer." in after
    assert len(re.findall("^  (?:user|ai) ", after, re.MULTILINE)) == 6


def test_an_own_compactor_decides_what_stays(runs: dict[str, list[str]]) -> None:
    """Its facts instead of the built-in ones, and in the first view the passages it chose."""
    built_in, own = runs["07_own_compactor"][0].split("--- Your own")
    fresh, answered = own.split("Once it has answered:")
    facts = "Overdue: 4,386.50 in all; most by customer 26: 932.50."
    assert "Overdue:" not in built_in
    assert facts in fresh
    assert answered.strip().endswith(facts)
    rows = re.findall(r"^2024-05-\d+\|.*$", fresh, re.MULTILINE)
    assert rows
    assert all(row.endswith("|overdue") for row in rows)


def test_what_a_user_said_once_is_known_in_later_processes(runs: dict[str, list[str]]) -> None:
    """Learned by rules from the user's own words, and shown in the head of any agent's next session."""
    first, second, third = runs["09_it_remembers_you"][0].split("\nConversation ")[1:]
    assert "learned: 'My database is Orders at db1', user_words" in first
    for later in (second, third):
        assert "answers: Connected to Orders at db1." in later
        assert "in the head of its view: 1 statement of the user" in later


def test_production_is_set_up_with_two_logins_and_row_level_security_holds(runs: dict[str, list[str]]) -> None:
    """Behind PgBouncer where it is installed; nothing the application's login tries gets through."""
    text = runs["08_production_postgres"][0]
    refused = re.search(r"2\. The application alone.*?MEMORY_CONTEXT_OWNER_URL", text, re.DOTALL)
    assert refused is not None
    assert "password" not in text.split("2. The application")[1]
    is_pooled = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") is not None
    assert ("works through PgBouncer" in text) == is_pooled
    assert "41: 12:40 payment 40 declined in 17 ms" in text
    attempts = text.split("5. What")[1].split("6. Status")[0]
    results = re.findall(r"^   -- (.*)$", attempts, re.MULTILINE)
    assert results[0] == "0"
    assert len(results) == 5
    assert all(result.startswith("refused: ") for result in results[1:])
    assert re.search(r"Postgres \d+\.\d+, pgvector [\d.]+, schema version \d+, items: [1-9]", text)


def test_a_session_longer_than_its_window_is_observed_and_looked_up(runs: dict[str, list[str]]) -> None:
    """Observations take the place of messages, no step folds, and a number in the log leads to what is asked for."""
    text = runs["10_long_session"][0]
    assert len(re.findall(r"^  \d+ messages gave way to observations, at \d+% of the window$", text, re.MULTILINE)) >= 2
    assert int(re.findall(r"^  observations: ([\d,]+)$", text, re.MULTILINE)[0].replace(",", "")) > 100
    lines = re.findall(r"^  - \d\d:\d\d .+$", text, re.MULTILINE)
    assert len(lines) == 4
    first = re.findall(r'calls read_history\(\{"first_message": (\d+)', text)
    assert first
    assert re.search(r"It is CLOSED since 2026-\d\d-\d\d, reported by \w+\.", text)
    sent, kept, folds = re.findall(r"read ([\d,]+) tokens; .* been ([\d,]+)\. Folds: (\d+)\.", text)[0]
    assert int(sent.replace(",", "")) < int(kept.replace(",", "")) * 0.8
    assert folds == "0"


def test_an_agent_sees_by_connectors_what_its_actions_changed(runs: dict[str, list[str]]) -> None:
    """The edit is seen as a diff between the runs of the test."""
    text = runs["12_code_agent_connectors"][0]
    before, after = text.split("-    pi = 3\n")
    assert "result of shell:\nexit code 1\n" in before
    assert "AssertionError: area(10) is 300, not 314\n" in before
    assert after.startswith("+    pi = 3.14\n")
    assert "result of shell:\n\n" in after
    assert after.rstrip().endswith("3     return pi * radius * radius\n</connector_state>")


def test_an_own_connector_tells_what_changed_by_itself(runs: dict[str, list[str]]) -> None:
    text = runs["13_own_connector"][0]
    assert text.count("UserMessage: [oven] Warmed up from ") == 3
    assert "The oven has 200 degrees: the bread goes in." in text
    assert "\n200 degrees, set to 200\n" in text


@pytest.mark.skipif(not BROWSER, reason="chromium is not installed")
def test_an_agent_books_by_what_a_page_shows(runs: dict[str, list[str]]) -> None:
    """By references of the state, and what each action changed stands in the history."""
    (text,) = runs["11_browser_agent"]
    assert re.search(r"web: \[web\] Initial page: http://127.0.0.1:\d+/11_harbour.html \(Harbour office\)", text)
    assert '~ checkbox "Electricity"' in text
    history, state = text.split('<connector_state id="web">')
    assert '- heading "Berth 7 is booked for the Wanderer, 2 nights, with electricity."' in state
    assert "clerk: It is booked." in history


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
def test_a_numbered_sample_says_what_to_learn_and_what_to_try(path: Path) -> None:
    """It can be read whole, and the path leads there."""
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    assert "\nLearn: " in docstring
    assert "\nTry: " in docstring
    assert source.count("\n") <= 120
    assert f"]({path.name})" in (SAMPLES / "README.md").read_text(encoding="utf-8")
