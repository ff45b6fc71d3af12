"""Packages that not everybody needs: asked for before the work starts, with the command that installs them."""

from importlib.util import find_spec

from watersmeet.errors import OptionError


def install_command(extra: str) -> str:
    """How to install the extra, from the registry and from a checkout."""
    return f"pip install 'watersmeet[{extra}]', or in a checkout: pip install '.[{extra}]'"


def need(what: str, module: str, extra: str, otherwise: str = "") -> None:
    """Refuse ``what`` unless ``module``, which ``extra`` brings, is there."""
    if find_spec(module) is None:
        raise OptionError(f"{what} must have {module}; got none; do: {install_command(extra)}{otherwise}")
