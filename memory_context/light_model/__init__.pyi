from .answers import ANSWER_LIMIT_CHARACTERS, Completion
from .guards import LightModelGuards
from .model import ChatCompletionClient, LightModel
from .prompts import both_ends, check_template, fill_template, sendable
from .usage import LightModelBill, LightModelUsage

__all__ = [
    "ANSWER_LIMIT_CHARACTERS",
    "ChatCompletionClient",
    "Completion",
    "LightModel",
    "LightModelBill",
    "LightModelGuards",
    "LightModelUsage",
    "both_ends",
    "check_template",
    "fill_template",
    "sendable",
]
