"""What of a part goes to the store, and what of it stays in the process.

Pure functions of a message, its measured part and the policy; `Packer` only carries what they have in common. A part
gives one piece; the arguments of a call give one for each long string in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autogen_core.models import AssistantMessage, UserMessage

from ..compaction import Compacted, Compactors, Hint, Result, render_passages
from ..credentials import masked
from ..memory import Draft
from ..messages import calls_of, long_strings, replace_strings, results_of, source_of
from ..policy import ContextPolicy
from ..references import QUOTATION, MemoryRef, shorten
from ..store import Origin
from ..tokens import TokenCounter, count_off_loop
from ..transcript import Entry, Part, StoredPart
from .result_types import result_type

__all__ = ["Packer", "Piece", "compacted_text"]

_STATUS_LIMIT = 300
_ARGUMENTS_CHARACTERS = 2_000  # of a call, in the metadata of its result
_BEGINNING_CHARACTERS = 4_000  # of a text, in which credentials are looked for before a description is cut from it

_SHORTENED_AFTERWARDS = "(the call was made with the whole text; it was shortened here afterwards)"
"""Said inside shortened arguments: models copy what they see there, and would write placeholders into files."""


@dataclass(frozen=True)
class Piece:
    """One content to be stored.

    Attributes:
        content: What is stored.
        survives: What survives of it beside the reference.
        draft: The item it becomes.
        pointer: Of a string in a call's arguments: where it stands, as a JSON pointer.
    """

    content: str
    survives: Compacted
    draft: Draft
    pointer: str = ""


class Packer:
    """Turns parts into pieces, and pieces with their references into what the process keeps.

    Args:
        policy: Thresholds and limits.
        counter: Counts tokens.
        compactors: Say what survives of a result.
    """

    def __init__(self, policy: ContextPolicy, counter: TokenCounter, compactors: Compactors) -> None:
        self._policy = policy
        self._counter = counter
        self._compactors = compactors

    def pack(self, entry: Entry, part: Part, text: str, told: tuple[Result, Hint] | None) -> list[Piece]:
        """Return the pieces of a part: none for arguments without a long string.

        Args:
            entry: Its entry.
            part: The part.
            text: What it says.
            told: What the compactor is told of a tool's result; None for any other part.
        """
        if part.address.kind == "arguments":
            return self._pack_arguments(entry, part, text)
        if told is not None:
            return [self._pack_result(entry, part, *told)]
        source = source_of(entry.message) or "system"
        is_thought = part.address.kind == "thought"
        return [
            self._pack_text(
                entry,
                part,
                text,
                what=f"{'thought' if is_thought else 'message'} of {source}",
                source=f"{source}_thought" if is_thought and isinstance(entry.message, AssistantMessage) else source,
                tokens=part.tokens,
            )
        ]

    def keep(self, entry: Entry, part: Part, pieces: Sequence[tuple[Piece, MemoryRef]]) -> StoredPart:
        """Return what is kept of a part whose pieces are committed under these references."""
        refs = tuple(ref for _, ref in pieces)
        if part.address.kind == "arguments":
            replacements = {piece.pointer: f"{ref.render()} {_SHORTENED_AFTERWARDS}" for piece, ref in pieces}
            return self.stored(refs, replace_strings(entry.text(part.address) or "{}", replacements))
        piece, ref = pieces[0]
        compacted = compacted_text(piece.survives, ref)
        if piece.survives.excerpt is None:
            stored = self.stored(refs, compacted)
            is_long = part.is_result and part.tokens > self._policy.result_limit_tokens
            return replace(stored, excerpt_tokens=part.tokens) if is_long else stored  # a document, shown whole
        if not piece.survives.excerpt:
            return self.stored(refs, compacted, excerpt=compacted)
        passages = _excerpt_text(piece.content, piece.survives, ref)
        shown = f"Excerpt, {self._counter.count(passages):,} of its {part.tokens:,} tokens:"
        return self.stored(refs, compacted, f"{compacted}\n{shown}\n{passages}")

    async def named(self, entry: Entry, part: Part, stored: StoredPart, content: str) -> StoredPart:
        """Return what is kept of a part so that it names its key if it is a result that is shown whole."""
        is_compacted = self._policy.first_view_of(entry.tool_of(part.address)) == "placeholder"
        if not part.is_result or stored.excerpt is not None or is_compacted:
            return stored
        named = replace(stored, headline=stored.refs[0].headline())
        (tokens,) = await count_off_loop(self._counter, [named.below_headline(content)])
        return replace(named, excerpt_tokens=tokens)

    def stored(self, refs: tuple[MemoryRef, ...], compacted: str, excerpt: str | None = None) -> StoredPart:
        """Return a record with its texts counted."""
        return StoredPart(
            refs,
            compacted,
            self._counter.count(compacted),
            excerpt,
            0 if excerpt is None else self._counter.count(excerpt),
        )

    def _pack_arguments(self, entry: Entry, part: Part, text: str) -> list[Piece]:
        call = calls_of(entry.message)[part.address.index]
        threshold = self._policy.offload_threshold_tokens
        return [
            self._pack_text(
                entry,
                part,
                value,
                what=f"argument {pointer[1:]} of a {call.name} call",
                source=f"{call.name}_{pointer.rpartition('/')[2]}",
                tokens=self._counter.count(value),
                pointer=pointer,
            )
            for pointer, value in long_strings(text, least_characters=threshold)
            if self._counter.is_over(value, threshold)
        ]

    def _pack_text(
        self, entry: Entry, part: Part, text: str, what: str, source: str, tokens: int, pointer: str = ""
    ) -> Piece:
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        beginning = text[:_BEGINNING_CHARACTERS]
        if self._policy.mask_credentials:
            beginning = masked(beginning)  # before the cut, which could leave half of one
        description = f"{what}, {size}, begins: {beginning[:80].strip()}"
        metadata = _audit(entry, part) | ({"pointer": pointer} if pointer else {})
        draft = Draft(text, description, tokens, "custom", source, metadata=metadata, origin=self._origin(entry))
        return Piece(text, Compacted("", description, ""), draft, pointer)

    def _pack_result(self, entry: Entry, part: Part, result: Result, hint: Hint) -> Piece:
        survives = self._compactors.compact(result, hint)
        type_ = "command_output" if entry.carries_result else result_type(result.source, result.arguments)
        metadata = _audit(entry, part, result.is_error) | self._call(result)
        draft = Draft(
            result.content,
            survives.description,
            part.tokens,
            type_,
            result.source,
            metadata=metadata,
            origin="tool",
        )
        return Piece(result.content, survives, draft)

    def _call(self, result: Result) -> dict[str, object]:
        """Say in an item's metadata which tool was called with what, and how long that took."""
        if result.duration_seconds is None:
            return {}
        arguments = result.arguments[:_BEGINNING_CHARACTERS]
        if self._policy.mask_credentials:
            arguments = masked(arguments)
        call: dict[str, object] = {"tool": result.source, "arguments": shorten(arguments, _ARGUMENTS_CHARACTERS)}
        return call | {"duration_seconds": round(result.duration_seconds, 3)}

    def _origin(self, entry: Entry) -> Origin:
        """Return whose words a message holds that carries no result.

        A user message of another source has another agent's words; a system message may come from an AutoGen memory,
        which puts in what it found anywhere.
        """
        message = entry.message
        if isinstance(message, UserMessage):
            return "user_words" if message.source in self._policy.user_sources else "agent"
        return "agent" if isinstance(message, AssistantMessage) else "tool"


