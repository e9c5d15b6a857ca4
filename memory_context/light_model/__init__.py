"""One guarded call of a small model, for decisions that have a stand-in."""

from .answers import ANSWER_LIMIT_CHARACTERS
from .model import LightModel, LightModelUsage

__all__ = ["ANSWER_LIMIT_CHARACTERS", "LightModel", "LightModelUsage"]
