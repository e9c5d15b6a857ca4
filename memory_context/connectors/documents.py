"""Texts of PDF and Office documents, by markitdown, within limits of time and memory."""

import json
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import cast

from ..errors import ConnectorError
from .folder import shown
from .limited_process import run_limited

__all__ = ["DOCUMENT_BYTES", "document_text", "is_document"]

DOCUMENT_BYTES = 64 << 20
_SUFFIXES = frozenset({".pdf", ".docx", ".pptx", ".xlsx"})
_SECONDS = 60.0
_MEMORY_BYTES = 2 << 30


def is_document(path: str) -> bool:
    """Return whether a file's name is that of a document."""
    return PurePosixPath(path).suffix.lower() in _SUFFIXES


async def document_text(path: str, data: bytes) -> str:
    """Return the text of a document as markdown, in a process of its own.

    Raises:
        ConnectorError: It is too large, encrypted or damaged, passes a limit, or markitdown is not installed.
    """
    name = shown(path)
    if find_spec("markitdown") is None:
        raise ConnectorError(f"{name} cannot be read: that needs pip install 'memory-context[documents]'")
    if len(data) > DOCUMENT_BYTES:
        raise ConnectorError(f"{name} cannot be read: it is larger than {DOCUMENT_BYTES:,} bytes")
    suffix = PurePosixPath(path).suffix.lower()
    try:
        output = await run_limited("document_reader", suffix, data=data, seconds=_SECONDS, memory_bytes=_MEMORY_BYTES)
    except ConnectorError as error:
        raise ConnectorError(f"{name} cannot be read: {error}") from None
    answer = cast(dict[str, str], json.loads(output))
    if "error" in answer:
        raise ConnectorError(f"{name} cannot be read: {answer['error']}")
    return answer["text"].strip() or f"({name} holds no text; its pages may be images)"
