"""`python -m teeny_cli`."""

from teeny_cli.main import main

main()
