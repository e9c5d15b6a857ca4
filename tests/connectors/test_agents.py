"""An agent works through connectors and a shell alone; it is scripted by rules that read its view."""

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage
from autogen_core.tools import FunctionTool

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.connectors.editor import EditorConnector
from memory_context.connectors.filesystem import FileSystemConnector
from memory_context.testing import Call, Decision, ScriptedModel, call

pytestmark = pytest.mark.thorough

TASK = "Make the tests of the shop pass, then write down in report.md what figures.txt says of orders in March."
MOST_TOKENS = 8000
WRONG = {
    "net": ("price, tax", "price - tax", "price + tax"),
    "total": ("price, count", "price * count", "price + count"),
    "half": ("count,", "count // 2", "count // 3"),
    "last": ("items,", "items[-1]", "items[0]"),
    "joined": ("names,", "', '.join(names)", "','.join(names)"),
    "is_free": ("price,", "price == 0", "price != 0"),
    "rounded": ("price,", "round(price, 2)", "round(price)"),
}
EXAMPLES = {
    "net": ("10, 3", 7),
    "total": ("4, 5", 20),
    "half": ("12", 6),
    "last": ("[1, 2]", 2),
    "joined": ("['a', 'b']", "a, b"),
    "is_free": ("0", True),
    "rounded": ("1.255", 1.25),
}


def make_shop(root: Path) -> None:
    """A project whose tests are many and whose functions stand far down in their modules."""
    tests = ["import unittest", ""]
    for name, (arguments, right, wrong) in WRONG.items():
        filler = "".join(f"def {name}_{at}():\n    return {at}\n\n\n" for at in range(60))
        body = f'def {name}({arguments.rstrip(",")}):\n    """Returns `{right}`."""\n    return {wrong}\n'
        (root / f"shop_{name}.py").write_text(f"{filler}{body}\n\n{filler.replace('_', '_more_')}")
        tests += [f"import shop_{name}"]
    for name, (arguments, result) in EXAMPLES.items():
        tests += ["", f"class {name.title().replace('_', '')}(unittest.TestCase):"]
        tests += [
            f"    def test_{at}(self):\n        self.assertEqual(shop_{name}.{name}_{at}(), {at})" for at in range(20)
        ]
        tests += [f"    def test_{name}(self):\n        self.assertEqual(shop_{name}.{name}({arguments}), {result!r})"]
    (root / "test_shop.py").write_text("\n".join(tests) + "\n")
    figures = [f"Orders in week {week}: {week * 37 % 91} of {week * 53 % 97 + 100}" for week in range(1, 53)]
    (root / "figures.txt").write_text("\n".join([*figures, "Orders in March: 4217", *figures]))


class Seen:
    """What a view shows: its texts, those after the newest call of a tool, and that call."""

    def __init__(self, view: Sequence[LLMMessage]) -> None:
        calls = [
            at for at, one in enumerate(view) if isinstance(one, AssistantMessage) and not isinstance(one.content, str)
        ]
        self.tool = view[calls[-1]].content[0].name if calls else ""
        self.all = "\n".join(text_of(one) for one in view)
        self.news = "\n".join(text_of(one) for one in view[calls[-1] if calls else 0 :])

    def find(self, pattern: str, *, among_news: bool = True) -> re.Match[str]:
        """Return the last match; the agent refuses to go on without it."""
        found = [*re.finditer(pattern, self.news if among_news else self.all, re.MULTILINE)]
        assert found, f"the agent cannot see {pattern!r} after {self.tool!r}:\n{self.news}"
        return found[-1]


def text_of(message: LLMMessage) -> str:
    if isinstance(message, FunctionExecutionResultMessage):
        return "\n".join(one.content for one in message.content)
    content = message.content
    return content if isinstance(content, str) else "\n".join(str(one) for one in content)


