"""Defines commands: each gets the store, the user and its output from here, and declares its own arguments only.

The store is closed however a command ends. A unique prefix names a session or item; errors offer the nearest names.
"""

import inspect
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Option

from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.patterns import regex

from .console import USAGE_ERROR, Failure, Output, present

if TYPE_CHECKING:
    from memory_context.foundation.embeddings.embedder import Embedder
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.store.admin.user_stats import TranscriptInfo
    from memory_context.store.conversations import SessionInfo
    from memory_context.store.memory_store import MemoryStore

__all__ = [
    "USER_ENV",
    "NamedSession",
    "Target",
    "TranscriptOption",
    "UrlOption",
    "UserOption",
    "YesOption",
    "command",
    "find_key",
    "find_session",
    "group",
    "not_empty",
    "parse_duration",
    "parse_since",
]

_OFFERED_USERS = 10
_OFFERED_NAMES = 3
_SESSIONS_COMPARED = 1000  # with a mistyped id
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = regex(rf"(\d{{1,6}})\s*([{''.join(_UNITS)}])")


def not_empty(name: str | None) -> str | None:
    """Refuse an empty name: an unset variable of a script must not choose another database or user."""
    if name == "":
        raise typer.BadParameter("it is empty")
    return name


USER_ENV = "MEMORY_CONTEXT_USER"
UrlOption = Annotated[
    str | None,
    Option("--url", callback=not_empty, help="The database. [default: MEMORY_CONTEXT_URL, else the embedded one]"),
]
UserOption = Annotated[
    str | None,
    Option("--user", callback=not_empty, envvar=USER_ENV, help="Whose memory. [default: that of the only user]"),
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]
YesOption = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]


@dataclass
class Target:
    """The store that a command works on, and whose memory it concerns.

    Attributes:
        embedder: Given before the store is used; None for its own.
    """

    url: str | None
    named_user: str | None = None
    embedder: "Embedder | None" = None

    @cached_property
    def store(self) -> "MemoryStore":
        """The store, which its first operation opens."""
        from memory_context.store.memory_store import MemoryStore

        return MemoryStore(self.url, self.embedder) if self.url or self.embedder else MemoryStore.default()

    async def user(self) -> str:
        """Return the named user, else the store's only user; `Failure` without users or with several."""
        if self.named_user is not None:
            return self.named_user
        found, name = await self.store.user_stats.only_user()
        if name is not None:
            return name
        if not found:
            where = self.store.describe()
            raise Failure(f"nothing is stored yet in {where}; give --user NAME for somebody else's view of it")
        from memory_context.foundation.errors import StoreError

        users: list[str] = []
        with suppress(StoreError):  # only the owner may list them
            async for user in self.store.every_user():
                users.append(repr(user) if len(users) < _OFFERED_USERS else "…")
                if len(users) > _OFFERED_USERS:
                    break
        raise Failure(f"there are several users, give --user{': ' * bool(users)}{', '.join(users)}", USAGE_ERROR)

    async def memory(self, agent_id: str = "", session_id: str = "") -> "AgentMemory":
        """Return the user's items, as the user sees them, or one session of an agent."""
        from memory_context.memory.agent_memory import AgentMemory

        return AgentMemory(self.store, await self.user(), agent_id, session_id)


# --- commands


def group(help_: str) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(help=help_, no_args_is_help=True, rich_markup_mode=None)


def command(
    *, user: Any = UserOption, has_json: bool = True
) -> Callable[[Callable[..., Awaitable[Output | None]]], Callable[..., None]]:
    """Return a decorator for commands: functions of a `Target`, and their own arguments.

    Args:
        user: The option --user; None for none.
        has_json: Take --json; what the function returns is printed one way or the other.
    """

    def decorate(function: Callable[..., Awaitable[Output | None]]) -> Callable[..., None]:
        def invoke(*, url: str | None, user: str | None = None, as_json: bool = False, **own: Any) -> None:
            target = Target(url, user)
            present(_run(function(target, **own), target), as_json)

        kind = inspect.Parameter.KEYWORD_ONLY
        _, *parameters = [one.replace(kind=kind) for one in inspect.signature(function).parameters.values()]
        parameters.append(inspect.Parameter("url", kind, annotation=UrlOption, default=None))
        if user is not None:
            parameters.append(inspect.Parameter("user", kind, annotation=user, default=None))
        if has_json:
            parameters.append(inspect.Parameter("as_json", kind, annotation=JsonOption, default=False))
        # typer reads the options from these
        invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        invoke.__annotations__ = {one.name: one.annotation for one in parameters}
        invoke.__name__, invoke.__doc__ = function.__name__, function.__doc__
        return invoke

    return decorate


