"""Rendering of transcripts as views within the token budget."""
