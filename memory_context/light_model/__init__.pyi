from .answers import ANSWER_LIMIT_CHARACTERS
from .model import ChatCompletionClient, LightModel, LightModelGuards
from .usage import LightModelBill, LightModelUsage

__all__ = [
    "ANSWER_LIMIT_CHARACTERS",
    "ChatCompletionClient",
    "LightModel",
    "LightModelBill",
    "LightModelGuards",
    "LightModelUsage",
]
