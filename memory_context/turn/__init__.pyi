from .deciding import EXPANSIONS_LIMIT, decide
from .expander import Expander
from .memories import replacing_memories
from .opening import Piece, fenced
from .prompt import PROMPT, LightAnswer, TurnPrompt, check_template
from .requests import Expansion, OfferedReference, TurnAnswer, TurnRequest
from .rules import decide_by_rules, named_keys, unknown_keys

__all__ = [
    "EXPANSIONS_LIMIT",
    "PROMPT",
    "Expander",
    "Expansion",
    "LightAnswer",
    "OfferedReference",
    "Piece",
    "TurnAnswer",
    "TurnPrompt",
    "TurnRequest",
    "check_template",
    "decide",
    "decide_by_rules",
    "fenced",
    "named_keys",
    "replacing_memories",
    "unknown_keys",
]
