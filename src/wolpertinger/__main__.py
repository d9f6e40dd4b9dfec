"""`python -m wolpertinger`, as the command `wolpertinger`."""

import sys

from wolpertinger.cli import main

if __name__ == "__main__":
    sys.exit(main())
