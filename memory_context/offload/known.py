"""What the view says for long, as one text: names that stand there need not be kept of a result."""

from ..policy import ContextPolicy
from ..transcript import Entry, RunningSums, Transcript

__all__ = ["KnownText"]

_KNOWN_CHARACTERS = 400_000


class KnownText:
    """The newest of what the view says: all but results that are whole and will be compacted themselves.

    Args:
        transcript: The transcript; only what changed in it is read again.
        policy: Says which results are whole for a while only.
    """

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self._transcript = transcript
        self._policy = policy
        self._texts: list[str | None] = []
        self._lengths = RunningSums()
        self._read = 0
        self._state = (0, 0)
        self._text = ""

    def __str__(self) -> str:
        """Return the newest 400,000 characters of it."""
        state = (len(self._transcript.touched), self._transcript.state.start)
        if state != self._state:
            self._state, self._text = state, self._newest()
        return self._text

    def _newest(self) -> str:
        transcript, texts, lengths = self._transcript, self._texts, self._lengths
        for position in dict.fromkeys(transcript.touched[self._read :]):
            text = self._said(transcript[position])
            if position == transcript.first + len(texts):
                texts.append(None)
            texts[position - transcript.first] = text
            lengths.put(position - transcript.first, 0 if text is None else len(text) + 1)
        self._read = len(transcript.touched)
        start, fold = transcript.state.start - transcript.first, transcript.state.fold
        first = max(start, lengths.count_within(lengths.before(len(texts)) - _KNOWN_CHARACTERS - 1, len(texts)))
        known = [text for text in texts[first:] if text is not None]
        if fold is not None and first == start:
            known.insert(0, fold.text)
        return "\n".join(known)[-_KNOWN_CHARACTERS:]

    def _said(self, entry: Entry) -> str | None:
        """Return what the view says of an entry for long; None for nothing."""
        state = self._transcript.state
        if state.is_hidden(entry.position):
            return None
        said: list[str] = []
        for part in entry.measured:
            if part.address.kind == "image":
                continue
            if (entry.position, part.address) in state.compacted and part.stored is not None:
                said.append(part.stored.compacted)
            elif part.address not in entry.dropped and not (
                part.is_result and part.tokens > self._policy.offload_threshold_tokens
            ):
                said.append(entry.text(part.address) or "")
        return "\n".join(said) if said else None
