"""The flows themselves: what a core keeps and does, what travels between cores, and each of the papers' designs."""
