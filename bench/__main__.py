"""`python -m bench`, which is `kwx bench`."""

from bench.cli import main

main()
