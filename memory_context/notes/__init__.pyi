from .notes import LongTermNotes
from .sections import LIMIT_CHARACTERS, NotesEdit, NotesOperation, Section, find_section, sections_of

__all__ = [
    "LIMIT_CHARACTERS",
    "LongTermNotes",
    "NotesEdit",
    "NotesOperation",
    "Section",
    "find_section",
    "sections_of",
]
