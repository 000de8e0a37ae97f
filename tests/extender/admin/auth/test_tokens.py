"""The file of tokens: what may be in it, and what becomes of one that changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from extender.admin.auth.tokens import MAX_FILE_BYTES, Role, Tokens, TokensError, User

ALICE, BOB = "a-token-of-alice-1", "a-token-of-bob-2222"


def write(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "tokens", f"{ALICE},alice,write\n")


def mistakes(file: Path) -> list[str]:
    with pytest.raises(TokensError) as caught:
        Tokens(file)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return [problem.removeprefix(str(file)) for problem in caught.value.problems]


def test_a_token_tells_whose_it_is_and_nothing_else_does(file: Path) -> None:
    write(file, f"# who may do what\n\n {ALICE} , alice , write \n{BOB},bob@example.org,read\n{ALICE}==,alice,read")
    tokens = Tokens(file)
    assert tokens.user(ALICE) == User("alice", Role.WRITE)
    assert tokens.user(BOB) == User("bob@example.org", Role.READ)
    assert tokens.user(f"{ALICE}==") == User("alice", Role.READ)
    assert [tokens.user(text) for text in ("", ALICE[:-1], f"{ALICE}=", f"{ALICE},alice,write", "é" * 20)] == [None] * 5
    assert tokens.warning() is None


FIELDS = "expected TOKEN,NAME,ROLE"
CHARACTERS = "a token is made of letters, digits and any of -._~+/"
NAME = "a name is made of up to 63 letters, digits and any of .-_@ between them"
ROLE = "the role is neither read nor write"


@pytest.mark.parametrize(
    ("line", "problems"),
    [
        (ALICE, [FIELDS]),
        (f"{ALICE},alice", [FIELDS]),
        (f"{ALICE},alice,write,more", [FIELDS]),
        (
            f"{ALICE[:15]},alice,write",
            ["the token has 15 characters, 16 are needed; openssl rand -hex 32 makes one"],
        ),
        (f"{ALICE} x,alice,write", [CHARACTERS]),
        ("=" * 20 + ",alice,write", [CHARACTERS]),
        ("ä" * 20 + ",alice,write", [CHARACTERS]),
        (f"{ALICE},,write", [NAME]),
        (f"{ALICE},{'a' * 64},write", [NAME]),
        (f"{ALICE},a b,write", [NAME]),
        (f"{ALICE},source,write", ["the name source is taken by the extender itself"]),
        (f"{ALICE},alice,admin", [ROLE]),
        (f"{ALICE},alice,Write", [ROLE]),
        (
            f"write,{ALICE}!,alice",
            ["the token has 5 characters, 16 are needed; openssl rand -hex 32 makes one", NAME, ROLE],
        ),
    ],
)
def test_each_mistake_of_a_line_is_named_without_what_stands_there(file: Path, line: str, problems: list[str]) -> None:
    write(file, f"{BOB},bob,read\n{line}\n")
    assert mistakes(file) == [f", line 2: {problem}" for problem in problems]


def test_the_mistakes_of_all_lines_are_told_at_once(file: Path) -> None:
    write(file, f"x\n# {ALICE}\n{ALICE},alice,write\n{ALICE},bob,read\ny,z\n")
    assert mistakes(file) == [
        f", line 1: {FIELDS}",
        ", line 4: the token is that of line 3; give each user another",
        f", line 5: {FIELDS}",
    ]


@pytest.mark.parametrize("text", ["", "# nobody\n\n"])
def test_a_file_without_tokens_is_a_mistake(file: Path, text: str) -> None:
    assert mistakes(write(file, text)) == [" holds no token; write a line TOKEN,NAME,ROLE for each"]


def test_what_is_no_readable_file_of_a_fair_size_is_refused(tmp_path: Path) -> None:
    assert mistakes(tmp_path / "none") == [" cannot be read: No such file or directory"]
    assert mistakes(tmp_path) == [" is no regular file"]
    assert mistakes(write(tmp_path / "big", "#" * (MAX_FILE_BYTES + 1))) == [f" has more than {MAX_FILE_BYTES} bytes"]


def test_a_file_that_changes_is_read_again(file: Path) -> None:
    tokens = Tokens(file)
    write(file, f"{BOB},bob,read\n")
    tokens.look()
    assert (tokens.user(ALICE), tokens.user(BOB)) == (None, User("bob", Role.READ))
    beside = write(file.with_suffix(".new"), f"{ALICE},alice,read\n")
    beside.replace(file)
    tokens.look()
    assert (tokens.user(ALICE), tokens.user(BOB)) == (User("alice", Role.READ), None)


def test_a_new_file_that_is_wrong_leaves_the_old_tokens_in_force_and_is_told_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = Tokens(file)
    write(file, f"{BOB},bob,raed\n")
    warning = f"the tokens from before stay in force: {file}, line 1: {ROLE}"
    for _ in range(2):
        tokens.look()
        assert (tokens.user(ALICE), tokens.user(BOB)) == (User("alice", Role.WRITE), None)
        assert tokens.warning() == warning
    assert caplog.messages == [f"the new admin tokens cannot be used, {warning}"]

    file.unlink()
    tokens.look()
    assert tokens.user(ALICE) == User("alice", Role.WRITE)
    assert tokens.warning() == f"the tokens from before stay in force: {file} cannot be read: No such file or directory"

    caplog.clear()
    with caplog.at_level(logging.INFO):
        write(file, f"{BOB},bob,read\n")
        tokens.look()
        assert (tokens.user(ALICE), tokens.user(BOB)) == (None, User("bob", Role.READ))
    assert tokens.warning() is None
    assert caplog.messages == ["admin tokens read again"]


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644])
def test_a_file_that_all_users_can_open_gets_a_warning(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert Tokens(file).warning() == f"{file} is open to all users of this machine (mode {mode:04o}); chmod o= it"


def test_a_file_that_a_group_can_read_gets_none(file: Path) -> None:
    file.chmod(0o640)
    assert Tokens(file).warning() is None
