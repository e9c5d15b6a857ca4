from .answers import ANSWER_LIMIT_CHARACTERS
from .bill import LightModelBill, LightModelUsage
from .guards import LightModelGuards
from .model import LightModel

__all__ = ["ANSWER_LIMIT_CHARACTERS", "LightModel", "LightModelBill", "LightModelGuards", "LightModelUsage"]
