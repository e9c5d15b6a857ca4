"""`explain`: the segments of a session's view, last or next, with reasons.

It reads the archive only and claims no session, so a running process is not disturbed. Unarchived messages are not
shown.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .command import SessionArgument, Target, TranscriptOption, command, find_session
from .console import Output, harmless, print_table, say

if TYPE_CHECKING:
    from memory_context.foundation.policy import ContextPolicy
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.sessions.transcript.transcript import Transcript
    from memory_context.store.conversation_rows import Archived
    from memory_context.view.explain import ViewReport
    from memory_context.view.view import Segment, View

__all__ = ["explain"]


@command()
async def explain(
    target: Target,
    session: SessionArgument,
    now: Annotated[
        bool, typer.Option("--now", help="What the model would see now, instead of what it was shown last.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="The text of each segment too, as the model reads it.")] = False,
    token_budget: Annotated[
        int | None, typer.Option(min=1000, help="The session's budget, which is not archived. [default: 100000]")
    ] = None,
    agent: TranscriptOption = None,
) -> Output:
    """Explain what the model saw of a session, and why.

    Each segment of the view with its source, tokens and state, the changes since the view before, and the decisions
    behind them. The session may be in use: nothing in it changes.
    """
    from memory_context.foundation.policy import ContextPolicy

    policy = ContextPolicy() if token_budget is None else ContextPolicy(token_budget=token_budget)
    explained = await _explain(target, session, agent, policy, is_now=now, with_texts=full)
    return Output(explained.as_dict, lambda: _print(explained))


@dataclass(frozen=True)
class _Explanation:
    """A view's report, remarks, and, if wanted, segment texts."""

    report: "ViewReport"
    texts: list[str] | None
    is_now: bool
    remarks: list[str]

    def as_dict(self) -> dict[str, Any]:
        report = asdict(self.report)
        if self.texts is not None:
            for segment, text in zip(report["segments"], self.texts, strict=True):
                segment["text"] = text
        return {"is_now": self.is_now, **report, "remarks": self.remarks}


# --- the view


async def _explain(
    target: Target, session_id: str, agent: str | None, policy: "ContextPolicy", *, is_now: bool, with_texts: bool
) -> _Explanation:
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.sessions.archive.resume import whole_history
    from memory_context.sessions.transcript.codec import load_transcript
    from memory_context.sessions.transcript.transcript import Transcript
    from memory_context.view.bill import Bill
    from memory_context.view.calls import view_of_call
    from memory_context.view.explain import report
    from memory_context.view.view import View

    store, named = target.store, await find_session(target, session_id)
    agent_id = named.agent(agent)
    archived = await named.archived(store, agent_id)
    memory = AgentMemory(store, named.user_id, agent_id, named.session_id)
    saved, _ = whole_history(archived)
    count = len(Bill(load_transcript(saved)).calls)
    last = [await view_of_call(saved, number, memory, policy) for number in range(max(count - 1, 1), count + 1)]
    transcript = last[-1].transcript if last else Transcript()
    before, after = ([View(), View()] + [one.view for one in last])[-2:]
    remarks: list[str] = []
    if not is_now and not last:
        remarks.append("no view that was handed out is archived: this is what the model would see now")
        is_now = True
    elif last and last[-1].problem:
        remarks.append(last[-1].problem)
    if is_now:
        shown = transcript.state.shown
        before = after
        transcript, after = await _next_view(archived, memory, policy)
        if (transcript.task(policy.user_sources) or 0) >= shown:
            remarks.append("what the context would open for the waiting request is decided when it goes on")
    texts = _texts_of(after) if with_texts else None
    return _Explanation(report(transcript, before, after, policy.token_budget), texts, is_now, remarks)


