"""Frozen data in, text or JSON out."""
