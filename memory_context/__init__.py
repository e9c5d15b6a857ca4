"""A context and memory layer for AutoGen agents: the chat context stays small, and nothing is lost."""

import lazy_loader

# A name is imported when it is first used (SPEC 1), here and in the packages below: the names and their modules stand
# in __init__.pyi, for people, type checkers and lazy_loader alike. EAGER_IMPORT=1 imports everything at once.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("memory-context")
    value = _load(name)
    # classes show their public module in reprs, help and pickles, which find them under both names
    if getattr(value, "__module__", "").startswith(f"{__name__}."):
        value.__module__ = __name__
    return value


for _name in globals().keys() & __all__:  # EAGER_IMPORT has imported them already
    __getattr__(_name)
