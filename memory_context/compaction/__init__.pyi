from .compactor import Compacted, Compactor, Hint, Result
from .composing import composed, read_anything
from .documents import is_document
from .excerpt import Label, Passage, excerpt, render_passages
from .readers.wrapped import unwrapped
from .reading import Reader, Reading
from .registry import CompactFunction, Compactors
from .summarising import (
    INSTRUCTIONS,
    PROMPT,
    SUMMARY_SHARE,
    check_summary_prompt,
    cut_at_sentence,
    first_sentence,
    mended,
    summary_prompt,
)

__all__ = [
    "INSTRUCTIONS",
    "PROMPT",
    "SUMMARY_SHARE",
    "CompactFunction",
    "Compacted",
    "Compactor",
    "Compactors",
    "Hint",
    "Label",
    "Passage",
    "Reader",
    "Reading",
    "Result",
    "check_summary_prompt",
    "composed",
    "cut_at_sentence",
    "excerpt",
    "first_sentence",
    "is_document",
    "mended",
    "read_anything",
    "render_passages",
    "summary_prompt",
    "unwrapped",
]
