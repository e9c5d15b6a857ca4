from .compaction.observation.events import ObservationEvent, ReflectionEvent
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
from .context.autogen_memory import PostgresMemory
from .context.builder import MemoryContextBuilder, choose_light_model
from .context.config import MemoryContextConfig
from .context.context import MemoryContext
from .context.stats import ContextStats
from .foundation.compactors.compactor import Analysis, Compacted, Hint, Result
from .foundation.compactors.registry import Compactors
from .foundation.embeddings.embedder import Embedder
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
from .foundation.light_model.usage import LightModelBill
from .foundation.policy import (
    ArchivePolicy,
    CachePolicy,
    CompactionPolicy,
    ConnectorsPolicy,
    ContextPolicy,
    ExpansionPolicy,
    ImagesPolicy,
    LearningPolicy,
    ObservationPolicy,
    RecallPolicy,
    SecretsPolicy,
    UserMemoryPolicy,
)
from .foundation.references import MemoryRef
from .foundation.text.landmarks import Passage
from .foundation.tokens import TokenCounter
from .memory.agent_memory import AgentMemory
from .memory.items import MemoryType
from .memory.notes import LongTermNotes
from .memory.scope import MemorySnapshot
from .memory.transforms.transform import MemoryTransform
from .memory.vault.secrets import Secrets
from .recall.tools.base import MemoryTool
from .recall.tools.forget import ForgetMemoryTool as ForgetMemoryTool
from .recall.tools.forget import ForgetProposal
from .recall.tools.history import ReadHistoryTool as ReadHistoryTool
from .recall.tools.history import RecallTool as RecallTool
from .recall.tools.history import create_recall_tool
from .recall.tools.items import ManageLongTermMemoryTool as ManageLongTermMemoryTool
from .recall.tools.items import RetrieveMemoryTool as RetrieveMemoryTool
from .recall.tools.items import StoreMemoryTool as StoreMemoryTool
from .recall.tools.prompt_head import MemoryWorkbench
from .recall.tools.search import QueryMemoryTool as QueryMemoryTool
from .recall.tools.search import SearchMemoryTool as SearchMemoryTool
from .recall.tools.secret_tool import SecretStreamTool as SecretStreamTool
from .recall.tools.secret_tool import SecretTool as SecretTool
from .recall.tools.secret_tool import SecretWorkbench as SecretWorkbench
from .sessions.archive.resume import ResumeReport
from .store.items import MemoryCriteria, MemoryItem, Origin
from .store.limits import StoreLimits
from .store.memory_store import MemoryStore
from .store.search.hits import SearchHit
from .store.secret_rows import KeyProvider
from .view.explain import ViewReport
from .view.view import Segment

__version__: str

__all__ = [
    "AgentContext",
    "AgentMemory",
    "Analysis",
    "ArchivePolicy",
    "CachePolicy",
    "Compacted",
    "CompactionPolicy",
    "Compactors",
    "ConflictError",
    "Connector",
    "ConnectorError",
    "ConnectorObservation",
    "ConnectorState",
    "ConnectorsPolicy",
    "ContextPolicy",
    "ContextStats",
    "EditorConnector",
    "Embedder",
    "EmbeddingError",
    "ExpansionPolicy",
    "FastEmbedEmbedder",
    "FileSystemConnector",
    "ForgetProposal",
    "Hint",
    "HistoryThought",
    "HistoryTurn",
    "ImagesPolicy",
    "ItemDamagedError",
    "ItemNotFoundError",
    "KeyProvider",
    "LearningPolicy",
    "LightModelBill",
    "LightModelError",
    "LongTermNotes",
    "MemoryContext",
    "MemoryContextBuilder",
    "MemoryContextConfig",
    "MemoryContextError",
    "MemoryCriteria",
    "MemoryItem",
    "MemoryRef",
    "MemorySnapshot",
    "MemoryStore",
    "MemoryTool",
    "MemoryTransform",
    "MemoryType",
    "MemoryWorkbench",
    "NotesError",
    "ObservationEvent",
    "ObservationPolicy",
    "OpenAIEmbedder",
    "Origin",
    "Passage",
    "PostgresMemory",
    "RecallPolicy",
    "ReflectionEvent",
    "Result",
    "ResumeReport",
    "SchemaError",
    "SearchHit",
    "SecretError",
    "Secrets",
    "SecretsPolicy",
    "Segment",
    "SessionBusyError",
    "SessionGoneError",
    "SessionKey",
    "Sharing",
    "StoreError",
    "StoreLimits",
    "StoreUnavailableError",
    "TextObservation",
    "TokenCounter",
    "TransformError",
    "UserMemoryPolicy",
    "ViewReport",
    "WebConnector",
    "WordLlamaEmbedder",
    "choose_light_model",
    "create_recall_tool",
]
