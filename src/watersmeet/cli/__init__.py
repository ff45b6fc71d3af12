"""The command ``watersmeet``: demo, run, explain, state, bench.

What stays true: anything wrong with what the user gave ends in one message in red and exit code 2, without
a traceback, before the work starts wherever that can be known; results go to standard output or the file asked
for, everything else to standard error; heavy packages are imported by the command that needs them, so
``watersmeet --version`` is quick; texts from outside are printed as they are, never as markup.
"""

from watersmeet.cli.app import app, main

__all__ = ["app", "main"]
