"""`python -m extender` is `kwx`."""

from extender.commands.cli import main

main()
