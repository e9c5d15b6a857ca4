"""Search.

chunks       contents cut into passages
postings     terms as rows
conversation archived messages as items
indexer      background indexing
passages     candidates and texts
rank         combination of scores
hits         best passages of each item
ann_quality  recall of the embedding index
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
