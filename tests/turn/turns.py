"""Turns for the tests, in one line each."""

from memory_context.references import MemoryRef
from memory_context.turn import OfferedReference


def offered(
    key: str,
    description: str = "some output",
    *,
    source: str = "run_shell",
    kept_text: str = "",
    messages_ago: int = 5,
    is_visible: bool = False,
) -> OfferedReference:
    """Return a reference on offer."""
    return OfferedReference(MemoryRef(key, description, 900), source, kept_text, messages_ago, is_visible)
