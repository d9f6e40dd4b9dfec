"""Subclasses that try out what the class itself cannot do; each says what it tests."""
