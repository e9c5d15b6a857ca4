"""`sessions list|show|delete`: the conversations of a user."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .console import (
    USAGE_ERROR,
    Failure,
    age,
    confirm,
    counted,
    harmless,
    print_fields,
    print_json,
    print_table,
    progress_bar,
    say,
)
from .lookup import (
    JsonOption,
    NamedSession,
    SessionArgument,
    TranscriptOption,
    UrlOption,
    UserOption,
    YesOption,
    find_session,
    find_user,
    run,
)

if TYPE_CHECKING:
    from ..archive import ResumeReport
    from ..store import ChatMessage, MemoryStore, SessionInfo
    from ..store.admin.user_stats import SessionExtent

__all__ = ["delete_session", "list_sessions", "sessions_app", "show_session"]

sessions_app = typer.Typer(help="The conversations of a user.", no_args_is_help=True, rich_markup_mode=None)


# --- list


@sessions_app.command("list")
def list_sessions(
    limit: Annotated[int, typer.Option(min=1, help="How many at most; those used last come first.")] = 20,
    url: UrlOption = None,
    user: UserOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a user's sessions, those used last first."""

    async def work(store: "MemoryStore") -> "list[SessionInfo]":
        return await store.conversations.sessions(await find_user(store, user), limit=limit + 1)

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


