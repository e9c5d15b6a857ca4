"""What an application reads and controls of the observations of its session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from memory_context.compaction.observation.coordinator import BufferingCoordinator
from memory_context.compaction.observation.events import ObservationEvent, ReflectionEvent
from memory_context.compaction.observation.observers import ObservationModels
from memory_context.compaction.observation.parsing import CompletionFunction
from memory_context.compaction.observation.state import BufferState, SessionObservations, observations_of_user
from memory_context.memory.agent_memory import AgentMemory
from memory_context.view.sections import SECTIONS

__all__ = ["ContextObservation"]


class ContextObservation:
    """The observations of a context's session.

    Attributes:
        coordinator, agent_memory: Those of the session which the context has now; the context sets them.
    """

    coordinator: BufferingCoordinator
    agent_memory: AgentMemory

    def __init__(self, models: ObservationModels) -> None:
        self._models = models

    # --- events

    def on_observation(self, handler: Callable[[ObservationEvent], object]) -> Callable[[ObservationEvent], object]:
        """Call a function, also an async one, after messages gave way to observations; usable as a decorator."""
        self._models.events.add(ObservationEvent, handler)
        return handler

    def on_reflection(self, handler: Callable[[ReflectionEvent], object]) -> Callable[[ReflectionEvent], object]:
        """Call a function, also an async one, after the log was condensed; usable as a decorator."""
        self._models.events.add(ReflectionEvent, handler)
        return handler

    # --- read

    @property
    def observations(self) -> str:
        """The log as the view shows it; "" without any."""
        return self.coordinator.observations

    async def of_user(self, limit: int = 20) -> list[SessionObservations]:
        """Return the logs of the user's other sessions, those used last first, as far as archived; or StoreError."""
        return await observations_of_user(self.agent_memory, limit)

    @property
    def observation_token_count(self) -> int:
        return self.coordinator.observation_token_count

    @property
    def is_processing(self) -> bool:
        """True while an observer or a reflector is in flight."""
        return self.coordinator.is_processing

    @property
    def is_observer_in_flight(self) -> bool:
        return self.coordinator.is_observer_in_flight

    @property
    def is_reflector_in_flight(self) -> bool:
        return self.coordinator.is_reflector_in_flight

    @property
    def has_recall(self) -> bool:
        """True if the agent can read the messages behind observations; the view then says how."""
        return self._models.has_recall

    @property
    def slot_content(self) -> str:
        """All that observations add to the next view: lead, log and hints."""
        transcript, policy = self.coordinator.transcript, self._models.policy
        sections = (SECTIONS["observations"], SECTIONS["observation_hints"])
        slots = [slot for section in sections for slot in section.slots(transcript, policy, None)]
        return "\n".join(str(slot.content) for slot in slots)

    # --- control

    def abort(self) -> None:
        """Cancel observer and reflector; what they would have returned is void. Finished observations stay."""
        self.coordinator.abort()

    def get_state(self) -> BufferState:
        """Return the log and what is finished for it. `save_state` and the archive hold the same."""
        return self.coordinator.get_state()

    def restore_state(self, state: BufferState | Mapping[str, Any]) -> None:
        """Replace the log by a saved one, as far as this session's messages reach; nothing starts.

        Messages that left the view stay out of it: a state from before they left is ignored.

        Raises:
            ValueError: It is not such a state.
        """
        self.coordinator.restore_state(state)

    # --- where an application swaps models

    @property
    def completion_function(self) -> CompletionFunction | None:
        """Answers for observers and reflectors in place of the context's light model; None for that."""
        return self._models.completion_function

    @completion_function.setter
    def completion_function(self, function: CompletionFunction | None) -> None:
        self.coordinator.abort()
        self._models.completion_function = function

    @property
    def window_tokens(self) -> int:
        """The window that the view may fill; 0 if it is unlimited. Never more than the policy's; None sets that."""
        return self._models.window_tokens

    @window_tokens.setter
    def window_tokens(self, tokens: int | None) -> None:
        self._models.own_window_tokens = tokens

    @property
    def light_window_tokens(self) -> int | None:
        """The context window of the light model; None for what its client tells."""
        return self._models.own_light_window_tokens

    @light_window_tokens.setter
    def light_window_tokens(self, tokens: int | None) -> None:
        self._models.own_light_window_tokens = tokens

    @property
    def logger(self) -> logging.Logger:
        return self._models.events.logger

    @logger.setter
    def logger(self, logger: logging.Logger) -> None:
        self._models.events.logger = logger
