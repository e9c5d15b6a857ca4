"""Connects a context with its connectors: what they observe becomes messages, their states become decisions.

    a message of the user ──▶ start, if they are not open ─┐
    results of tools ──▶ observations, a message for each subject of a connector ──▶ states, if changed
    close of context, store or event loop, SIGTERM, a dropped context ──▶ stop

Observations are results: they begin no turn and are nobody's words. Nothing here fails or waits longer than the limit.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autogen_core import Image
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, UserMessage

from memory_context.compaction.offloader import WORTH_SUPERSEDING_TOKENS
from memory_context.connectors.host import ActionTool, ConnectorHost, Look
from memory_context.connectors.protocols import (
    Connector,
    ConnectorObservation,
    ConnectorState,
    Element,
    Noticed,
    TextObservation,
)
from memory_context.foundation.runtime.background import begin
from memory_context.foundation.utf8 import map_strings, to_utf8
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import (
    ConnectorCompared,
    ConnectorStateShown,
    SubjectObserved,
    subject_line,
)

from .images import ImageView

if TYPE_CHECKING:
    from memory_context.foundation.policy import ContextPolicy
    from memory_context.foundation.runtime.buffers import Unwritten
    from memory_context.foundation.tokens import TokenCounter
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.memory.items import MemoryItem
    from memory_context.sessions.archive.session_archive import SessionArchive

    from .session import Session

__all__ = ["ComparedStates", "ConnectorLink", "append_noticed"]

_logger = logging.getLogger("memory_context")
_LEAST_CHARACTERS = 200  # of a text that a line replaces
_BATCH_CHARACTERS = 16_000
"""Larger states are archived when a session ends or is saved, not with each batch."""
_MOST_CHARACTERS = 500_000
"""About 5,000 files; a resumed session looks at a larger environment anew."""


class ConnectorLink:
    """The connectors of one context, which it does not keep alive; without any it does nothing.

    Attributes:
        session: The session that the context has now.
    """

    write_order = -1  # before what they observed is written
    extra_seconds = 0.0
    session: Session

    def __init__(
        self,
        connectors: Sequence[Connector],
        active: Callable[[], Collection[str]] | None,
        policy: ContextPolicy,
        counter: TokenCounter,
        archive: SessionArchive,
        buffers: Unwritten,
    ) -> None:
        self.host = ConnectorHost(connectors, policy.connectors, counter, active)
        self.images = ImageView(policy, counter)
        self._counter = counter
        self._archive = archive
        self._direct: list[ConnectorObservation] = []
        self._buffers = buffers
        self._home: asyncio.AbstractEventLoop | None = None
        self._compared = ComparedStates()
        self._looking = 0
        self._is_restored = self._is_dropped = False

    def _hide(self, text: str) -> str:
        return self.session.agent_memory.secrets.filter.hide(text)

    def tools(self) -> list[ActionTool]:
        """Return the connectors' tools."""
        return [ActionTool(tool, self._direct.extend) for tool in self.host.tools()]

    async def look(self, message: LLMMessage) -> Look | None:
        """Ask the connectors what a message changed, and append it; None if they are not asked."""
        is_result = isinstance(message, FunctionExecutionResultMessage)
        if not (self.host.connectors or self._direct) or not (is_result or isinstance(message, UserMessage)):
            return None
        await self._open()
        direct = self._direct[:] if is_result else []
        del self._direct[: len(direct)]
        self._looking += 1
        try:
            look = await self.host.look(direct, for_changes=is_result)
            for noticed in look.noticed:
                older = append_noticed(noticed, self.session, self._hide)
                if older is not None:
                    self.session.offloader.add_superseded(older)
            return look
        finally:
            self._looking -= 1

    def show(self, look: Look | None) -> None:
        """Record the states, and show only the newest images; called when all is measured and stored."""
        transcript = self.session.transcript
        before = {one.connector_id: one for one in transcript.state.newest_of(ConnectorStateShown)}
        states = {one.connector_id: one for one in look.states} if look is not None else {}
        for connector_id in self.host.connectors if look is not None else ():
            state = states.get(connector_id)
            elements = self._without_secrets(self.images.shown(state.elements) if state is not None else [])
            shown = ConnectorStateShown.of(connector_id, elements, self._counter)
            if shown != before.get(connector_id, ConnectorStateShown(connector_id)):
                transcript.decide(shown)
        for connector_id, was in before.items():  # of connectors that this context has not, and its session had
            if was.text and connector_id not in self.host.connectors:
                transcript.decide(ConnectorStateShown(connector_id))
        if transcript.with_images:
            self.images.leave_out_older(transcript)

    def _without_secrets(self, elements: Sequence[Element]) -> list[Element]:
        return [self._hide(one) if isinstance(one, str) else one for one in elements]

    async def open_image(self, item: MemoryItem, memory: AgentMemory) -> bool:
        """Show a stored image after the results that are added next; False if the model is shown none."""
        observation = await self.images.open(item, memory)
        self._direct += [] if observation is None else [observation]
        return observation is not None

    def note(self, observations: Sequence[ConnectorObservation | str | Image]) -> None:
        """Have these observations follow the results that are added next."""
        for one in observations:
            if isinstance(one, Image):
                one = TextObservation("action", "", images=(one,))
            self._direct.append(TextObservation("action", one) if isinstance(one, str) else one)

    async def states(self, connectors: Sequence[Connector] | None) -> list[ConnectorState]:
        """Return present states, with names in place of secrets."""
        states = await self.host.states(connectors)
        return [replace(state, elements=tuple(self._without_secrets(state.elements))) for state in states]

    def borrow(self, owner: ConnectorLink) -> None:
        """Leave the stop of shared connectors to their owner."""
        self.host.borrow(owner.host)

    async def remember(self, *, at_end: bool = False) -> None:
        """Record what the connectors compare with, if it changed; that of a large environment only `at_end`."""
        if self._home is not None and not self._looking and not self._is_dropped:
            ready = [one for one_id, one in self.host.connectors.items() if self.host.is_ready(one_id)]
            await self._compared.record(ready, self.session.transcript, self._hide, at_end=at_end)

    def restore(self) -> None:
        """Take over what a session's connectors compared with, so that they see what changed meanwhile."""
        self._is_restored = True
        for compared in self.session.transcript.state.newest_of(ConnectorCompared):
            load = getattr(self.host.connectors.get(compared.connector_id), "load_state", None)
            if load is not None and compared.state:
                try:
                    load(compared.state)
                except Exception as error:
                    _logger.warning("connector %s begins anew: %r", compared.connector_id, error)

    async def _open(self) -> None:
        if self._home is not None or not self.host.connectors:
            return
        await self._archive.ensure_loaded()
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
        if not self._is_dropped:
            await self._archive.flush()

    def drop(self) -> None:
        """Stop the connectors of a context that the program dropped without closing it."""
        home, self._is_dropped = self._home, True
        if home is not None and not home.is_closed():
            home.call_soon_threadsafe(lambda: begin(self.close()))


