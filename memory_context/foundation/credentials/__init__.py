"""Credentials in text, found by format or name, and masked."""
