from .conversations import ConversationArchive
from .criteria import MemoryCriteria, MemoryOrder
from .forgetting import ProgressCallback
from .indexer import IndexReport
from .inventory import Forgettable, Inventory
from .limits import StoreLimits, at_most, within
from .memory_store import MemoryStore
from .migrations import MigrationState
from .provenance import SECRET_TYPE, CallerOrigin, Origin, caveat, checked_caller_origin, refuse_secret
from .pruning import PruneProgress, PruneReport
from .rows import NewMemory, StoredMemory, Whereabouts
from .scope import Reach, ReadScope
from .search import StoredPassage
from .sessions import Appended, Archived, ChatMessage, ChatSender, NewBatch, SessionInfo, StoredBatch
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
