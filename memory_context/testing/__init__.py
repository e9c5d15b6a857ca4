"""Test support for applications: a temporary store, a scripted model, and checks for plug-ins.

Only `memory_context.testing.fixtures` needs pytest.
"""

from .conformance import COMPACTOR_CHECKS, CONNECTOR_CHECKS, EMBEDDER_CHECKS
from .models import Call, Decision, ScriptedModel, ScriptedModelConfig, call, observe_by_script, tool_calls
from .stores import temporary_database, temporary_store

__all__ = [
    "COMPACTOR_CHECKS",
    "CONNECTOR_CHECKS",
    "EMBEDDER_CHECKS",
    "Call",
    "Decision",
    "ScriptedModel",
    "ScriptedModelConfig",
    "call",
    "observe_by_script",
    "temporary_database",
    "temporary_store",
    "tool_calls",
]
