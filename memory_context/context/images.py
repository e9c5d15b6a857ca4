"""Images in the views of a context: the newest of observations are shown to models with vision, others by reference.

observation with an image ──stored──▶ in view ──newer ones came, or a model without vision──▶ [MemoryRef: …]
                                         ▲                                                          │
                                         └──────── retrieve_memory, as a message of its own ────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from autogen_core import Image

from ..connectors import Element, TextObservation
from ..messages import MEMORY_SOURCE, image_from_bytes
from ..offload import image_name
from ..runtime import in_thread_if_large
from ..transcript import Entry, Part, PartsCompacted, PartShortened, Transcript

if TYPE_CHECKING:
    from autogen_core.models import ChatCompletionClient

    from ..memory import AgentMemory, MemoryItem
    from ..policy import ContextPolicy
    from ..tokens import TokenCounter

__all__ = ["ImageView"]


class ImageView:
    """The images of observations in one context's views.

    Args:
        transcript: Returns the session's transcript.

    Attributes:
        has_vision: Whether the agent's model takes images; None while it is unknown.
    """

    def __init__(self, policy: ContextPolicy, counter: TokenCounter, transcript: Callable[[], Transcript]) -> None:
        self._policy = policy
        self._counter = counter
        self._transcript = transcript
        self.has_vision: bool | None = None
        self._positions: list[int] = []
        self._searched: tuple[Transcript, int] | None = None

    def note_model(self, client: ChatCompletionClient) -> None:
        """Learn from the client of the agent's model whether it takes images."""
        self.has_vision = bool(client.model_info.get("vision", False))

    @property
    def are_shown(self) -> bool:
        """True also for an unknown model: agents of AutoGen leave images out for those without vision."""
        setting = self._policy.connectors.shows_images
        return self.has_vision is not False if setting == "auto" else setting

    def shown(self, elements: Sequence[Element]) -> list[Element]:
        """Return the elements of a state, which is not stored, as the model takes them."""
        return [_described(one) if isinstance(one, Image) and not self.are_shown else one for one in elements]

    async def open(self, item: MemoryItem, memory: AgentMemory) -> TextObservation | None:
        """Return the observation that shows a stored image; None if the model is shown none."""
        if item.data is None or not self.are_shown:
            return None
        image = await in_thread_if_large(len(item.data), image_from_bytes, item.data)
        memory.opened_images[image] = item.ref
        return TextObservation(MEMORY_SOURCE, f"{item.key}, {item.ref.description}:", images=(image,))

    def leave_out_older(self) -> None:
        """Show only the newest images of observations; called when all is measured, and stored if it can be."""
        images = self._in_view()
        most = self._policy.connectors.images_in_view if self.are_shown else 0
        older, state = images[: max(len(images) - most, 0)], self._transcript().state
        stored = [(entry.position, part.address) for entry, part in older if part.stored is not None]
        if stored:
            self._transcript().decide(PartsCompacted(tuple(stored), "older_image"))
        for entry, part in older:
            if part.stored is None and (entry.position, part.address) not in state.shortened:
                self._transcript().decide(self._unstored(entry, part))

    def _in_view(self) -> list[tuple[Entry, Part]]:
        """Return the images of observations that are neither compacted nor hidden, the oldest first."""
        transcript = self._transcript()
        if self._searched is None or self._searched[0] is not transcript:
            self._positions, self._searched = [], (transcript, transcript.state.start)
        new = transcript.entries(start=self._searched[1])
        self._searched = transcript, transcript.end
        self._positions += [entry.position for entry in new if entry.carries_result and _images_of(entry)]
        state = transcript.state
        self._positions = [one for one in self._positions if one >= state.start and not state.is_hidden(one)]
        found = [(transcript[one], part) for one in self._positions for part in _images_of(transcript[one])]
        found = [(entry, part) for entry, part in found if (entry.position, part.address) not in state.compacted]
        self._positions = sorted({entry.position for entry, _ in found})
        return found

    def _unstored(self, entry: Entry, part: Part) -> PartShortened:
        image = entry.image(part.address)
        name = "image" if image is None else image_name(self._transcript(), entry, image)
        text = f"[{name}; not shown any more, and not stored yet]"
        return PartShortened(entry.position, part.address, text, self._counter.count(text))


def _images_of(entry: Entry) -> list[Part]:
    return [part for part in entry.measured if part.address.kind == "image"]


def _described(image: Image) -> str:
    width, height = image.image.size
    return f"[image of {width} x {height}; this model is shown no images]"