def _run(work: Awaitable[Output | None], target: Target) -> Output | None:
    """Do the work of a command and close its store; the first Ctrl-C interrupts it wherever it is."""
    import asyncio  # a sixth of the time of `--help`

    async def work_and_close() -> Output | None:
        try:
            return await work
        finally:
            if "store" in vars(target):
                await target.store.close()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    logger = logging.getLogger("memory_context")
    if not logger.handlers:  # the error's one line is enough
        logger.addHandler(logging.NullHandler())
    is_main = threading.current_thread() is threading.main_thread()
    is_ours = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:  # the first Ctrl-C interrupts blocking work, too: asyncio's handler waits for an `await`
        signal.signal(signal.SIGINT, stop)
    try:
        return asyncio.run(work_and_close())
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


# --- sessions, items

TranscriptOption = Annotated[str | None, Option("--agent", help="Whose transcript. [default: the only one]")]


class NamedSession(NamedTuple):
    """A session with its transcripts, the latest archived first."""

    user_id: str
    info: "SessionInfo"
    transcripts: "list[TranscriptInfo]"

    def key(self, agent: str | None) -> SessionKey:
        """Return the key of the named agent's transcript, else of the only one; `Failure` without it."""
        session_id, agents = self.info.session_id, list(dict.fromkeys(one.agent_id for one in self.transcripts))
        shown = ", ".join(map(repr, agents))
        if not agents:
            raise Failure(f"session {session_id!r} has no transcript: only chat messages were archived in it")
        if agent is not None and agent not in agents:
            raise Failure(f"session {session_id!r} has no transcript of {agent!r}; there are those of {shown}")
        if agent is None and len(agents) > 1:
            raise Failure(
                f"session {session_id!r} has transcripts of several agents, give --agent: {shown}", USAGE_ERROR
            )
        return SessionKey(self.user_id, agents[0] if agent is None else agent, session_id)


async def find_session(target: Target, session_id: str, *, by_beginning: bool = True) -> NamedSession:
    """Return the session with an id or a unique prefix; `Failure` if none or several match, or it was deleted.

    Args:
        by_beginning: False to accept whole ids only, for scripts that delete.
    """
    store, name = target.store, await target.user()
    info = await store.conversations.session(name, session_id)
    if info is None:
        deleted_at = await store.conversations.deleted_at(name, session_id)
        if deleted_at is not None:
            raise Failure(f"session {session_id!r} was deleted on {deleted_at:%Y-%m-%d}")
    if info is None and by_beginning:
        found = await store.user_stats.sessions_beginning(name, session_id, _OFFERED_NAMES + 1)
        own = [one for one in found if not one.startswith(f"{found[0]}/")]  # sub-agents' ids extend their parent's
        if whole := _only(session_id, own, "session"):
            info = await store.conversations.session(name, whole)
    if info is None:
        from difflib import get_close_matches

        known = [one.session_id for one in await store.conversations.sessions(name, limit=_SESSIONS_COMPARED)]
        near = ", ".join(map(repr, get_close_matches(session_id, known, _OFFERED_NAMES)))
        offer = f"; did you mean {near}?" if near else ""
        raise Failure(f"user {name!r} has no session {session_id!r}: memory-context sessions lists them{offer}")
    return NamedSession(name, info, await store.user_stats.transcripts(name, info.session_id))


async def find_key(store: "MemoryStore", user_id: str, key: str) -> str:
    """Return the key with a prefix; an unknown key is returned unchanged. `Failure` if several have it."""
    if await store.items.fetch_whereabouts(user_id, key) is not None:
        return key
    return _only(key, await store.user_stats.keys_beginning(user_id, key, _OFFERED_NAMES + 1), "item") or key


def _only(beginning: str, found: list[str], noun: str) -> str | None:
    if len(found) > 1:
        more = ", …" if len(found) > _OFFERED_NAMES else ""
        shown = ", ".join(map(repr, found[:_OFFERED_NAMES]))
        raise Failure(f"{beginning!r} is the beginning of several {noun}s: {shown}{more}", USAGE_ERROR)
    return found[0] if found else None


# --- times


def parse_duration(text: str) -> timedelta:
    """Return the length of `90s`, `15m`, `12h`, `7d` or `4w`; `Failure` for another form."""
    written = _DURATION.fullmatch(text.strip().lower())
    if written is None or int(written[1]) == 0:
        raise Failure(f"{text!r} is not a length of time: write for example 90s, 15m, 12h, 7d or 4w", USAGE_ERROR)
    return timedelta(**{_UNITS[written[2]]: int(written[1])})


def parse_since(text: str | None) -> datetime | None:
    """Return the time that was a duration ago, or the beginning of a date; UTC without a zone. `Failure` for others."""
    if text is None:
        return None
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(timezone.utc) - parse_duration(text)
        except OverflowError:
            raise Failure(f"{text!r} reaches back further than time does", USAGE_ERROR) from None
        except Failure as error:
            raise Failure(f"{error}, or a date such as 2026-03-14", USAGE_ERROR) from None
    return day if day.tzinfo is not None else day.replace(tzinfo=timezone.utc)
