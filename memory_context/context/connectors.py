"""Connects a context with its connectors: what they observe becomes messages, their states become decisions.

    a message of the user ──▶ start, if they are not open ─┐
    results of tools ──▶ observations, a message for each subject of a connector ──▶ states, if changed
    close of context, store or event loop, SIGTERM, a dropped context ──▶ stop

Observations are results: they begin no turn and are nobody's words. Nothing here fails or waits longer than the limit.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autogen_core import Image
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, UserMessage

from ..connectors import (
    ActionTool,
    Connector,
    ConnectorHost,
    ConnectorObservation,
    ConnectorState,
    Look,
    TextObservation,
)
from ..policy import ContextPolicy
from ..runtime import Unwritten, begin
from ..tokens import TokenCounter
from ..transcript import ConnectorCompared, ConnectorStateShown, Entry, Transcript
from .compared import ComparedStates
from .images import ImageView
from .subjects import append_noticed

if TYPE_CHECKING:
    from ..memory import AgentMemory, MemoryItem
    from .context import MemoryContext

__all__ = ["ConnectorLink", "connected"]

_logger = logging.getLogger("memory_context")


class ConnectorLink:
    """The connectors of one context; without any it does nothing.

    Args:
        append: Appends a message to the session.
        supersede: Has an older observation stored, which a line will replace.
        transcript: Returns the session's transcript.
        hide: Puts names in place of the user's secrets.
        load: Reads the history of a known session.
        flush: Archives the session.
        buffers: Of the store: what closes it stops the connectors.
    """

    write_order = -1  # before what they observed is written
    extra_seconds = 0.0

    def __init__(
        self,
        connectors: Sequence[Connector],
        active: Callable[[], Collection[str]] | None,
        policy: ContextPolicy,
        counter: TokenCounter,
        append: Callable[[LLMMessage], Entry],
        supersede: Callable[[int], None],
        transcript: Callable[[], Transcript],
        hide: Callable[[str], str],
        load: Callable[[], Awaitable[object]],
        flush: Callable[[], Awaitable[object]],
        buffers: Unwritten,
    ) -> None:
        self.host = ConnectorHost(connectors, policy.connectors, counter, active)
        self.images = ImageView(policy, counter, transcript)
        self._counter = counter
        self._append, self._supersede, self._transcript, self._hide = append, supersede, transcript, hide
        self._load, self._flush = load, flush
        self._direct: list[ConnectorObservation] = []
        self._buffers = buffers
        self._home: asyncio.AbstractEventLoop | None = None
        self._compared = ComparedStates()
        self._looking = 0
        self._is_restored = self._is_dropped = False

    def tools(self) -> list[ActionTool]:
        """Return the connectors' tools."""
        return [ActionTool(tool, self._direct.extend) for tool in self.host.tools()]

    async def look(self, message: LLMMessage) -> Look | None:
        """Ask the connectors what a message changed, and append it; None if they are not asked."""
        is_result = isinstance(message, FunctionExecutionResultMessage)
        if not self._has_any or not (is_result or isinstance(message, UserMessage)):
            return None
        await self._open()
        direct = self._direct[:] if is_result else []
        del self._direct[: len(direct)]
        self._looking += 1
        try:
            return self._append_all(await self.host.look(direct, for_changes=is_result))
        finally:
            self._looking -= 1

    def _append_all(self, look: Look) -> Look:
        for noticed in look.noticed:
            older = append_noticed(noticed, self._transcript(), self._append, self._hide)
            if older is not None:
                self._supersede(older)
        return look

    @property
    def _has_any(self) -> bool:
        return bool(self.host.connectors or self._direct)

    def show(self, look: Look | None) -> None:
        """Record the states, and show only the newest images; called when all is measured and stored."""
        self.images.leave_out_older()
        if look is None:
            return
        states = {one.connector_id: one for one in look.states}
        transcript = self._transcript()
        before = {one.connector_id: one for one in transcript.state.newest_of(ConnectorStateShown)}
        for connector_id in self.host.connectors:
            state, was = states.get(connector_id), before.get(connector_id)
            shown_now = self.images.shown(state.elements) if state is not None else []
            elements = [self._hide(one) if isinstance(one, str) else one for one in shown_now]
            shown = ConnectorStateShown.of(connector_id, elements, self._counter)
            if shown != (was or ConnectorStateShown(connector_id)):
                transcript.decide(shown)

    async def open_image(self, item: MemoryItem, memory: AgentMemory) -> bool:
        """Show a stored image after the results that are added next; False if the model is shown none."""
        observation = await self.images.open(item, memory)
        self._direct += [] if observation is None else [observation]
        return observation is not None

    def note(self, observations: Sequence[ConnectorObservation | Image]) -> None:
        """Have these observations follow the results that are added next."""
        self._direct += [
            TextObservation("action", "", images=(one,)) if isinstance(one, Image) else one for one in observations
        ]

    async def states(self, connectors: Sequence[Connector] | None) -> list[ConnectorState]:
        """Return present states, with names in place of secrets."""
        states = await self.host.states(connectors)
        return [
            replace(state, elements=tuple(self._hide(one) if isinstance(one, str) else one for one in state.elements))
            for state in states
        ]

    def borrow(self, owner: ConnectorLink) -> None:
        """Leave the stop of shared connectors to their owner."""
        self.host.borrow(owner.host)

    async def remember(self, *, at_end: bool = False) -> None:
        """Record what the connectors compare with, if it changed; that of a large environment only `at_end`."""
        if self._home is not None and not self._looking and not self._is_dropped:
            ready = [one for one_id, one in self.host.connectors.items() if self.host.is_ready(one_id)]
            await self._compared.record(ready, self._transcript, self._hide, at_end=at_end)

    def restore(self) -> None:
        """Take over what a session's connectors compared with, so that they see what changed meanwhile."""
        self._is_restored = True
        for compared in self._transcript().state.newest_of(ConnectorCompared):
            load = getattr(self.host.connectors.get(compared.connector_id), "load_state", None)
            if load is not None and compared.state:
                try:
                    load(compared.state)
                except Exception as error:
                    _logger.warning("connector %s begins anew: %r", compared.connector_id, error)

    async def _open(self) -> None:
        if self._home is not None or not self.host.connectors:
            return
        await self._load()
        self._home = asyncio.get_running_loop()
        self._buffers.hold(self)
        if not self._is_restored:
            self.restore()

    async def close(self) -> None:
        """Stop the connectors; the next message starts them again."""
        if self._home:
            await self.remember(at_end=True)
            self._home = None
            self._buffers.release(self)
            await self.host.stop()

    @property
    def unwritten(self) -> str:
        """Which connectors are open."""
        return f"connectors {', '.join(self.host.connectors)}: open" if self._home else ""

    async def write_out(self, *, is_last: bool) -> None:
        """Stop the connectors before the store, the event loop or the process ends."""
        await self.close()
        await self._flush()

    def drop(self) -> None:
        """Stop the connectors of a context that the program dropped without closing it."""
        home, self._is_dropped = self._home, True
        if home is not None and not home.is_closed():
            home.call_soon_threadsafe(lambda: begin(self.close()))


def connected(
    context: MemoryContext, connectors: Sequence[Connector], active: Callable[[], Collection[str]] | None
) -> ConnectorLink:
    """Return the link of a context, which it does not keep alive."""
    of = weakref.ref(context)

    def here() -> MemoryContext:
        if (context := of()) is None:
            raise RuntimeError("the context of these connectors was dropped")
        return context

    def append(message: LLMMessage) -> Entry:
        return here()._append(message, carries_result=True)  # pyright: ignore[reportPrivateUsage] # its own part

    def supersede(position: int) -> None:
        here()._parts.offloader.add_superseded(position)  # pyright: ignore[reportPrivateUsage]

    def transcript() -> Transcript:
        return here().transcript

    def hide(text: str) -> str:
        return here().agent_memory.secrets.filter.hide(text)

    async def load() -> None:
        await here()._session.ensure_loaded()  # pyright: ignore[reportPrivateUsage]

    async def flush() -> None:
        if (context := of()) is not None:
            await context.archive()

    session = (append, supersede, transcript, hide, load, flush)
    given = (context.policy, context.token_counter, *session, context.memory_store.unwritten)
    link = ConnectorLink(connectors, active, *given)
    if connectors:
        weakref.finalize(context, link.drop).atexit = False
    return link
