from .answers import ANSWER_LIMIT_CHARACTERS
from .model import LightModel, LightModelGuards
from .usage import LightModelBill, LightModelUsage

__all__ = ["ANSWER_LIMIT_CHARACTERS", "LightModel", "LightModelBill", "LightModelGuards", "LightModelUsage"]
