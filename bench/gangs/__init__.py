"""How long a gang takes from its last member created until all are bound, by ours and by what else there is."""
