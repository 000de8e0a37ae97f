"""Looks for requests that the extender cannot take: `python -m tests.extender.fuzz --requests 300000`.

Requests that a kube-scheduler has sent are mutated, in head and body, and sent to an extender of its own. It has to
live and to stay small, each answer has to be whole, valid and of a status for such requests, no answer may name a node
that was not asked, and a neighbour is to be answered as ever. What is found is printed with the number of its stream;
the exit status is then 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.extender.fuzz.run import MAX_GROWN_MIB, run


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.extender.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same seed makes the same requests")
    parser.add_argument("--only", type=int, help="this stream alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwx-fuzz-") as folder:
        os.environ.setdefault("XDG_CACHE_HOME", folder)
        report = run(Path(folder), options.seed, options.requests, options.only)
    for finding in report.findings:
        print(f"stream {finding.number}: {finding.what}")
    print(
        f"seed {options.seed}: {report.requests} requests in {report.seconds:.0f} s,"
        f" {len(report.findings)} findings, {report.grown_mib:+.0f} MiB"
    )
    return 1 if report.findings or report.grown_mib > MAX_GROWN_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
