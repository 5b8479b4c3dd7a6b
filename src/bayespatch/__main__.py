"""Run the command line program: ``python -m bayespatch``."""

from bayespatch.cli import main

main()
