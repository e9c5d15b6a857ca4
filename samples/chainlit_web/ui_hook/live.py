"""Live objects in component JSON: it holds a number in their places, and loading gives the object behind the number.

AutoGen builds an agent from JSON alone, which cannot name a context on this application's store, or its model client.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from autogen_core import Component, ComponentBase
from pydantic import BaseModel

__all__ = ["LiveObjects"]


class LiveObjects:
    """The live objects of one load: `component = live.put(context)` stands in JSON, within `with live.open():`."""

    def __init__(self) -> None:
        self._objects: list[object] = []

    def put(self, live: object) -> dict[str, Any]:
        """Return component data that loads as this very object."""
        self._objects.append(live)
        return {"provider": f"{__name__}.{LiveComponent.__name__}", "config": {"number": len(self._objects) - 1}}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have the objects at hand while a component is loaded."""
        token = _at_hand.set(self._objects)
        try:
            yield
        finally:
            _at_hand.reset(token)


class LiveComponentConfig(BaseModel):
    number: int


class LiveComponent(ComponentBase[LiveComponentConfig], Component[LiveComponentConfig]):
    """Stands in JSON for a live object."""

    component_type = "live"
    component_config_schema = LiveComponentConfig

    @classmethod
    def _from_config(cls, config: LiveComponentConfig) -> Any:
        return _at_hand.get()[config.number]  # so no instance of this class ever exists


_at_hand: ContextVar[list[object]] = ContextVar("_at_hand")
