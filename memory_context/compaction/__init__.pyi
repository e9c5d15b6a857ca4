from .analyzers.wrapper import unwrapped
from .compactor import Analysis, Analyzer, Compacted, Compactor, Hint, Result
from .compose import Reading, analyze_anything, composed, shown_arguments
from .excerpt import ELISION_TOKENS, FIRST_ELISION_TOKENS, Label, Passage, excerpt, render_passages
from .names import is_name, mentioned_names, ranked_names, reads_as_order, stands_whole
from .noise import without_base64
from .registry import CompactFunction, Compactors, contract_violation
from .salient import SalientFact, Statement, all_facts, exact_facts, salient_facts
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
    "SalientFact",
    "Statement",
    "all_facts",
    "analyze_anything",
    "check_summary_prompt",
    "composed",
    "contract_violation",
    "cut_at_sentence",
    "exact_facts",
    "excerpt",
    "first_sentence",
    "is_name",
    "mended",
    "mentioned_names",
    "ranked_names",
    "reads_as_order",
    "render_passages",
    "salient_facts",
    "shown_arguments",
    "stands_whole",
    "summary_prompt",
    "unwrapped",
    "without_base64",
]
