"""A run as people look at it: a page, Markdown, and plots."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bench.report import page, readme
from bench.report.document import document
from bench.report.results import Results
from bench.run import Run, RunError

__all__ = ["as_json", "costs", "markdown", "write"]

PAGE: Final = "report.html"
MARKDOWN: Final = "report.md"


def write(run: Run, folder: Path) -> list[Path]:
    """Writes the page, the Markdown and each plot of a run, an unfinished one too, into a folder. Raises RunError.

    The same run gives the same bytes.
    """
    from bench.report.plots import gallery  # noqa: PLC0415 - matplotlib takes a second to import

    results = Results(run)
    plots = gallery(results)
    files = {PAGE: page.page(results, plots), MARKDOWN: readme.markdown(results)}
    files |= {f"{plot.name}.svg": plot.svg for plot in plots}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"the report cannot be written into {folder}: {error.strerror}") from error
    return [folder / name for name in files]


def markdown(run: Run) -> str:
    """What a README or a terminal shows of a run."""
    return readme.markdown(Results(run))


def as_json(run: Run) -> dict[str, Any]:
    """What a program is told of a run: all samples, and the figures that they come to."""
    return document(Results(run))


def costs(run: Run) -> str:
    """What the project's README says of a run."""
    return readme.costs(Results(run))
