"""How long a gang takes from the creation of its last member until all are bound, by our extender and by others."""
