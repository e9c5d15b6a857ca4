"""A context and memory layer for AutoGen agents."""

import lazy_loader

# Names are imported at first use (SPEC 1), from __init__.pyi; EAGER_IMPORT=1 imports all.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("memory-context")
    value = _load(name)
    # reprs, help and pickles show the public module
    if getattr(value, "__module__", "").startswith(f"{__name__}."):
        value.__module__ = __name__
    return value


for _name in globals().keys() & __all__:
    __getattr__(_name)
