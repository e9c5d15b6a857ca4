"""`sessions list|show|delete`: the conversations of a user."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import NamedSession, SessionArgument, Target, TranscriptOption, YesOption, command, find_session, group
from .console import (
    USAGE_ERROR,
    Failure,
    Output,
    age,
    confirm,
    counted,
    harmless,
    listed,
    print_fields,
    progress_bar,
    say,
)

if TYPE_CHECKING:
    from memory_context.sessions.archive.resume import ResumeReport
    from memory_context.store.admin.user_stats import SessionExtent
    from memory_context.store.conversation_rows import ChatMessage
    from memory_context.store.memory_store import MemoryStore

__all__ = ["sessions_app"]

sessions_app = group("The conversations of a user.")


@sessions_app.command("list")
@command()
async def list_sessions(
    target: Target,
    limit: Annotated[int, typer.Option(min=1, help="How many at most; those used last come first.")] = 20,
) -> Output:
    """List a user's sessions, those used last first."""
    return listed(
        await target.store.conversations.sessions(await target.user(), limit=limit + 1),
        ("session", "agent", "messages", "chat", "age", "title"),
        lambda one: (
            one.session_id, one.agent_id, one.message_count, one.chat_count, age(one.last_activity_at), one.title
        ),
        right=("messages", "chat", "age"),
        cut=("agent", "title"),
        empty="no session is archived",
        limit=limit,
    )  # fmt: skip


# --- show


@sessions_app.command("show")
@command()
async def show_session(
    target: Target,
    session: SessionArgument,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="What the agent's transcript holds, instead of what people saw.")
    ] = False,
    first: Annotated[int | None, typer.Option("--from", min=1, help="--transcript: the first message, from 1.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many messages at most.")] = 20,
    agent: TranscriptOption = None,
) -> Output:
    """Show a session and its last messages, as people saw them.

    With --transcript, show what the agent read and said instead, page by page; stored texts show their references.
    """
    if not transcript and (first is not None or agent is not None):
        raise Failure("--from and --agent go with --transcript", USAGE_ERROR)
    named = await find_session(target, session)
    if transcript:
        return await _transcript(target, named, agent, first, limit)
    extent = await target.store.user_stats.session_extent(named.user_id, named.session_id)
    chat = await target.store.conversations.chat_page(named.user_id, named.session_id, limit=limit)
    return Output(lambda: _session_json(named, extent, chat), lambda: _print_session(named, extent, chat))


def _session_json(named: NamedSession, extent: "SessionExtent", chat: "list[ChatMessage]") -> dict[str, Any]:
    counts = {name: getattr(extent, name) for name in ("items", "tokens", "subagent_sessions")}
    transcripts = [asdict(one) for one in named.transcripts]
    return {**asdict(named.info), **counts, "transcripts": transcripts, "chat": [asdict(one) for one in chat]}


def _print_session(named: NamedSession, extent: "SessionExtent", chat: "list[ChatMessage]") -> None:
    info = named.info
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


async def _transcript(target: Target, named: NamedSession, agent: str | None, first: int | None, limit: int) -> Output:
    from memory_context.sessions.archive.resume import ResumeReport, rebuild_transcript
    from memory_context.view.history import history_text

    archived = await named.archived(target.store, named.agent(agent))
    if not archived.batches:
        return _page([], 0, ResumeReport("new", branches=archived.branches))
    transcript, report, _ = rebuild_transcript(archived)
    end = transcript.end
    start = transcript.first if first is None else first - 1
    if not transcript.first <= start < max(end, transcript.first + 1):
        raise Failure(f"there is no message {start + 1}: there are {transcript.first + 1}-{end}", USAGE_ERROR)
    entries = transcript.entries(start=start, end=start + limit)
    return _page([(entry.position + 1, history_text(entry)) for entry in entries], end, report)


def _page(page: list[tuple[int, str]], count: int, report: "ResumeReport") -> Output:
    """Return messages as numbers and texts; `count` is the number of the last message there is."""

    def show() -> None:
        for _, text in page:
            typer.echo(harmless(text))
        if page and page[-1][0] < count:
            first, last = page[0][0], page[-1][0]
            say(f"messages {first}-{last} of {count}; --from {last + 1} goes on")
        if not report.is_complete or not page:
            say(harmless(str(report)))

    messages = [{"number": number, "text": text} for number, text in page]
    return Output(lambda: {"messages": messages, "count": count, "report": asdict(report)}, show)


# --- delete


@sessions_app.command("delete")
@command(has_json=False)
async def delete_session(target: Target, session: SessionArgument, yes: YesOption = False) -> None:
    """Delete a session: what was said, and the items stored in it.

    Those of its sub-agents go with it. A process still at work in it is refused from then on. It asks first.
    """
    try:
        named = await find_session(target, session, by_beginning=not yes)
    except Failure:
        if not await _finish_deletion(target.store, await target.user(), session):
            raise
    else:
        await _confirm_and_delete(target.store, named, yes)


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


async def _finish_deletion(store: "MemoryStore", user: str, session_id: str) -> bool:
    """Finish an interrupted deletion; return False if there was none or nothing of the session is left."""
    if await store.conversations.deleted_at(user, session_id) is None or not await _delete(store, user, session_id):
        return False
    say(f"session {session_id!r} was deleted before; what was left of it is gone now")
    return True


async def _delete(store: "MemoryStore", user: str, session_id: str) -> bool:
    with progress_bar("deleting rows") as show:
        return await store.conversations.delete_session(user, session_id, progress=show)
