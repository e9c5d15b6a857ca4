"""Asks the connectors of one agent, all at once, within a limit: one that hangs or fails delays and hides no other."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, TypeVar

from autogen_core import Image
from autogen_core.tools import BaseTool

from ..policy import ConnectorsPolicy
from ..runtime import attempt, begin
from ..tokens import TokenCounter, cut_to_tokens
from .protocols import Connector, ConnectorObservation, Element

__all__ = ["ConnectorHost", "ConnectorState", "Noticed"]

_logger = logging.getLogger("memory_context")

_ID = re.compile(r"[A-Za-z0-9_-]+")
_MOST_OBSERVATIONS = 200
_STOP_SECONDS = 5.0

_T = TypeVar("_T")


@dataclass(frozen=True)
class Noticed:
    """The rendered observations of one connector after an action."""

    connector_id: str
    elements: tuple[Element, ...]


@dataclass(frozen=True)
class ConnectorState:
    """The present state of what a connector watches; `tokens` counts its texts."""

    connector_id: str
    elements: tuple[Element, ...]
    tokens: int


class ConnectorHost:
    """The connectors of one agent, in the given order.

    Args:
        active: Returns the ids of those that are asked after an action; None asks all.

    Raises:
        ValueError: Two connectors have one id, or an id cannot be the source of a message.
    """

    def __init__(
        self,
        connectors: Sequence[Connector],
        policy: ConnectorsPolicy,
        counter: TokenCounter,
        active: Callable[[], Collection[str]] | None = None,
    ) -> None:
        ids = [one.id for one in connectors]
        if repeated := sorted({one for one in ids if ids.count(one) > 1}):
            raise ValueError(f"connectors of one id: {', '.join(map(repr, repeated))}; give each an id of its own")
        for one in ids:
            if not _ID.fullmatch(one):
                raise ValueError(f"connector id {one!r}: use letters, digits, _ and -")
        self.connectors = {one.id: one for one in connectors}
        self._policy = policy
        self._counter = counter
        self._active = active
        self._started: set[str] = set()
        self._hanging: dict[str, asyncio.Future[Any]] = {}
        self._failing: set[tuple[str, str]] = set()

    def tools(self) -> list[BaseTool[Any, Any]]:
        """Return the tools of all connectors."""
        return [tool for one in self.connectors.values() for tool in one.tools()]

    async def start(self) -> None:
        """Start those that are not started; one that fails is tried again with the next call."""
        limit = self._policy.state_limit_tokens // max(len(self.connectors), 1)
        waiting = [one for one in self.connectors.values() if one.id not in self._started]
        for one in waiting:
            if hasattr(one, "state_limit_tokens"):
                one.state_limit_tokens = limit  # pyright: ignore[reportAttributeAccessIssue] # optional
        done = await asyncio.gather(*(self._asked(one.id, "start", one.on_start) for one in waiting))
        self._started |= {one.id for one, is_done in zip(waiting, done, strict=True) if is_done is not None}

    async def stop(self) -> None:
        """Stop all, also those that were never started."""
        stops = [self._asked(one.id, "stop", one.on_stop, _STOP_SECONDS) for one in self.connectors.values()]
        await asyncio.gather(*stops)
        self._started.clear()

    async def notice(self, direct: Iterable[ConnectorObservation] = ()) -> list[Noticed]:
        """Return what an action changed: its own observations first, then those of each active connector."""
        own = self._asked("", "an action's observations", lambda: asyncio.to_thread(_rendered_by_source, [*direct]))
        asked = (self._asked(one.id, "observations", lambda one=one: _observed(one)) for one in self._asked_now())
        answers = await asyncio.gather(own, *asked)
        return [noticed for answer in answers if answer is not None for noticed in answer[0]]

    async def states(self) -> list[ConnectorState]:
        """Return the present states; that of a connector that fails says so, an empty one is left out."""
        shown = [one for one in self.connectors.values() if one.id in self._started]
        answers = await asyncio.gather(
            *(self._asked(one.id, "state", lambda one=one: _in_one(one.render_current_state())) for one in shown)
        )
        states: list[ConnectorState] = []
        left = self._policy.state_limit_tokens
        for one, answer in zip(shown, answers, strict=True):
            failed = f"[Error: Could not render state for {one.id}]"
            state = self._within(one.id, (failed,) if answer is None else _elements(answer[0]), left)
            if state.elements:
                states.append(state)
                left = max(left - state.tokens, 0)
        return states

    def _within(self, connector_id: str, elements: Sequence[Element], limit_tokens: int) -> ConnectorState:
        """Cut the texts of a state that its own renderer left too long."""
        kept: list[Element] = []
        tokens = 0
        for one in elements:
            if isinstance(one, str):
                size = self._counter.count(one) if len(one) < 16 * limit_tokens else limit_tokens + 1
                if tokens + size > limit_tokens:
                    one = f"{cut_to_tokens(one, max(limit_tokens - tokens - 10, 0), self._counter)} [cut to fit]"
                    size = self._counter.count(one)
                tokens += size
            kept.append(one)
        return ConnectorState(connector_id, tuple(kept), tokens)

    def _asked_now(self) -> list[Connector]:
        started = [one for one in self.connectors.values() if one.id in self._started]
        if self._active is None:
            return started
        try:
            active = set(self._active())
        except Exception as error:
            self._warn("all", "choice of active connectors", error)
            return started
        return [one for one in started if one.id in active]

    async def _asked(
        self, connector_id: str, what: str, ask: Callable[[], Awaitable[_T]], seconds: float | None = None
    ) -> tuple[_T] | None:
        """Return the answer in a tuple; None if it fails, hangs, or still hangs from an earlier call."""
        hanging = self._hanging.get(connector_id)
        if hanging is not None and not hanging.done() and what != "stop":
            return None
        work = begin(_call(ask))
        task = await attempt(work, self._policy.timeout_seconds if seconds is None else seconds)
        if task is None:
            self._hanging[connector_id] = work
            self._warn(connector_id, what, TimeoutError(f"no answer within {self._policy.timeout_seconds:g} s"))
            return None
        error = RuntimeError("it was cancelled") if task.cancelled() else task.exception()
        if error is not None:
            self._warn(connector_id, what, error)
            return None
        self._failing.discard((connector_id, what))
        return (task.result(),)

    def _warn(self, connector_id: str, what: str, error: BaseException) -> None:
        """Log each kind of trouble once, until it is over."""
        if (connector_id, what) not in self._failing:
            self._failing.add((connector_id, what))
            _logger.warning("connector %s: going on without its %s: %s: %s", connector_id, what, type(error), error)


async def _call(ask: Callable[[], Awaitable[_T]]) -> _T:
    return await ask()  # a plain function that raises at once fails here, too


async def _in_one(elements: Awaitable[Sequence[Element]]) -> Sequence[Element]:
    return await elements


async def _observed(connector: Connector) -> list[Noticed]:
    observations = await connector.get_observations()
    return await asyncio.to_thread(_rendered, connector.id, observations)


def _rendered_by_source(observations: Sequence[ConnectorObservation]) -> list[Noticed]:
    by_source = groupby(observations, lambda one: one.source_connector_id)
    return [noticed for source, group in by_source for noticed in _rendered(source, group)]


def _rendered(connector_id: str, observations: Iterable[ConnectorObservation]) -> list[Noticed]:
    """Render at most so many that an agent can read; one that cannot be rendered is left out."""
    elements: list[Element] = []
    remaining = iter(observations)
    for one in islice(remaining, _MOST_OBSERVATIONS):
        try:
            elements += _elements(one.render())
        except Exception as error:
            _logger.warning("an observation of connector %s cannot be rendered: %s", connector_id, error)
    if next(remaining, None) is not None:
        elements.append(f"[{connector_id}: more than {_MOST_OBSERVATIONS} observations; the others are left out]")
    return [Noticed(connector_id, tuple(elements))] if elements else []


def _elements(rendered: Iterable[object]) -> list[Element]:
    return [one for one in rendered if isinstance(one, (str, Image)) and one != ""]
