"""The types of `MemoryContext.build_context`: what an agent thought, did and perceived."""

from dataclasses import dataclass

from autogen_core import Image

from .protocols import ConnectorState

__all__ = ["AgentContext", "HistoryThought", "HistoryTurn"]


@dataclass(frozen=True)
class HistoryThought:
    """Words of the agent."""

    timestamp: str
    message: str


@dataclass(frozen=True)
class HistoryTurn:
    """One action and what was observed after it.

    Attributes:
        action: JSON, `{"name": …, "arguments": {…}}`; `null` for what was observed without an action.
        observations: The result as views show it, then what connectors observed.
    """

    timestamp: str
    action: str
    observations: tuple[str | Image, ...]


@dataclass(frozen=True)
class AgentContext:
    """History and present of an agent; times are HH:MM:SS in UTC, with the date if they are of several days."""

    history: tuple[HistoryThought | HistoryTurn, ...]
    current_timestamp: str
    current_connector_states: tuple[ConnectorState, ...]
