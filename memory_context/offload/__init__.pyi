from .chooser import TextChooser
from .compactor_input import CompactorInput
from .images import image_name
from .offloader import WORTH_SUPERSEDING_TOKENS, Offloader, restore_texts
from .packing import runs_command
from .summaries import Summariser

__all__ = [
    "WORTH_SUPERSEDING_TOKENS",
    "CompactorInput",
    "Offloader",
    "Summariser",
    "TextChooser",
    "image_name",
    "restore_texts",
    "runs_command",
]
