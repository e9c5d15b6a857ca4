"""Tokenizer, lexicon, relevance, definitions and error lines, shared by search, compaction and expansion."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
