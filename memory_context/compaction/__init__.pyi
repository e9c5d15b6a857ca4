from .analyzers.wrapper import unwrapped
from .compactor import Analysis, Analyzer, Compacted, Compactor, Hint, Result
from .compose import Reading, analyze_anything, composed
from .excerpt import ELISION_TOKENS, FIRST_ELISION_TOKENS, Label, Passage, excerpt, render_passages
from .names import mentioned_names, reads_as_order
from .registry import CompactFunction, Compactors, contract_violation
from .salient import exact_facts
from .summary_prompt import (
    INSTRUCTIONS,
    PROMPT,
    SUMMARY_SHARE,
    check_summary_prompt,
    cut_at_sentence,
    first_sentence,
    mark_for,
    mended,
    summary_prompt,
)

__all__ = [
    "ELISION_TOKENS",
    "FIRST_ELISION_TOKENS",
    "INSTRUCTIONS",
    "PROMPT",
    "SUMMARY_SHARE",
    "Analysis",
    "Analyzer",
    "CompactFunction",
    "Compacted",
    "Compactor",
    "Compactors",
    "Hint",
    "Label",
    "Passage",
    "Reading",
    "Result",
    "analyze_anything",
    "check_summary_prompt",
    "composed",
    "contract_violation",
    "cut_at_sentence",
    "exact_facts",
    "excerpt",
    "first_sentence",
    "mark_for",
    "mended",
    "mentioned_names",
    "reads_as_order",
    "render_passages",
    "summary_prompt",
    "unwrapped",
]
