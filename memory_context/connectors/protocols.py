"""The protocols of connectors and observations; `memory_context.testing.CONNECTOR_CHECKS` checks an implementation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from autogen_core import Image
from autogen_core.tools import BaseTool

__all__ = [
    "AgentContext",
    "Connector",
    "ConnectorObservation",
    "ConnectorState",
    "Element",
    "HistoryThought",
    "HistoryTurn",
    "Noticed",
    "TextObservation",
]

Element = str | Image


@runtime_checkable
class ConnectorObservation(Protocol):
    """One change that a connector noticed. Its data are plain attributes; it has no time of its own.

    Optional attributes: `type`, a word for the kind of change, and `subject`, the thing observed: a later observation
    of the same subject supersedes this one in the view.
    """

    @property
    def source_connector_id(self) -> str: ...

    def render(self) -> Sequence[str | Image]:
        """Return what the agent is shown. It may be called in another thread."""
        ...


@runtime_checkable
class Connector(Protocol):
    """Watches one part of the environment.

    Optional: `save_state()` and `load_state(data)` keep the state that changes are compared with in a saved session,
    as JSON; `state_limit_tokens`, set before each state, is the most that the state may take.
    """

    @property
    def id(self) -> str:
        """Unique among an agent's connectors: letters, digits, `_` and `-`."""
        ...

    async def on_start(self) -> None:
        """Open what is watched; called when it is first asked. Called again while it is open, it does nothing."""
        ...

    async def on_stop(self) -> None:
        """Close it. Called again, or without a start, it does nothing."""
        ...

    def tools(self) -> Sequence[BaseTool[Any, Any]]:
        """Return the tools that act on it."""
        ...

    async def get_observations(self) -> Sequence[ConnectorObservation]:
        """Return what changed since the last call that succeeded; the first call returns what there is."""
        ...

    async def render_current_state(self) -> Sequence[str | Image]:
        """Return what there is now, in few words; nothing if there is nothing to say."""
        ...


@dataclass(frozen=True)
class TextObservation:
    """An observation that is its text, with images behind it."""

    source_connector_id: str
    text: str
    type: str = "change"
    subject: str = ""
    images: tuple[Image, ...] = ()

    def render(self) -> list[str | Image]:
        """Return the text and the images."""
        return [self.text, *self.images]


@dataclass(frozen=True)
class Noticed:
    """The rendered observations of one connector about one subject after an action."""

    connector_id: str
    elements: tuple[Element, ...]
    subject: str = ""


@dataclass(frozen=True)
class ConnectorState:
    """The present state of what a connector watches; `tokens` counts its texts."""

    connector_id: str
    elements: tuple[str | Image, ...]
    tokens: int


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
