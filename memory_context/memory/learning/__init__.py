"""Learns statements about users in the background, from their own words only."""
