"""Images in the views of a context: as many of the newest as `policy.images` allows, older ones by reference.

message with an image ──stored──▶ in view ──newer ones came, or a model without vision──▶ [MemoryRef: …]
                                         ▲                                                          │
                                         └──────── retrieve_memory, as a message of its own ────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from autogen_core import Image

from memory_context.compaction.packing import image_name
from memory_context.connectors.protocols import Element, TextObservation
from memory_context.foundation.messages import MEMORY_SOURCE, image_from_bytes, png_bytes
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.sessions.transcript.entries import Entry, Part
from memory_context.sessions.transcript.part_decisions import PartsCompacted, PartShortened
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import ConnectorStateShown

if TYPE_CHECKING:
    from autogen_core.models import ChatCompletionClient

    from memory_context.foundation.policy import ContextPolicy
    from memory_context.foundation.tokens import TokenCounter
    from memory_context.memory.agent_memory import AgentMemory
    from memory_context.memory.items import MemoryItem

__all__ = ["ImageView"]


_OBSERVED_IMAGES = 2  # of observations: the present screen and the one before
_KEPT_RATIO = 0.5
"""Share of the limit that stays when images leave: the next ones leave after as many new ones."""

_Shown: TypeAlias = "tuple[Entry, Part]"


class ImageView:
    """The images in one context's views.

    Attributes:
        has_vision: Whether the agent's model takes images; None while it is unknown.
    """

    def __init__(self, policy: ContextPolicy, counter: TokenCounter) -> None:
        self._policy = policy
        self._counter = counter
        self.has_vision: bool | None = None

    def note_model(self, client: ChatCompletionClient) -> None:
        """Learn from the client of the agent's model whether it takes images."""
        self.has_vision = bool(client.model_info.get("vision", False))

    @property
    def are_shown(self) -> bool:
        """True also for an unknown model: agents of AutoGen leave images out for those without vision."""
        return self.has_vision is not False

    def shown(self, elements: Sequence[Element]) -> list[Element]:
        """Return the elements of a state, which is not stored, as the model takes them."""
        if self.are_shown:
            return [*elements]
        texts = [one for one in elements if isinstance(one, str)]
        return [*texts] or [_described(one) for one in elements if isinstance(one, Image)]

    async def open(self, item: MemoryItem, memory: AgentMemory) -> TextObservation | None:
        """Return the observation that shows a stored image; None if the model is shown none."""
        if item.data is None or not self.are_shown:
            return None
        image = await in_thread_if_large(len(item.data), image_from_bytes, item.data)
        memory.opened_images[image] = item.ref
        return TextObservation(MEMORY_SOURCE, f"{item.key}, {item.ref.description}:", images=(image,))

    def leave_out_older(self, transcript: Transcript) -> None:
        """Show no more images than the policy allows; called when all is measured, and stored if it can be.

        When there are too many, more leave than must, so that the cached prefix does not move with each new image.
        """
        visible, left = self._in_view(transcript)
        left += self._older_observations(transcript, visible)
        gone = {id(part) for _, part in left}
        left += self._over_limit(transcript, [one for one in visible if id(one[1]) not in gone])
        stored = sorted((entry.position, part.address) for entry, part in left if part.stored is not None)
        if stored:
            transcript.decide(PartsCompacted(tuple(stored), "older_image"))
        for entry, part in left:
            if part.stored is None:
                transcript.decide(self._unstored(transcript, entry, part))

    def _older_observations(self, transcript: Transcript, visible: Sequence[_Shown]) -> list[_Shown]:
        """Return images of observations beyond their own limit, which those of states count towards; all if blind."""
        observed = [one for one in visible if one[0].carries_result]
        most = max(_OBSERVED_IMAGES - self._in_states(transcript), 1) if self.are_shown else 0
        return observed[: max(len(observed) - most, 0)]

    @staticmethod
    def _in_states(transcript: Transcript) -> int:
        return sum(len(one.images) for one in transcript.state.newest_of(ConnectorStateShown))

    def _over_limit(self, transcript: Transcript, visible: Sequence[_Shown]) -> list[_Shown]:
        """Return images that leave: those of the current task stay first of all, in its order, then the newest."""
        limit = self._policy.images
        most, most_bytes = max(limit.most - self._in_states(transcript), 0), limit.most_bytes
        sizes = [_bytes_of(one) for one in visible]
        if len(visible) <= most and sum(sizes) <= most_bytes:
            return []
        task = transcript.task(self._policy.user_sources)
        asked = [index for index, (entry, _) in enumerate(visible) if entry.position == task]
        others = [index for index, (entry, _) in enumerate(visible) if entry.position != task]
        kept, taken = set[int](), 0
        for index in (*asked, *reversed(others)):
            share = 1.0 if index in asked or not kept else _KEPT_RATIO
            if len(kept) < most * share and taken + sizes[index] <= most_bytes * share:
                kept.add(index)
                taken += sizes[index]
            elif index not in asked:
                break
        return [one for index, one in enumerate(visible) if index not in kept]

    def _in_view(self, transcript: Transcript) -> tuple[list[_Shown], list[_Shown]]:
        """Return the images that are shown, the oldest first, and those that left unstored and are stored by now."""
        state = transcript.state
        positions = [one for one in transcript.with_images if one >= state.start and not state.is_hidden(one)]
        found = [(transcript[one], part) for one in positions for part in _images_of(transcript[one])]
        found = [(entry, part) for entry, part in found if (entry.position, part.address) not in state.compacted]
        visible = [(entry, part) for entry, part in found if (entry.position, part.address) not in state.shortened]
        waiting = [(entry, part) for entry, part in found if (entry.position, part.address) in state.shortened]
        return visible, [(entry, part) for entry, part in waiting if part.stored is not None]

    def _unstored(self, transcript: Transcript, entry: Entry, part: Part) -> PartShortened:
        image = entry.image(part.address)
        name = "image" if image is None else image_name(transcript, entry, image)
        text = f"[{name}; not shown any more, and not stored yet]"
        return PartShortened(entry.position, part.address, text, self._counter.count(text))


def _bytes_of(one: _Shown) -> int:
    """Return the size of an image as it is sent, in Base64."""
    image = one[0].image(one[1].address)
    return 0 if image is None else 4 * (len(png_bytes(image)) + 2) // 3


def _images_of(entry: Entry) -> list[Part]:
    return [part for part in entry.measured if part.address.kind == "image"]


def _described(image: Image) -> str:
    width, height = image.image.size
    return f"[image of {width} x {height}; this model is shown no images]"
