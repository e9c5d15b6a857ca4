from .compaction.observation.coordinator import BufferingCoordinator
from .compaction.observation.events import ObservationEvent, ReflectionEvent
from .compaction.observation.observer import ObserverOutput, run_observer
from .compaction.observation.parsing import CompletionFunction
from .compaction.observation.reading import MessageOrigin, ObservedMessage
from .compaction.observation.reflector import ReflectorOutput, compute_effective_reflection_threshold, run_reflector
from .compaction.observation.state import BufferState, ContinuationHint, SessionObservations
from .connectors.editor import EditorConnector
from .connectors.filesystem import FileSystemConnector
from .connectors.protocols import (
    AgentContext,
    Connector,
    ConnectorObservation,
    ConnectorState,
    HistoryThought,
    HistoryTurn,
    TextObservation,
)
from .connectors.web.connector import WebConnector
from .context.autogen_memory import PostgresMemory, PostgresMemoryConfig
from .context.builder import LightModelChoice, MemoryContextBuilder, choose_light_model
from .context.config import MemoryContextConfig
from .context.context import MemoryContext
from .context.observation import ContextObservation
from .context.stats import ContextStats
from .foundation.compactors.compactor import Analysis, Analyzer, Compacted, Compactor, Hint, Result
from .foundation.compactors.excerpt import Label
from .foundation.compactors.registry import CompactFunction, Compactors
from .foundation.embeddings.embedder import Embedder, Purpose
from .foundation.embeddings.fastembed import FastEmbedEmbedder
from .foundation.embeddings.openai import OpenAIEmbedder
from .foundation.embeddings.wordllama import WordLlamaEmbedder
from .foundation.errors import (
    ConflictError,
    ConnectorError,
    EmbeddingError,
    ItemDamagedError,
    ItemNotFoundError,
    LightModelError,
    MemoryContextError,
    NotesError,
    SchemaError,
    SecretError,
    SessionBusyError,
    SessionGoneError,
    StoreError,
    StoreUnavailableError,
    TransformError,
)
from .foundation.identifiers import SessionKey, Sharing
from .foundation.light_model.usage import LightModelBill, LightModelUsage
from .foundation.messages import Address, PartKind
from .foundation.policy import (
    ArchivePolicy,
    CachePolicy,
    CompactionMode,
    CompactionPolicy,
    ConnectorsPolicy,
    ContextPolicy,
    ExpansionPolicy,
    FirstView,
    ImagesPolicy,
    LearningPolicy,
    MaskInView,
    ObservationMode,
    ObservationPolicy,
    PriceList,
    RecallPolicy,
    SecretsPolicy,
    UserMemoryPolicy,
)
from .foundation.references import MemoryRef, ToolAnswer
from .foundation.text.landmarks import Passage
from .foundation.tokens import TokenCounter
from .memory.agent_memory import AgentMemory
from .memory.items import MemoryType
from .memory.notes import LongTermNotes, NotesOperation
from .memory.scope import AuditTrail, MemorySnapshot
from .memory.statements import StatementType
from .memory.transforms.transform import MemoryTransform, TransformName, TransformUnit
from .memory.vault.forms import SecretFilter
from .memory.vault.secrets import Rotation, Secrets
from .recall.tools.base import MemoryTool
from .recall.tools.forget import Confirm, ForgetProposal

# component data finds these classes here; they are no names to import
from .recall.tools.forget import ForgetMemoryTool as ForgetMemoryTool
from .recall.tools.history import ReadHistoryTool as ReadHistoryTool
from .recall.tools.history import RecallResult, create_recall_tool
from .recall.tools.history import RecallTool as RecallTool
from .recall.tools.items import ManageLongTermMemoryTool as ManageLongTermMemoryTool
from .recall.tools.items import RetrieveMemoryTool as RetrieveMemoryTool
from .recall.tools.items import StoreMemoryTool as StoreMemoryTool
from .recall.tools.prompt_head import AnyTool, MemoryWorkbench, MoreTool
from .recall.tools.search import QueryMemoryTool as QueryMemoryTool
from .recall.tools.search import SearchMemoryTool as SearchMemoryTool
from .recall.tools.secret_tool import SecretStreamTool as SecretStreamTool
from .recall.tools.secret_tool import SecretTool as SecretTool
from .recall.tools.secret_tool import SecretToolError
from .recall.tools.secret_tool import SecretWorkbench as SecretWorkbench
from .sessions.archive.archiver import Archiver
from .sessions.archive.resume import ResumeOutcome, ResumeReport
from .sessions.transcript.entries import PartId
from .sessions.transcript.observations import (
    Edit,
    LineKind,
    ObservationChunk,
    ObservationLine,
    ObservationLog,
    ObservationRecord,
    Priority,
)
from .sessions.transcript.transcript import Decided, Decision, Transcript
from .sessions.transcript.values import Arithmetic
from .sessions.transcript.view_decisions import Offered
from .store.admin.consolidate import ConsolidationReport
from .store.admin.prune import PruneReport
from .store.admin.user_stats import Forgettable
from .store.conversation_rows import ChatMessage, ChatSender, SessionInfo
from .store.criteria import MemoryCriteria, MemoryOrder
from .store.events import AuditEvent, EventKind
from .store.forget import ProgressCallback
from .store.items import CallerOrigin, MemoryItem, NewItem, Origin, Reach, ReadScope, Whereabouts
from .store.limits import StoreLimits, TransactionKind, Waits
from .store.memory_store import MemoryStore
from .store.notes import AgentNotes, NotesVersion
from .store.redact import Copies, Holder, Traces
from .store.search.hits import FoundPassage, SearchHit, SearchScore
from .store.search.indexer import IndexReport
from .store.search.passages import StoredPassage
from .store.search.rank import Candidate, PassagePlace, QueryProfile
from .store.secret_rows import KeyProvider, SecretKey, SecretName
from .store.statements import PastSession, UserMemory
from .view.explain import SegmentChange, ViewReport
from .view.view import PartState, Segment

