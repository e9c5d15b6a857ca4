"""A context and memory layer for AutoGen agents."""

import sys
from importlib import import_module
from types import ModuleType

import lazy_loader

# names are imported at first use, from __init__.pyi; EAGER_IMPORT=1 imports all
_load, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)

_COMPONENTS = {"ForgetMemoryTool", "ManageLongTermMemoryTool", "QueryMemoryTool", "ReadHistoryTool", "RecallTool"} | {
    *("RetrieveMemoryTool", "SearchMemoryTool", "SecretStreamTool", "SecretTool", "SecretWorkbench", "StoreMemoryTool")
}
"""Component data finds these classes here; applications get them from `MemoryContext`."""

_WITHDRAWN = {
    "ShellConnector": "is withdrawn: give the agent a tool on AutoGen's LocalCommandLineCodeExecutor "
    "(samples/code_agent.py has one), or its PythonCodeExecutionTool"
}
"""Component data may still name these classes."""

__all__ = [name for name in _names if name not in _COMPONENTS]  # pyright: ignore[reportUnsupportedDunderAll]

# component data written by 0.1.0 finds its tools in this module
sys.modules[f"{__name__}.tools"] = sys.modules[__name__]


class _Moved(ModuleType):
    """A module under the name that documents gave it before; imports the module at first use."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(f"{__name__}.{name}")
        self._place = f"{__name__}.{place}"

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(self._place), name)


for _name, _room in {
    "chainlit_data_layer": "surfaces.chainlit",
    "cli": "surfaces.cli",
    "errors": "foundation.errors",
    "mcp_server": "surfaces.mcp",
    "policy": "foundation.policy",
    "web": "surfaces.web",
}.items():
    sys.modules[f"{__name__}.{_name}"] = _Moved(_name, _room)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("memory-context")
    if name in _WITHDRAWN:
        raise AttributeError(f"{__name__}.{name} {_WITHDRAWN[name]}")
    value = _load(name)
    # reprs, help and pickles show the public module
    if getattr(value, "__module__", "").startswith(f"{__name__}."):
        value.__module__ = __name__
    return value


for _name in globals().keys() & __all__:
    __getattr__(_name)