async def _next_view(archived: "Archived", memory: "AgentMemory", policy: "ContextPolicy") -> "tuple[Transcript, View]":
    """Return the transcript and its next view; the store keeps no decision."""
    from memory_context.compaction.chooser import TextChooser
    from memory_context.compaction.compactor_input import CompactorInput
    from memory_context.compaction.offloader import Offloader, restore_texts
    from memory_context.compaction.summaries import Summariser
    from memory_context.foundation.compactors.registry import Compactors
    from memory_context.foundation.tokens import default_token_counter
    from memory_context.sessions.archive.resume import rebuild_transcript
    from memory_context.sessions.transcript.transcript import Transcript
    from memory_context.sessions.transcript.view_decisions import ViewShown
    from memory_context.view.budget import Budget, session_tag
    from memory_context.view.render import Renderer
    from memory_context.view.view import View

    if not archived.batches:
        return Transcript(), View()
    transcript, _, _ = rebuild_transcript(archived)
    await restore_texts(transcript, memory)
    counter, compactors = default_token_counter(), Compactors()
    inputs, summariser = (
        CompactorInput(transcript, policy, counter),
        Summariser(transcript, memory, policy, counter, None),
    )
    chooser = TextChooser(transcript, policy, counter, compactors, inputs, summariser)
    chooser.agent_has_tools = bool(transcript.state.offered.memory_tools)
    await chooser.choose_facts()
    await chooser.choose_first_views()
    await Offloader(transcript, memory, policy, counter, compactors).measure()  # counts notes on missing messages
    view = Budget(policy, counter, Renderer(policy, counter), session_tag(memory.session_id)).fit(transcript)
    transcript.decide(ViewShown(transcript.end))
    return transcript, view


def _texts_of(view: "View") -> list[str]:
    """Return the text of each segment."""
    from memory_context.foundation.messages import texts_of

    shown: list[str] = []
    for message in view.messages:
        images = {one.index: "(an image)" for one in message.segments if one.kind == "image"}
        texts: list[str] = []
        for address, text in texts_of(message.message):
            if address.kind == "text" and address.index in images:
                images[address.index] = text  # it stands for the image
            else:
                texts.append(text)
        said = iter(texts)
        shown += [images[one.index] if one.kind == "image" else next(said, "") for one in message.segments]
    return shown


# --- output


def _print(explained: _Explanation) -> None:
    report = explained.report
    when = "would see now" if explained.is_now else "saw last"
    budget = f" of {report.token_budget:,}" if report.token_budget is not None else ""
    typer.echo(f"the model {when}: {report.tokens:,} tokens{budget}, {report.stable_tokens:,} unchanged at its head")
    typer.echo(f"{report.head_in_words}\n" if report.head_in_words else "")
    if explained.texts is None:
        _print_segments(report.segments)
    else:
        for segment, text in zip(report.segments, explained.texts, strict=True):
            typer.echo(harmless(f"--- {_head(segment)}\n{text}\n"))
    if report.changes:
        typer.echo("\nchanged since the view before:")
    for change in report.changes:
        before, after = change.before or "not there", change.after or "not there"
        typer.echo(harmless(f"  message {change.number} {change.kind}: {before} -> {after} ({change.reason})"))
    for decision in report.decisions:
        typer.echo(harmless(f"  decided: {decision}"))
    for remark in explained.remarks:
        say(f"Note: {remark}.")


def _print_segments(segments: "Iterable[Segment]") -> None:
    rows = [
        (
            one.number,
            one.state,
            one.kind,
            one.source,
            f"{one.tokens:,}",
            f"{one.full_tokens:,}" if one.full_tokens > one.tokens else "",
            _why(one),
        )
        for one in segments
    ]
    columns = ("message", "state", "kind", "source", "tokens", "of", "items, or why")
    print_table(columns, rows, right=("message", "tokens", "of"), cut=("source", "items, or why"))


def _head(segment: "Segment") -> str:
    size = f"{segment.tokens:,} tokens"
    if segment.full_tokens > segment.tokens:
        size += f" of {segment.full_tokens:,}"
    why = f" ({_why(segment)})" if _why(segment) else ""
    return f"message {segment.number}, {segment.source}, {segment.kind}, {segment.state}, {size}{why}"


def _why(segment: "Segment") -> str:
    return segment.why or " ".join(segment.keys)
