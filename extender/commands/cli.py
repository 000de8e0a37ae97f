"""The command line: kwx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

from extender.commands.lazy_group import HELP, Entry, LazyGroup
from extender.commands.version import VersionOption

ENTRIES: Final[Mapping[str, Entry]] = {
    "serve": Entry("extender.commands.serve:serve", "Serve the webhook until SIGTERM."),
    "run": Entry(
        "extender.commands.demo.command:run",
        "Start the extender with the example plugins and play a captured scheduling cycle against it.",
    ),
    "inspect": Entry(
        "extender.commands.inspect.command:inspect_module",
        "Show what a module serves, what it asks for and where it runs; status 1 if it cannot be a plugin.",
    ),
    "bench": Entry(
        "extender.commands.bench:app",
        "Measure what the extender costs, beside in-process plugins and an extender in Go.",
    ),
    "doctor": Entry(
        "extender.commands.doctor.command:doctor",
        "Look for mismatches of kube-scheduler's configuration, the extender's and the cluster;"
        " status 1 after an error.",
    ),
    "top": Entry(
        "extender.commands.top:top",
        "Show how long the phases of verbs and the exports of plugins take, by the extender's metrics.",
    ),
    "call": Entry(
        "extender.commands.call.command:call_verb",
        "Call one verb with one module, without a server; bind is a dry run.",
    ),
    "new": Entry(
        "extender.commands.new.command:new",
        "Make a folder with a new plugin: sources, unit tests, cases, a configuration, a README, CI and the library.",
    ),
    "build": Entry(
        "extender.commands.build.command:build",
        "Build a plugin in Go, Rust, TypeScript or Zig: FOLDER.wasm, the same bytes of the same sources and compiler.",
    ),
    "test": Entry(
        "extender.commands.test.command:test",
        "Run a plugin's cases: pods and nodes, and what the plugin is to say of them; status 1 if one fails.",
    ),
    "record": Entry(
        "extender.commands.traffic.command:record",
        "Record what a running extender is asked, for `kwx replay` and `kwx bench plugin`.",
    ),
    "replay": Entry(
        "extender.commands.traffic.command:replay",
        "Show every verdict and score of recorded pods that would change; status 1 if there is one.",
    ),
    "push": Entry(
        "extender.commands.artifact.push:push",
        "Push a module to an OCI registry, with annotations that tell what it is.",
    ),
    "pull": Entry(
        "extender.commands.artifact.read:pull",
        "Fetch a module as the extender would, and write it to a file once it is verified.",
    ),
    "verify": Entry(
        "extender.commands.artifact.read:verify",
        "Check that a key has signed a module, as the extender does with source.publicKey; status 1 if not.",
    ),
    "digest": Entry(
        "extender.commands.artifact.read:print_digest",
        "Print the digest of a module, as the configuration's `digest` pins it.",
    ),
    "scheduler-config": Entry(
        "extender.commands.scheduler_config.command:print_scheduler_config",
        "Print the KubeSchedulerConfiguration for a configuration file.",
    ),
    "plugin": Entry(
        "extender.commands.plugin.commands:app", "Look at the plugins of a running extender, and change what serves."
    ),
    "explain": Entry(
        "extender.commands.explain.command:app",
        "Say why a pod is where it is, or nowhere, by what a running extender remembers.",
    ),
}


class Commands(LazyGroup):
    """The commands of `kwx`."""

    entries = ENTRIES


app = typer.Typer(
    name="kwx",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


@app.callback()
def kwx(version: VersionOption = False) -> None:
    """Scheduling plugins for a stock kube-scheduler as hot-swapped WebAssembly modules."""


def main() -> None:
    """Runs the command line: status 0 fine, 1 failed, 2 wrong usage."""
    app()
