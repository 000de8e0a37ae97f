"""Modules in OCI registries."""
