"""Turns for the tests, in one line each."""

from memory_context.foundation.references import MemoryRef
from memory_context.recall.expansion.candidates import CandidateReference


def offered(
    key: str,
    description: str = "some output",
    *,
    source: str = "run_shell",
    kept_text: str = "",
    messages_ago: int = 5,
    is_visible: bool = False,
) -> CandidateReference:
    """Return a reference on offer."""
    return CandidateReference(MemoryRef(key, description, 900), source, kept_text, -messages_ago, is_visible)
