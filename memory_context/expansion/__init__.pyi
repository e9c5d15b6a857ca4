from .decide import EXPANSIONS_LIMIT, decide
from .expander import Expander
from .memories import memory_decisions
from .models import CandidateReference, Expansion, ExpansionAnswer, ExpansionRequest
from .prompt import PROMPT, ExpansionPrompt, LightAnswer, check_template
from .render import RetrievedText, render_retrieved
from .rules import decide_by_rules, named_keys, unknown_keys

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
    "check_template",
    "decide",
    "decide_by_rules",
    "memory_decisions",
    "named_keys",
    "render_retrieved",
    "unknown_keys",
]
