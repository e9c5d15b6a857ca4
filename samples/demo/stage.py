"""What both processes of the demo share: the agent with its context and recorder, the model, the places of files."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import autogen_agentchat
from autogen_agentchat.messages import ToolCallExecutionEvent, ToolCallRequestEvent
from autogen_core import EVENT_LOGGER_NAME, FunctionCall
from autogen_core.models import ChatCompletionClient

from memory_context import ContextPolicy, MemoryContext

from ..code_agent import CodeAgent, model_client_from_env
from .display import Display
from .recorder import Recorder
from .script import ScriptedClient, Step

__all__ = ["CODE_ROOT", "USER_ID", "Stage", "choose_model", "demo_policy", "stage"]

USER_ID = "memory-context-demo"
AGENT = "coder"
CODE_ROOT = Path(autogen_agentchat.__file__).resolve().parents[1]
PACE_SECONDS = 0.2

# AutoGen's replay client counts words of plain texts only, and says so at every call; matplotlib tells that it builds
# its font cache. Neither is of interest here.
for _name in (EVENT_LOGGER_NAME, "matplotlib"):
    logging.getLogger(_name).setLevel(logging.ERROR)


def demo_policy(token_budget: int | None) -> ContextPolicy:
    """Return the default policy, with another budget if one was asked for."""
    return ContextPolicy() if token_budget is None else ContextPolicy(token_budget=token_budget)


@dataclass(frozen=True)
class Stage:
    """An agent at work, watched; `steps` are its calls and what they returned, look-ups in its memory excepted."""

    agent: CodeAgent
    context: MemoryContext
    recorder: Recorder
    steps: list[tuple[FunctionCall, str]] = field(default_factory=list[tuple[FunctionCall, str]])

    async def turn(self, number: int, task: str) -> str:
        """Run one turn and return the agent's answer."""
        self.recorder.turn = number
        result = await self.agent.run(task=task)
        own_tools = self.context.transcript.state.offered.memory_tools
        calls: dict[str, FunctionCall] = {}
        for message in result.messages:
            if isinstance(message, ToolCallRequestEvent):
                calls |= {call.id: call for call in message.content}
            elif isinstance(message, ToolCallExecutionEvent):
                others = [one for one in message.content if one.name not in own_tools]
                self.steps.extend((calls[one.call_id], one.content) for one in others)
        return str(result.messages[-1].content)  # type: ignore[union-attr]  # the last one is a chat message


@asynccontextmanager
async def stage(
    client: ChatCompletionClient,
    display: Display,
    policy: ContextPolicy,
    first_number: int = 1,
    light_model: ChatCompletionClient | None = None,
) -> AsyncIterator[Stage]:
    """Give an agent whose calls are recorded and displayed; afterwards nothing of it is left but what it stored."""
    context = MemoryContext(user_id=USER_ID, agent_id=AGENT, model_client=light_model, policy=policy)
    recorder = Recorder(client, context, display, first_number)
    agent = CodeAgent(AGENT, recorder.client, model_context=context, code_root=CODE_ROOT)
    try:
        yield Stage(agent, context, recorder)
    finally:
        display.rest()
        await agent.close()
        await context.close()
        await client.close()


def choose_model(
    script: Callable[[], Sequence[Step]], is_watched: bool, first_number: int = 1
) -> tuple[ChatCompletionClient, bool]:
    """Return the model and whether it is a live one: that of OPENAI_API_KEY, else the script."""
    if live := model_client_from_env():
        return live, True
    # a script decides in no time at all; somebody who watches gets a moment to read
    return ScriptedClient(script(), first_number, PACE_SECONDS if is_watched else 0.0), False
