from .chooser import TextChooser
from .compactor_input import CompactorInput
from .offloader import Offloader, restore_texts
from .packing import runs_command
from .summaries import Summariser

__all__ = [
    "CompactorInput",
    "Offloader",
    "Summariser",
    "TextChooser",
    "restore_texts",
    "runs_command",
]
