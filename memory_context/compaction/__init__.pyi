from .analysis import Reader, Reading
from .analyzers.wrapper import unwrapped
from .compactor import Compacted, Compactor, Hint, Result
from .compose import composed, read_anything
from .documents import is_document
from .excerpt import ELISION_TOKENS, FIRST_ELISION_TOKENS, Label, Passage, excerpt, render_passages
from .registry import CompactFunction, Compactors
from .summary_prompt import (
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
    "ELISION_TOKENS",
    "FIRST_ELISION_TOKENS",
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
