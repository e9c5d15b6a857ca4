"""What makes items findable, and finds them: passages with their terms and embeddings, and the reads that score them.

chunks       a content, cut into passages
postings     passages, terms and names, as rows
embed        embeddings of passages, also those of another model
indexer      the background that makes all these
passages     the reads of a search: candidates with their scores, and texts
rank         how the scores come together
hits         a search: the best passages of each item, near-duplicates once
ann_quality  whether the index of embeddings finds what comparing everything finds
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
