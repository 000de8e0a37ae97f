"""Running a plugin's cases: a file of pods, nodes and what the plugin says of them."""
