from .chunks import Chunk, chunks_of
from .embed import reindex
from .indexer import Indexer, IndexReport
from .passages import Candidate, PassagePlace, PassageSearch, QueryProfile, StoredPassage

__all__ = [
    "Candidate",
    "Chunk",
    "IndexReport",
    "Indexer",
    "PassagePlace",
    "PassageSearch",
    "QueryProfile",
    "StoredPassage",
    "chunks_of",
    "reindex",
]
