"""The sample with an agent that has connectors: files of a folder, and a screen whose picture changes.

`OBSERVED_FOLDER` names the folder.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import Image
from autogen_core.models import ModelInfo
from autogen_ext.models.replay import ReplayChatCompletionClient
from PIL import Image as Pictures
from PIL import ImageDraw

from memory_context import FileSystemConnector, MemoryContext, TextObservation
from memory_context.testing import call, tool_calls
from samples.chainlit_web.agents import Agents
from samples.chainlit_web.command import main
from samples.chainlit_web.plans import Plan
from samples.chainlit_web.ui_hook import BuiltAgent

SEEING = ModelInfo(vision=True, function_calling=True, json_output=False, family="unknown", structured_output=False)
FOLDER = Path(os.environ["OBSERVED_FOLDER"])


class Screen:
    """A screen with another picture after each action."""

    id = "screen"

    def __init__(self) -> None:
        self.looks = 0

    async def on_start(self) -> None: ...

    async def on_stop(self) -> None: ...

    def tools(self) -> Sequence[Any]:
        return []

    async def get_observations(self) -> list[TextObservation]:
        self.looks += 1
        picture = Pictures.new("RGB", (640, 360), (24, 32, 72))
        ImageDraw.Draw(picture).rectangle((40, 40, 40 + 90 * self.looks, 320), fill=(240, 180, 40))
        return [TextObservation(self.id, f"Screen update. Look {self.looks}", images=(Image(picture),))]

    async def render_current_state(self) -> list[str]:
        return []


def build(
    self: Agents, plan: Plan, user_id: str, session_id: str, contexts: Mapping[str, MemoryContext] | None = None
) -> BuiltAgent:
    """Return an agent that edits a file by its connector's tool and tells so."""
    context = (contexts or {}).get("coder") or MemoryContext(
        user_id, "coder", session_id, self.memory_store, connectors=[FileSystemConnector(str(FOLDER)), Screen()]
    )
    edit = call("files_edit", path="area.py", old="return 3 * r", new="return 3.14 * r")
    model = ReplayChatCompletionClient([tool_calls(edit), "It is mended."] * 3, model_info=SEEING)
    context.note_agent(model_client=model)
    agent = AssistantAgent("coder", model, model_context=context, tools=context.tools(), max_tool_iterations=2)
    return BuiltAgent(agent, {"coder": context})


if __name__ == "__main__":
    Agents.build = build  # before the service makes its own
    main()
