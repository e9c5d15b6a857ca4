"""`sessions list|show|delete`: the conversations of a user, what was said in them, and how they go."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import (
    ASKED_WRONGLY,
    Failure,
    JsonOption,
    UrlOption,
    UserOption,
    YesOption,
    confirm,
    counted,
    harmless,
    print_fields,
    print_json,
    print_table,
    progress_bar,
    run,
    say,
    user_of,
)
from .durations import age
from .naming import NamedSession, SessionArgument, TranscriptOption, named_session

if TYPE_CHECKING:
    from ..archive import ResumeReport
    from ..store import ChatMessage, MemoryStore, SessionInfo
    from ..store.admin.user_stats import SessionExtent

__all__ = ["delete_session", "list_sessions", "sessions_app", "show_session"]

sessions_app = typer.Typer(help="The conversations of a user.", no_args_is_help=True, rich_markup_mode=None)


# --- list


def list_sessions(
    limit: Annotated[int, typer.Option(min=1, help="How many at most; those used last come first.")] = 20,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a user's sessions, those used last first."""

    async def work(store: "MemoryStore") -> "list[SessionInfo]":
        return await store.conversations.sessions(await user_of(store, user), limit=limit + 1)

    found = run(work, url)
    shown = found[:limit]
    if as_json:
        print_json([asdict(one) for one in shown])
    elif not shown:
        say("no session is archived")
    else:
        columns = ("session", "agent", "messages", "chat", "age", "title")
        rows = [
            (one.session_id, one.agent_id, one.message_count, one.chat_count, age(one.last_activity_at), one.title)
            for one in shown
        ]
        print_table(columns, rows, right=("messages", "chat", "age"), cut=("agent", "title"))
    if len(found) > limit:
        say(f"there are more than {limit}: --limit shows more")


# --- show


@dataclass(frozen=True)
class _Shown:
    """What is shown of a session."""

    session: NamedSession
    extent: "SessionExtent"
    chat: "list[ChatMessage]"


@dataclass(frozen=True)
class _Page:
    """Messages of a transcript, each as text with its number, and how many there are."""

    texts: list[tuple[int, str]]
    count: int
    report: "ResumeReport"


