"""`kwx record` and `kwx replay`: what a running extender is asked, and what another module says of it."""
