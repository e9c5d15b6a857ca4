"""What a Chainlit application takes from `memory_context`; plain Python so far, without a page."""
