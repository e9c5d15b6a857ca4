from .conversation_rows import Appended, Archived, ChatMessage, ChatSender, NewBatch, SessionInfo, StoredBatch
from .conversations import ConversationArchive
from .criteria import MemoryCriteria, MemoryOrder
from .forget import ProgressCallback
from .indexer import IndexReport
from .inventory import Forgettable, Inventory
from .items import (
    SECRET_TYPE,
    CallerOrigin,
    NewMemory,
    Origin,
    Reach,
    ReadScope,
    StoredMemory,
    Whereabouts,
    caveat,
    checked_caller_origin,
    refuse_secret,
)
from .limits import StoreLimits, at_most, within
from .memory_store import MemoryStore
from .pruning import PruneProgress, PruneReport
from .schema import MigrationState
from .search import StoredPassage
from .thread_rows import ElementContent, Feedback, Thread, ThreadElement, ThreadStep, UIUser, WholeThread
from .threads import ThreadStore
from .upkeep import ImportReport, StoreStatus, TransferError, Upkeep

__all__ = [
    "SECRET_TYPE",
    "Appended",
    "Archived",
    "CallerOrigin",
    "ChatMessage",
    "ChatSender",
    "ConversationArchive",
    "ElementContent",
    "Feedback",
    "Forgettable",
    "ImportReport",
    "IndexReport",
    "Inventory",
    "MemoryCriteria",
    "MemoryOrder",
    "MemoryStore",
    "MigrationState",
    "NewBatch",
    "NewMemory",
    "Origin",
    "ProgressCallback",
    "PruneProgress",
    "PruneReport",
    "Reach",
    "ReadScope",
    "SessionInfo",
    "StoreLimits",
    "StoreStatus",
    "StoredBatch",
    "StoredMemory",
    "StoredPassage",
    "Thread",
    "ThreadElement",
    "ThreadStep",
    "ThreadStore",
    "TransferError",
    "UIUser",
    "Upkeep",
    "Whereabouts",
    "WholeThread",
    "at_most",
    "caveat",
    "checked_caller_origin",
    "refuse_secret",
    "within",
]
