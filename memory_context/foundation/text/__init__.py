"""Tokenizer, lexicon, relevance, definitions and error lines, shared by search, compaction and expansion."""
