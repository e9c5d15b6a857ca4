"""What the user ordered in a session: shown in the user's own words once the messages that said so leave the view."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import StandingOrder

from .transcript import Decision, EntryDecision

__all__ = ["OrderStated"]


@dataclass(frozen=True)
class OrderStated(EntryDecision):
    """A message states orders, or takes earlier ones back.

    It changes no view by itself: a fold or an activation of observations takes what stands then (`show_orders`).

    Attributes:
        ended: Orders that hold no longer.
    """

    kind = "ordered"
    stated: tuple[StandingOrder, ...] = ()
    ended: tuple[StandingOrder, ...] = ()

    def apply(self, transcript: Transcript) -> None:
        state = transcript.state
        gone = {(one.position, one.text) for one in self.ended} | {(one.position, one.text) for one in self.stated}
        kept = [one for one in state.orders if (one.position, one.text) not in gone]
        state.orders = sorted([*kept, *self.stated], key=lambda one: one.position)

    def moved(self, offset: int) -> Decision:
        stated, ended = (_moved(some, offset) for some in (self.stated, self.ended))
        return replace(self, position=self.position + offset, stated=stated, ended=ended)


def _moved(orders: Sequence[StandingOrder], offset: int) -> tuple[StandingOrder, ...]:
    return tuple(replace(one, position=one.position + offset) for one in orders)
