"""What a plugin costs a whole scheduler: pods a second, latency, processor and memory, beside other ways to have it."""
