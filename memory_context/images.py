"""Stored images: bytes with a MIME type, and the line that stands for them wherever only text goes."""

from .utf8 import sayable

__all__ = ["IMAGE_TYPE", "PNG", "describe_image", "size_of_png"]

IMAGE_TYPE = "image"
"""Type of items that are images."""

PNG = "image/png"

_PNG_HEAD = b"\x89PNG\r\n\x1a\n"


def describe_image(head: bytes, content_type: str, size_bytes: int) -> str:
    """Return such as `image of 1280 x 720 (PNG, 12 kB)`; `head` is the beginning of its bytes, 24 or more."""
    kind = sayable(content_type.rpartition("/")[2]).upper()
    size = f"{size_bytes:,} bytes" if size_bytes < 1000 else f"{round(size_bytes / 1000):,} kB"
    place = size_of_png(head)
    return f"image{f' of {place[0]} x {place[1]}' if place else ''} ({kind}, {size})"


def size_of_png(head: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels, as the header of a PNG tells (its IHDR chunk stands first)."""
    if not head.startswith(_PNG_HEAD) or len(head) < 24:
        return None
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