@sessions_app.command("show")
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

    With --transcript, show what the agent read and said instead, page by page; stored texts show their references.
    """
    if not transcript and (first is not None or agent is not None):
        raise Failure("--from and --agent go with --transcript", USAGE_ERROR)
    if transcript:
        _print_page(*run(lambda store: _read_transcript(store, user, session, agent, first, limit), url), as_json)
    else:
        _print_session(*run(lambda store: _read_session(store, user, session, limit), url), as_json)


async def _read_session(
    store: "MemoryStore", user: str | None, session_id: str, limit: int
) -> "tuple[NamedSession, SessionExtent, list[ChatMessage]]":
    named = await find_session(store, user, session_id)
    extent = await store.user_stats.session_extent(named.user_id, named.session_id)
    return named, extent, await store.conversations.chat_page(named.user_id, named.session_id, limit=limit)


def _print_session(named: NamedSession, extent: "SessionExtent", chat: "list[ChatMessage]", as_json: bool) -> None:
    info = named.info
    if as_json:
        counts = {name: getattr(extent, name) for name in ("items", "tokens", "subagent_sessions")}
        transcripts = [asdict(one) for one in named.transcripts]
        print_json({**asdict(info), **counts, "transcripts": transcripts, "chat": [asdict(one) for one in chat]})
        return
    subagents = extent.subagent_sessions
    beside = f", with those of {counted(subagents, 'sub-agent session')}" if subagents else ""
    lines = (
        f"{one.agent_id}{f' (branch {one.branch})' if one.branch else ''}: {counted(one.messages, 'message')} in "
        f"{counted(one.batches, 'batch', 'batches')}, the last {age(one.archived_at)} ago"
        for one in named.transcripts
    )
    print_fields(
        [
            ("session", info.session_id),
            ("title", info.title or None),
            ("last said", info.summary or None),
            ("begun", f"{info.created_at:%Y-%m-%d %H:%M} UTC, by {info.agent_id}"),
            ("last used", f"{info.last_activity_at:%Y-%m-%d %H:%M} UTC, {age(info.last_activity_at)} ago"),
            ("items", f"{extent.items:,}, {extent.tokens:,} tokens{beside}"),
            *(("transcript", line) for line in lines),
            ("chat", counted(info.chat_count, "message")),
        ]
    )
    for message in chat:
        mark = "" if message.is_verified else ", unverified: a client brought it"
        typer.echo(f"\n{message.sender}, {message.timestamp:%Y-%m-%d %H:%M} UTC{mark}:")
        typer.echo(harmless(message.text))
    if info.chat_count > len(chat):
        say(f"\nthe last {len(chat)} of {info.chat_count:,} messages; --limit shows more")
    elif not chat and named.transcripts:
        say("\nno chat messages were archived; --transcript shows what the agent read and said")


async def _read_transcript(
    store: "MemoryStore", user: str | None, session_id: str, agent: str | None, first: int | None, limit: int
) -> "tuple[list[tuple[int, str]], int, ResumeReport]":
    """Return a page of messages as numbers and texts, the number of the last message there is, and the report."""
    from ..archive import ResumeReport, rebuild_transcript
    from ..view import history_text

    named = await find_session(store, user, session_id)
    archived = await named.archived(store, named.agent(agent))
    if not archived.batches:
        return [], 0, ResumeReport("new", branches=archived.branches)
    transcript, report, _ = rebuild_transcript(archived)
    end = transcript.end
    start = transcript.first if first is None else first - 1
    if not transcript.first <= start < max(end, transcript.first + 1):
        raise Failure(f"there is no message {start + 1}: there are {transcript.first + 1}-{end}", USAGE_ERROR)
    entries = transcript.entries(start=start, end=start + limit)
    return [(entry.position + 1, history_text(entry)) for entry in entries], end, report


def _print_page(page: list[tuple[int, str]], count: int, report: "ResumeReport", as_json: bool) -> None:
    if as_json:
        messages = [{"number": number, "text": text} for number, text in page]
        print_json({"messages": messages, "count": count, "report": asdict(report)})
        return
    for _, text in page:
        typer.echo(harmless(text))
    if page and page[-1][0] < count:
        first, last = page[0][0], page[-1][0]
        say(f"messages {first}-{last} of {count}; --from {last + 1} goes on")
    if not report.is_complete or not page:
        say(harmless(str(report)))


# --- delete


@sessions_app.command("delete")
def delete_session(
    session: SessionArgument, url: UrlOption = None, user: UserOption = None, yes: YesOption = False
) -> None:
    """Delete a session: what was said, and the items stored in it.

    Those of its sub-agents go with it. A process still at work in it is refused from then on. It asks first.
    """

    async def work(store: "MemoryStore") -> None:
        try:
            named = await find_session(store, user, session, by_beginning=not yes)
        except Failure:
            if not await _finish_deletion(store, user, session):
                raise
            return
        await _confirm_and_delete(store, named, yes)

    run(work, url)


async def _confirm_and_delete(store: "MemoryStore", named: NamedSession, yes: bool) -> None:
    info, session_id = named.info, named.session_id
    extent = await store.user_stats.session_extent(named.user_id, session_id)
    title = f" ({info.title})" if info.title else ""
    subagents = f", {counted(extent.subagent_sessions, 'sub-agent session')}" if extent.subagent_sessions else ""
    confirm(
        f"Delete session {session_id!r}{harmless(title)} with {counted(info.message_count, 'message')} of agents, "
        f"{counted(info.chat_count, 'chat message')}{subagents} and {counted(extent.items, 'item')} of "
        f"{extent.tokens:,} tokens?",
        yes,
    )
    if await _delete(store, named.user_id, session_id):
        say(f"session {session_id!r} is deleted, with {counted(extent.items, 'item')}")
    else:
        say(f"session {session_id!r} was deleted by somebody else meanwhile")


async def _finish_deletion(store: "MemoryStore", user: str | None, session_id: str) -> bool:
    """Finish an interrupted deletion; return False if there was none or nothing of the session is left."""
    name = await find_user(store, user)
    if await store.conversations.deleted_at(name, session_id) is None or not await _delete(store, name, session_id):
        return False
    say(f"session {session_id!r} was deleted before; what was left of it is gone now")
    return True


async def _delete(store: "MemoryStore", user: str, session_id: str) -> bool:
    with progress_bar("deleting rows") as show:
        return await store.conversations.delete_session(user, session_id, progress=show)
