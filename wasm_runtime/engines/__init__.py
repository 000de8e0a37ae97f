"""The WebAssembly engines."""