def append_noticed(noticed: Noticed, session: Session, hide: Callable[[str], str]) -> int | None:
    """Append what a connector noticed; return the position of the older observation that it supersedes, or None.

    Args:
        hide: Puts names in place of the user's secrets.
    """
    transcript, source = session.transcript, noticed.connector_id
    name = f"{source} {hide(noticed.subject)}"
    before = transcript.state.subjects.newest.get(name) if noticed.subject else None
    content = [*noticed.elements]
    text = hide("\n".join(one for one in content if isinstance(one, str)))
    digest = hashlib.sha256(to_utf8(text)).hexdigest()[:16]
    is_same = before is not None and len(text) >= _LEAST_CHARACTERS and _stands(transcript, before, digest)
    same_as = before if is_same else None
    if same_as is not None:
        line = subject_line(transcript, name, "unchanged since", same_as)
        content = [line, *(one for one in content if isinstance(one, Image))]
    message = UserMessage(content=_joined(content), source=source)
    entry = session.append(message, carries_result=True)
    if not noticed.subject:
        return None
    older = before if same_as is None and before is not None and _is_worth_a_line(transcript, before) else None
    transcript.decide(SubjectObserved(entry.position, name, digest, older, same_as))
    return older


def _joined(elements: Sequence[Element]) -> str | list[str | Image]:
    if any(isinstance(one, Image) for one in elements):
        return [*elements]
    return "\n".join(one for one in elements if isinstance(one, str))


def _stands(transcript: Transcript, position: int, digest: str) -> bool:
    """Return whether a text stands in the view, whole or as its excerpt."""
    state = transcript.state
    if state.subjects.digests.get(position) != digest or state.is_hidden(position):
        return False
    parts = [(position, part.address) for part in transcript[position].measured if part.is_result]
    return bool(parts) and not any(part in state.compacted or part in state.shortened for part in parts)


def _is_worth_a_line(transcript: Transcript, position: int) -> bool:
    if transcript.state.is_hidden(position):
        return False
    parts = transcript[position].parts
    return parts is None or any(part.is_result and part.tokens > WORTH_SUPERSEDING_TOKENS for part in parts)


class ComparedStates:
    """Records what connectors compare with; says once of each that it cannot be kept."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    async def record(
        self, connectors: Sequence[Connector], transcript: Transcript, hide: Callable[[str], str], *, at_end: bool
    ) -> None:
        """Record the states that changed. One that cannot be read stays as it was; one that is too large is dropped.

        Args:
            at_end: Also record states over 16,000 characters.
        """
        for one in connectors:
            before = transcript.state.newest(ConnectorCompared, one.id) or ConnectorCompared(one.id)
            try:
                data = one.save_state() if hasattr(one, "save_state") else {}  # pyright: ignore # optional
                text = await asyncio.to_thread(json.dumps, data, ensure_ascii=False)
                if len(text) > _BATCH_CHARACTERS and not at_end:
                    continue
                is_kept = len(text) <= _MOST_CHARACTERS
                state: Mapping[str, Any] = {}
                if is_kept:
                    state = await asyncio.to_thread(map_strings, json.loads(text), hide)
                why = f"more than {_MOST_CHARACTERS:,} characters; a resumed session looks at it anew"
            except Exception as error:  # also one that is no JSON
                state, is_kept, why = before.state, False, repr(error)
            if not is_kept and one.id not in self._told:
                self._told.add(one.id)
                _logger.warning("connector %s: what it compares with is not kept: %s", one.id, why)
            if state != before.state:
                transcript.decide(ConnectorCompared(one.id, state))
