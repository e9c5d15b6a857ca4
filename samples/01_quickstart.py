"""The idea in three prints: a tool result in full, then its placeholder, then the content back.

Learn: what happens inside an agent's `model_context`, here done by hand.

Try: `policy=ContextPolicy(first_view_by_tool={"*": "placeholder"})`, and the model never sees the log in full; and a
shorter `LOG`, under 500 tokens, of which nothing is stored at all.
"""

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage
from runner import run

from memory_context import MemoryContext

LINE = "12:{0:02} 10.0.0.{0} GET /api/orders/{0}?expand=items,customer -> {1} in 17 ms"
LOG = "\n".join(LINE.format(n, "500 disk full" if n == 13 else "200 ok") for n in range(20))


async def shown(context: MemoryContext) -> str:
    """Return the result as the view has it: behind the user's memory, if an earlier run left one."""
    view = await context.get_messages()
    return next(one for one in view if isinstance(one, FunctionExecutionResultMessage)).content[0].content


async def main() -> None:
    async with MemoryContext("quickstart", "operator") as context:
        # What an AutoGen agent does with its model_context: its model asks for the log and gets it.
        await context.add_message(UserMessage(content="Did any request fail?", source="user"))
        call = FunctionCall(id="call_1", name="read_log", arguments="{}")
        await context.add_message(AssistantMessage(content=[call], source="operator"))
        result = FunctionExecutionResult(content=LOG, name="read_log", call_id="call_1", is_error=False)
        await context.add_message(FunctionExecutionResultMessage(content=[result]))
        print(f"1. Fresh, the model sees the result in full:\n\n{await shown(context)}")
        await context.add_message(AssistantMessage(content="Yes, order 13: disk full.", source="operator"))
        print(f"\n2. Answered, it sees its placeholder:\n\n{await shown(context)}")
        key = next(key for segment in (await context.explain()).segments for key in segment.keys)
        found = await context.retrieve(key, "filtered", pattern="-> 5..", context_lines=1)
        print(f"\n3. Back again, what a regex finds in it:\n\n{found}")
        print(f"\nThe whole of it is the same, byte for byte: {await context.retrieve(key) == LOG}.")


run(main())
