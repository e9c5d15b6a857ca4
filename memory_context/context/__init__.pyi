from .builder import (
    LIGHT_MODEL_VARIABLE,
    LightModelChoice,
    MemoryContextBuilder,
    choose_light_model,
    openai_client,
    provider_sentence,
)
from .config import MemoryContextConfig
from .context import MemoryContext
from .memory_api import load_parts
from .observation import ContextObservation

__all__ = [
    "LIGHT_MODEL_VARIABLE",
    "ContextObservation",
    "LightModelChoice",
    "MemoryContext",
    "MemoryContextBuilder",
    "MemoryContextConfig",
    "choose_light_model",
    "load_parts",
    "openai_client",
    "provider_sentence",
]
