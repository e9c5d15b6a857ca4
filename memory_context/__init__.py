"""A context and memory layer for AutoGen agents: the chat context stays small, and nothing is lost."""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs]

# A name is imported when it is first used, so that a command that only prints its help starts at once: the names and
# where they come from stand in __init__.pyi, for people, type checkers and lazy_loader alike.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    __name__, __file__
)
