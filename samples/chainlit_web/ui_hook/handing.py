"""Handed: a place in component JSON that is filled with a live object while the component is loaded.

AutoGen builds an agent from JSON alone, so what JSON cannot say, a context on this application's store or its model,
is put in by this: the JSON names a number, and loading it gives the object behind that number. No attribute of an
agent is touched.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from autogen_core import Component, ComponentBase
from pydantic import BaseModel

__all__ = ["Handed", "Hands"]


class HandedConfig(BaseModel):
    """Which object of those at hand it is."""

    number: int


class Hands:
    """The live objects of one load: `component = hands.put(live)` stands in JSON, within `with hands.open():`.

    Where AutoGen checks the namespaces of components, AUTOGEN_ALLOWED_PROVIDER_NAMESPACES has to name this package.
    """

    def __init__(self) -> None:
        self._objects: list[object] = []

    def put(self, live: object) -> dict[str, Any]:
        """Return the component data that loads as this very object."""
        self._objects.append(live)
        return {"provider": f"{__name__}.{Handed.__name__}", "config": {"number": len(self._objects) - 1}}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have the objects at hand while a component is loaded."""
        token = _at_hand.set(self._objects)
        try:
            yield
        finally:
            _at_hand.reset(token)


class Handed(ComponentBase[HandedConfig], Component[HandedConfig]):
    """Stands in JSON for a live object."""

    component_type = "handed"
    component_config_schema = HandedConfig

    @classmethod
    def _from_config(cls, config: HandedConfig) -> Any:
        return _at_hand.get()[config.number]  # so there is never one of this class to be dumped


_at_hand: ContextVar[list[object]] = ContextVar("_at_hand")
