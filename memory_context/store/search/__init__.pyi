from .chunks import Chunk, chunks_of
from .conversation import CONVERSATION_JOB, register_conversation_jobs
from .embed import reindex
from .hits import FoundPassage, SearchHit, SearchScore, search_items
from .indexer import Indexer, IndexReport
from .passages import Candidate, PassagePlace, PassageSearch, QueryProfile, StoredPassage

__all__ = [
    "CONVERSATION_JOB",
    "Candidate",
    "Chunk",
    "FoundPassage",
    "IndexReport",
    "Indexer",
    "PassagePlace",
    "PassageSearch",
    "QueryProfile",
    "SearchHit",
    "SearchScore",
    "StoredPassage",
    "chunks_of",
    "register_conversation_jobs",
    "reindex",
    "search_items",
]
