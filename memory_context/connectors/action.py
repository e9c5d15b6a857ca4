"""A tool of a connector, whose result may bring observations of its own."""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, cast

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool
from pydantic import BaseModel

from .protocols import ConnectorObservation

__all__ = ["ActionTool", "direct_observations"]

_logger = logging.getLogger("memory_context")

_MOST_OBSERVATIONS = 1000


def direct_observations(result: object) -> list[ConnectorObservation]:
    """Return the observations that a tool's result is, or has by `get_direct_observations()`."""
    get = getattr(result, "get_direct_observations", None)
    if get is not None:
        return [*islice(cast(Iterable[ConnectorObservation], get()), _MOST_OBSERVATIONS)]
    if isinstance(result, (list, tuple)):
        some = cast(Sequence[object], result)
        if some and all(isinstance(one, ConnectorObservation) for one in some):
            return [*cast(Sequence[ConnectorObservation], some)]
    return [result] if isinstance(result, ConnectorObservation) else []


class ActionTool(BaseTool[BaseModel, BaseModel]):
    """A tool as it is, but that observations in its result are noted and not returned to the model twice."""

    def __init__(self, tool: BaseTool[Any, Any], note: Callable[[Sequence[ConnectorObservation]], None]) -> None:
        super().__init__(tool.args_type(), tool.return_type(), tool.name, tool.description)
        self._tool = tool
        self._note = note

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        """Run the tool; its observations follow the result as messages of their connector."""
        result = await self._tool.run(args, cancellation_token)
        try:
            observations = direct_observations(result)
        except Exception as error:
            _logger.warning("the observations of tool %s are left out: %r", self.name, error)
            return result
        self._note(observations)
        is_only = bool(observations) and not hasattr(result, "get_direct_observations")
        return "Done; what was observed follows." if is_only else result

    def return_value_as_string(self, value: Any) -> str:
        """Return a result as the tool itself would."""
        return value if isinstance(value, str) else self._tool.return_value_as_string(value)
