"""Notes what the user orders in a session, so that it outlasts the messages that said so."""

from collections.abc import Sequence

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.text.novelty import is_courtesy
from memory_context.foundation.text.own_words import own_passages
from memory_context.foundation.tokens import TokenCounter
from memory_context.memory.learning.rules import ended_orders, orders_in
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.order_decisions import OrderStated
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import StandingOrder
from memory_context.sessions.transcript.view_decisions import ViewShown
from memory_context.store.items import MemoryItem

__all__ = ["OrderKeeper"]

_READ_CHARACTERS = 12_000  # of a message; longer ones are documents
_FIRST_ENTRIES = 200  # of a transcript that comes without decisions


class OrderKeeper:
    """Records the orders of new messages by rules, and those that a light model learned of this session."""

    def __init__(self, transcript: Transcript, session_id: str, policy: ContextPolicy, counter: TokenCounter) -> None:
        self._transcript = transcript
        self._session_id = session_id
        self._policy = policy
        self._counter = counter
        is_noted = bool(transcript.decisions(ViewShown))
        self._read = transcript.end if is_noted else max(transcript.first, transcript.end - _FIRST_ENTRIES)

    def note(self) -> None:
        """Record the orders in messages that came since the last call; values of secrets are out of them by then."""
        transcript = self._transcript
        for entry in transcript.entries(start=max(self._read, transcript.state.start)):
            self._note(entry)
        self._read = transcript.end

    def note_learned(self, statements: Sequence[MemoryItem]) -> None:
        """Record statements that were learned from this session, by their quotes; drop those that ended since."""
        state = self._transcript.state
        for one in statements:
            said_at = one.metadata.get("quoted_at")
            if one.metadata.get("quoted_session") != self._session_id or not isinstance(said_at, int):
                continue
            position, quote = said_at - 1, self._masked(str(one.metadata.get("quote", "")))
            standing = [order for order in state.orders if order.position == position and quote in order.text]
            if one.valid_until is not None:
                gone = tuple(order for order in standing if order.text == quote)
                if gone:
                    self._transcript.decide(OrderStated(position, ended=gone))
            elif quote and not standing and state.start <= position < self._transcript.end:
                self._transcript.decide(OrderStated(position, (self._order(position, quote),)))

    def _note(self, entry: Entry) -> None:
        if not entry.is_told or getattr(entry.message, "source", "") not in self._policy.user_sources:
            return
        texts = [text for address, text in entry.texts if address.kind == "text" and not is_courtesy(text)]
        passages = [one for text in texts for one in own_passages(text, _READ_CHARACTERS)]
        if not passages:
            return
        standing = self._transcript.state.orders
        ended = tuple(standing[index] for index in ended_orders(passages, [one.text for one in standing]))
        stated = tuple(self._order(entry.position, self._masked(one)) for one in orders_in(passages))
        if stated or ended:
            self._transcript.decide(OrderStated(entry.position, stated, ended))

    def _order(self, position: int, text: str) -> StandingOrder:
        return StandingOrder(position, text, self._counter.count(f"- {text}\n"))

    def _masked(self, text: str) -> str:
        return masked(text)
