"""Asks the connectors of one agent, all at once, within a limit: one that hangs or fails delays and hides no other.

Whatever they return is rendered within limits, so that an agent can read it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import Any, TypeVar, cast

from autogen_core import CancellationToken, Image
from autogen_core.tools import BaseTool
from pydantic import BaseModel

from memory_context.foundation.patterns import regex
from memory_context.foundation.policy import ConnectorsPolicy
from memory_context.foundation.references import defused, one_line
from memory_context.foundation.runtime.background import attempt, begin, in_own_thread
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens

from .protocols import Connector, ConnectorObservation, ConnectorState, Element, Noticed

__all__ = ["ActionTool", "ConnectorHost", "Look", "direct_observations", "fair_shares"]

_logger = logging.getLogger("memory_context")

_ANSWER_SECONDS = 10.0
"""The longest wait for all connectors after an action: a page that loads takes seconds."""
_STOP_SECONDS = 5.0
_REASON_CHARACTERS, _SUBJECT_CHARACTERS = 200, 200
_MOST_OBSERVATIONS = 200  # of one answer
_MOST_ELEMENTS = 1000  # of one observation or state
_MOST_CHARACTERS = 4_000_000  # of one element: about 1 s to count
_MOST_PIXELS = 40_000_000  # 8K; larger ones take seconds to encode
_ID = regex(r"[A-Za-z0-9_-]+")  # AutoGen's rule for sources of messages

_T = TypeVar("_T")


@dataclass(frozen=True)
class Look:
    """The observations after a message, and the present states of all connectors."""

    noticed: Sequence[Noticed] = ()
    states: Sequence[ConnectorState] = ()


class _Answer:
    """The answers of one connector. If the time limit passes, those that it gave before stay."""

    def __init__(self, connector_id: str) -> None:
        self.connector_id = connector_id
        self.is_shown = False  # also though it is not started
        self.noticed: list[Noticed] = []
        self.state: Sequence[Element] = (f"[Error: Could not render state for {connector_id}]",)


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
        self._borrowed: set[str] = set()
        self._hanging: dict[str, asyncio.Future[Any]] = {}
        self._threads: dict[str, Future[Any]] = {}
        self._failing: dict[tuple[str, str], str] = {}

    def tools(self) -> list[BaseTool[Any, Any]]:
        """Return the tools of all connectors."""
        return [tool for one in self.connectors.values() for tool in one.tools()]

    def borrow(self, owner: "ConnectorHost") -> None:
        """Leave the stop of connectors that another host has, too, to that host."""
        self._borrowed |= {id_ for id_, one in self.connectors.items() if owner.connectors.get(id_) is one}

    def is_ready(self, connector_id: str) -> bool:
        """Return whether it is started, and no earlier call goes on in it."""
        hanging = self._hanging.get(connector_id)
        return connector_id in self._started and (hanging is None or hanging.done())

    async def stop(self) -> None:
        """Stop all, also those that were never started, but not borrowed ones."""

        async def stop(one: Connector) -> None:
            with self._trying(one.id, "stop"):
                await one.on_stop()

        own = [one for one in self.connectors.values() if one.id not in self._borrowed]
        await asyncio.gather(*(self._within_limit(one.id, partial(stop, one), _STOP_SECONDS) for one in own))
        self._started.clear()

    async def look(self, direct: Sequence[ConnectorObservation] = (), *, for_changes: bool = True) -> Look:
        """Ask the active connectors what changed and what there is now; start those that are not started.

        The observations that an action brought itself come first. All of it takes at most `_ANSWER_SECONDS`.

        Args:
            for_changes: False asks only connectors that were started now for their observations.
        """
        active, own = self._active_now(), _Answer("")
        answers = [_Answer(one.id) for one in active]

        async def take_direct() -> None:
            own.noticed = await self._in_thread("", _rendered_by_source, [*direct])

        asked = zip(active, answers, strict=True)
        await asyncio.gather(
            *([self._within_limit("", take_direct)] if direct else []),
            *(self._within_limit(one.id, partial(self._ask, one, answer, for_changes)) for one, answer in asked),
        )
        noticed = [noticed for answer in (own, *answers) for noticed in answer.noticed]
        shown = [one for one in answers if one.is_shown or one.connector_id in self._started]
        return Look(noticed, await self._states(active, shown))

    async def _ask(self, connector: Connector, answer: _Answer, for_changes: bool) -> None:
        id_ = connector.id
        if id_ not in self._started:
            with self._trying(id_, "start"):
                await connector.on_start()
                self._started.add(id_)
                for_changes = True
        if id_ not in self._started:
            answer.state = (f"[Error: {id_} could not start: {self._failing[id_, 'start']}]",)
            answer.is_shown = True
            return
        if for_changes:
            with self._trying(id_, "observations"):
                observations = await connector.get_observations()
                answer.noticed = await self._in_thread(id_, _rendered_observations, id_, observations)
        await self._ask_state(connector, answer, self._policy.state_limit_tokens)

    async def states(self, connectors: Sequence[Connector] | None = None) -> list[ConnectorState]:
        """Return the present states of connectors, by default of the open ones, without asking what changed."""
        if connectors is None:
            connectors = [one for one in self._active_now() if one.id in self._started]
        answers = [_Answer(one.id) for one in connectors]
        limit = self._policy.state_limit_tokens
        asked = zip(connectors, answers, strict=True)
        await asyncio.gather(
            *(self._within_limit(one.id, partial(self._ask_state, one, answer, limit)) for one, answer in asked)
        )
        return await self._states(connectors, answers)

    async def _ask_state(self, connector: Connector, answer: _Answer, limit_tokens: int) -> None:
        if hasattr(connector, "state_limit_tokens"):
            connector.state_limit_tokens = limit_tokens  # pyright: ignore[reportAttributeAccessIssue] # optional
        with self._trying(connector.id, "state"):
            elements = await connector.render_current_state()
            answer.state = await self._in_thread(connector.id, _rendered, connector.id, elements)

    async def _states(self, connectors: Sequence[Connector], answers: Sequence[_Answer]) -> list[ConnectorState]:
        """Return the states within the limit. Shares are equal, and what one leaves goes to the others.

        A connector whose state is larger than its share renders it again within that.
        """
        limit = self._policy.state_limit_tokens
        wanted = {one.connector_id: self._wanted(one) for one in answers}
        shares = fair_shares(limit, wanted)
        by_id = {one.id: one for one in connectors if hasattr(one, "state_limit_tokens") and one.id in self._started}
        again = [
            partial(self._ask_state, by_id[id_], one, shares[id_])
            for one in answers
            if wanted[id_ := one.connector_id] > shares[id_] and id_ in by_id
        ]
        await asyncio.gather(*(self._within_limit(ask.args[0].id, ask) for ask in again))
        shares = fair_shares(limit, {one.connector_id: self._wanted(one) for one in answers})
        states = [self._cut_state(one.connector_id, one.state, shares[one.connector_id]) for one in answers]
        return [one for one in states if one.elements]

    def _wanted(self, answer: _Answer) -> int:
        """Return the tokens of a state, counted up to the limit of all and one more."""
        most = self._policy.state_limit_tokens + 1
        texts = [one for one in answer.state if isinstance(one, str)]
        return min(sum(self._counter.count(one) if len(one) < 16 * most else most for one in texts), most)

    def _cut_state(self, connector_id: str, elements: Sequence[Element], limit_tokens: int) -> ConnectorState:
        """Cut the texts of a state that its own renderer left too long."""
        kept: list[Element] = []
        tokens, is_cut = 0, False
        for one in elements:
            if isinstance(one, Image):
                kept.append(one)
            elif not is_cut:
                size = self._counter.count(one) if len(one) < 16 * limit_tokens else limit_tokens + 1
                if tokens + size > limit_tokens:
                    one = f"{cut_to_tokens(one, max(limit_tokens - tokens - 10, 0), self._counter)} [cut to fit]"
                    size, is_cut = self._counter.count(one), True
                tokens += size
                kept.append(one)
        return ConnectorState(connector_id, tuple(kept), tokens)

    def _active_now(self) -> list[Connector]:
        active: Collection[str] = self.connectors
        if self._active is not None:
            with self._trying("all", "choice of active connectors"):
                active = self._active()
        return [one for id_, one in self.connectors.items() if id_ in active]

    async def _within_limit(
        self, connector_id: str, ask: Callable[[], Awaitable[object]], seconds: float | None = None
    ) -> None:
        """Wait for at most so long, and not at all while an earlier call still hangs."""
        hanging = self._hanging.get(connector_id)
        if hanging is not None and not hanging.done() and seconds is None:
            return
        seconds = _ANSWER_SECONDS if seconds is None else seconds
        work = begin(ask())
        with self._trying(connector_id, "answer"):
            task = await attempt(work, seconds)
            if task is None:
                self._hanging[connector_id] = work
                raise TimeoutError(f"no answer within {seconds:g} s")
            if task.cancelled():
                raise RuntimeError("it was cancelled")
            task.result()

    @contextmanager
    def _trying(self, connector_id: str, what: str) -> Generator[None, None, None]:
        """Go on behind an error, even one that would end the program; log each kind once, until it is over."""
        try:
            yield
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if (connector_id, what) not in self._failing:
                name = f"connector {connector_id}" if connector_id else "connectors"
                _logger.warning("%s: going on without its %s: %s: %s", name, what, type(error).__name__, error)
            self._failing[connector_id, what] = one_line(str(error) or type(error).__name__, _REASON_CHARACTERS)
        else:
            self._failing.pop((connector_id, what), None)

    async def _in_thread(self, connector_id: str, function: Callable[..., _T], *args: Any) -> _T:
        """Call code of a connector in a thread, one at a time for each; one that never returns costs one thread."""
        if (before := self._threads.get(connector_id)) is not None and not before.done():
            raise TimeoutError("an earlier answer is still being rendered")
        thread = self._threads[connector_id] = in_own_thread(lambda: function(*args), "memory_context connector")
        return await asyncio.wrap_future(thread)


def fair_shares(limit: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Share a limit equally; what one leaves goes to the others."""
    shares: dict[str, int] = {}
    for number, one in enumerate(sorted(wanted, key=lambda one: wanted[one])):
        shares[one] = min(wanted[one], limit // (len(wanted) - number))
        limit -= shares[one]
    return shares


def _rendered_by_source(observations: Iterable[ConnectorObservation]) -> list[Noticed]:
    """Render the observations of an action, which may be of several connectors."""

    def source_of(observation: ConnectorObservation) -> str:
        source: object = getattr(observation, "source_connector_id", "")
        return source if isinstance(source, str) and _ID.fullmatch(source) else "action"

    by_source = groupby(islice(observations, _MOST_OBSERVATIONS), source_of)
    return [noticed for source, group in by_source for noticed in _rendered_observations(source, group)]


def _rendered_observations(connector_id: str, observations: Iterable[ConnectorObservation]) -> list[Noticed]:
    """Render observations, those of one subject together; one that cannot be rendered is left out."""
    noticed: list[Noticed] = []
    remaining = iter(observations)
    for one in islice(remaining, _MOST_OBSERVATIONS):
        try:
            subject: object = getattr(one, "subject", "")
            subject = defused(one_line(subject, _SUBJECT_CHARACTERS)) if isinstance(subject, str) else ""
            elements = _rendered(connector_id, one.render())
        except BaseException as error:  # of a connector, in a thread of its own
            _logger.warning("an observation of connector %s cannot be rendered: %r", connector_id, error)
            continue
        if noticed and noticed[-1].subject == subject:
            elements = (*noticed.pop().elements, *elements)
        if elements:
            noticed.append(Noticed(connector_id, elements, subject))
    if next(remaining, None) is not None:
        more = f"[{connector_id}: more than {_MOST_OBSERVATIONS} observations; the others are left out]"
        noticed.append(Noticed(connector_id, (more,)))
    return noticed


def _rendered(connector_id: str, elements: Iterable[object]) -> tuple[Element, ...]:
    kept: list[Element] = []
    for one in islice(elements, _MOST_ELEMENTS):
        if isinstance(one, Image):
            width, height = one.image.size
            is_shown = width * height <= _MOST_PIXELS
            kept.append(one if is_shown else f"[Image of {width} x {height}: it is too large to be shown.]")
        elif isinstance(one, str) and one:
            more = len(one) - _MOST_CHARACTERS
            left_out = f"\n[{connector_id}: {more:,} more characters are left out]" if more > 0 else ""
            kept.append(f"{defused(one[:_MOST_CHARACTERS])}{left_out}")
    return tuple(kept)


def direct_observations(result: object) -> list[ConnectorObservation]:
    """Return the observations that a tool's result is, or has by `get_direct_observations()`."""
    get = getattr(result, "get_direct_observations", None)
    if get is not None:
        return [*islice(cast(Iterable[ConnectorObservation], get()), _MOST_OBSERVATIONS + 1)]
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
