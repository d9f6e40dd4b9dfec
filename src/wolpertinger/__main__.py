"""`python -m wolpertinger`, the same as the command `wolpertinger`."""

import sys

from wolpertinger.cli import main

if __name__ == "__main__":
    sys.exit(main())