def decide(view: Sequence[LLMMessage]) -> Decision:
    """Decide by what the view shows, as a model has to."""
    seen = Seen(view)
    seen.find(re.escape(TASK), among_news=False)
    return RULES[seen.tool](seen)


def run_tests(seen: Seen) -> Call:
    seen.find(r"^test_shop\.py$", among_news=False)
    return call("shell", command=f"{shlex.quote(sys.executable)} -B -m unittest -v -f")


def after_run(seen: Seen) -> Decision:
    if "exit code 0" in seen.news:
        return call("files_read", path=seen.find(r"^figures\.txt$")[0])
    place = seen.find(r'File ".*?/(\w+\.py)", line (\d+), in test_')
    return call("editor_open", path=place[1], line=int(place[2]))


def after_open(seen: Seen) -> Decision:
    if match := re.search(r'^ *\d+ +"""Returns `(.*)`\."""\n *(\d+) +return ', state_of(seen), re.MULTILINE):
        line = int(match[2])
        return call("editor_replace_lines", first_line=line, last_line=line, text=f"    return {match[1]}\n")
    line = seen.find(r"^test_shop\.py, line (\d+) of")[1]
    name = seen.find(rf"^ *{line} +self\.assertEqual\(shop_\w+\.(\w+)\(")[1]
    return call("files_search", pattern=f"^def {name}\\(")


def state_of(seen: Seen) -> str:
    return seen.find(r'<connector_state id="editor">\n(?:.*\n)*?</connector_state>')[0]


def after_search(seen: Seen) -> Call:
    place = seen.find(r"^(shop_\w+\.py):(\d+): def ")
    return call("editor_open", path=place[1], line=int(place[2]))


def after_edit(seen: Seen) -> Call:
    seen.find(r"^\+    return ")  # the file system shows what became of the file
    return run_tests(seen)


def after_figures(seen: Seen) -> Call:
    orders = seen.find(r"Orders in March: (\d+)")[1]
    return call("editor_create", path="report.md", text=f"# Orders\n\nMarch: {orders}\n")


def after_report(seen: Seen) -> Call:
    return call("editor_search", path=seen.find(r"Created (report\.md)")[1], pattern="March")


def after_check(seen: Seen) -> str:
    return f"The tests pass; {seen.find(r'^report.md:3: (March: .*)$')[1]}"


RULES = {
    "": run_tests,
    "shell": after_run,
    "editor_open": after_open,
    "files_search": after_search,
    "editor_replace_lines": after_edit,
    "files_read": after_figures,
    "editor_create": after_report,
    "editor_search": after_check,
}


async def test_agent_repairs_a_project_and_reports_from_a_file_in_views_under_8000_tokens(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 steps; each decision needs what the view shows: output, diff, listing, lines around the cursor, page."""
    monkeypatch.setattr("memory_context.connectors.host._ANSWER_SECONDS", 300)
    make_shop(tmp_path)
    root = str(tmp_path)

    def shell(command: str) -> str:
        run = subprocess.run(command, shell=True, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return f"exit code {run.returncode}\n{run.stdout}"

    connectors = [FileSystemConnector(root), EditorConnector(root)]
    policy = ContextPolicy(token_budget=7000)
    async with MemoryContext("alice", "coder", memory_store=store, policy=policy, connectors=connectors) as context:
        model = ScriptedModel(decide)
        agent = AssistantAgent(
            "coder",
            model_client=model,
            model_context=context,
            workbench=context.workbench([FunctionTool(shell, "Run a command.")]),
            max_tool_iterations=60,
        )
        answer = (await agent.run(task=TASK)).messages[-1]
        count = context.token_counter.count
    assert answer.to_text() == "The tests pass; March: 4217"
    assert (tmp_path / "report.md").read_text() == "# Orders\n\nMarch: 4217\n"
    assert len(model.views) >= 40
    assert max(sum(count(text_of(one)) for one in view) for view in model.views) < MOST_TOKENS
