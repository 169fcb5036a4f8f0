"""`python -m gossamer` is the command line."""

from gossamer.cli import main

main()
