from .chunks import Chunk, chunks_of
from .embed import reindex
from .hits import FoundPassage, SearchHit, SearchScore, search_items
from .indexer import Indexer, IndexReport
from .passages import Candidate, PassagePlace, PassageSearch, QueryProfile, StoredPassage

__all__ = [
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
    "reindex",
    "search_items",
]
