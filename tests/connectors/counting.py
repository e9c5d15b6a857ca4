"""A connector that counts, contexts that have it, and the texts of their views."""

from collections.abc import Sequence
from typing import Any

from autogen_core import Image
from autogen_core.models import LLMMessage
from autogen_core.tools import FunctionTool
from PIL import Image as Pictures

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.connectors.protocols import Element, TextObservation
from memory_context.foundation.policy import ConnectorsPolicy

__all__ = ["Counter", "context_of", "picture", "texts"]


class Counter:
    """Counts actions, as text and as a picture."""

    def __init__(self, connector_id: str = "counter", *, has_pictures: bool = False, text: str = "") -> None:
        self.id = connector_id
        self.count = 0
        self.is_open = False
        self._has_pictures, self._text = has_pictures, text

    async def on_start(self) -> None:
        self.is_open = True

    async def on_stop(self) -> None:
        self.is_open = False

    def tools(self) -> Sequence[Any]:
        async def jump() -> list[TextObservation]:
            """Jump."""
            return [TextObservation(self.id, "it jumped")]

        return [FunctionTool(jump, "Jump.", name="jump")]

    async def get_observations(self) -> list[TextObservation]:
        self.count += 1
        images = (picture(self.count),) if self._has_pictures else ()
        return [TextObservation(self.id, f"count is {self.count}{self._text}", images=images)]

    async def render_current_state(self) -> list[Element]:
        return [f"now {self.count}"]


def picture(number: int) -> Image:
    return Image(Pictures.new("RGB", (8, 8), (number % 256, 0, 0)))


def context_of(store: MemoryStore, *connectors: Any, session: str | None = None, **policy: Any) -> MemoryContext:
    settings = ConnectorsPolicy(**policy)
    return MemoryContext(
        "alice", "coder", session, store, policy=ContextPolicy(connectors=settings), connectors=connectors
    )


def texts(messages: Sequence[LLMMessage]) -> list[str]:
    shown: list[str] = []
    for message in messages:
        content = message.content
        blocks = content if isinstance(content, list) else [content]
        shown += [getattr(one, "content", None) or getattr(one, "name", None) or str(one) for one in blocks]
    return shown
