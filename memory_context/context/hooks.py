"""Events of a context, handed on to the application's handlers, as spans and as metrics."""

from collections.abc import Callable
from typing import get_args

from memory_context.foundation import telemetry
from memory_context.foundation.handlers import ContextEvent, EventHandlers, EventName, Handler
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.light_model.guards import LightModelGuards
from memory_context.foundation.light_model.usage import LightModelBill
from memory_context.foundation.runtime.background import OutageLog
from memory_context.foundation.telemetry import count
from memory_context.memory.scope import AuditTrail
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.store.memory_store import MemoryStore
from memory_context.view.bill import CallTokens, UsageMeter

__all__ = ["Hooks"]

_SPANS = {  # `stored` has the span of its operation
    "compacted": "compact",
    "folded": "fold",
    "observed": "observe",
    "expanded": "expand",
    "recalled": "recall",
}


class Hooks:
    """One for all sessions that a context has; `key` names the present one."""

    def __init__(self, handlers: EventHandlers, key: SessionKey) -> None:
        self._handlers = handlers
        self.key = key
        self._call = CallTokens()  # the last that is counted
        self._bill = LightModelBill()

    def watch(self, store: MemoryStore, history: OutageLog, models: LightModelGuards) -> None:
        """Hear of the outages of what the context uses."""
        store.watch_outages(self.note_failure)
        history.watch(self.note_failure)
        models.watch(self.note_failure)

    def on(self, event: EventName, handler: Handler) -> Callable[[], None]:
        if event not in get_args(EventName):
            raise ValueError(f"event {event!r} is unknown: use one of {', '.join(get_args(EventName))}")
        return self._handlers.add(event, handler)

    def attach(
        self, key: SessionKey, transcript: Transcript, trail: AuditTrail, meter: UsageMeter
    ) -> Callable[[Transcript, Decision], None]:
        """Go on with another transcript, whose calls so far are counted; return what is to hear of its decisions."""
        self.key, self._call, self._bill = key, meter.newest(transcript), transcript.state.light_model
        trail.on_event = self.note

        def note_decision(transcript: Transcript, decision: Decision) -> None:
            trail.note_decision(transcript, decision)
            if decision.is_view:
                self._count_call(meter.newest(transcript))
            elif decision.kind == "light_model":
                self._count_light_model(transcript.state.light_model)

        return note_decision

    def note(self, event: ContextEvent) -> None:
        """Hand on an event that just happened, not one that is replayed."""
        self._handlers.note(event.what, lambda: event)
        count(telemetry.EVENTS, {"memory_context.event": event.what})
        if name := _SPANS.get(event.what):
            telemetry.record_event(name, lambda: self._attributes(event), event.why)

    def _attributes(self, event: ContextEvent) -> telemetry.Attributes:
        return {
            "gen_ai.conversation.id": self.key.session_id,
            "gen_ai.agent.name": self.key.agent_id,
            "memory_context.records": len(event.keys),
            "memory_context.tokens": event.tokens,
            "memory_context.reason": event.reason,
        }

    def note_forgotten(self, keys: tuple[str, ...]) -> None:
        self.note(ContextEvent("forgotten", keys, session_id=self.key.session_id))

    def note_failure(self, text: str) -> None:
        self.note(ContextEvent("failed", why=text, session_id=self.key.session_id))

    def _count_light_model(self, bill: LightModelBill) -> None:
        for kind, used in vars(bill - self._bill).items():
            labels = {"memory_context.light_model.kind": kind}
            if used.calls:
                count(telemetry.LIGHT_MODEL_CALLS, labels, used.calls)
            if used.tokens:
                count(telemetry.LIGHT_MODEL_TOKENS, labels, used.tokens)
        self._bill = bill

    def _count_call(self, call: CallTokens) -> None:
        """Count a call once: AutoGen may ask for its view again, with more in it."""
        before, self._call = self._call if self._call.upto == call.upto else CallTokens(), call
        kept, shown = call.kept - before.kept, call.shown - before.shown
        count(telemetry.KEPT_TOKENS, amount=max(kept, 0))
        count(telemetry.SHOWN_TOKENS, amount=max(shown, 0))
        count(telemetry.CACHED_TOKENS, amount=max(call.cached - before.cached, 0))
        count(telemetry.SAVED_TOKENS, amount=kept - shown)
