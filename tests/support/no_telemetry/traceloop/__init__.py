"""Stands for the telemetry library that Chainlit imports, with pandas, and uses only with a key of its service.

Importing the library takes a third of the processor time of a start of Chainlit.
"""

__all__: list[str] = []
