"""What connectors observed, as steps: texts as they are, changes as a highlighted diff, screenshots as images.

The images stay where they are stored: the page asks for them by their keys.
"""

import re
from collections.abc import Mapping

import chainlit as cl
from autogen_core.models import UserMessage
from chainlit.utils import utc_now

from memory_context import MemoryContext, MemoryRef
from memory_context.sessions.transcript.entries import Entry
from memory_context.surfaces.chainlit import image_url

from .references import excerpt, fenced, labelled

__all__ = ["Observations"]

_LINES, _CHARACTERS = 80, 8_000
_DIFF = re.compile(r"^(?:@@ |[+-](?![+-]))", re.M)


class Observations:
    """Shows what connectors of a chat's agents observe from now on."""

    def __init__(self, thread_id: str, contexts: Mapping[str, MemoryContext]) -> None:
        self._thread_id = thread_id
        self._contexts = contexts
        self._seen = {name: context.transcript.end for name, context in contexts.items()}
        self._waiting: list[tuple[cl.Step, Entry]] = []  # for images to be stored

    async def show(self) -> None:
        """Show what is new, and images that were stored meanwhile."""
        for name, context in self._contexts.items():
            end = context.transcript.end
            for entry in context.transcript.entries(start=min(self._seen.get(name, 0), end)):
                if _is_observation(entry):
                    await self._show(entry)
            self._seen[name] = end
        waiting, self._waiting = self._waiting, []
        for step, entry in waiting:
            await self._show_images(step, entry)

    async def _show(self, entry: Entry) -> None:
        run = cl.context.current_run
        step = cl.Step(name=_title(entry), type="tool", icon="eye", parent_id=run.id if run else None, show_input=False)
        step.start = step.end = utc_now()
        text = "\n".join(text for _, text in entry.texts)
        step.output = fenced(excerpt(text, _LINES, _CHARACTERS), "diff" if _DIFF.search(text) else "text")
        step.default_open = bool(_images(entry))
        await step.send()
        await self._show_images(step, entry)

    async def _show_images(self, step: cl.Step, entry: Entry) -> None:
        stored = _images(entry)
        if any(ref is None for ref in stored):
            self._waiting.append((step, entry))
            return
        for ref in filter(None, stored):
            url = image_url(self._thread_id, ref.key)
            image = cl.Image(name=ref.description, url=url, mime="image/png", display="inline", size="large")
            await image.send(for_id=step.id)


def _is_observation(entry: Entry) -> bool:
    """Code output is an agent's, of its own name; what a connector observed has the connector's."""
    return entry.carries_result and isinstance(entry.message, UserMessage) and entry.parts is not None


def _images(entry: Entry) -> list[MemoryRef | None]:
    images = [part for part in entry.measured if part.address.kind == "image"]
    return [part.stored.refs[0] if part.stored and part.stored.refs else None for part in images]


def _title(entry: Entry) -> str:
    source = entry.message.source if isinstance(entry.message, UserMessage) else ""
    first = next((line for _, text in entry.texts for line in text.splitlines() if line.strip()), "")
    return labelled(first.removeprefix(f"[{source}] "), source)
