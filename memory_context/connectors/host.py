"""Asks the connectors of one agent, all at once, within a limit: one that hangs or fails delays and hides no other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool
from pydantic import BaseModel

from memory_context.foundation.policy import ConnectorsPolicy
from memory_context.foundation.references import one_line
from memory_context.foundation.runtime.background import attempt, begin, in_own_thread
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens

from .protocols import Connector, ConnectorObservation, ConnectorState, Element, Noticed
from .rendering import CONNECTOR_ID, rendered_by_source, rendered_elements, rendered_observations

__all__ = ["ActionTool", "ConnectorHost", "Look", "direct_observations", "fair_shares"]

_logger = logging.getLogger("memory_context")

_ANSWER_SECONDS = 10.0
"""The longest wait for all connectors after an action: a page that loads takes seconds."""
_STOP_SECONDS = 5.0
_REASON_CHARACTERS = 200

_T = TypeVar("_T")
_MOST_OBSERVATIONS = 1000
_NEARLY_ALL = 0.8
"""Share of its room from which a state is taken for one that was cut."""


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
            if not CONNECTOR_ID.fullmatch(one):
                raise ValueError(f"connector id {one!r}: use letters, digits, _ and -")
        self.connectors = {one.id: one for one in connectors}
        self._policy = policy
        self._counter = counter
        self._active = active
        self._started: set[str] = set()
        self._borrowed: set[str] = set()
        self._hanging: dict[str, asyncio.Future[Any]] = {}
        self._threads: dict[str, Future[Any]] = {}
        self._failing: set[tuple[str, str]] = set()
        self._reasons: dict[tuple[str, str], str] = {}
        self._shares: dict[str, int] = {}
        self._give_shares(dict.fromkeys(self.connectors, policy.state_limit_tokens // max(len(connectors), 1)))

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
        own = [one for one in self.connectors.values() if one.id not in self._borrowed]
        ask = {one.id: partial(self._tried, one.id, "stop", one.on_stop) for one in own}
        await asyncio.gather(*(self._within_limit(id_, stop, _STOP_SECONDS) for id_, stop in ask.items()))
        self._started.clear()

    async def look(self, direct: Iterable[ConnectorObservation] = (), *, for_changes: bool = True) -> Look:
        """Ask the active connectors what changed and what there is now; start those that are not started.

        The observations that an action brought itself come first. All of it takes at most `timeout_seconds`.

        Args:
            for_changes: False asks only connectors that were started now for their observations.
        """
        active = self._active_now()
        own, *answers = [_Answer(""), *(_Answer(one.id) for one in active)]
        asked = zip(active, answers, strict=True)
        await asyncio.gather(
            self._within_limit("", partial(self._take_direct, own, [*direct])),
            *(self._within_limit(one.id, partial(self._ask, one, answer, for_changes)) for one, answer in asked),
        )
        noticed = [noticed for answer in (own, *answers) for noticed in answer.noticed]
        shown = [one for one in answers if one.is_shown or one.connector_id in self._started]
        return Look(noticed, await self._states(active, shown))

    async def _take_direct(self, own: _Answer, direct: Sequence[ConnectorObservation]) -> None:
        rendering = self._call(rendered_by_source, direct)
        if direct and (found := await self._tried("", "an action's observations", rendering)):
            own.noticed = found[0]

    async def _ask(self, connector: Connector, answer: _Answer, for_changes: bool) -> None:
        id_ = connector.id
        if id_ not in self._started:
            if await self._tried(id_, "start", connector.on_start) is None:
                answer.state = (f"[Error: {id_} could not start: {self._reasons[id_, 'start']}]",)
                answer.is_shown = True
                return
            self._started.add(id_)
            for_changes = True
        if for_changes and (found := await self._tried(id_, "observations", connector.get_observations)):
            rendering = self._call(rendered_observations, id_, found[0])
            if noticed := await self._tried(id_, "observations", rendering):
                answer.noticed = noticed[0]
        await self._ask_state(connector, answer)

    async def states(self, connectors: Sequence[Connector] | None = None) -> list[ConnectorState]:
        """Return the present states of connectors, by default of the open ones, without asking what changed."""
        if connectors is None:
            connectors = [one for one in self._active_now() if one.id in self._started]
        answers = [_Answer(one.id) for one in connectors]
        asked = zip(connectors, answers, strict=True)
        await asyncio.gather(
            *(self._within_limit(one.id, partial(self._ask_state, one, answer)) for one, answer in asked)
        )
        return await self._states(connectors, answers)

    async def _ask_state(self, connector: Connector, answer: _Answer) -> None:
        id_ = connector.id
        if (state := await self._tried(id_, "state", connector.render_current_state)) is not None:
            rendering = self._call(rendered_elements, id_, state[0])
            if elements := await self._tried(id_, "state", rendering):
                answer.state = elements[0]

    async def _states(self, connectors: Sequence[Connector], answers: Sequence[_Answer]) -> list[ConnectorState]:
        """Return the states within the limit. Shares are equal, and what one leaves goes to the others.

        A connector whose share changes by much is asked again; its share stays for the next time.
        """
        limit = self._policy.state_limit_tokens
        wanted = {one.connector_id: self._wanted(one) for one in answers}
        before = {one: self._shares.get(one, limit) for one in wanted}
        asking = {one: limit if size > _NEARLY_ALL * before[one] else size for one, size in wanted.items()}
        shares = fair_shares(limit, asking)
        by_id = {one.id: one for one in connectors if hasattr(one, "state_limit_tokens")}
        again: list[Awaitable[None]] = []
        for answer in answers:
            one, connector = answer.connector_id, by_id.get(answer.connector_id)
            gets_more = asking[one] == limit and shares[one] * _NEARLY_ALL > before[one]
            if one in self._started and connector is not None and (gets_more or wanted[one] > shares[one]):
                self._give_shares({one: shares[one]})
                ask = partial(self._ask_state, connector, answer)
                again.append(self._within_limit(one, ask))
        await asyncio.gather(*again)
        shares = fair_shares(limit, {one.connector_id: self._wanted(one) for one in answers})
        states = [self._cut_state(one.connector_id, one.state, shares[one.connector_id]) for one in answers]
        return [one for one in states if one.elements]

    def _wanted(self, answer: _Answer) -> int:
        """Return the tokens of a state, counted up to the limit of all."""
        limit = self._policy.state_limit_tokens
        texts = [one for one in answer.state if isinstance(one, str)]
        return min(sum(self._counter.count(one) if len(one) < 16 * limit else limit for one in texts), limit)

    def _give_shares(self, shares: Mapping[str, int]) -> None:
        for one, share in shares.items():
            self._shares[one] = share
            if hasattr(self.connectors.get(one), "state_limit_tokens"):
                self.connectors[one].state_limit_tokens = share  # pyright: ignore[reportAttributeAccessIssue] # optional

    def _cut_state(self, connector_id: str, elements: Sequence[Element], limit_tokens: int) -> ConnectorState:
        """Cut the texts of a state that its own renderer left too long."""
        kept: list[Element] = []
        tokens, is_cut = 0, False
        for one in elements:
            if isinstance(one, str) and not is_cut:
                size = self._counter.count(one) if len(one) < 16 * limit_tokens else limit_tokens + 1
                if tokens + size > limit_tokens:
                    one = f"{cut_to_tokens(one, max(limit_tokens - tokens - 10, 0), self._counter)} [cut to fit]"
                    size, is_cut = self._counter.count(one), True
                tokens += size
                kept.append(one)
            elif not isinstance(one, str):
                kept.append(one)
        return ConnectorState(connector_id, tuple(kept), tokens)

    def _active_now(self) -> list[Connector]:
        everyone = [*self.connectors.values()]
        if self._active is None:
            return everyone
        try:
            active = set(self._active())
        except Exception as error:
            self._warn("all", "choice of active connectors", error)
            return everyone
        return [one for one in everyone if one.id in active]

    async def _within_limit(
        self, connector_id: str, ask: Callable[[], Awaitable[object]], seconds: float | None = None
    ) -> None:
        """Wait for at most so long, and not at all while an earlier call still hangs."""
        hanging = self._hanging.get(connector_id)
        if hanging is not None and not hanging.done() and seconds is None:
            return
        seconds = _ANSWER_SECONDS if seconds is None else seconds
        work = begin(ask())
        task = await attempt(work, seconds)
        if task is None:
            self._hanging[connector_id] = work
            self._warn(connector_id, "answer", TimeoutError(f"no answer within {seconds:g} s"))
        elif task.cancelled():
            self._warn(connector_id, "answer", RuntimeError("it was cancelled"))
        elif (error := task.exception()) is not None:
            self._warn(connector_id, "answer", error)
        else:
            self._failing.discard((connector_id, "answer"))

    async def _tried(self, connector_id: str, what: str, ask: Callable[[], Awaitable[_T]]) -> tuple[_T] | None:
        """Return the answer in a tuple; None if it fails, even by an error that would end the program."""
        try:
            answer = await ask()
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._warn(connector_id, what, error)
            return None
        self._failing.discard((connector_id, what))
        return (answer,)

    def _call(self, function: Callable[..., _T], *args: Any) -> Callable[[], Awaitable[_T]]:
        """Call code of a connector in a thread, one at a time for each; one that never returns costs one thread."""

        async def call() -> _T:
            connector_id = args[0] if isinstance(args[0], str) else ""
            if (before := self._threads.get(connector_id)) is not None and not before.done():
                raise TimeoutError("an earlier answer is still being rendered")
            thread = in_own_thread(lambda: function(*args), "memory_context connector")
            self._threads[connector_id] = thread
            return await asyncio.wrap_future(thread)

        return call

    def _warn(self, connector_id: str, what: str, error: BaseException) -> None:
        """Log each kind of trouble once, until it is over."""
        self._reasons[connector_id, what] = one_line(str(error) or type(error).__name__, _REASON_CHARACTERS)
        if (connector_id, what) not in self._failing:
            self._failing.add((connector_id, what))
            name = f"connector {connector_id}" if connector_id else "connectors"
            _logger.warning("%s: going on without its %s: %s: %s", name, what, type(error).__name__, error)


def fair_shares(limit: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Share a limit equally; what one leaves goes to the others."""
    shares: dict[str, int] = {}
    for number, one in enumerate(sorted(wanted, key=lambda one: wanted[one])):
        shares[one] = min(wanted[one], limit // (len(wanted) - number))
        limit -= shares[one]
    return shares


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
