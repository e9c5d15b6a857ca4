"""`stats`: the stored items of a user, and the recorded bill of an archived session."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from memory_context.foundation.identifiers import SessionKey

from .command import Target, TranscriptOption, command, find_session
from .console import Output, byte_size, counted, print_fields, print_table

if TYPE_CHECKING:
    from memory_context.context.stats import ContextStats
    from memory_context.sessions.transcript.values import OfferedHead
    from memory_context.store.conversations import SessionInfo
    from memory_context.store.memory_store import MemoryStore
    from memory_context.view.bill import ModelCall

__all__ = ["stats"]

_NOT_IN_JSON = (  # `light_model` has the first six; transactions are not archived, and views are not made again
    *("light_model_calls", "light_model_failures", "light_model_tokens"),
    *("summary_calls", "summary_failures", "summary_tokens", "write_transactions", "archive_transactions"),
    *("user_memory_tokens", "observation_tokens"),
)
_APART = "; in none of the other figures"


@command()
async def stats(
    target: Target,
    session: Annotated[str | None, Argument(metavar="SESSION", help="A session's id.")] = None,
    agent: TranscriptOption = None,
) -> Output:
    """Show what is stored, what it saved, and what calls cost.

    Of a user: items by type and source. Of a session: what its model calls sent, what keeping everything would have
    sent, and both by the prices of a prompt cache, as recorded with each call; --json has every call.
    """
    if session is None:
        return await _account(target)
    named = await find_session(target, session)
    bill = await _make_bill(target.store, named.info, named.key(agent))
    return Output(bill.as_dict(), lambda: _print_bill(bill), [f"Note: {one}." for one in bill.reservations])


# --- a session


@dataclass(frozen=True)
class _Bill:
    """The cost of a session's model calls, and the uses of its items.

    Attributes:
        reservations: Sentences on omissions from the figures.
    """

    info: "SessionInfo"
    agent: str
    calls: "Sequence[ModelCall]"
    stats: "ContextStats"
    offered: "OfferedHead"
    events: dict[str, int]
    reservations: list[str]

    def as_dict(self) -> dict[str, Any]:
        sums = {name: value for name, value in asdict(self.stats).items() if name not in _NOT_IN_JSON}
        derived = ("saved_tokens", "relative_cost", "relative_view_cost", "cheapest_autogen_context")
        return {
            "session": self.info.session_id,
            "agent": self.agent,
            "title": self.info.title,
            **sums,
            **{name: getattr(self.stats, name) for name in derived},
            "events": self.events,
            "calls": [asdict(call) for call in self.calls],
            "reservations": self.reservations,
        }


async def _make_bill(store: "MemoryStore", info: "SessionInfo", key: SessionKey) -> _Bill:
    from memory_context.context.stats import stats_of
    from memory_context.sessions.archive.resume import whole_history
    from memory_context.sessions.transcript.codec import load_transcript
    from memory_context.sessions.transcript.view_decisions import ViewShown
    from memory_context.view.bill import Bill

    events = await store.user_stats.event_counts(key)
    saved, unread = whole_history(await store.conversations.read(key))
    transcript = load_transcript(saved)
    calls = Bill(transcript).calls
    said: list[str] = []
    if unbilled := len({shown.upto for _, shown in transcript.decisions(ViewShown) if not shown.digest and shown.upto}):
        said.append(f"not counted, since an earlier version recorded no figures: {counted(unbilled, 'view')}")
    if unread:
        numbers = ", ".join(map(str, unread))
        said.append(f"batches {numbers} are not counted: they are damaged, or come after what is missing")
    return _Bill(info, key.agent_id, calls, stats_of(transcript, calls), transcript.state.offered, events, said)


def _print_bill(bill: _Bill) -> None:
    stats, events = bill.stats, bill.events
    lookups = [(kind, events[kind]) for kind in ("retrieved", "searched", "listed", "paged") if kind in events]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in lookups)
    all_tokens = stats.raw_tokens_total + stats.raw_head_tokens_total
    share = f", {stats.saved_tokens / all_tokens:.0%}" if all_tokens else ""
    name, cost = stats.cheapest_autogen_context
    sent = f"{stats.view_tokens_total:,} tokens, {stats.cached_tokens_total:,} of them in the prompt cache"
    compacted = f"{stats.offloads:,} stored, {stats.answered_compactions:,} compacted, {stats.folds:,} folds"
    print_fields(
        [
            ("session", f"{bill.info.session_id} of {bill.agent}"),
            ("title", bill.info.title or None),
            ("model calls", f"{stats.views:,}"),
            ("sent", f"{sent}, {stats.peak_view_tokens:,} at most"),
            ("keeping all", f"{stats.raw_tokens_total:,} tokens"),
            ("with each", _head_of(bill)),
            ("saved", f"{stats.saved_tokens:,} tokens{share}"),
            ("cost", f"{stats.cost_in_words.removeprefix('cost ')}, by the prices of a prompt cache"),
            ("of messages", f"{stats.relative_view_cost:.2f} without tools, instructions and system prompt"),
            ("AutoGen", f"{cost / stats.raw_cost:.2f} by its cheapest context, {name}" if stats.raw_cost else None),
            ("light model", f"{stats.light_model}{_APART if stats.light_model.total.calls else ''}"),
            ("compacted", compacted),
            ("opened", f"{stats.expansions:,} items by itself, {stats.recalls:,} requests brought memories"),
            ("look-ups", f"{sum(count for _, count in lookups):,}" + (f": {kinds}" if kinds else "")),
        ]
    )


def _head_of(bill: _Bill) -> str | None:
    stats, offered = bill.stats, bill.offered
    if not stats.head_tokens_total:
        return None
    of_memory = offered.memory_tools_tokens + offered.instructions_tokens
    why = f" (offered: {offered.reason})" if offered.reason else ""
    own = f", {offered.own_tokens:,} of the agent's own tools and system prompt" if offered.own_tokens else ""
    return f"{of_memory:,} tokens of memory tools and instructions{why}{own}; {stats.head_tokens_total:,} in all calls"


# --- a user


async def _account(target: Target) -> Output:
    store, name = target.store, await target.user()
    kinds, extent = await store.user_stats.kinds(name), await store.user_stats.extent(name)

    def show() -> None:
        items, tokens = sum(kind.items for kind in kinds), sum(kind.tokens for kind in kinds)
        private = sum(kind.private_items for kind in kinds)
        aside = f", {private:,} of them private to a sub-agent" if private else ""
        size = byte_size(sum(kind.content_bytes for kind in kinds))
        said = f"{counted(extent.messages, 'message')} of agents, {counted(extent.chats, 'chat message')}"
        print_fields(
            [
                ("user", f"{name} in {store.describe()}"),
                ("stored", f"{counted(items, 'item')} with {tokens:,} tokens, {size}{aside}"),
                ("said", f"{said} in {counted(extent.sessions, 'session')}"),
            ]
        )
        if kinds:
            typer.echo()
            columns = ("type", "source", "items", "tokens", "size")
            sums = (
                (one.memory_type, one.source, f"{one.items:,}", f"{one.tokens:,}", byte_size(one.content_bytes))
                for one in kinds
            )
            print_table(columns, sums, right=columns[2:])

    return Output({"user": name, "kinds": [*map(asdict, kinds)], **asdict(extent)}, show)
