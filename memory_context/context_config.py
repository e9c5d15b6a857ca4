"""MemoryContext as component data: what `dump_component` writes and `load_component` reads."""

from collections.abc import Sequence
from typing import Any, Protocol

from autogen_core import ComponentModel
from autogen_core.models import ChatCompletionClient, LLMMessage
from pydantic import BaseModel

from .memory import Sharing
from .messages import message_from_json, message_to_json
from .policy import ContextPolicy
from .store import MemoryStore

__all__ = ["MemoryContextConfig", "arguments_of", "config_of"]


class MemoryContextConfig(BaseModel):
    """A context as component data, without secrets: a database with a password is named by an environment variable."""

    user_id: str
    agent_id: str
    session_id: str
    policy: dict[
        str, Any
    ] = {}  # a dict, since AutoGen drops fields that are None, and token_budget=None means something
    memory_store: dict[str, str | None] = {}
    model_client: ComponentModel | None = None
    initial_messages: list[dict[str, Any]] = []
    sharing: Sharing = "shared"
    resume: bool = True


class Configured(Protocol):
    """What a context says of itself."""

    user_id: str
    agent_id: str
    session_id: str
    policy: ContextPolicy
    sharing: Sharing
    resumes: bool


def config_of(
    context: Configured,
    store: dict[str, str | None],
    model_client: ChatCompletionClient | None,
    initial_messages: Sequence[LLMMessage],
) -> MemoryContextConfig:
    """Return a context as component data."""
    return MemoryContextConfig(
        user_id=context.user_id,
        agent_id=context.agent_id,
        session_id=context.session_id,
        policy=context.policy.model_dump(mode="json"),
        memory_store=store,
        model_client=None if model_client is None else model_client.dump_component(),
        initial_messages=[message_to_json(message) for message in initial_messages],
        sharing=context.sharing,
        resume=context.resumes,
    )


def arguments_of(config: MemoryContextConfig) -> dict[str, Any]:
    """Return the arguments that make a context of component data."""
    return {
        "user_id": config.user_id,
        "agent_id": config.agent_id,
        "session_id": config.session_id,
        "memory_store": MemoryStore.from_config(**config.memory_store) if config.memory_store else None,
        "model_client": ChatCompletionClient.load_component(config.model_client) if config.model_client else None,
        "policy": ContextPolicy.model_validate(config.policy),
        "initial_messages": [message_from_json(message) for message in config.initial_messages] or None,
        "sharing": config.sharing,
        "resume": config.resume,
    }
