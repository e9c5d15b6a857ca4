"""One agent's memory of a user: who reads and writes, what of other agents' items it sees, and why it refuses.

`isolated` reads only items of the own agent and session; the others read all but private ones. Items stored as `shared`
never become private; all others are. Each scope forgets its own items; with the user's agreement (`forget_memory`) a
`shared` agent forgets any that are not private.
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, get_args
from weakref import WeakKeyDictionary

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints
from typing_extensions import Self

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.errors import ItemNotFoundError
from memory_context.foundation.identifiers import Sharing
from memory_context.foundation.references import KEY_PATTERN, MemoryRef, ToolAnswer, one_line, shorten
from memory_context.foundation.tokens import TokenCounter, default_token_counter
from memory_context.store.events import AuditEvent, EventKind, NewEvent
from memory_context.store.items import Reach, ReadScope, Whereabouts
from memory_context.store.memory_store import MemoryStore

from .vault.secrets import secrets_of

if TYPE_CHECKING:
    from memory_context.sessions.transcript.decisions import Decision
    from memory_context.sessions.transcript.transcript import Transcript

__all__ = ["AuditEvent", "AuditTrail", "EventKind", "MemoryScope", "MemorySnapshot", "refusal"]

_logger = logging.getLogger("memory_context")

_DETAIL_CHARACTERS = 200  # of an audit event
_LOGGED_KEYS = 5
_READ_CHARACTERS = 4_000  # limit of masking, before a detail is cut


class MemorySnapshot(BaseModel):
    """Readable keys of a scope, newest first, without content; ids are empty for none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str
    agent_id: str
    session_id: str
    taken_at: AwareDatetime | datetime
    keys: tuple[Annotated[str, StringConstraints(pattern=f"^{KEY_PATTERN.pattern}$")], ...]

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the JSON of `to_json`; `ValueError` for other text."""
        return cls.model_validate_json(text)


class MemoryScope:
    """The user, agent and session of an `AgentMemory`, and what it may read."""

    def __init__(
        self,
        memory_store: MemoryStore,
        user_id: str,
        agent_id: str | None = None,
        session_id: str | None = None,
        *,
        reach: Reach = "user",
        sharing: Sharing = "shared",
        token_counter: TokenCounter | None = None,
        mask_credentials: bool = True,
    ) -> None:
        for name, value, choices in (("reach", reach, get_args(Reach)), ("sharing", sharing, get_args(Sharing))):
            if value not in choices:
                raise ValueError(f"{name}={value!r}: use one of {', '.join(choices)}")
        self.memory_store = memory_store
        self.user_id = user_id
        self.agent_id = agent_id or ""
        self.session_id = session_id or ""
        self.sharing: Sharing = sharing
        place = (memory_store, user_id, self.agent_id, self.session_id)
        self.trail = AuditTrail(*place, is_private=sharing != "shared", masks_credentials=mask_credentials)
        self._reach: Reach = "session" if sharing == "isolated" else reach
        self._restored: dict[str, None] | None = None  # snapshot keys, plus keys stored since
        self._counter = token_counter or default_token_counter()
        self._masks_credentials = mask_credentials
        self._secrets = secrets_of(memory_store, user_id)
        self.opened_images: WeakKeyDictionary[object, MemoryRef] = WeakKeyDictionary()

    @property
    def scope(self) -> ReadScope:
        keys = None if self._restored is None else tuple(self._restored)
        return ReadScope(self.agent_id, self.session_id, self._reach, keys)

    async def not_found(self, key: str) -> ItemNotFoundError:
        """Return the error that explains why a key is unreadable."""
        found = await self.memory_store.items.fetch_whereabouts(self.user_id, key[:64])
        if found is not None and not found.is_active:
            return ItemNotFoundError(f"{key!r} was forgotten on {found.updated_at:%Y-%m-%d}")
        if found is not None:
            return ItemNotFoundError(refusal(key, found, self.scope, self.sharing))
        nearest = await self.memory_store.items.select_keys(self.user_id, like=key[:64], limit=3, scope=self.scope)
        offer = f"; did you mean {' or '.join(repr(k) for k in nearest)}?" if nearest else ""
        return ItemNotFoundError(f"no item {one_line(self._secrets.filter.hide(key), 80)!r} in this memory{offer}")

    def visible(self, text: str, *, shows_credentials: bool = False) -> str:
        """Return a text as models see it when it opens: without values of the vault, and without credentials."""
        text = self._secrets.filter.hide(text)
        return masked(text) if self._masks_credentials and not shows_credentials else text

    def register_answer(self, answer: str, label: str, *, shows_content: bool = True) -> None:
        """Record a tool answer, so that the same text later collapses to `label`."""
        self.memory_store.tool_answers.add(self._answer_owners[0], answer, ToolAnswer(label, shows_content))

    def find_answer(self, text: str) -> ToolAnswer | None:
        """Return the tool answer with this text, if readable here."""
        answers = (self.memory_store.tool_answers.find(owner, text) for owner in self._answer_owners)
        return next((answer for answer in answers if answer is not None), None)

    @property
    def _answer_owners(self) -> tuple[str, ...]:
        """Owners of look-ups readable here, own first; others' private references must not leak."""
        own = "\0".join((self.user_id, self.agent_id, self.session_id))
        return {"shared": (self.user_id,), "read_only": (own, self.user_id), "isolated": (own,)}[self.sharing]


