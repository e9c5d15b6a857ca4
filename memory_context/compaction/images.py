"""Images as items: their bytes, and a description by which a search finds them."""

from collections.abc import Mapping
from typing import Any

from autogen_core import Image

from memory_context.foundation.messages import png_bytes, source_of
from memory_context.foundation.references import IMAGE_TYPE, PNG, describe_image
from memory_context.memory.items import NewItem
from memory_context.sessions.transcript.entries import Entry, Part
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.store.items import Origin

__all__ = ["image_item", "image_name", "pixels_of"]

_BESIDE_CHARACTERS = 120


def pixels_of(image: Image) -> int:
    """Return the size of the work that encoding it takes."""
    width, height = image.image.size
    return width * height


def image_name(transcript: Transcript, entry: Entry, image: Image) -> str:
    """Return such as `image of 1280 x 720 of web, step 12`; steps are model calls with tools, from 1."""
    width, height = image.image.size
    step = sum(asking < entry.position for asking in transcript.pairing.asking)
    return f"image of {width} x {height} of {source_of(entry.message)}{f', step {step}' if step else ''}"


def image_item(
    part: Part, image: Image, name: str, beside: str, source: str, origin: Origin, metadata: Mapping[str, Any]
) -> NewItem:
    """Return the item of an image; `beside` is the text that came with it. Encodes, so large ones need a thread."""
    data = png_bytes(image)
    width, height = image.image.size
    beside = beside.strip()[:_BESIDE_CHARACTERS]
    return NewItem(
        describe_image(data[:64], PNG, len(data)),
        f"{name}: {beside}" if beside else name,
        part.tokens,
        IMAGE_TYPE,
        source,
        metadata={**metadata, "width": width, "height": height},
        origin=origin,
        data=data,
        content_type=PNG,
    )
