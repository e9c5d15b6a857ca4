"""Search.

postings     passages and terms as rows
conversation archived messages as items
indexer      background indexing, embeddings, recall of their index
passages     candidates and texts
rank         combination of scores
hits         best passages of each item
"""
