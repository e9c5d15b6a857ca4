"""The same agent with connectors: it sees what its actions changed, and edits lines by the numbers that it was shown.

Learn: file system and editor are two connectors of one context; what they observe follows each action by itself, and
what there is now stands at the end of every view. Commands are run by the agent's own tool. The model here is scripted
by what its view shows.

Try: `CodeAgent(…)` with a live model on a folder of yours (commands run with your rights), and leave the file system
connector out: the editor still tells what other processes change in the files that are open.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, UserMessage
from runner import needs, run

from memory_context import EditorConnector, FileSystemConnector, MemoryContext
from memory_context.testing import Call, ScriptedModel, call

with needs():
    from code_agent import CodeAgent

TESTS = f'cd "$CODE_ROOT" && {sys.executable} -B test_circle.py'
FILES = {
    "circle.py": "def area(radius):\n    pi = 3\n    return pi * radius * radius\n",
    "test_circle.py": "from circle import area\n\nassert area(10) == 314, f'area(10) is {area(10)}, not 314'\n",
}


def line_of(view: Sequence[LLMMessage], text: str) -> int:
    """Return the number before a line that the editor shows at the end of the view."""
    return int(re.findall(rf"^(\d+) .*{re.escape(text)}", str(view[-1].content), re.MULTILINE)[-1])


def pi_becomes(value: str) -> Callable[[Sequence[LLMMessage]], Call]:
    """Return a decision to replace the line with pi, wherever the view shows it."""

    def decide(view: Sequence[LLMMessage]) -> Call:
        line = line_of(view, "pi = 3")
        return call("editor_replace_lines", first_line=line, last_line=line, text=f"    pi = {value}\n")

    return decide


SCRIPT = (
    call("shell", command=TESTS),
    call("editor_open", path="circle.py"),
    pi_becomes("3.14"),
    call("shell", command=TESTS),
    "The test passes: pi was 3.",
)


def told(message: LLMMessage) -> list[str]:
    """Return what the world says in a message."""
    if isinstance(message, FunctionExecutionResultMessage):
        return [f"  result of {one.name}:\n{one.content}" for one in message.content]
    if isinstance(message, UserMessage) and message.source != "user":
        return [f"  observed by {message.source}:\n{message.content}"]
    return []


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            (Path(folder) / name).write_text(text)
        connectors = [FileSystemConnector(folder), EditorConnector(folder)]
        context = MemoryContext("sample-connectors", "coder", "circle", connectors=connectors, resume=False)
        async with context:
            model = ScriptedModel(*SCRIPT)
            agent = CodeAgent("coder", model, model_context=context, code_root=folder)
            answer = (await agent.run(task="Make test_circle.py pass.")).messages[-1].to_text()
            parts = [part for entry in context.transcript.entries() for part in told(entry.message)]
            parts += [answer, f"At the end of its last view:\n{model.views[-1][-1].content}"]
            print("\n\n".join(parts).replace(folder, "<folder>").replace(sys.executable, "python"))
            await agent.close()


if __name__ == "__main__":
    run(main())
