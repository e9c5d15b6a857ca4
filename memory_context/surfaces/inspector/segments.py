"""A recorded model call as plain data: its messages in segments, each with the decision that made it what it is."""

import base64
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from autogen_core import Image
from autogen_core.models import FunctionExecutionResultMessage, LLMMessage, SystemMessage

from memory_context.foundation.messages import (
    Address,
    heading_of,
    image_at,
    png_bytes,
    results_of,
    text_at,
)
from memory_context.foundation.policy import ContextPolicy
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.observation_decisions import ObservationsActivated
from memory_context.sessions.transcript.part_decisions import (
    CompactedTextChosen,
    FirstViewChosen,
    PartsCompacted,
)
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import Arithmetic
from memory_context.sessions.transcript.view_decisions import ExpansionShown, ViewShown
from memory_context.view.bill import ModelCall
from memory_context.view.calls import CallView
from memory_context.view.sections import SECTIONS
from memory_context.view.view import Segment, ViewMessage

__all__ = ["call_as_json"]

Look = Literal[
    "head", "observations", "said", "agent", "full", "excerpt", "table", "difference", "shortened", "placeholder",
    "folded", "opened", "image", "interrupted", "tail",
]  # fmt: skip
"""What a segment is to a reader: the colour that it has on the page."""

_COMPACTED = {
    "consumed": "Compacted as soon as the agent had answered it: nothing behind it was in the prompt cache yet.",
    "saves": "Compacted when that paid by prompt-cache prices.",
    "aged": "Among the oldest facts, when all facts together passed their limit: only the reference stays.",
    "superseded": "A newer state of the same subject replaced it.",
    "older_image": "Newer images took its place.",
    "late": "Compacted when the state of an earlier version was loaded.",
    "budget": "Compacted because the view was over its budget.",
    "unavailable": "Its content was not there when the session was loaded.",
    "forgotten": "Its content was forgotten.",
}
_FACTS = {
    "compactor": "The lines below the reference are facts that the agent's answer showed to matter.",
    "model": "The text below the reference is a light model's summary.",
}
_SECTIONS = {
    "user_memory": "What is known of the user. It stays the same to the end of the session, so a cache keeps it.",
    "user_memory_news": "What changed in the user's memory since the session began; it stands last, where nothing "
    "cached follows.",
    "orders": "Orders of the user from messages that left the view: they stand until they are taken back.",
    "observation_hints": "Hints of the newest observations; they may change in each view, so they stand last.",
    "connector_state": "The present state of the agent's surroundings; it is new in each view, so it stands last.",
}


def call_as_json(
    found: CallView, calls: Sequence[tuple[ModelCall, Mapping[str, int]]], number: int, policy: ContextPolicy
) -> dict[str, Any]:
    """Return a call with its messages, what was left out, and where its cached prefix ended."""
    transcript, call = found.transcript, calls[number - 1][0]
    shown = transcript.decisions(ViewShown)[-1][1]
    reasons = _Reasons(transcript, policy)
    begun = [one.messages for one, _ in calls]
    messages: list[dict[str, Any]] = []
    tokens = 0
    for message in found.view.messages:
        tokens += message.tokens
        is_stable = tokens <= call.stable_tokens
        messages.append(
            {
                "role": _role(message.message),
                "tokens": message.tokens,
                "is_stable": is_stable,
                "is_cached": is_stable and call.read_tokens > 0,
                "segments": [
                    {
                        "place": [one.position, one.kind, one.index],
                        "number": one.position + 1 if one.position >= 0 else None,
                        "label": _label(message, one, index),
                        "source": one.source,
                        "look": _look(transcript, message.message, one, content),
                        "tokens": one.tokens,
                        "full_tokens": one.full_tokens,
                        "keys": one.keys,
                        "age": number - bisect_right(begun, one.position) - 1 if one.position >= 0 else None,
                        "why": reasons.of(one),
                        **content,
                    }
                    for index, one in enumerate(message.segments)
                    for content in (_content(message.message, one, index),)
                ],
            }
        )
    offered = transcript.state.offered
    return {
        "number": number,
        "count": len(calls),
        "problem": found.problem,
        "digest": shown.digest,
        "digest_now": found.view.digest,
        "is_joined": shown.is_joined,
        "head": {**{name: value for name, value in vars(offered).items() if value}, "tokens": offered.tokens},
        "messages": messages,
        "left_out": [*_left_out(transcript, messages, reasons)],
        "cache": _cache_in_words(transcript, calls, number, shown),
    }