def compacted_text(survives: Compacted, ref: MemoryRef) -> str:
    """Return what is shown of a consumed result: whether it succeeded, with its placeholder, and below it the facts.

    Facts are the result's own words, which may be anybody's: each line says that it is a quotation.
    """
    head = f"{shorten(survives.status, _STATUS_LIMIT)} {ref.render()}".strip()
    lines = [f"> {line}" for line in survives.facts.splitlines() if line.strip()]
    return "\n".join([head, QUOTATION, *lines]) if lines else head


def _audit(entry: Entry, part: Part, is_error: bool | None = None) -> dict[str, object]:
    """Say in an item's metadata which message and call it came from."""
    where: dict[str, object] = {"message": entry.position + 1, "part": part.address.kind}
    if part.address.kind == "result":
        where |= {"call_id": results_of(entry.message)[part.address.index].call_id, "is_error": is_error}
    elif part.address.kind == "arguments":
        where |= {"call_id": calls_of(entry.message)[part.address.index].id}
    return where


def _excerpt_text(content: str, survives: Compacted, ref: MemoryRef) -> str:
    def elision(what: str, is_first: bool) -> str:
        if not is_first:
            return f"[… {what} …]"
        unit, _, rest = what.partition(" ")
        start, _, end = rest.partition(" ")[0].partition("-")
        name = "char" if unit == "characters" else "line"
        span = f"start_{name}={start}, end_{name}={end or start}"
        return f'[… {what} left out: retrieve_memory(memory_key="{ref.key}", transform="excerpt", {span}) …]'

    return render_passages(content, survives.excerpt or (), elision, survives.labels)
