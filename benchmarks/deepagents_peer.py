"""deepagents as a peer: its own FilesystemMiddleware moves large results to files; its tools and instructions count.

Its libraries conflict with this project's, so it runs in a Python of its own, which `MEMORY_CONTEXT_DEEPAGENTS` names:
`python3 -m venv folder; folder/bin/pip install 'deepagents>=0.7.32,<0.8'`. It summarises at 170,000 tokens, which no
recorded run reaches, and shortens arguments of its own `write_file` and `edit_file`, which none has.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autogen_core.models import FunctionExecutionResult, FunctionExecutionResultMessage, LLMMessage

__all__ = ["VARIABLE", "DeepAgents", "python_of_deepagents"]

VARIABLE = "MEMORY_CONTEXT_DEEPAGENTS"
_CHILD = Path(__file__).with_name("deepagents_child.py")


def python_of_deepagents() -> str | None:
    """Return the Python that has deepagents; None if none is named."""
    return os.environ.get(VARIABLE) or None


class DeepAgents:
    """A conversation whose large results deepagents writes to files.

    Args:
        count: Counts the tokens of a text; the middleware has its own estimate of four characters a token.

    Attributes:
        fixed_text: Tools and instructions that each call carries.
        files: What was written, by the text that stands in its place.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        python = python_of_deepagents()
        assert python is not None, f"{VARIABLE} is not set"
        self._child = subprocess.Popen(
            [python, str(_CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self.fixed_text: str = self._answer()
        self.files: dict[str, str] = {}
        self._messages: list[LLMMessage] = []

    async def add_message(self, message: LLMMessage) -> None:
        """Take in the next message."""
        if isinstance(message, FunctionExecutionResultMessage):
            message = FunctionExecutionResultMessage(content=[self._shown(one) for one in message.content])
        self._messages.append(message)

    async def get_messages(self) -> list[LLMMessage]:
        """Return the messages for the next call."""
        return self._messages

    def __del__(self) -> None:
        self._child.kill()
        self._child.communicate()  # closes its pipes

    def _shown(self, result: FunctionExecutionResult) -> FunctionExecutionResult:
        assert self._child.stdin is not None
        asked = {"content": result.content, "call_id": result.call_id, "name": result.name}
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        shown = self._answer()
        if shown != result.content:
            self.files[shown] = result.content
        return result.model_copy(update={"content": shown})

    def _answer(self) -> Any:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        assert line, "deepagents ended; its errors stand above"
        return json.loads(line)
