"""Single events in the life of a context."""

import asyncio

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage

from memory_context import CachePolicy, MemoryContext

ALWAYS_PAYS = CachePolicy(expected_calls=1_000_000)
"""So many calls are still to come that every change that removes something pays at once."""
NEVER_PAYS = CachePolicy(prices=(0, 1.25, 300))
"""What stands in the view costs nothing, so only the budget removes anything."""


async def add_step(context: MemoryContext, *contents: str, name: str = "survey", arguments: str = "{}") -> None:
    """Let the model see a view and call a tool once for each content, which comes back."""
    await context.get_messages()
    number = context.transcript.end
    calls = [FunctionCall(id=f"{number}_{i}", name=name, arguments=arguments) for i in range(len(contents))]
    await context.add_message(AssistantMessage(content=calls, source=context.agent_id))
    await context.add_message(
        FunctionExecutionResultMessage(
            content=[
                FunctionExecutionResult(content=content, name=name, call_id=call.id, is_error=False)
                for call, content in zip(calls, contents, strict=True)
            ]
        )
    )


async def a_turn_of_the_loop() -> None:
    """Let everything that is ready to run go on by one step."""
    loop = asyncio.get_running_loop()
    turned = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned
