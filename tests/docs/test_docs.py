"""What the documentation shows is so: links lead somewhere, configurations are accepted, commands exist."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from fastapi import FastAPI
from typer.main import get_command

from bench.cli import app as bench
from bench.controlplane import SCHEDULERS
from extender import config
from extender.admin.api.routes import router
from extender.commands.cli import app as kwx
from extender.commands.kubectl.cli import app as kubectl
from extender.commands.test import cases
from extender.config.models import ExtenderConfiguration, PluginConfig
from extender.telemetry.metrics import Metrics

from . import figures, references

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    page
    for folder in (".", "docs", "manifests", "sdk-guest", "bench", "extender", "tests", "wasm_runtime")
    for page in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
)
NAMES: Final = [str(page.relative_to(ROOT)) for page in PAGES]
COMPLETE: Final = {
    "apiVersion": "kwx.dev/v1alpha1",
    "kind": "ExtenderConfiguration",
    "profiles": [{"name": "default", "plugins": [{"name": "any", "guestURL": "file://./any.wasm"}]}],
}

pages = pytest.mark.parametrize("page", PAGES, ids=NAMES)


class Block(NamedTuple):
    """A block of code."""

    language: str
    text: str


def split(text: str) -> tuple[str, list[Block]]:
    """The prose of a page, and its fenced blocks without their indentation."""
    prose, blocks, fence = [], [], None
    for line in text.splitlines():
        opened = re.fullmatch(r"( *)```(\w*)", line)
        if opened and fence is None:
            fence = opened
            blocks.append(Block(opened[2], ""))
        elif fence is not None and line.strip() == "```":
            fence = None
        elif fence is not None:
            blocks[-1] = blocks[-1]._replace(text=f"{blocks[-1].text}{line.removeprefix(fence[1])}\n")
        else:
            prose.append(line)
    assert fence is None, "a block of code has no end"
    return "\n".join(prose), blocks


def anchors(prose: str) -> set[str]:
    """The anchors that GitHub gives the headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def logical_lines(text: str) -> Iterator[list[str]]:
    """The words of each command of a block, as a shell splits them."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        words.whitespace_split = True
        try:
            yield list(words)
        except ValueError:  # An open quote: what a command prints, or another language.
            continue


def kwx_commands(blocks: list[Block]) -> Iterator[list[str]]:
    """The arguments of each `kwx` in blocks of a shell; those of `kubectl kwx` begin with `kubectl`."""
    for block in blocks:
        if block.language in {"", "console", "sh"}:
            for words in logical_lines(block.text):
                for at, word in enumerate(words):
                    of_kubectl = words[max(at - 1, 0) : at] == ["kubectl"]
                    start = at - of_kubectl
                    if word == "kwx" and (start == 0 or words[start - 1] in {"--", "|", "&&"}):
                        end = next((i for i in range(at, len(words)) if set(words[i]) <= set("|&;<>")), len(words))
                        yield words[start:at] + words[at + 1 : end]


def problem_of(arguments: list[str], *, is_whole: bool) -> str | None:
    """What kwx would say is wrong with arguments; those that are not whole may lack some."""
    of_kubectl = arguments[:1] == ["kubectl"]
    command: Any = get_command(kubectl if of_kubectl else kwx)
    names = ["kubectl", "kwx"] if of_kubectl else ["kwx"]
    rest = arguments[of_kubectl:]
    while hasattr(command, "commands") or names[-1] == "bench":
        if names[-1] == "bench":
            command = get_command(bench)
        if not rest:
            return "a command is missing" if is_whole else None
        if rest[0] in {"-h", "--help", *(name for each in command.params for name in each.opts)}:
            return None
        if rest[0] not in command.commands:
            return f"{' '.join(names)} has no command {rest[0]}"
        names.append(rest.pop(0))
        command = command.commands[names[-1]]
    try:
        command.make_context(" ".join(names), rest).close()
    except Exception as error:
        if type(error).__name__ == "MissingParameter" and not is_whole:
            return None
        return f"{' '.join(['kwx', *arguments])}: {error}"
    return None


@pages
def test_links_lead_somewhere(page: Path) -> None:
    prose, _ = split(page.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose)):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        linked = (page.parent / path).resolve() if path else page
        known = linked.exists() and linked.is_relative_to(ROOT)
        if not known or (anchor and anchor not in anchors(split(linked.read_text(encoding="utf-8"))[0])):
            broken.append(target)
    assert not broken


@pages
def test_configurations_are_accepted(page: Path, tmp_path: Path) -> None:
    """A block may have some keys of the file, or of a plugin, or it is a file of cases."""
    _, blocks = split(page.read_text(encoding="utf-8"))
    keys = {field.alias for field in ExtenderConfiguration.model_fields.values()}
    of_plugins = {field.alias for field in PluginConfig.model_fields.values()}
    for text in (block.text for block in blocks if block.language == "yaml"):
        content = yaml.safe_load(text)
        if not isinstance(content, dict) or content.get("kind", "ExtenderConfiguration") != "ExtenderConfiguration":
            continue
        if "cases" in content:
            file = tmp_path / "cases.yaml"
            file.write_text(text)
            assert cases.read(file).cases
            continue
        if content.keys() <= of_plugins:
            content = {
                "profiles": [{"name": "default", "plugins": [{"name": "any", "guestURL": "file://a"} | content]}]
            }
        assert content.keys() <= keys, f"neither keys of the file nor of a plugin:\n{text}"
        file = tmp_path / "extender.yaml"
        file.write_text(yaml.safe_dump(COMPLETE | content))
        config.read(file)


@pages
def test_commands_exist(page: Path) -> None:
    prose, blocks = split(page.read_text(encoding="utf-8"))
    problems = [problem_of(arguments, is_whole=True) for arguments in kwx_commands(blocks)]
    for program, mentioned in re.findall(r"`(kubectl )?kwx ([^`]+)`", prose):
        if "…" not in mentioned:
            problems.append(problem_of(shlex.split(program + mentioned), is_whole=False))
    assert not list(filter(None, problems))


@pages
def test_modules_and_targets_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert not set(re.findall(r"(?:`|^(?:\$ )?)make (\w+)", text, re.MULTILINE)) - set(targets)
    modules = {name for name in re.findall(r"python -m ([\w.]+)", text) if name.split(".")[0] in {"bench", "tests"}}
    assert not {name for name in modules if not importlib.util.find_spec(name)}


@pytest.mark.parametrize("page", references.PAGES)
def test_generated_references_are_current(page: str) -> None:
    written = (references.FOLDER / page).read_text(encoding="utf-8")
    assert written == references.PAGES[page](), "run python -m tests.docs.references"


def test_figures_of_the_readme_are_those_of_the_results() -> None:
    assert figures.README.read_text(encoding="utf-8") == figures.readme(), "run python -m tests.docs.figures"


def test_figures_come_between_the_comments_that_are_for_them() -> None:
    page = "above\n<!-- kwx bench plugin: made by `python -m tests.docs.figures` -->\nold\n<!-- until here -->\nbelow\n"
    told = figures.filled(page, {"plugin": "| \\1 |"})
    assert told == page.replace("\nold\n", "\n\n| \\1 |\n\n")
    assert figures.filled(told, {"plugin": "| \\1 |"}) == told
    with pytest.raises(ValueError, match=r"^there is no <!-- kwx bench scheduler: made by .* with .* behind it$"):
        figures.filled(page, {"scheduler": ""})


def test_metrics_are_those_of_the_code() -> None:
    metrics = Metrics()
    for resource in ("nodes", "pods", "groups"):
        metrics.add_cache_gauges(resource, lambda: 0, lambda: 0.0)
    metrics.add_ledger_gauge(["tentative"], lambda _: 0)
    metrics.add_plugins(list)
    metrics.add_readiness(lambda: True)
    families = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in metrics.registry.collect()
    }
    page = (references.FOLDER / "metrics.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(told) == sorted(family for family in families if family.startswith("kwx_"))


def test_paths_of_the_admin_api_are_those_of_the_code() -> None:
    app = FastAPI()
    app.include_router(router)
    page = (references.FOLDER / "http.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([A-Z]+) (/api/\S+)` \|", page, re.MULTILINE)
    assert sorted(told) == sorted(
        (method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods
    )


def test_messages_of_troubleshooting_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    rows = [
        row for text in sections if "| message |" in text for row in re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    ]
    told = [re.sub(r"\s+", " ", quoted) for quoted in [*rows, *re.findall(r"^> (.*)$", page, re.MULTILINE)]]
    written = [text for package in ("bench", "extender", "wasm_runtime") for text in texts(ROOT / package)]
    unknown = [
        message
        for message in told
        if not all(any(part in text for text in written) for part in filter(None, map(str.strip, message.split("…"))))
    ]
    assert told
    assert not unknown


def test_the_tests_of_the_security_page_exist() -> None:
    """Each claim names what holds it."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    claims = [row.split(" | ") for row in re.findall(r"^\| (.* \| `tests/.*`) \|$", page, re.MULTILINE)]
    named = [each for _, tests in claims for each in re.findall(r"`([^`]+)`", tests)]
    tables = page.split("| claim | test |")[1:]
    assert len(claims) == sum(len(re.findall(r"^\| (?!claim)", table, re.MULTILINE)) for table in tables)
    unknown = [
        each
        for each in named
        if not re.search(
            rf"^def {each.partition('::')[2]}\(", (ROOT / each.partition("::")[0]).read_text(), re.MULTILINE
        )
    ]
    assert len(claims) > 20
    assert not unknown


