from .compactor_input import CompactorInput
from .facts import FactSelector
from .offloader import Offloader, restore_texts
from .summaries import Summariser

__all__ = [
    "CompactorInput",
    "FactSelector",
    "Offloader",
    "Summariser",
    "restore_texts",
]