def _role(message: LLMMessage) -> str:
    return {
        "SystemMessage": "system",
        "UserMessage": "user",
        "AssistantMessage": "assistant",
        "FunctionExecutionResultMessage": "tool results",
    }[type(message).__name__]


def _label(message: ViewMessage, segment: Segment, index: int) -> str:
    if segment.kind in SECTIONS:
        section = segment.kind.replace("_", " ")
        if segment.kind == "expansion":
            return f"opened for message {segment.number}"
        return f"{section}, {segment.owner}" if segment.owner else section
    if isinstance(message.message, FunctionExecutionResultMessage):
        return heading_of(message.message, Address("result", index))
    if segment.part is None or segment.kind in ("image", "result"):
        return segment.kind
    return heading_of(message.message, segment.part[1])


def _content(message: LLMMessage, segment: Segment, index: int) -> dict[str, Any]:
    """Return the exact text of a segment, and the images that stand in it."""
    if isinstance(message, FunctionExecutionResultMessage):
        return {"text": results_of(message)[index].content}
    address = segment.part[1] if segment.part else None
    if address is not None and address.kind != "result":
        image = image_at(message, address) if address.kind == "image" else None
        return {"text": "", "images": [_data_url(image)]} if image else {"text": text_at(message, address)}
    blocks: Sequence[Any] = [message.content] if isinstance(message.content, str) else message.content
    images = [_data_url(one) for one in blocks if isinstance(one, Image)]
    text = "\n".join(one for one in blocks if isinstance(one, str))
    return {"text": text, "images": images} if images else {"text": text}


def _data_url(image: Image) -> str:
    return f"data:image/png;base64,{base64.b64encode(png_bytes(image)).decode()}"


def _look(transcript: Transcript, message: LLMMessage, segment: Segment, content: Mapping[str, Any]) -> Look:
    section = SECTIONS.get(segment.kind)
    if section is not None:
        places: dict[str, Look] = {"head": "head", "observations": "observations", "tail": "tail"}
        return places.get(section.place) or ("folded" if segment.kind == "fold" else "opened")
    if segment.state == "excerpt":
        if segment.part in transcript.state.compared:
            return "difference"
        return "table" if "\nAs a table, " in content["text"][:2000] else "excerpt"
    if segment.state in ("placeholder", "shortened", "interrupted"):
        return segment.state
    if content.get("images"):
        return "image"
    if isinstance(message, SystemMessage):
        return "head"
    is_result = segment.part is not None and transcript[segment.position].part(segment.part[1]).is_result
    return "full" if is_result else "said" if _role(message) == "user" else "agent"


def _in_words(arithmetic: Arithmetic | None) -> str:
    if arithmetic is None:
        return ""
    a = arithmetic
    sign = "a gain of" if a.net >= 0 else "a loss, which the budget left no choice but to take, of"
    return (
        f" The decision took {a.removed_tokens:,} tokens out of each of {a.expected_calls:,} calls expected, and had "
        f"{a.rewritten_tokens:,} read anew once: {sign} {abs(a.net):,.0f} tokens at the ordinary price."
    )


