"""What the command says beside its results: on standard error, letter by letter as it is, brackets included."""

from rich.console import Console

errors = Console(stderr=True)


def say(text: str, style: str | None = None) -> None:
    """A line on standard error."""
    errors.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """What the user should know, but may want so."""
    errors.print("warning:", style="bold yellow", end=" ")
    say(text)


def fail(text: str) -> None:
    """Why the command has ended."""
    errors.print("error:", style="bold red", end=" ")
    say(text, "red")
