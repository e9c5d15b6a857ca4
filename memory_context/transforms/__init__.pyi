from .slicing import Cut
from .transform import FULL, MemoryTransform, TransformName, TransformUnit, cut

__all__ = ["FULL", "Cut", "MemoryTransform", "TransformName", "TransformUnit", "cut"]