__version__: str

__all__ = [
    "Address",
    "AgentContext",
    "AgentMemory",
    "AgentNotes",
    "Analysis",
    "Analyzer",
    "AnyTool",
    "ArchivePolicy",
    "Archiver",
    "Arithmetic",
    "AuditEvent",
    "AuditTrail",
    "BufferState",
    "BufferingCoordinator",
    "CachePolicy",
    "CallerOrigin",
    "Candidate",
    "ChatMessage",
    "ChatSender",
    "CompactFunction",
    "Compacted",
    "CompactionMode",
    "CompactionPolicy",
    "Compactor",
    "Compactors",
    "CompletionFunction",
    "Confirm",
    "ConflictError",
    "Connector",
    "ConnectorError",
    "ConnectorObservation",
    "ConnectorState",
    "ConnectorsPolicy",
    "ConsolidationReport",
    "ContextObservation",
    "ContextPolicy",
    "ContextStats",
    "ContinuationHint",
    "Copies",
    "Decided",
    "Decision",
    "Edit",
    "EditorConnector",
    "Embedder",
    "EmbeddingError",
    "EventKind",
    "ExpansionPolicy",
    "FastEmbedEmbedder",
    "FileSystemConnector",
    "FirstView",
    "ForgetProposal",
    "Forgettable",
    "FoundPassage",
    "Hint",
    "HistoryThought",
    "HistoryTurn",
    "Holder",
    "ImagesPolicy",
    "IndexReport",
    "ItemDamagedError",
    "ItemNotFoundError",
    "KeyProvider",
    "Label",
    "LearningPolicy",
    "LightModelBill",
    "LightModelChoice",
    "LightModelError",
    "LightModelUsage",
    "LineKind",
    "LongTermNotes",
    "MaskInView",
    "MemoryContext",
    "MemoryContextBuilder",
    "MemoryContextConfig",
    "MemoryContextError",
    "MemoryCriteria",
    "MemoryItem",
    "MemoryOrder",
    "MemoryRef",
    "MemorySnapshot",
    "MemoryStore",
    "MemoryTool",
    "MemoryTransform",
    "MemoryType",
    "MemoryWorkbench",
    "MessageOrigin",
    "MoreTool",
    "NewItem",
    "NotesError",
    "NotesOperation",
    "NotesVersion",
    "ObservationChunk",
    "ObservationEvent",
    "ObservationLine",
    "ObservationLog",
    "ObservationMode",
    "ObservationPolicy",
    "ObservationRecord",
    "ObservedMessage",
    "ObserverOutput",
    "Offered",
    "OpenAIEmbedder",
    "Origin",
    "PartId",
    "PartKind",
    "PartState",
    "Passage",
    "PassagePlace",
    "PastSession",
    "PostgresMemory",
    "PostgresMemoryConfig",
    "PriceList",
    "Priority",
    "ProgressCallback",
    "PruneReport",
    "Purpose",
    "QueryProfile",
    "Reach",
    "ReadScope",
    "RecallPolicy",
    "RecallResult",
    "ReflectionEvent",
    "ReflectorOutput",
    "Result",
    "ResumeOutcome",
    "ResumeReport",
    "Rotation",
    "SchemaError",
    "SearchHit",
    "SearchScore",
    "SecretError",
    "SecretFilter",
    "SecretKey",
    "SecretName",
    "SecretToolError",
    "Secrets",
    "SecretsPolicy",
    "Segment",
    "SegmentChange",
    "SessionBusyError",
    "SessionGoneError",
    "SessionInfo",
    "SessionKey",
    "SessionObservations",
    "Sharing",
    "StatementType",
    "StoreError",
    "StoreLimits",
    "StoreUnavailableError",
    "StoredPassage",
    "TextObservation",
    "TokenCounter",
    "ToolAnswer",
    "Traces",
    "TransactionKind",
    "Transcript",
    "TransformError",
    "TransformName",
    "TransformUnit",
    "UserMemory",
    "UserMemoryPolicy",
    "ViewReport",
    "Waits",
    "WebConnector",
    "Whereabouts",
    "WordLlamaEmbedder",
    "choose_light_model",
    "compute_effective_reflection_threshold",
    "create_recall_tool",
    "run_observer",
    "run_reflector",
]
