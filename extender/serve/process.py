"""The running extender: what is started, in which thread, and how it ends."""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import resource
import signal
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Final

from extender.rollouts import Loaded, load
from extender.scheduling.guest_log import GuestLog
from extender.scheduling.top_nodes import notices
from extender.scheduling.waiting_pods import WaitingPods
from extender.serve import gc_tuning
from extender.serve.background import Background
from extender.serve.certificates import Certificates
from extender.serve.servers import VerbServer, listen, make_connections, url, uvicorn_config
from extender.serve.wiring import Wiring, open_access
from extender.telemetry.metrics import Metrics
from wasm_runtime.protobuf.convert import converter

logger = logging.getLogger(__name__)

EXIT_TIMEOUT_S: Final = 15.0
"""Seconds for threads to end once nothing is served, which takes up to 10 s: Kubernetes kills the process after 30
s."""

MAX_ARENAS: Final = 2
"""Heaps of glibc's malloc, which makes eight a processor. Threads come and go from one to another, and each heap keeps
what it has once given, so that the process would take what each thread ever needs times their number."""

_M_ARENA_MAX: Final = -8
"""Of glibc's `malloc.h`."""

_NO_DUMP: Final = (RuntimeError, ValueError, AttributeError, OSError)
"""What faulthandler raises where there is no thread for it, or nowhere to write to."""


def serve(file: Path) -> None:
    """Serves until SIGTERM or SIGINT; SIGHUP has the configuration file read again. Raises ConfigError."""
    with suppress(*_NO_DUMP):  # Before there is an engine, which takes the signals by which guests trap.
        faulthandler.enable()
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    _raise_descriptors()
    _bound_arenas()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The file is about to be read anyway.
    guest_log = GuestLog()
    waiting = WaitingPods()
    metrics = Metrics()
    with closing(load(file, guest_log.report, metrics.observe_guest, waiting, keeps=True)) as loaded:
        _serve(file, loaded, guest_log, waiting, metrics)


def _serve(file: Path, loaded: Loaded, guest_log: GuestLog, waiting: WaitingPods, metrics: Metrics) -> None:
    server = loaded.configuration.server
    access = open_access(file, server)
    certificates = Certificates.open(file, server)
    admin_socket = listen(file, "server.adminAddress", server.admin_address)
    verbs_socket = listen(file, "server.address", server.address)  # Who finds this one finds the other.
    with ExitStack() as stack:
        background = Background()
        stack.callback(background.stop)
        extender = Wiring(file, loaded, guest_log, waiting, metrics, background)
        count = partial(metrics.count_handshake, "verbs")
        connections = make_connections(extender.router(), extender.overload.hear, certificates.verbs, count)
        listeners = {"verbs": url(verbs_socket, certificates.verbs), "admin": url(admin_socket, certificates.admin)}
        tell = partial(_tell_serving, loaded, listeners)
        verbs = VerbServer(uvicorn_config(None, connections), waiting, extender.overload, tell)
        for number in (signal.SIGTERM, signal.SIGINT):  # Nothing that threads share may be left half done from now on.
            signal.signal(number, verbs.handle_exit)
        stack.callback(_end, extender)
        extender.start(access, certificates, admin_socket)
        signal.signal(signal.SIGHUP, lambda *_: extender.service.reload())
        converter()  # Made now, so that the first request need not wait for it.
        gc_tuning.freeze_startup_objects()
        verbs.run(sockets=[verbs_socket])


def _tell_serving(loaded: Loaded, listeners: Mapping[str, str]) -> None:
    logger.info("serving", extra={**listeners, "cluster": loaded.configuration.cluster.mode})
    for notice in notices(loaded.configuration.profiles):
        logger.info("%s", notice)


def _end(extender: Wiring) -> None:
    """Ends the threads."""
    _bound_exit()
    extender.stop()


def _bound_exit() -> None:
    """If any thread keeps the process from ending, now or later, it ends and says where each is."""
    with suppress(*_NO_DUMP):
        faulthandler.dump_traceback_later(EXIT_TIMEOUT_S, exit=True)


def _raise_descriptors() -> None:
    """Lets the process open as many files and connections as it may ever."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # Some systems take less than they say.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _bound_arenas() -> None:
    """Has the threads that begin from now on share the heaps of malloc. Other C libraries have no such number."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, MAX_ARENAS)


def _leave(*_: object) -> None:
    """Ends the process while it is made ready: nothing is in flight yet."""
    _bound_exit()
    raise SystemExit(0)
