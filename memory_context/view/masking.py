"""Decides which credentials of tool results are shown as masks `{{secret:detected-…}}`.

A result is masked when it is answered: its first view was the volatile end of the prompt, so no cached prefix changes.
"""

import secrets
from collections.abc import Iterator

from memory_context.foundation.credentials.masks import credentials_in
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.tokens import TokenCounter
from memory_context.memory.vault.forms import DETECTED, reference
from memory_context.sessions.transcript.entries import Entry, Part
from memory_context.sessions.transcript.part_decisions import CredentialsMasked
from memory_context.sessions.transcript.transcript import Transcript

from .render import unmasked_in_view

__all__ = ["Masker"]

_NAME_BYTES = 6  # random: nothing about a value follows from its name


class Masker:
    """Masks of one transcript.

    Attributes:
        values: What was masked, by name, until somebody keeps it.
    """

    def __init__(self, transcript: Transcript, policy: ContextPolicy, counter: TokenCounter) -> None:
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._next = transcript.first
        self._names: dict[str, str] = {}
        self.values: dict[str, str] = {}

    def decide(self) -> None:
        """Record masks of results that were answered since, and of masked ones whose text changed."""
        mode = self._policy.secrets.mask_in_view
        if mode == "never":
            return
        state = self._transcript.state
        self._next = max(self._next, state.start)
        end = self._transcript.end if mode == "always" else state.consumed
        while self._next < end and self._transcript[self._next].parts is not None:
            self._next += 1
            for part in self._transcript[self._next - 1].measured:
                self._mask(self._transcript[self._next - 1], part)
        for position, address in list(state.masked):
            if position >= state.start:
                self._mask(self._transcript[position], self._transcript[position].part(address))

    def _mask(self, entry: Entry, part: Part) -> None:
        if not part.is_result or self._transcript.state.is_hidden(entry.position):
            return
        state, text, _ = unmasked_in_view(self._transcript, self._policy, entry, part)
        text = entry.text(part.address) if text is None else text
        known = self._transcript.state.masked.get((entry.position, part.address))
        if state == "placeholder" or text is None or (known is not None and known.characters == len(text)):
            return
        if masks := tuple(self._masks(text)):
            decision = CredentialsMasked(entry.position, part.address, len(text), masks, 0)
            tokens = self._counter.count(decision.masked(text))
            self._transcript.decide(CredentialsMasked(entry.position, part.address, len(text), masks, tokens))

    def _masks(self, text: str) -> Iterator[tuple[int, int, str]]:
        for one in credentials_in(text):
            value = text[one.start : one.end]
            name = self._names.get(value)
            if name is None:
                name = self._names[value] = f"{DETECTED}{secrets.token_hex(_NAME_BYTES)}"
                self.values[name] = value
            yield one.start, one.end, reference(name)
