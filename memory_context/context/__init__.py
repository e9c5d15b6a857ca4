"""`MemoryContext`, made by applications or from component data."""
