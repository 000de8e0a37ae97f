"""`python -m extender` is `kwx`."""

from extender.cli import main

main()
