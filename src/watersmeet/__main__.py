"""``python -m watersmeet``: the command, where its folder is not on the path."""

from watersmeet.cli import main

if __name__ == "__main__":
    main()
