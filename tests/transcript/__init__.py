"""The transcript: entries, decisions and their saved form."""
