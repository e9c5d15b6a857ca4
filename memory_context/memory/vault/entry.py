"""Hides values of secrets in a context's messages, before anything reads them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autogen_core.models import LLMMessage

from memory_context.foundation.messages import texts_of, with_texts
from memory_context.foundation.runtime.background import LARGE_CHARACTERS, in_thread_if_large

from .forms import SecretFilter
from .secrets import Secrets

if TYPE_CHECKING:
    from memory_context.sessions.transcript.entries import Entry

__all__ = ["EntryFilter", "hidden_message"]


def hidden_message(message: LLMMessage, secrets: SecretFilter) -> LLMMessage:
    """Return the message with references in place of values; the same object without any."""
    changed = {
        address: hidden
        for address, text in texts_of(message)
        if (hidden := secrets.hide_arguments(text) if address.kind == "arguments" else secrets.hide(text)) is not text
    }
    return with_texts(message, changed) if changed else message


class EntryFilter:
    """Filters the messages of one context.

    Small ones are filtered as they are appended; others, and all while the values are unread, wait: until `settle`
    returns True nothing of this context is stored.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._waiting: list[Entry] = []

    def hidden(self, message: LLMMessage) -> LLMMessage:
        """Return a small message without known values."""
        if self._secrets.hides and self._is_small(message):
            return hidden_message(message, self._secrets.filter)
        return message

    def add(self, entry: "Entry", *, was_hidden: bool) -> None:
        """Take an appended entry; it waits unless `hidden` has filtered it."""
        is_done = was_hidden and self._secrets.is_ready and self._is_small(entry.message)
        if self._secrets.has_keys and not is_done:
            self._waiting.append(entry)

    async def settle(self, seconds: float) -> tuple[bool, Sequence["Entry"]]:
        """Filter what waits; return whether all is filtered, and entries that changed after they were measured."""
        if not await self._secrets.ready(seconds):
            return False, ()
        measured: list[Entry] = []
        while self._waiting:
            entry, before = self._waiting[0], self._waiting[0].message
            after = await in_thread_if_large(_size(before), hidden_message, before, self._secrets.filter)
            if self._waiting and self._waiting[0] is entry:  # another task may have filtered it
                self._waiting.pop(0)
                if after is not before:
                    entry.message = after
                    entry.touch()
                    measured += [entry] if entry.parts is not None else []
        return True, measured

    def _is_small(self, message: LLMMessage) -> bool:
        return _size(message) <= LARGE_CHARACTERS


def _size(message: LLMMessage) -> int:
    return sum(len(text) for _, text in texts_of(message))
