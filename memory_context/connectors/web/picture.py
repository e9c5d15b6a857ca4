"""Screenshots as small grey pictures, to tell a changed page from a blinking cursor."""

import io

from autogen_core import Image
from PIL import Image as Pictures

__all__ = ["differs", "image_of", "thumbnail"]

_SIZE = (80, 45)
_VISIBLE_DIFFERENCE = 12  # of 255, as the mean of a cell
_CHANGED_CELLS = 6  # a cursor of text touches two


def image_of(png: bytes) -> Image:
    """Return a picture for a model."""
    return Image(Pictures.open(io.BytesIO(png)))


def thumbnail(png: bytes) -> bytes:
    """Return the brightness of 80 x 45 cells; each is the mean of about 16 x 16 pixels."""
    with Pictures.open(io.BytesIO(png)) as picture:
        return picture.convert("L").resize(_SIZE, Pictures.Resampling.BOX).tobytes()


def differs(before: bytes, after: bytes) -> bool:
    """Return whether a person would see the difference: enough cells are clearly brighter or darker."""
    if len(before) != len(after):
        return True
    cells = zip(before, after, strict=True)
    return sum(abs(one - other) > _VISIBLE_DIFFERENCE for one, other in cells) >= _CHANGED_CELLS
