"""Chooses what views show of a stored result: its first view when one is needed, its facts once it is answered.

Both come from one analysis of the result, which `CompactorInput` keeps until the result is answered.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from memory_context.foundation.compactors.compactor import Compacted, Hint, Result
from memory_context.foundation.compactors.excerpt import render_passages
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.credentials.masks import masked_in_place, without_padding
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import QUOTATION, MemoryRef, shorten
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens
from memory_context.sessions.transcript.entries import Entry, Part, PartId, StoredPart
from memory_context.sessions.transcript.part_decisions import CompactedTextChosen, FirstViewChosen
from memory_context.sessions.transcript.transcript import Transcript

from .compactor_input import CompactorInput
from .differences import MOST_SHARE, Difference, DifferenceFinder
from .summaries import Summariser

__all__ = ["TextChooser", "compacted_text"]

_logger = logging.getLogger("memory_context")

_STATUS_LIMIT = 300

_Chosen = CompactedTextChosen | FirstViewChosen


@dataclass(frozen=True)
class _Choice:
    """The inputs of a choice: a thread must not read the transcript."""

    part: PartId
    tokens: int
    stored: StoredPart
    result: Result
    hint: Hint
    names_key: bool = False
    difference: Difference | None = None


class TextChooser:
    """Decides the first view of each fresh result and the facts of each answered one, once.

    Attributes:
        agent_has_tools: The agent finds keys by memory tools, so by default no line names them.
    """

    def __init__(
        self,
        transcript: Transcript,
        policy: ContextPolicy,
        counter: TokenCounter,
        compactors: Compactors,
        inputs: CompactorInput,
        summariser: Summariser,
    ) -> None:
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._compactors = compactors
        self._inputs = inputs
        self._summariser = summariser
        self._differences = DifferenceFinder(transcript, policy)
        self._failed: set[PartId] = set()
        self.agent_has_tools = False
        self.may_reduce: Callable[[], bool] = lambda: True

    async def choose_facts(self) -> None:
        """Choose the facts of all newly answered results; then record summaries."""
        if answered := [*filter(self._lacks_facts, self._transcript.state.answered_whole)]:
            await self._decide(sorted(answered), self._facts_choice, self._facts, self._lacks_facts)
            self._inputs.forget(answered)
        self._summariser.record()

    async def choose_first_views(self) -> None:
        """Choose a difference or an excerpt of results that no answer has seen, and the line that names a whole one."""
        if self.may_reduce() and (fresh := [*self._fresh()]):
            choice_of = partial(self._first_view_choice, await self._differences.compare(fresh))
            await self._decide(fresh, choice_of, self._first_view, self._lacks_first_view)
            self._differences.note(self._transcript.state.compared, fresh)

    async def excerpts(self, texts: Mapping[PartId, str]) -> dict[PartId, str]:
        """Return an excerpt of each text, also of one stored long ago or never, with credentials masked."""
        work = {part_id: self._excerpt_input(part_id, text) for part_id, text in texts.items()}

        def choose_all() -> dict[PartId, str]:
            return {part_id: self._excerpt(part_id, *given) for part_id, given in work.items()}

        size = math.inf if self._compactors.may_wait else sum(map(len, texts.values()))
        return await in_thread_if_large(size, choose_all) if work else {}

    def _excerpt_input(self, part_id: PartId, text: str) -> tuple[Result, Hint, MemoryRef | None]:
        entry = self._transcript[part_id[0]]
        part = entry.part(part_id[1])
        return *self._inputs.for_excerpt(entry, part, text), part.stored.refs[
            0
        ] if part.stored and part.stored.refs else None

    def _excerpt(self, part_id: PartId, result: Result, hint: Hint, ref: MemoryRef | None) -> str:
        content = masked_in_place(result.content) if hint.masks_credentials else result.content
        try:
            kept = self._compactors.compact(result, hint)
            text = self._excerpt_text(content, result.token_count, kept, ref, part_id[0] + 1)
        except Exception as error:  # an application's compactor
            _logger.warning("no excerpt of message %d: %s", part_id[0] + 1, str(error) or repr(error))
            text = f"{cut_to_tokens(content, hint.excerpt_limit_tokens, self._counter)}…"
        return without_padding(text)

    def is_held(self, part: PartId) -> bool:
        """Return whether a part still waits for facts or summary, or newer results are compared with it."""
        return self._lacks_facts(part) or self._summariser.is_held(part) or self._differences.is_held(part)

    async def _decide(
        self,
        parts: Iterable[PartId],
        choice_of: Callable[[Entry, Part, str], _Choice | None],
        choose: Callable[[_Choice], _Chosen | None],
        is_open: Callable[[PartId], bool],
    ) -> None:
        choices = [choice for part in parts if (choice := self._choice(part, choice_of)) is not None]

        def choose_all() -> list[_Chosen]:
            return [chosen for choice in choices if (chosen := self._chosen(choice, choose)) is not None]

        size = math.inf if self._compactors.may_wait else sum(len(choice.result.content) for choice in choices)
        for chosen in await in_thread_if_large(size, choose_all) if choices else ():
            if is_open((chosen.position, chosen.address)):  # another task may have changed it meanwhile
                self._transcript.decide(chosen)

    def _choice(self, part_id: PartId, choice_of: Callable[[Entry, Part, str], _Choice | None]) -> _Choice | None:
        entry = self._transcript[part_id[0]]
        text = entry.text(part_id[1])
        return None if text is None else choice_of(entry, entry.part(part_id[1]), text)

    def _chosen(self, choice: _Choice, choose: Callable[[_Choice], _Chosen | None]) -> _Chosen | None:
        try:
            return choose(choice)
        except Exception as error:  # the placeholder, or the whole result, stays
            self._failed.add(choice.part)
            _logger.warning("nothing is retained of message %d: %s", choice.part[0] + 1, str(error) or repr(error))
            return None

    # --- facts

    def _lacks_facts(self, part_id: PartId) -> bool:
        state, (position, address) = self._transcript.state, part_id
        if not self._policy.compaction.enabled or part_id not in state.answered_whole:
            return False
        if part_id in state.retained or part_id in self._failed:
            return False
        return self._is_shown_first(self._transcript[position], self._transcript[position].part(address))

    def _is_shown_first(self, entry: Entry, part: Part) -> bool:
        """Return whether its text is held and first views of its tool show more than a placeholder."""
        if self._policy.first_view_of(entry.tool_of(part.address)) == "placeholder":
            return False
        # excludes answers of memory tools and texts that the store did not return
        return part.stored is not None and bool(part.stored.refs) and part.address not in entry.dropped

    def _facts_choice(self, entry: Entry, part: Part, text: str) -> _Choice | None:
        if part.stored is None:
            return None
        given = self._inputs.for_facts(entry, part, text)
        return _Choice((entry.position, part.address), part.tokens, part.stored, *given)

    def _facts(self, choice: _Choice) -> _Chosen:
        text = compacted_text(self._compactors.compact(choice.result, choice.hint), choice.stored.refs[0])
        return CompactedTextChosen(*choice.part, text, self._counter.count(text))

    # --- first views

    def _fresh(self) -> Iterable[PartId]:
        transcript = self._transcript
        for entry in transcript.entries(start=max(transcript.state.consumed, transcript.state.start)):
            for part in entry.measured if not transcript.state.is_hidden(entry.position) else ():
                if part.is_result and self._lacks_first_view((entry.position, part.address)):
                    yield entry.position, part.address

    def _lacks_first_view(self, part_id: PartId) -> bool:
        state, entry = self._transcript.state, self._transcript[part_id[0]]
        if entry.position < state.consumed or part_id in state.first_views or part_id in self._failed:
            return False
        return part_id not in state.compacted and self._is_shown_first(entry, entry.part(part_id[1]))

    def _first_view_choice(
        self, differences: Mapping[PartId, Difference], entry: Entry, part: Part, text: str
    ) -> _Choice | None:
        # a view without the line, or without a difference, is in the prompt cache
        is_shown = entry.position < self._transcript.state.shown
        names_key = self._policy.names_first_view(self.agent_has_tools) and not is_shown
        difference = None if is_shown else differences.get((entry.position, part.address))
        if part.stored is None or not (names_key or difference or self._inputs.may_be_long(entry, part)):
            return None
        given = self._inputs.for_first_view(entry, part, text, names_key=names_key)
        return _Choice((entry.position, part.address), part.tokens, part.stored, *given, names_key, difference)

    def _first_view(self, choice: _Choice) -> _Chosen | None:
        ref, content = choice.stored.refs[0], choice.result.content
        kept = self._compactors.compact(choice.result, choice.hint) if choice.hint.excerpt_limit_tokens > 0 else None
        usual = FirstViewChosen(*choice.part, choice.tokens)
        if kept is not None and kept.is_part:
            text = self._excerpt_text(content, choice.tokens, kept, ref)
            usual = FirstViewChosen(*choice.part, self._counter.count(text), text)
        elif choice.names_key:
            headline = ref.headline()
            named = replace(choice.stored, headline=headline).below_headline(content)
            usual = FirstViewChosen(*choice.part, self._counter.count(named), headline=headline)
        if choice.difference is not None:
            text = self._difference_text(content, choice.stored, choice.difference, kept)
            tokens = self._counter.count(text)
            # once all differences together take as much as the result, a new base costs no more
            left = choice.tokens - choice.difference.spent_tokens
            if tokens <= min(usual.tokens, MOST_SHARE * choice.tokens, left):
                return FirstViewChosen(*choice.part, tokens, text, base=choice.difference.base)
        is_chosen = choice.names_key or choice.hint.excerpt_limit_tokens > 0
        return usual if is_chosen else None

    def _difference_text(self, content: str, stored: StoredPart, difference: Difference, kept: Compacted | None) -> str:
        passages = difference.passages(content, kept.excerpt if kept else None)
        rendered = render_passages(content, passages, _elision_of(stored.refs[0], 0), kept.labels if kept else ())
        head, _, _ = stored.compacted.partition("\n")
        return f"{head}\n{difference.text(rendered)}"

    def _excerpt_text(
        self, content: str, tokens: int, kept: Compacted, ref: MemoryRef | None, message_number: int = 0
    ) -> str:
        head = compacted_text(kept, ref)
        if kept.table:
            shown = f"{self._counter.count(kept.table):,} of its {tokens:,} tokens"
            return f"{head}\nAs a table, {shown}; {_whole_of(ref, message_number)}:\n{kept.table}"
        if not kept.excerpt:
            return head
        passages = render_passages(content, kept.excerpt, _elision_of(ref, message_number), kept.labels)
        return f"{head}\nExcerpt, {self._counter.count(passages):,} of its {tokens:,} tokens:\n{passages}"


def compacted_text(kept: Compacted, ref: MemoryRef | None) -> str:
    """Return status, placeholder and facts of a result; facts are quoted, as they may be anybody's words."""
    head = f"{shorten(kept.status, _STATUS_LIMIT)} {ref.render() if ref else ''}".strip()
    lines = [f"> {line}" for line in kept.facts.splitlines() if line.strip()]
    return "\n".join([head, QUOTATION, *lines]) if lines else head


def _whole_of(ref: MemoryRef | None, message_number: int) -> str:
    """Return the call that reads what a table leaves out."""
    if ref is None:
        return f"whole by read_history(first_message={message_number})"
    return f'more by retrieve_memory(memory_key="{ref.key}", pattern="…")'


def _elision_of(ref: MemoryRef | None, message_number: int) -> Callable[[str, bool], str]:
    """Return the text of gaps; the first one names the call that reads it."""

    def elision(what: str, is_first: bool) -> str:
        if not is_first:
            return f"[… {what} …]"
        if ref is None:
            return f"[… {what} left out: read_history(first_message={message_number}) …]"
        unit, _, rest = what.partition(" ")
        start, _, end = rest.partition(" ")[0].partition("-")
        name = "char" if unit == "characters" else "line"
        span = f"start_{name}={start}, end_{name}={end or start}"
        return f'[… {what} left out: retrieve_memory(memory_key="{ref.key}", {span}) …]'

    return elision
