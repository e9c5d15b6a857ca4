"""Brings stored content back into the view: by itself (`expansion`), or by a tool that the model calls (`tools`)."""
