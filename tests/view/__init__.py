"""The view: sections."""