def refusal(key: str, item: Whereabouts, scope: ReadScope, sharing: Sharing) -> str:
    """Return why an item is unreadable and what to do instead."""
    owner = f"agent {item.agent_id!r}" if item.agent_id else "no agent"
    where = f" (session {item.session_id!r})" if item.session_id else ""
    is_own_agent = bool(item.agent_id) and item.agent_id == scope.agent_id
    if scope.keys is not None:
        why = "is not in the snapshot that this memory was restored to"
    elif item.is_private and sharing != "isolated":
        whose = "another session of this agent" if is_own_agent else owner
        return f"item {key!r} is private to {whose}{where}: ask it to include the content"
    elif sharing == "isolated":
        whose = "another session of this agent" if is_own_agent else f"another agent, {owner}{where},"
        why = f"belongs to {whose} and this agent is isolated"
    else:
        why = f"belongs to {owner}{where}, beyond the reach of this memory"
    return f"item {key!r} {why}: ask for its content in the message"


class AuditTrail:
    """Records the events of a scope; `is_private` hides them from other scopes."""

    def __init__(
        self,
        memory_store: MemoryStore,
        user_id: str,
        agent_id: str,
        session_id: str,
        *,
        is_private: bool,
        masks_credentials: bool,
    ) -> None:
        self._masks_credentials = masks_credentials
        self._secrets = secrets_of(memory_store, user_id)
        self._log = memory_store.events
        self._user_id = user_id
        self._agent_id = agent_id
        self._session_id = session_id
        self._is_private = is_private

    def note(self, kind: EventKind, keys: Iterable[str], detail: str = "") -> None:
        """Buffer an event without I/O; never raises."""
        detail = self._secrets.filter.hide(detail[:_READ_CHARACTERS])
        if self._masks_credentials:
            detail = masked(detail)
        detail = shorten(detail, _DETAIL_CHARACTERS)
        unique = tuple(dict.fromkeys(keys))
        self._log.add(self._user_id, NewEvent(kind, unique, detail, self._agent_id, self._session_id, self._is_private))

    def note_read(self, kind: EventKind, keys: Iterable[str], reader: str | None, asked: object) -> None:
        """Record a read that has a reader and, unless it is a search, results."""
        keys = list(keys)
        if reader and (keys or kind == "searched"):
            self.note(kind, keys, f"{reader}: {asked}")

    def _log_event(self, kind: str, keys: Sequence[str]) -> None:
        """Log which items were stored, compacted or recalled; never what they hold."""
        _logger.info("session %s: %s %s", self._session_id, kind, ", ".join(keys[:_LOGGED_KEYS]))

    def note_decision(self, transcript: "Transcript", decision: "Decision") -> None:
        """Record the events of a decision; never raises."""
        try:
            _logger.debug("session %s: %s, at message %d", self._session_id, decision.kind, transcript.end)
            if decision.tally().get("offloads"):
                self._log_event("stored", decision.memory_keys())
            for kind, keys, detail in decision.audit(transcript):
                self._log_event(kind, keys)
                self.note(kind, keys, detail)
        except Exception:  # auditing must not fail the agent
            _logger.exception("a decision is missing in the audit trail: %s", type(decision).__name__)
