from .answers import ANSWER_LIMIT_CHARACTERS, Completion
from .model import ChatCompletionClient, LightModel, LightModelGuards
from .usage import LightModelBill, LightModelUsage

__all__ = [
    "ANSWER_LIMIT_CHARACTERS",
    "ChatCompletionClient",
    "Completion",
    "LightModel",
    "LightModelBill",
    "LightModelGuards",
    "LightModelUsage",
]
