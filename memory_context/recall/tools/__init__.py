"""Tools for models: store, retrieve, search, list, read the history, keep notes; on request, forget."""
