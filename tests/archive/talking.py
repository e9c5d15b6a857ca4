"""What is said in a session, in few words."""

from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.messages import texts_of
from memory_context.foundation.policy import ArchivePolicy

SESSION = "one-session"
KNOWN_OF_USER = "Known of this user before this conversation"


def context_of(
    store: MemoryStore, session_id: str | None = SESSION, *, agent_id: str = "coder", **archive: object
) -> MemoryContext:
    """Return a context of a session whose archive is written as told."""
    return MemoryContext("alice", agent_id, session_id, store, policy=ContextPolicy(archive=ArchivePolicy(**archive)))


async def say(context: MemoryContext, *texts: str) -> None:
    """Let the user say something and the agent answer it, for each text."""
    for text in texts:
        await context.add_message(UserMessage(content=text, source="user"))
        await context.get_messages()
        await context.add_message(AssistantMessage(content=f"On {text}.", source=context.agent_id))


def words(messages: list[LLMMessage]) -> list[str]:
    """Return what messages say, one text each."""
    return [" ".join(text for _, text in texts_of(message)) for message in messages]


async def said_in(context: MemoryContext) -> list[str]:
    """Return what a view of the session says, beside what is known of the user from others."""
    return [text for text in words(await context.get_messages()) if not text.startswith(KNOWN_OF_USER)]


def turns(*texts: str) -> list[str]:
    """Return what `say` leaves in a view."""
    return [said for text in texts for said in (text, f"On {text}.")]
