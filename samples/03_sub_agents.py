"""A lead and three sub-agents on one memory: what each may read, and what it is told when it may not.

Learn: `context.for_subagent(name, sharing)` gives another agent an empty context on the same memory. "shared": both
read what the other stores. "read_only": it reads the lead's, its own is private. "isolated": it reads its own only.
A key that is handed over in plain text opens where sharing allows it: nothing large is copied from agent to agent.

Try: another sharing in `SHARINGS`; and an agent that gets `for_subagent` of the researcher's context.
"""

import re
from collections.abc import Callable, Sequence

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.tools import AgentTool
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage
from runner import run

from memory_context import ItemNotFoundError, MemoryContext, MemoryCriteria, Sharing
from memory_context.testing import Call, Decision, ScriptedModel, call

SHARINGS: dict[str, Sharing] = {"researcher": "shared", "reviewer": "read_only", "auditor": "isolated"}


async def read_meters(district: str) -> str:
    """Return this month's readings of the water meters of a district."""
    return "\n".join(f"{district}-{n:03} {n * 37 % 997:>4} m3{'  LEAK?' if n == 61 else ''}" for n in range(150))


def look_up(view: Sequence[LLMMessage]) -> Call:
    """Do as a model does that was handed a key: look it up."""
    (key,) = set(re.findall(r"\bread_meters_\w+", str(view[1].content)))
    return call("retrieve_memory", memory_key=key, pattern="LEAK", context_lines=0)


def assistant(
    context: MemoryContext,
    *decisions: Decision | Callable[[Sequence[LLMMessage]], Decision],
    tools: Sequence[object] = (),
) -> AssistantAgent:
    """Return an agent that holds a context; a live model would decide by itself."""
    return AssistantAgent(
        context.agent_id,
        ScriptedModel(*decisions),
        tools=[*tools, *context.tools()],  # type: ignore[list-item]
        model_context=context,
        description=f"The {context.agent_id}.",
        max_tool_iterations=5,
    )


async def main() -> None:
    # a session of a name, begun anew; without them each run is a session with a new id
    async with MemoryContext("sample-sub-agents", "lead", "harbour", resume=False) as lead:
        subs = {name: lead.for_subagent(name, sharing) for name, sharing in SHARINGS.items()}
        experts = [
            assistant(
                context,
                look_up,
                call("store_memory", content=f"Notes of the {name}.", description="notes"),
                "I have looked, and taken notes.",
            )
            for name, context in subs.items()
        ]
        agent = assistant(
            lead,
            call("read_meters", district="harbour"),
            "150 meters read.",
            *(call(name, task="Where is the leak? The readings are {key}.") for name in SHARINGS),
            "Everybody has looked.",
            tools=[read_meters, *(AgentTool(expert) for expert in experts)],
        )
        await agent.run(task="Read the meters of the harbour.")
        await agent.run(task="Have the readings looked at.")

        print("The lead hands each the key of its readings. Each looks it up, and is answered:\n")
        for name, context in subs.items():
            results = [one for one in await context.get_messages() if isinstance(one, FunctionExecutionResultMessage)]
            print(f"  {name} ({SHARINGS[name]}): {results[0].content[0].content.splitlines()[0]}\n")

        print("Each has stored notes of its own. The lead asks for them:\n")
        for name, context in subs.items():
            (notes,) = await context.agent_memory.query(MemoryCriteria(session_id=context.session_id))
            try:
                answer = await lead.retrieve(notes.key)
            except ItemNotFoundError as refused:
                answer = str(refused)
            print(f"  {name} ({SHARINGS[name]}): {answer}\n")


if __name__ == "__main__":
    run(main())