class _Reasons:
    """The newest decisions of one transcript, by what they are about."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self._transcript, self._policy = transcript, policy
        self._compacted: dict[PartId, PartsCompacted] = {}
        self._first: dict[PartId, FirstViewChosen] = {}
        self._chosen: dict[PartId, CompactedTextChosen] = {}
        self._expanded: dict[tuple[int, str], ExpansionShown] = {}
        self.observed = ""
        for _, decision in transcript.log:
            match decision:
                case PartsCompacted():
                    self._compacted.update(dict.fromkeys(decision.parts, decision))
                case FirstViewChosen():
                    self._first[decision.position, decision.address] = decision
                case CompactedTextChosen():
                    self._chosen[decision.position, decision.address] = decision
                case ExpansionShown():
                    self._expanded[decision.place] = decision
                case ObservationsActivated():
                    self.observed = (
                        "Observations took the place of the oldest messages, as the view had filled its share of the "
                        f"window ({decision.reason.replace('_', ' ')}).{_in_words(decision.arithmetic)}"
                    )
                case _:
                    pass
        fold = transcript.state.fold
        self.folded = f"Old steps gave way to one placeholder.{_in_words(fold.arithmetic)}" if fold else ""

    def of(self, segment: Segment) -> str:
        """Return why a segment is what it is, in sentences."""
        if segment.kind == "fold":
            return self.folded
        if segment.kind == "observations":
            return f"{segment.why}. {self.observed}".removeprefix(". ")
        if segment.kind == "expansion":
            opened = self._expanded.get(segment.expansion_place)
            how = {one.key: one.reason for one in opened.opened} if opened else {}
            return f"Opened ({', '.join(dict.fromkeys(how.values())) or 'asked for'}): {segment.why}"
        if segment.kind in SECTIONS:
            return _SECTIONS.get(segment.kind, segment.why)
        if segment.state == "interrupted":
            return "The result never came; models refuse a call without one, so this sentence stands for it."
        return self._of_part(segment)

    def _of_part(self, segment: Segment) -> str:
        part = segment.part
        if part is None:
            return ""
        if segment.state == "placeholder":
            if (decision := self._compacted.get(part)) is None:
                return f"first_view_by_tool shows results of {segment.source} as references at once."
            chosen = self._chosen.get(part)
            facts = f" {_FACTS[chosen.by]}" if chosen and chosen.by in _FACTS and "\n" in chosen.text else ""
            return f"{_COMPACTED[decision.reason]}{_in_words(decision.arithmetic)}{facts}"
        if segment.state == "shortened":
            return "Shortened to fit the budget; nothing else could leave the view."
        if segment.state == "excerpt":
            base = self._first[part].base if part in self._first else None
            if base is not None:
                return f"The difference from the result in message {base[0] + 1}, which says the same otherwise."
            limit = f"the assumed policy shows up to {self._policy.result_limit_tokens:,} whole."
            return f"The first view of a result of {segment.full_tokens:,} tokens; {limit}"
        if segment.keys:
            is_answered = part in self._transcript.state.answered_whole
            return (
                "Stored, and still whole although answered: to compact it would cost more than it saves so far."
                if is_answered
                else "Stored, and whole: the agent reads it for the first time."
            )
        threshold = self._policy.offload_threshold_tokens
        return (
            f"Whole: the assumed policy stores no parts of up to {threshold:,} tokens."
            if segment.kind == "result"
            else ""
        )


def _left_out(
    transcript: Transcript, messages: Sequence[Mapping[str, Any]], reasons: _Reasons
) -> Iterator[dict[str, Any]]:
    """Yield what the call did not read of everything before it, by the means that spared it."""
    segments = [one for message in messages for one in message["segments"]]
    words = {
        "placeholder": "answered results and older images, of which references and facts stay",
        "excerpt": "first views of long results",
        "table": "first views as tables",
        "difference": "first views as differences from earlier results",
        "shortened": "texts made shorter for the budget",
    }
    for look, why in words.items():
        some = [one for one in segments if one["look"] == look]
        if saved := sum(one["full_tokens"] - one["tokens"] for one in some):
            yield {"what": look, "count": len(some), "tokens": saved, "why": why}
    state, gone = transcript.state, dict[str, list[int]]()
    for position in range(transcript.first, transcript.end):
        if position < state.start:
            gone.setdefault("cleared", []).append(position)
        elif state.is_away(position):
            gone.setdefault("observed" if state.observation.is_left(position) else "folded", []).append(position)
    whys = {"observed": reasons.observed, "folded": reasons.folded, "cleared": "The application cleared the view."}
    for what, left in gone.items():
        place = {"first": left[0] + 1, "last": left[-1] + 1}
        tokens = sum(transcript[one].full_tokens for one in left)
        yield {"what": what, "count": len(left), "tokens": tokens, "why": whys[what], **place}


def _cache_in_words(
    transcript: Transcript, calls: Sequence[tuple[ModelCall, Mapping[str, int]]], number: int, shown: ViewShown
) -> str:
    """Return where the prefix that a prompt cache holds ended, and what moved it."""
    call = calls[number - 1][0]
    if number == 1:
        return "The first call: nothing was in a prompt cache."
    if shown.is_cold:
        return "The pause before this call was longer than a cache entry lives, so everything was read anew."
    log = transcript.log
    between = [one for _, one in log[calls[number - 2][0].decision + 1 : call.decision]]
    earlier = [one for _, one in log[: calls[number - 2][0].decision]]
    decided = [str(told) for one in between if one.rewrites_prefix and (told := one.decided(transcript, earlier))]
    offered = [str(told) for one in between if one.kind == "offered" and (told := one.decided(transcript, earlier))]
    moved = (
        "Nothing older was rewritten: the unchanged beginning ends at what is new since the call before."
        if not decided
        else f"The unchanged beginning ended where a decision changed older messages: {'; '.join(decided)}."
    )
    if offered:
        return f"Memory tools came new to the head of the prompt, so nothing behind them was cached: {offered[0]}."
    if call.read_tokens:
        return f"{call.read_tokens:,} tokens were read from the cache. {moved}"
    return f"{call.stable_tokens:,} tokens stayed the same, too few to be cached (providers begin at 1,024). {moved}"
