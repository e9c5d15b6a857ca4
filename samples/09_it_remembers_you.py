"""Three conversations in three processes: what the user says once is known in the next ones.

Learn: nothing is stored by hand. What users say about themselves is learned in the background when the conversation
is archived, from their own words only, and stands in the head of every later session of this user, of any agent:
`context.explain()` shows it, `ContextPolicy(user_memory=UserMemoryPolicy(enabled=False))` switches it off. Rules decide
here; with `model_client` a light model learns more. `AgentMemory(store, user).user_memory()` lists what is known.

Try: another first sentence ("I prefer answers in German"); `memory-context memory list --user sample-remembers`; and
`memory-context memory forget` with the key it lists, and the last conversation again.
"""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallRequestEvent
from autogen_core.models import LLMMessage, UserMessage
from runner import run

from memory_context import AgentMemory, MemoryContext, MemoryStore
from memory_context.testing import Decision, ScriptedModel, call

USER = "sample-remembers"
CONVERSATIONS = (
    ("shop", "My database is Orders at db1; remember it, I always use it."),
    ("shop", "Connect to the DB like last time."),
    ("billing", "Verbinde dich mit der Datenbank wie letztes Mal."),
)


async def connect(database: str, host: str) -> str:
    """Connect to a database."""
    return f"Connected to {database} at {host}."


def as_known(view: Sequence[LLMMessage]) -> Decision:
    """Do as a model does: connect to the database that the view names, else ask."""
    known = next((str(one.content) for one in view if isinstance(one, UserMessage) and one.source == "memory"), "")
    named = re.search(r"database is (\w+) at (\w+)", known)
    if "remember" in str(view[-1].content):
        return "I will."
    return call("connect", database=named[1], host=named[2]) if named else "Which database do you mean?"


async def converse(number: int) -> None:
    """Have one of the conversations, in a session of its own."""
    project, request = CONVERSATIONS[number]
    async with MemoryContext(USER, project) as context:
        agent = AssistantAgent(
            project,
            ScriptedModel(as_known, "{result}"),
            tools=[connect],
            model_context=context,
            system_message=f"You work on {project}. {context.instructions()}",
            max_tool_iterations=3,
        )
        print(f"\nConversation {number + 1}, project {project}")
        print(f"  the user: {request}")
        async for event in agent.run_stream(task=request):
            if isinstance(event, ToolCallRequestEvent):
                print(*(f"  calls {one.name}({one.arguments})" for one in event.content), sep="\n")
        print(f"  answers: {event.messages[-1].content}")  # type: ignore[union-attr]  # the last is the run's result
        head = [one for one in (await context.explain()).segments if one.kind == "user_memory"]
        print(f"  in the head of its view: {len(head[0].keys) if head else 0} statement of the user")


async def main() -> None:
    """Forget what an earlier run left, then talk three times; each later time in a new process."""
    store = MemoryStore.default()
    await store.erase_user(USER)
    await converse(0)
    await store.jobs.flush()  # done in the background anyway; here the next conversation begins at once
    for item in await AgentMemory(store, USER).user_memory():
        print(f"  learned: {item.content!r}, {item.origin}, from {item.metadata['quote']!r}")
    for number in range(1, len(CONVERSATIONS)):
        other = await asyncio.create_subprocess_exec(sys.executable, __file__, str(number), stdout=PIPE)
        out, _ = await other.communicate()
        print(out.decode().rstrip())


if __name__ == "__main__":
    run(converse(int(sys.argv[1])) if sys.argv[1:] else main())
