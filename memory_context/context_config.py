"""MemoryContext as component data: what `dump_component` writes and `load_component` reads."""

from typing import Any

from autogen_core import ComponentModel
from pydantic import BaseModel

from .memory import Sharing

__all__ = ["MemoryContextConfig"]


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
