from .offloader import Offloader, restore_texts
from .recording import SummaryRecorder
from .retaining import Retainer
from .summaries import Summariser, SummaryReady

__all__ = [
    "Offloader",
    "Retainer",
    "Summariser",
    "SummaryReady",
    "SummaryRecorder",
    "restore_texts",
]
