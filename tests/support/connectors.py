"""A connector in tests: its tools by name, what it tells, and its state."""

from typing import Any

from autogen_core import CancellationToken

from memory_context import Connector
from memory_context.connectors.protocols import TextObservation

__all__ = ["noticed", "state", "told", "use"]


async def use(connector: Connector, name: str, **arguments: Any) -> Any:
    """Return the result of a tool."""
    tool = next(one for one in connector.tools() if one.name == f"{connector.id}_{name}")
    return await tool.run_json(arguments, CancellationToken())


async def told(connector: Connector) -> list[TextObservation]:
    """Return new observations."""
    return [*await connector.get_observations()]  # type: ignore[list-item]  # the project's own make no others


async def noticed(connector: Connector) -> list[str]:
    """Return the texts of new observations."""
    return [one.text for one in await told(connector)]


async def state(connector: Connector) -> str:
    """Return the text of the present state; empty if there is none."""
    elements = await connector.render_current_state()
    return str(elements[0]) if elements else ""
