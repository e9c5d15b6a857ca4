"""The agent of the demo at work: what both processes share, with a line printed for each of its model calls."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import autogen_agentchat
from autogen_agentchat.messages import TextMessage, ToolCallExecutionEvent, ToolCallRequestEvent
from autogen_core import EVENT_LOGGER_NAME, FunctionCall
from autogen_core.models import LLMMessage
from pydantic import TypeAdapter
from typing_extensions import Self

from memory_context import ContextPolicy, MemoryContext, choose_light_model
from memory_context.view.bill import Bill

from ..code_agent import CodeAgent, model_client_from_env
from .display import Display
from .script import ScriptedClient, Step

__all__ = ["OWN_TOOLS", "Call", "DemoError", "Stage", "view_bytes"]

USER_ID, AGENT = "memory-context-demo", "coder"
OWN_TOOLS = ("shell", "read_file", "grep")
CODE_ROOT = Path(autogen_agentchat.__file__).resolve().parents[1]

# AutoGen logs each message; matplotlib tells that it builds its font cache. Neither is of interest here.
for _name in (EVENT_LOGGER_NAME, "matplotlib"):
    logging.getLogger(_name).setLevel(logging.ERROR)


class DemoError(Exception):
    """The demo cannot go on; the text says why."""


@dataclass(frozen=True)
class Call:
    """One model call, in tokens of messages, as the context recorded it.

    Attributes:
        raw_tokens: Tokens of a view that keeps everything; `raw_cost` is its cost.
        view_tokens: Tokens of the view that was sent; `view_cost` is its cost.
        mark: The last change before the call: "fold", "compaction", or "" for none.
    """

    turn: str
    raw_tokens: int
    view_tokens: int
    raw_cost: float
    view_cost: float
    mark: str


class Stage:
    """An agent at work, watched: the model of OPENAI_API_KEY, or a script.

    Attributes:
        calls: Its model calls so far.
        steps: Its tool calls and what they returned.
    """

    def __init__(self, script: Sequence[Step], display: Display, token_budget: int, first_call: int = 1) -> None:
        live = model_client_from_env()
        self.is_live, self.light_model = live is not None, choose_light_model(live)
        self.context = MemoryContext(
            USER_ID,
            AGENT,
            model_client=self.light_model.client,
            policy=ContextPolicy(token_budget=token_budget, store_timeout_seconds=10),
        )
        self._model = live or ScriptedClient(script, first_call)
        self.agent = CodeAgent(AGENT, self._model, model_context=self.context, code_root=CODE_ROOT)
        self.calls: list[Call] = []
        self.steps: list[tuple[FunctionCall, str]] = []
        self._display, self._first_call = display, first_call

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.agent.close()
        await self.context.close()
        await self._model.close()

    async def turn(self, name: str, task: str, about: str = "") -> None:
        """Run one turn: print the task, a line for each model call, and the answer."""
        self._display.begin_turn(f"{name}{about}", task)
        asked: dict[str, FunctionCall] = {}
        try:
            async for event in self.agent.run_stream(task=task):
                if isinstance(event, ToolCallRequestEvent):
                    self._end_call(name, _in_short(event.content))
                    asked |= {call.id: call for call in event.content}
                elif isinstance(event, ToolCallExecutionEvent):
                    self.steps += [(asked[result.call_id], result.content) for result in event.content]
                elif isinstance(event, TextMessage) and event.source == self.agent.name:
                    self._end_call(name, "answers")
        except Exception as error:  # each client has errors of its own
            if not self.is_live:
                raise
            number = self._first_call + len(self.calls)
            raise DemoError(f"Call {number}: the model did not answer. {type(error).__name__}: {error}") from error
        self._display.quote(event.messages[-1].to_text(), style="green")  # type: ignore[union-attr]  # the run's result

    def _end_call(self, turn: str, action: str) -> None:
        call = Bill(self.context.transcript).calls[-1]
        self._display.end_call(
            self._first_call + len(self.calls), action, call.raw_tokens, call.view_tokens, call.cached_tokens
        )
        costs = call.raw_view_cost, call.view_cost
        self.calls.append(Call(turn, call.raw_tokens, call.view_tokens, *costs, call.mark))


def _in_short(calls: Sequence[FunctionCall]) -> str:
    """Return the first call as a person would type it, and how many more there are."""
    first, *others = calls
    try:
        arguments = json.loads(first.arguments)
        words = [str(value).replace('cd "$CODE_ROOT" && ', "") for value in arguments.values()]
    except (ValueError, AttributeError):  # a live model may send anything
        arguments, words = {}, [first.arguments]
    if first.name == "read_file":
        words = [PurePath(one).name for one in words[:1]]
    elif first.name == "retrieve_memory":
        words = [str(arguments.get("pattern", arguments.get("transform", "full")))]
    return " ".join([first.name, *words, *([f"(+{len(others)})"] if others else [])])


async def view_bytes(context: MemoryContext) -> bytes:
    """Return the view as the bytes that two processes compare."""
    return TypeAdapter(list[LLMMessage]).dump_json(await context.get_messages())