def show_session(
    session: SessionArgument,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="What the agent's transcript holds, instead of what people saw.")
    ] = False,
    first: Annotated[int | None, typer.Option("--from", min=1, help="--transcript: the first message, from 1.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many messages at most.")] = 20,
    agent: TranscriptOption = None,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a session and its last messages, as people saw them.

    With --transcript, instead, what the agent read and said, page by page; what was stored shows its reference.
    """
    if not transcript and (first is not None or agent is not None):
        raise Failure("--from and --agent go with --transcript", ASKED_WRONGLY)
    if transcript:
        page = run(lambda store: _read_transcript(store, user, session, agent, first, limit), url)
        _print_page(page, as_json)
        return

    async def work(store: "MemoryStore") -> _Shown:
        named = await named_session(store, user, session)
        extent = await store.user_stats.session_extent(named.user_id, named.session_id)
        chat = await store.conversations.chat_page(named.user_id, named.session_id, limit=limit)
        return _Shown(named, extent, chat)

    shown = run(work, url)
    if as_json:
        print_json(_as_dict(shown))
    else:
        _print_session(shown)


def _as_dict(shown: _Shown) -> dict[str, Any]:
    return {
        **asdict(shown.session.info),
        "items": shown.extent.items,
        "tokens": shown.extent.tokens,
        "subagent_sessions": shown.extent.subagent_sessions,
        "transcripts": [asdict(one) for one in shown.session.transcripts],
        "chat": [asdict(message) for message in shown.chat],
    }


def _print_session(shown: _Shown) -> None:
    info = shown.session.info
    beside = (
        f", with those of {counted(shown.extent.subagent_sessions, 'sub-agent session')}"
        if shown.extent.subagent_sessions
        else ""
    )
    lines = (
        f"{one.agent_id}{f' (branch {one.branch})' if one.branch else ''}: {counted(one.messages, 'message')} in "
        f"{counted(one.batches, 'batch', 'batches')}, the last {age(one.archived_at)} ago"
        for one in shown.session.transcripts
    )
    print_fields(
        [
            ("session", info.session_id),
            ("title", info.title or None),
            ("last said", info.summary or None),
            ("begun", f"{info.created_at:%Y-%m-%d %H:%M} UTC, by {info.agent_id}"),
            ("last used", f"{info.last_activity_at:%Y-%m-%d %H:%M} UTC, {age(info.last_activity_at)} ago"),
            ("items", f"{shown.extent.items:,}, {shown.extent.tokens:,} tokens{beside}"),
            *(("transcript", line) for line in lines),
            ("chat", counted(info.chat_count, "message")),
        ]
    )
    for message in shown.chat:
        mark = "" if message.is_verified else ", unverified: a client brought it"
        typer.echo(f"\n{message.sender}, {message.timestamp:%Y-%m-%d %H:%M} UTC{mark}:")
        typer.echo(harmless(message.text))
    if info.chat_count > len(shown.chat):
        say(f"\nthe last {len(shown.chat)} of {info.chat_count:,} messages; --limit shows more")
    elif not shown.chat and shown.session.transcripts:
        say("\nno chat messages were archived; --transcript shows what the agent read and said")


async def _read_transcript(
    store: "MemoryStore", user: str | None, session_id: str, agent: str | None, first: int | None, limit: int
) -> _Page:
    from ..archive.reading import restored
    from ..archive.report import ResumeReport
    from ..view import history_text

    named = await named_session(store, user, session_id)
    archived = await named.archived(store, named.agent(agent))
    if not archived.batches:
        return _Page([], 0, ResumeReport("new", branches=archived.branches))
    found = restored(archived)
    transcript, end = found.transcript, found.transcript.end
    start = transcript.first if first is None else first - 1
    if not transcript.first <= start < max(end, transcript.first + 1):
        raise Failure(f"there is no message {start + 1}: there are {transcript.first + 1}-{end}", ASKED_WRONGLY)
    entries = transcript.entries(start=start, end=start + limit)
    return _Page([(entry.position + 1, history_text(entry)) for entry in entries], end, found.report)


def _print_page(page: _Page, as_json: bool) -> None:
    if as_json:
        messages = [{"number": number, "text": text} for number, text in page.texts]
        print_json({"messages": messages, "count": page.count, "report": asdict(page.report)})
        return
    for _, text in page.texts:
        typer.echo(harmless(text))
    if page.texts and page.texts[-1][0] < page.count:
        first, last = page.texts[0][0], page.texts[-1][0]
        say(f"messages {first}-{last} of {page.count}; --from {last + 1} goes on")
    if not page.report.is_complete or not page.texts:
        say(harmless(str(page.report)))


# --- delete


def delete_session(
    session: SessionArgument, url: UrlOption = None, user: UserOption = None, yes: YesOption = False
) -> None:
    """Delete a session: what was said, and the items stored in it.

    Those of its sub-agents go with it. A process that is still at work in it is refused from then on. It asks first.
    """

    async def work(store: "MemoryStore") -> None:
        try:
            named = await named_session(store, user, session, by_beginning=not yes)
        except Failure:
            if not await _finish_deletion(store, user, session):
                raise
            return
        info, whole_id = named.info, named.session_id
        extent = await store.user_stats.session_extent(named.user_id, whole_id)
        title = f" ({info.title})" if info.title else ""
        beside = f", {counted(extent.subagent_sessions, 'sub-agent session')}" if extent.subagent_sessions else ""
        confirm(
            f"Delete session {whole_id!r}{harmless(title)} with {counted(info.message_count, 'message')} of agents, "
            f"{counted(info.chat_count, 'chat message')}{beside} and {counted(extent.items, 'item')} of "
            f"{extent.tokens:,} tokens?",
            yes,
        )
        if await _delete(store, named.user_id, whole_id):
            say(f"session {whole_id!r} is deleted, with {counted(extent.items, 'item')}")
        else:
            say(f"session {whole_id!r} was deleted by somebody else meanwhile")

    run(work, url)


async def _finish_deletion(store: "MemoryStore", user: str | None, session_id: str) -> bool:
    """Go on with a deletion that was interrupted; False if there was none, or nothing is left of the session."""
    name = await user_of(store, user)
    if await store.conversations.deleted_at(name, session_id) is None or not await _delete(store, name, session_id):
        return False
    say(f"session {session_id!r} was deleted before; what was left of it is gone now")
    return True


async def _delete(store: "MemoryStore", user: str, session_id: str) -> bool:
    with progress_bar("deleting rows") as show:
        return await store.conversations.delete_session(user, session_id, progress=show)


sessions_app.command("list")(list_sessions)
sessions_app.command("show")(show_session)
sessions_app.command("delete")(delete_session)
