"""The session and its processes: a local session, its Java, its Python workers."""
