"""`forget_memory`: erasing on the user's wish, offered on request only.

With `confirm` the application asks a person. Without it the first call lists the items and a code; the second sends it.

| the second call                                   | is answered with                          |
|---------------------------------------------------|-------------------------------------------|
| comes in a later turn, the items are the same     | they are forgotten                        |
| comes in the same turn                            | the user has not answered yet             |
| has another code, or the items changed            | the list, with a new code                 |

Over MCP there is no turn: the client asks.
"""

import base64
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autogen_core.models import UserMessage

from memory_context.foundation.errors import StoreError
from memory_context.foundation.references import KEY_PATTERN, MemoryRef, one_line
from memory_context.store.admin.user_stats import Forgettable
from memory_context.store.limits import within

from .base import MemoryTool, MemoryToolConfig, Texts, ToolArguments, ToolHost, key_in
from .repeats import Answer

__all__ = ["Confirm", "ForgetMemoryTool", "ForgetProposal"]

_logger = logging.getLogger("memory_context")

_MAX_KEYS = 20
_MAX_LISTED = 20
_VALID_TURNS = 3  # the user may ask something before agreeing
_LOOKED_BACK_MESSAGES = 1000
_PROCESS_KEY = secrets.token_bytes(32)


@dataclass(frozen=True)
class ForgetProposal:
    """The items that a person is asked to have erased.

    Attributes:
        session_id: Session of the asking agent; empty for none.
        items: Items of the keys, and others with the same content.
        copies_left: Number of equal items that stay: this agent may not forget them.
    """

    user_id: str
    agent_id: str
    session_id: str
    items: tuple[Forgettable, ...]
    copies_left: int = 0

    def __str__(self) -> str:
        """Return the items as lines for a person."""
        lines = [
            f"- {one_line(item.description, 200)} ({item.memory_key}, {item.memory_type}, {item.token_count:,} tokens, "
            f"{item.content_bytes:,} bytes)"
            for item in self.items[:_MAX_LISTED]
        ]
        if len(self.items) > _MAX_LISTED:
            lines.append(f"- and {len(self.items) - _MAX_LISTED} more items with the same contents")
        if self.copies_left:
            lines.append(f"Items of other agents with the same content, which stay: {self.copies_left}")
        return "\n".join(lines)


Confirm = Callable[[ForgetProposal], Awaitable[bool]]
"""Asks a person, however long that takes, and returns whether they agree."""


class ForgetMemoryArgs(ToolArguments):
    """Arguments of `forget_memory`: keys of items, and the code of the first call."""

    memory_keys: Texts
    confirmation: str = ""


class ForgetMemoryTool(MemoryTool):
    """Erases items once the user agrees.

    Args:
        confirm: Asks a person; None for two calls.
    """

    component_provider_override = "memory_context.ForgetMemoryTool"
    args_model = ForgetMemoryArgs
    tool_name = "forget_memory"
    tool_description = "Erase stored texts for good, on the user's wish: first lists them, erases once the user agrees."
    undone = "Nothing was forgotten: "
    waits_for_person: ClassVar[bool] = True  # calls of the store are bounded apart

    def __init__(self, config: MemoryToolConfig, host: ToolHost | None = None, confirm: Confirm | None = None) -> None:
        super().__init__(config, host)
        self._confirm = confirm

    async def _answer(self, host: ToolHost, args: ForgetMemoryArgs) -> Answer:
        keys = list(dict.fromkeys(map(key_in, args.memory_keys)))
        if not keys or len(keys) > _MAX_KEYS:
            raise ValueError(f"memory_keys takes 1 to {_MAX_KEYS} keys, not {len(keys)}")
        proposal, problems = await _proposed(host, keys)
        if problems:
            raise ValueError("; ".join(problems))
        if self._confirm is not None:
            return await self._asked(host, keys, proposal, self._confirm)
        turn, earlier = _turns(host)
        given, code = args.confirmation.strip().upper(), _code(proposal, turn)
        if given in [_code(proposal, one) for one in earlier]:
            return await _forgotten(host, proposal, "the user agreed, by the agent's word")
        if given == code:
            raise ValueError(
                "the user has not answered yet. Ask them now, end your turn, and call again with the same code once "
                "they agree"
            )
        return _listed(proposal, code, is_wrong=bool(given))

    async def _asked(self, host: ToolHost, keys: Sequence[str], proposal: ForgetProposal, confirm: Confirm) -> Answer:
        """Ask a person, then forget exactly these items."""
        try:
            is_agreed = await confirm(proposal)
        except Exception:
            _logger.exception("nobody could be asked whether %s may be forgotten", ", ".join(keys))
            raise ValueError("the user could not be asked") from None
        if is_agreed is not True:
            return Answer("Nothing was forgotten: the user said no. Do not ask again unless they wish it.")
        if (await _proposed(host, keys))[0] != proposal:
            raise ValueError("the items changed while the user was asked. Ask again")
        return await _forgotten(host, proposal, "the user was asked and agreed")


