"""Defines commands: each gets the store, the user and its output from here, and declares its own arguments only.

The store is closed however a command ends.
"""

import asyncio
import inspect
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from .console import USAGE_ERROR, Failure, Output, present

if TYPE_CHECKING:
    from ..embeddings import Embedder
    from ..memory import AgentMemory
    from ..store import MemoryStore

__all__ = ["JsonOption", "Target", "UrlOption", "UserOption", "YesOption", "command", "group", "not_empty", "run"]

_KEEP_SECONDS = 300
_OFFERED_USERS = 10

_Result = TypeVar("_Result")


def not_empty(name: str | None) -> str | None:
    """Refuse an empty name: an unset variable of a script must not choose another database or user."""
    if name == "":
        raise typer.BadParameter("it is empty")
    return name


UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", callback=not_empty, help="The database. [default: MEMORY_CONTEXT_URL, else the embedded one]"
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option(
        "--user",
        callback=not_empty,
        envvar="MEMORY_CONTEXT_USER",
        help="Whose memory. [default: that of the only user]",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True)
class Target:
    """The store that a command works on, which its first operation opens, and whose memory it concerns."""

    store: "MemoryStore"
    named_user: str | None = None

    async def user(self) -> str:
        """Return the named user, or the only one.

        Raises:
            Failure: None was named, and there is no user or there are several.
        """
        if self.named_user is not None:
            return self.named_user
        found, name = await self.store.user_stats.only_user()
        if name is not None:
            return name
        if not found:
            where = self.store.describe()
            raise Failure(f"nothing is stored yet in {where}; give --user NAME for somebody else's view of it")
        raise Failure(f"there are several users, give --user{await self._some_users()}", USAGE_ERROR)

    async def memory(self, agent_id: str = "", session_id: str = "") -> "AgentMemory":
        """Return the user's items, as the user sees them, or one session of an agent."""
        from ..memory import AgentMemory

        return AgentMemory(self.store, await self.user(), agent_id, session_id)

    async def _some_users(self) -> str:
        """Return the first users to choose from, if the login may list them."""
        from ..errors import StoreError

        users: list[str] = []
        with suppress(StoreError):
            async for name in self.store.every_user():
                users.append(name)
                if len(users) > _OFFERED_USERS:
                    break
        more = ", …" if len(users) > _OFFERED_USERS else ""
        return f": {', '.join(map(repr, users[:_OFFERED_USERS]))}{more}" if users else ""


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
            present(run(lambda store: function(Target(store, user), **own), url), as_json)

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


# --- the store


def run(
    work: Callable[["MemoryStore"], Awaitable[_Result]], url: str | None, embedder: "Embedder | None" = None
) -> _Result:
    """Run work with the store, which its first operation opens."""

    async def work_and_close() -> _Result:
        from ..store import MemoryStore

        store = MemoryStore(url, embedder) if url or embedder else MemoryStore.default()
        try:
            return await work(store)
        finally:
            await store.close()

    _keep_server_warm()
    logger = logging.getLogger("memory_context")
    if not logger.handlers:  # the error's one line is enough
        logger.addHandler(logging.NullHandler())
    with _ending_at_once():
        return asyncio.run(work_and_close())


def _keep_server_warm() -> None:
    """Let the embedded server outlive this command, for the next one.

    Not in CI, and not where this is process 1 or its child: a container or service ends with the command.
    """
    from ..store.location import KEEP_ENV

    ends_with_us = os.environ.get("CI", "").lower() not in ("", "0", "false") or 1 in (os.getpid(), os.getppid())
    os.environ.setdefault(KEEP_ENV, "0" if ends_with_us else str(_KEEP_SECONDS))


@contextmanager
def _ending_at_once() -> Generator[None, None, None]:
    """Let the first Ctrl-C interrupt blocking work; asyncio's handler waits for an `await`."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # not ours to change
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
