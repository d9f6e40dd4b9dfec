"""`python -m wolpertinger`, the same as the command `wolpertinger`."""

import sys

from wolpertinger.imports import needs_extra


def main() -> int:
    """Run the command line; without the packages of the extra `[cli]` say so in one line, with exit code 2."""
    try:
        with needs_extra("cli", "the command line"):
            from wolpertinger import cli
    except ImportError as error:
        print(f"wolpertinger: {error}", file=sys.stderr)
        return 2
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
