"""The history of a Chainlit application in the database of its agents' memory. Needs `memory-context[chainlit]`.

@cl.data_layer
def data_layer():
    return MemoryDataLayer()
"""

from memory_context.foundation.extras import needs

with needs("chainlit", "MemoryDataLayer"):
    from .data_layer import MemoryDataLayer, mount_elements
    from .dicts import image_url

__all__ = ["MemoryDataLayer", "image_url", "mount_elements"]
