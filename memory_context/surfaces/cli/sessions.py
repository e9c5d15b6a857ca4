"""`sessions`: the conversations of a user, as people saw them, as the agent has them, and as its model was shown them.

The archive is read and no session is claimed, so a running process is not disturbed. Unarchived messages are not shown.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from .command import NamedSession, Target, TranscriptOption, YesOption, command, find_session
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
    print_table,
    progress_bar,
    say,
)

if TYPE_CHECKING:
    from memory_context.view.view import Segment

__all__ = ["sessions"]


@command()
async def sessions(
    target: Target,
    session: Annotated[
        str | None, Argument(metavar="SESSION", help="Its id, or the beginning. [default: list them]")
    ] = None,
    transcript: Annotated[
        bool, Option("--transcript", help="What the agent read and said, instead of people.")
    ] = False,
    explain: Annotated[bool, Option("--explain", help="What the model was shown last, and why.")] = False,
    delete: Annotated[bool, Option("--delete", help="Delete it, with its items and its sub-agents'.")] = False,
    first: Annotated[int | None, Option("--from", min=1, help="--transcript: the first message, from 1.")] = None,
    limit: Annotated[int, Option(min=1, help="How many sessions or messages at most.")] = 20,
    agent: TranscriptOption = None,
    yes: YesOption = False,
) -> Output | None:
    """List the conversations, show one, or delete it.

    A process that is still at work in a deleted session is refused from then on. It asks first.
    """
    if transcript + explain + delete > 1 or (session is None and (transcript or explain or delete)):
        raise Failure("--transcript, --explain and --delete go with a SESSION, one at a time", USAGE_ERROR)
    if (first is not None and not transcript) or (agent is not None and not transcript + explain):
        raise Failure("--from goes with --transcript, --agent with that or --explain", USAGE_ERROR)
    if session is None:
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
    if delete:
        return await _delete(target, session, yes)
    named = await find_session(target, session)
    if transcript:
        return await _transcript(target, named, agent, first, limit)
    return await (_explain(target, named, agent) if explain else _chat(target, named, limit))


async def _chat(target: Target, named: NamedSession, limit: int) -> Output:
    info = named.info
    extent = await target.store.user_stats.session_extent(named.user_id, info.session_id)
    chat = await target.store.conversations.chat_page(named.user_id, info.session_id, limit=limit)

    def show() -> None:
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
            typer.echo(f"\n{harmless(message.sender)}, {message.timestamp:%Y-%m-%d %H:%M} UTC{mark}:")
            typer.echo(harmless(message.text))
        if info.chat_count > len(chat):
            say(f"\nthe last {len(chat)} of {info.chat_count:,} messages; --limit shows more")
        elif not chat and named.transcripts:
            say("\nno chat messages were archived; --transcript shows what the agent read and said")

    lists = {"transcripts": [*map(asdict, named.transcripts)], "chat": [*map(asdict, chat)]}
    return Output({**asdict(info), **asdict(extent), **lists}, show)


async def _transcript(target: Target, named: NamedSession, agent: str | None, first: int | None, limit: int) -> Output:
    from memory_context.sessions.archive.resume import rebuild_transcript
    from memory_context.view.history import history_text

    archived = await target.store.conversations.read(named.key(agent))
    if not archived.batches:
        raise Failure("there are only branches in its transcript: an agent resumed beside another")
    transcript, report, _ = rebuild_transcript(archived)
    end = transcript.end
    start = transcript.first if first is None else first - 1
    if not transcript.first <= start < max(end, transcript.first + 1):
        raise Failure(f"there is no message {start + 1}: there are {transcript.first + 1}-{end}", USAGE_ERROR)
    entries = transcript.entries(start=start, end=start + limit)
    page = [{"number": entry.position + 1, "text": history_text(entry)} for entry in entries]

    def show() -> None:
        for message in page:
            typer.echo(harmless(str(message["text"])))
        if start + len(page) < end:
            say(f"messages {start + 1}-{start + len(page)} of {end}; --from {start + len(page) + 1} goes on")
        if not report.is_complete or not page:
            say(harmless(str(report)))

    return Output({"messages": page, "count": end, "report": asdict(report)}, show)


async def _explain(target: Target, named: NamedSession, agent: str | None) -> Output:
    from memory_context.foundation.policy import ContextPolicy
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.sessions.archive.resume import whole_history
    from memory_context.sessions.transcript.codec import load_transcript
    from memory_context.view.bill import Bill
    from memory_context.view.calls import view_of_call
    from memory_context.view.explain import report
    from memory_context.view.view import View

    key = named.key(agent)
    memory = AgentMemory(target.store, *key)
    saved, _ = whole_history(await target.store.conversations.read(key))
    count = len(Bill(load_transcript(saved)).calls)
    if not count:
        raise Failure(f"no view of session {key.session_id!r} that was handed out is archived")
    views = [await view_of_call(saved, number, memory) for number in range(max(count - 1, 1), count + 1)]
    last = views[-1]
    before = views[0].view if count > 1 else View()
    told = report(last.transcript, before, last.view, ContextPolicy().token_budget)  # a session's own is not archived

    def show() -> None:
        typer.echo(f"the model saw last: {told.tokens:,} tokens, {told.stable_tokens:,} unchanged at its head")
        typer.echo(f"{told.head_in_words}\n" if told.head_in_words else "")
        columns = ("message", "state", "kind", "source", "tokens", "of", "why")
        print_table(columns, map(_row, told.segments), right=("message", "tokens", "of"), cut=("source", "why"))
        for change in told.changes:
            before, after = change.before or "not there", change.after or "not there"
            typer.echo(harmless(f"  message {change.number} {change.kind}: {before} -> {after} ({change.reason})"))
        for decision in told.decisions:
            typer.echo(harmless(f"  decided: {decision}"))

    remarks = [last.problem] if last.problem else []
    return Output({**asdict(told), "remarks": remarks}, show, [f"Note: {one}." for one in remarks])


def _row(one: "Segment") -> tuple[object, ...]:
    full = f"{one.full_tokens:,}" if one.full_tokens > one.tokens else ""
    return one.number, one.state, one.kind, one.source, f"{one.tokens:,}", full, one.why or " ".join(one.keys)


# --- delete


async def _delete(target: Target, session_id: str, yes: bool) -> None:
    store = target.store
    try:
        named = await find_session(target, session_id, by_beginning=not yes)
    except Failure:  # an interrupted deletion is finished
        user = await target.user()
        if await store.conversations.deleted_at(user, session_id) is None or not await _rows(target, user, session_id):
            raise
        say(f"session {session_id!r} was deleted before; what was left of it is gone now")
        return
    info, session_id = named.info, named.info.session_id
    extent = await store.user_stats.session_extent(named.user_id, session_id)
    title = f" ({info.title})" if info.title else ""
    subagents = f", {counted(extent.subagent_sessions, 'sub-agent session')}" if extent.subagent_sessions else ""
    confirm(
        f"Delete session {session_id!r}{harmless(title)} with {counted(info.message_count, 'message')} of agents, "
        f"{counted(info.chat_count, 'chat message')}{subagents} and {counted(extent.items, 'item')} of "
        f"{extent.tokens:,} tokens?",
        yes,
    )
    if await _rows(target, named.user_id, session_id):
        say(f"session {session_id!r} is deleted, with {counted(extent.items, 'item')}")
    else:
        say(f"session {session_id!r} was deleted by somebody else meanwhile")


async def _rows(target: Target, user: str, session_id: str) -> bool:
    with progress_bar("deleting rows") as show:
        return await target.store.conversations.delete_session(user, session_id, progress=show)
