from .candidates import (
    CandidateReference,
    Expansion,
    ExpansionAnswer,
    ExpansionRequest,
    named_keys,
    unknown_keys,
)
from .decide import EXPANSIONS_LIMIT, decide, decide_by_rules
from .expander import Expander, memory_decisions
from .prompt import PROMPT, ExpansionPrompt, LightAnswer, check_prompt
from .render import RetrievedText, render_retrieved

__all__ = [
    "EXPANSIONS_LIMIT",
    "PROMPT",
    "CandidateReference",
    "Expander",
    "Expansion",
    "ExpansionAnswer",
    "ExpansionPrompt",
    "ExpansionRequest",
    "LightAnswer",
    "RetrievedText",
    "check_prompt",
    "decide",
    "decide_by_rules",
    "memory_decisions",
    "named_keys",
    "render_retrieved",
    "unknown_keys",
]