async def _proposed(host: ToolHost, keys: Sequence[str]) -> tuple[ForgetProposal, list[str]]:
    """Return the items of these keys, and problems with the keys."""
    memory = host.agent_memory
    store, is_shared = memory.memory_store, memory.sharing == "shared"
    known = [key for key in keys if KEY_PATTERN.fullmatch(key)]
    looking = store.user_stats.forgettable(host.user_id, known, memory.scope, is_shared=is_shared)
    found = await within(store.limits.call_seconds, looking)
    readable = {item.memory_key: item for item in found if item.is_readable}
    problems: list[str] = []
    for key in keys:
        if key not in readable:
            problems.append(f"{await memory.not_found(key)}; search_memory finds the keys of what is stored")
        elif not readable[key].is_writable:
            problems.append(
                f"item {key!r} is another agent's: this agent may not forget it, the user can (memory-context forget "
                f"{key}, or the application's memory page)"
            )
    named = [item for item in found if item.memory_key in keys]
    others = [item for item in found if item.memory_key not in keys and item.is_writable]
    left = sum(not item.is_writable for item in found)
    items = (*named, *others)
    return ForgetProposal(memory.user_id, memory.agent_id, memory.session_id, items, left), problems


async def _forgotten(host: ToolHost, proposal: ForgetProposal, why: str) -> Answer:
    store = host.agent_memory.memory_store
    forgetting = store.user_stats.forget_items(proposal.user_id, proposal.items)
    try:
        with host.agent_memory.operation("delete_memory") as operation:
            gone = await within(store.limits.call_seconds, forgetting)
            operation.tell(len(gone), gone[0] if len(gone) == 1 else "")
    except StoreError as error:
        return Answer(
            f"It is not known whether they were forgotten: the memory does not answer ({error}). Call again to see.",
            failed=True,
        )
    host.agent_memory.trail.note("forgotten", gone, f"forget_memory: {why}")
    count = proposal.copies_left
    left = f" Items of other agents with the same content stay: {count}." if count else ""
    return Answer(
        f"Forgotten for good: {', '.join(gone)}.{left} Messages that repeat it stay until they are forgotten, too.",
        data={"forgotten": gone},
    )


def _listed(proposal: ForgetProposal, code: str, *, is_wrong: bool) -> Answer:
    first = "That code is not for these items as they are now. " * is_wrong
    next_step = (
        "Ask the user whether these are to be erased; only if they agree, call forget_memory again with the same keys "
        f"and confirmation={code!r}."
    )
    refs = [MemoryRef(item.memory_key, item.description, item.token_count) for item in proposal.items]
    return Answer(
        f"{first}Nothing is forgotten yet. This would be erased for good:\n{proposal}\n{next_step}",
        f"forget_memory would erase {', '.join(ref.key for ref in refs[:_MAX_LISTED])}",
        next_step,
        code,
        data={
            "proposed": [
                {"memory_key": ref.key, "description": ref.description, "token_count": ref.token_count} for ref in refs
            ],
            "confirmation": code,
        },
    )


def _turns(host: ToolHost) -> tuple[int, list[int]]:
    """Return the current turn and earlier ones whose codes are valid."""
    transcript, sources = host.transcript, host.policy.user_sources
    if transcript.end == transcript.first:  # outside of a conversation
        return 0, [0]
    now = transcript.task(sources)
    if now is None:
        return -1, []
    spoken = [
        entry.position
        for entry in transcript.entries(max(transcript.state.start, now - _LOOKED_BACK_MESSAGES), now)
        if isinstance(entry.message, UserMessage) and entry.message.source in sources
    ]
    return now, spoken[-_VALID_TURNS:]


def _code(proposal: ForgetProposal, turn: int) -> str:
    items = [item.version for item in proposal.items]
    said = repr((proposal.user_id, proposal.agent_id, proposal.session_id, turn, items))
    digest = hmac.digest(_PROCESS_KEY, said.encode("utf-8", "backslashreplace"), "sha256")
    return base64.b32encode(digest)[:8].decode()
