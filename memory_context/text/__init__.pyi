from .tokenize import (
    TERM_LIMIT_CHARACTERS,
    folded,
    query_terms,
    query_words,
    telling_terms,
    terms_of,
)

__all__ = [
    "TERM_LIMIT_CHARACTERS",
    "folded",
    "query_terms",
    "query_words",
    "telling_terms",
    "terms_of",
]