def texts(package: Path) -> Iterator[str]:
    """What a package can say: its texts, with … for what varies in them."""
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_a_broken_page_is_noticed(tmp_path: Path) -> None:
    """The checks above can fail."""
    prose, blocks = split("# A b\n# A b\n```console\n$ kwx plugin swop x \\\n  --now\n$ FOO=1 other\n```\n")
    assert anchors(prose) == {"a-b", "a-b-1"}
    (arguments,) = kwx_commands(blocks)
    assert problem_of(arguments, is_whole=True) == "kwx plugin has no command swop"
    assert (
        problem_of(["plugin", "swap", "x", "--now"], is_whole=True) == "kwx plugin swap x --now: No such option: --now"
    )
    assert problem_of(["bench", "plugin", "--slow"], is_whole=True) == "kwx bench plugin --slow: No such option: --slow"
    assert problem_of(["plugin", "swap"], is_whole=True)
    assert problem_of(["plugin", "swap"], is_whole=False) is None
    page = tmp_path / "page.md"
    page.write_text("```yaml\nservr: {}\n```\n")
    with pytest.raises(AssertionError, match="neither keys of the file nor of a plugin"):
        test_configurations_are_accepted(page, tmp_path)
    page.write_text("```yaml\nserver: {adress: a}\n```\n")
    with pytest.raises(config.ConfigError, match="adress"):
        test_configurations_are_accepted(page, tmp_path)
    page.write_text("[gone](gone.md)\n")
    with pytest.raises(AssertionError):
        test_links_lead_somewhere(page)


@pytest.mark.parametrize("page", ["README.md", "docs/reference/kube-scheduler.md"])
def test_the_table_of_kube_schedulers_is_what_tests_run_with(page: str) -> None:
    rows = re.findall(r"^\| (\d+\.\d+) \| (\d+\.\d+\.\d+) \|", (ROOT / page).read_text(), re.MULTILINE)
    assert rows == [(minor, program.version) for minor, program in SCHEDULERS.items()]
