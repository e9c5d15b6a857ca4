"""MemoryContext as component data, as `dump_component` writes and `load_component` reads it.

Component data is a template of an agent: each load gives a context with a new, empty session. Only a session id that
the application named is part of it; each load then goes on with that session, so load such data once at a time.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol, cast

from autogen_core import ComponentModel
from autogen_core.models import ChatCompletionClient, LLMMessage
from pydantic import BaseModel, model_validator

from .. import store
from ..memory import Sharing
from ..messages import message_from_json, message_to_json
from ..policy import ContextPolicy

__all__ = ["MemoryContextConfig", "arguments_of", "config_of"]

_GENERATED = re.compile(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}(?:/.*)?$")
"""A session id of `uuid4().hex`, perhaps of a sub-agent."""


class MemoryContextConfig(BaseModel):
    """A context as component data, without secrets: a database with a password is named by an environment variable.

    Attributes:
        session_id: The session that the application named; None for a new one with each load.
        template_id: Names the context for its tools in the data.
        resume: True if a named session goes on where it ended.
    """

    user_id: str
    agent_id: str
    session_id: str | None = None
    template_id: str = ""
    policy: dict[str, Any] = {}  # a dict, since AutoGen drops fields that are None, as token_budget=None
    memory_store: dict[str, str | None] = {}
    model_client: ComponentModel | None = None
    initial_messages: list[dict[str, Any]] = []
    sharing: Sharing = "shared"
    resume: bool = True

    @model_validator(mode="before")
    @classmethod
    def _read_earlier(cls, data: object) -> object:
        """Take what version 0.1.0 wrote: always a session id, also one that nobody had named."""
        if not isinstance(data, dict) or "template_id" in data or "session_id" not in data:
            return cast(object, data)
        session_id = cast(dict[str, object], data)["session_id"]
        is_generated = isinstance(session_id, str) and _GENERATED.match(session_id) is not None
        named = None if is_generated else session_id
        return {**cast(dict[str, object], data), "template_id": session_id, "session_id": named}


class Configured(Protocol):
    """A context, as far as its component data tells."""

    user_id: str
    agent_id: str
    named_session_id: str | None
    template_id: str
    policy: ContextPolicy
    sharing: Sharing
    resumes: bool


def config_of(
    context: Configured,
    memory_store: dict[str, str | None],
    model_client: ChatCompletionClient | None,
    initial_messages: Sequence[LLMMessage],
) -> MemoryContextConfig:
    """Return a context as component data."""
    return MemoryContextConfig(
        user_id=context.user_id,
        agent_id=context.agent_id,
        session_id=context.named_session_id,
        template_id=context.template_id,
        policy=context.policy.model_dump(mode="json"),
        memory_store=memory_store,
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
        "memory_store": store.MemoryStore.from_config(**config.memory_store) if config.memory_store else None,
        "model_client": ChatCompletionClient.load_component(config.model_client) if config.model_client else None,
        "policy": ContextPolicy.model_validate(config.policy),
        "initial_messages": [message_from_json(message) for message in config.initial_messages] or None,
        "sharing": config.sharing,
        "resume": config.resume,
    }
