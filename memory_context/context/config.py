"""MemoryContext as component data."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from autogen_core import Component, ComponentBase, ComponentLoader, ComponentModel
from autogen_core.models import ChatCompletionClient, LLMMessage
from pydantic import BaseModel, model_validator

from memory_context.foundation.identifiers import Sharing
from memory_context.foundation.messages import message_from_json, message_to_json
from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ContextPolicy
from memory_context.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memory_context.connectors.protocols import Connector

__all__ = ["MemoryContextConfig", "arguments_of", "config_of"]

_logger = logging.getLogger("memory_context")

_GENERATED = regex(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}(?:/.*)?$")
"""A generated session id, possibly with a sub-agent suffix."""
_WITHDRAWN = ("memory_context.ShellConnector",)
"""Contexts of before load without these connectors."""


class MemoryContextConfig(BaseModel):
    """A context as component data, without secrets. Data with a session id must be loaded once at a time.

    Attributes:
        session_id: None for a new session with each load.
        template_id: Links dumped tools to their context.
    """

    user_id: str
    agent_id: str
    session_id: str | None = None
    template_id: str = ""
    policy: dict[str, Any] = {}  # dict: AutoGen drops None fields
    memory_store: dict[str, str | None] = {}
    model_client: ComponentModel | None = None
    initial_messages: list[dict[str, Any]] = []
    connectors: list[ComponentModel] = []
    sharing: Sharing = "shared"
    resume: bool = True

    @model_validator(mode="before")
    @classmethod
    def _read_earlier(cls, data: object) -> object:
        """Migrate 0.1.0 data, with generated session ids."""
        if not isinstance(data, dict) or "template_id" in data or "session_id" not in data:
            return cast(object, data)
        session_id = cast(dict[str, object], data)["session_id"]
        is_generated = isinstance(session_id, str) and _GENERATED.match(session_id) is not None
        named = None if is_generated else session_id
        return {**cast(dict[str, object], data), "template_id": session_id, "session_id": named}


def config_of(
    context: Any,  # a MemoryContext, whose module imports this one
    memory_store: dict[str, str | None],
    initial_messages: Sequence[LLMMessage],
) -> MemoryContextConfig:
    """Return a context as component data, without connectors that have none; warns of them."""
    connectors = [one for one in context.connectors if isinstance(one, ComponentBase) and isinstance(one, Component)]
    if left_out := [one.id for one in context.connectors if one not in connectors]:
        names = ", ".join(map(repr, left_out))
        _logger.warning("connectors %s are no components: component data leaves them out", names)
    client = context.light_model_client
    return MemoryContextConfig(
        user_id=context.user_id,
        agent_id=context.agent_id,
        session_id=context.named_session_id,
        template_id=context.template_id,
        policy=context.policy.model_dump(mode="json"),
        memory_store=memory_store,
        model_client=None if client is None else client.dump_component(),
        initial_messages=[message_to_json(message) for message in initial_messages],
        connectors=[one.dump_component() for one in connectors],
        sharing=context.sharing,
        resume=context.resumes,
    )


def _connectors_of(models: Sequence[ComponentModel]) -> list["Connector"]:
    from memory_context.connectors.protocols import Connector

    connectors: list[Connector] = []
    for model in models:
        try:
            loaded = ComponentLoader.load_component(model, object)
        except AttributeError as error:
            if model.provider not in _WITHDRAWN:
                raise
            _logger.warning("connector %r is left out: %s", model.config.get("id"), error)
            continue
        if not isinstance(loaded, Connector):
            raise ValueError(f"component {model.provider!r} is no connector: it lacks a method of `Connector`")
        connectors.append(loaded)
    return connectors


def arguments_of(config: MemoryContextConfig) -> dict[str, Any]:
    """Return the constructor arguments."""
    return {
        "user_id": config.user_id,
        "agent_id": config.agent_id,
        "session_id": config.session_id,
        "memory_store": MemoryStore.from_config(**config.memory_store) if config.memory_store else None,
        "model_client": ChatCompletionClient.load_component(config.model_client) if config.model_client else None,
        "policy": ContextPolicy.model_validate(config.policy),
        "initial_messages": [message_from_json(message) for message in config.initial_messages] or None,
        "connectors": _connectors_of(config.connectors),
        "sharing": config.sharing,
        "resume": config.resume,
    }
