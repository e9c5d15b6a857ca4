from .admin import Forgettable, PruneProgress, PruneReport, StoreAdmin, StoreStatus, UserStats
from .conversation_rows import Appended, Archived, ChatMessage, ChatSender, NewBatch, SessionInfo, StoredBatch
from .conversations import ConversationArchive
from .criteria import MemoryCriteria, MemoryOrder
from .forget import ProgressCallback
from .items import (
    SECRET_TYPE,
    CallerOrigin,
    MemoryItem,
    NewItem,
    Origin,
    Reach,
    ReadScope,
    Whereabouts,
    caveat,
    checked_caller_origin,
    refuse_secret,
)
from .limits import StoreLimits, at_most, within
from .memory_store import MemoryStore
from .schema import MigrationState
from .search import (
    Candidate,
    Chunk,
    FoundPassage,
    IndexReport,
    PassagePlace,
    QueryProfile,
    SearchHit,
    SearchScore,
    StoredPassage,
    chunks_of,
    search_items,
)
from .thread_rows import ElementContent, Feedback, Thread, ThreadElement, ThreadStep, UIUser, WholeThread
from .threads import ThreadStore
from .transfer import ImportReport, TransferError

__all__ = [
    "SECRET_TYPE",
    "Appended",
    "Archived",
    "CallerOrigin",
    "Candidate",
    "ChatMessage",
    "ChatSender",
    "Chunk",
    "ConversationArchive",
    "ElementContent",
    "Feedback",
    "Forgettable",
    "FoundPassage",
    "ImportReport",
    "IndexReport",
    "MemoryCriteria",
    "MemoryItem",
    "MemoryOrder",
    "MemoryStore",
    "MigrationState",
    "NewBatch",
    "NewItem",
    "Origin",
    "PassagePlace",
    "ProgressCallback",
    "PruneProgress",
    "PruneReport",
    "QueryProfile",
    "Reach",
    "ReadScope",
    "SearchHit",
    "SearchScore",
    "SessionInfo",
    "StoreAdmin",
    "StoreLimits",
    "StoreStatus",
    "StoredBatch",
    "StoredPassage",
    "Thread",
    "ThreadElement",
    "ThreadStep",
    "ThreadStore",
    "TransferError",
    "UIUser",
    "UserStats",
    "Whereabouts",
    "WholeThread",
    "at_most",
    "caveat",
    "checked_caller_origin",
    "chunks_of",
    "refuse_secret",
    "search_items",
    "within",
]
