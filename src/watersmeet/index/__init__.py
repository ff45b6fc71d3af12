"""How matches are found inside one sub-window: one structure a file, one interface (``base.py``)."""
