"""Images as items."""

from autogen_core import Image
from PIL import Image as Pictures

from memory_context.foundation.messages import png_bytes
from memory_context.foundation.references import IMAGE_TYPE, PNG, describe_image
from memory_context.memory.items import NewItem


def picture_of(number: int, size: int = 8) -> Image:
    return Image(Pictures.new("RGB", (size, size), (number % 256, 0, 0)))


def image_item(image: Image, description: str = "image of 8 x 8 of web: a red parrot", **fields: str) -> NewItem:
    data = png_bytes(image)
    line = describe_image(data, PNG, len(data))
    return NewItem(line, description, 1100, IMAGE_TYPE, "web", data=data, content_type=PNG, **fields)
