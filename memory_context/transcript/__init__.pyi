from .codec import (
    append_saved,
    count_saved_decisions,
    joined_events,
    last_clear,
    load_transcript,
    save_events,
    save_transcript,
)
from .decisions import Arithmetic, AuditLine, Decided, Decision, OpenedItem
from .entries import MESSAGE_OVERHEAD_TOKENS, Entry, Part, PartId, StoredPart
from .part_decisions import (
    CompactedTextChosen,
    FirstViewChosen,
    PartOffloaded,
    PartsCompacted,
    PartShortened,
    RepeatFound,
)
from .state import RunningSums, TranscriptState
from .transcript import Transcript
from .view_decisions import (
    ExpansionShown,
    ExpansionWithdrawn,
    HistoryFolded,
    LightModelBilled,
    MessageRedelivered,
    Offered,
    ViewCleared,
    ViewShown,
)

__all__ = [
    "MESSAGE_OVERHEAD_TOKENS",
    "Arithmetic",
    "AuditLine",
    "CompactedTextChosen",
    "Decided",
    "Decision",
    "Entry",
    "ExpansionShown",
    "ExpansionWithdrawn",
    "FirstViewChosen",
    "HistoryFolded",
    "LightModelBilled",
    "MessageRedelivered",
    "Offered",
    "OpenedItem",
    "Part",
    "PartId",
    "PartOffloaded",
    "PartShortened",
    "PartsCompacted",
    "RepeatFound",
    "RunningSums",
    "StoredPart",
    "Transcript",
    "TranscriptState",
    "ViewCleared",
    "ViewShown",
    "append_saved",
    "count_saved_decisions",
    "joined_events",
    "last_clear",
    "load_transcript",
    "save_events",
    "save_transcript",
]
