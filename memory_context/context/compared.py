"""What connectors compare with, as decisions: a resumed session sees what changed meanwhile, not everything anew."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..connectors import Connector
from ..transcript import ConnectorCompared, Transcript

__all__ = ["ComparedStates"]

_logger = logging.getLogger("memory_context")

_BATCH_CHARACTERS = 16_000
"""Larger states are archived when a session ends or is saved, not with each batch."""
_MOST_CHARACTERS = 500_000
"""About 5,000 files; a resumed session looks at a larger environment anew."""


class _TooLargeError(Exception): ...


class ComparedStates:
    """Records what connectors compare with; says once of each that it cannot be kept."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    async def record(
        self,
        connectors: Sequence[Connector],
        transcript: Callable[[], Transcript],
        hide: Callable[[str], str],
        *,
        at_end: bool,
    ) -> None:
        """Record the states that changed. One that cannot be read stays as it was; one that is too large is dropped.

        Args:
            at_end: Also record states over 16,000 characters.
        """
        for one in connectors:
            before = transcript().state.newest(ConnectorCompared, one.id) or ConnectorCompared(one.id)
            try:
                state = await self._read(one, hide, _MOST_CHARACTERS if at_end else _BATCH_CHARACTERS)
            except _TooLargeError:
                if not at_end:
                    continue
                self._tell(one.id, f"more than {_MOST_CHARACTERS:,} characters; a resumed session looks at it anew")
                state = dict[str, Any]()
            except Exception as error:  # also one that is no JSON
                self._tell(one.id, repr(error))
                continue
            if state != before.state:
                transcript().decide(ConnectorCompared(one.id, state))

    async def _read(self, connector: Connector, hide: Callable[[str], str], limit: int) -> Mapping[str, Any]:
        save = getattr(connector, "save_state", None)
        if save is None:
            return {}
        data = save()
        return await asyncio.to_thread(lambda: _hidden(json.loads(_json(data, limit)), hide))

    def _tell(self, connector_id: str, why: str) -> None:
        if connector_id not in self._told:
            self._told.add(connector_id)
            _logger.warning("connector %s: what it compares with is not kept: %s", connector_id, why)


def _json(data: object, limit: int) -> str:
    """Return a JSON text, made piece by piece, so that a huge one costs no more than the limit."""
    pieces: list[str] = []
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(data):
        pieces.append(piece)
        limit -= len(piece)
        if limit < 0:
            raise _TooLargeError
    return "".join(pieces)


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [_hidden(one, hide) for one in cast(list[Any], value)]
    if isinstance(value, dict):
        return {hide(name): _hidden(one, hide) for name, one in cast(dict[str, Any], value).items()}
    return value
