"""Where the modules of plugins come from: files, web servers, OCI registries; and who signed them."""

from extender.sources.factory import open_source
from extender.sources.source import Fetched, Signature, Source, SourceError, SourceUnreachableError

__all__ = ["Fetched", "Signature", "Source", "SourceError", "SourceUnreachableError", "open_source"]
