"""Joins of many streams as flows: the thesis' four designs (chapter 6)."""
