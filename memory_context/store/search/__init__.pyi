from .conversation import CONVERSATION_JOB, register_conversation_jobs, said_key
from .hits import FoundPassage, SearchHit, SearchScore, search_items
from .indexer import Indexer, IndexReport, reindex
from .passages import PassageSearch, StoredPassage
from .postings import Chunk, chunks_of
from .rank import Candidate, PassagePlace, QueryProfile

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
    "said_key",
    "search_items",
]
