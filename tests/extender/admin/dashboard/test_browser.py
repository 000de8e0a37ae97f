"""The dashboard of `kwx serve` in a browser."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from extender.scheduling.judgements import Outcome
from tests.extender import guests
from tests.extender.admin.dashboard.chromium import NEEDED, Chromium
from tests.extender.kwx import Extender, plugin, profile
from tests.extender.objects import NODE_NAMES, node, nodes_args, pod
from tests.extender.sources.signer import Sign, Signer, message_bundle

TOKEN = "a-token-that-writes"
HOSTILE = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"

pytestmark = NEEDED


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("dashboard"))


@pytest.fixture(scope="module")
def extender(signer: Signer) -> Iterator[Extender]:
    folder = signer.public_key.parent
    (folder / "score_by_digit.wasm.sig").write_bytes(signer(guests.module("score_by_digit")))
    tokens = folder / "tokens"
    tokens.write_text(f"{TOKEN},alice,write\n")
    tokens.chmod(0o600)
    plugins = plugin("accelerator"), plugin("nodenumber")
    signed = plugin("score_by_digit", name="signed", source={"publicKey": "cosign.pub"})
    profiles = profile("default", *plugins), profile("signatures", signed)
    with Extender(folder, *profiles, server={"adminTokens": "tokens"}) as extender:
        for name in ("web-7", HOSTILE):
            extender.post(
                "/filter",
                nodes_args(list(map(node, NODE_NAMES)), pod(name, annotations={"kwx.dev/accelerator": HOSTILE})),
            )
        yield extender


@pytest.fixture(scope="module")
def browser(extender: Extender, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One that has signed in."""
    with Chromium(tmp_path_factory.mktemp("browser")) as browser:
        browser.open(f"{extender.admin_url}/ui/sign-in")
        browser.eval(f"document.querySelector('#token').value = '{TOKEN}'")
        browser.eval("document.querySelector('main button').click()")
        browser.until("document.querySelector('h1')?.textContent == 'Plugins'")
        yield browser


PAGES = [
    "",
    "plugin?name=nodenumber&profile=default",
    "decisions",
    "pod?namespace=default&name=web-7",
    "pods",
    "groups",
    "latency",
]
PLUGIN = "/ui/plugin?name=nodenumber&profile=default"
STAGE = "[...document.querySelectorAll('dd')].some((each) => each.textContent == '{}')"
FOCUSED = "(({ labels, ariaLabel, textContent }) => (labels?.[0]?.textContent ?? ariaLabel ?? textContent).trim())"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_a_browser_has_nothing_to_complain_of(
    extender: Extender, browser: Chromium, tmp_path: Path, width: int, scheme: str
) -> None:
    browser.resize(width)
    browser.scheme(scheme)
    for page in PAGES:
        browser.open(f"{extender.admin_url}/ui/{page}")
        assert browser.eval("document.documentElement.scrollWidth <= innerWidth"), page
        assert browser.eval("document.title") != "run"
        scripts = browser.eval("[...document.scripts].map((each) => new URL(each.src).pathname)")
        assert scripts == ["/ui/static/live.js", "/ui/static/upload.js"][: 2 if page.startswith("plugin?") else 1]
        (tmp_path / f"{page.partition('?')[0] or 'plugins'}.png").write_bytes(browser.screenshot())
    dark = browser.eval("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")
    assert browser.complaints == []


def test_a_hostile_name_is_shown_as_it_is(extender: Extender, browser: Chromium) -> None:
    browser.open(f"{extender.admin_url}/ui/decisions")
    names = browser.eval("[...document.querySelectorAll('tbody th')].map((each) => each.textContent)")
    assert names == [f"default/{HOSTILE}", "default/web-7"]
    browser.eval("document.querySelector('tbody th a').click()")
    browser.until("document.querySelector('h1')?.textContent.startsWith('Pod default/<img')")
    assert browser.complaints == []


FRAME = [
    ("link", "Skip to the content"),
    ("link", "Plugins"),
    ("link", "Decisions"),
    ("link", "Waits and reservations"),
    ("link", "Groups"),
    ("link", "Latency and caches"),
    ("button", "Sign out"),
]
CONTROLS = {
    "": [
        ("region", "Plugins"),
        ("link", "accelerator"),
        ("link", "Rollout #"),
        ("link", "nodenumber"),
        ("link", "Rollout #"),
        ("link", "signed"),
        ("link", "Rollout #"),
    ],
    "decisions": [
        ("textbox", "Pod contains"),
        ("combobox", "Outcome"),
        *(("option", each) for each in ["any", *Outcome]),
        ("button", "Show"),
        ("region", "The last attempt for each pod"),
        ("link", f"default/{HOSTILE}"),
        ("link", "default/web-7"),
    ],
    "pods": [("textbox", "Node contains"), ("button", "Show"), ("region", "Pods on nodes, or expected there")],
    "groups": [("textbox", "Group contains"), ("button", "Show"), ("region", "Groups of pods")],
}


@pytest.mark.parametrize("page", CONTROLS)
def test_a_screen_reader_has_a_name_for_all_that_can_be_used(extender: Extender, browser: Chromium, page: str) -> None:
    browser.resize(1280)
    browser.open(f"{extender.admin_url}/ui/{page}")
    title, *controls = [(role, re.sub(r"(?<=Rollout )\d+", "#", name)) for role, name in browser.controls()]
    heading = browser.eval("document.querySelector('h1').textContent")
    assert title == ("RootWebArea", f"{heading} \N{EN DASH} kube-wasm-extender")
    assert controls == FRAME + CONTROLS[page]


def upload(extender: Extender, score: int) -> None:
    """Has another module serve, so that there is something to go back to."""
    uploaded = extender.admin.put(
        "/api/v1/plugins/nodenumber/module",
        content=guests.constant_score(score),
        headers={"Content-Type": "application/wasm", "Authorization": f"Bearer {TOKEN}"},
        params={"wait": "30s"},
    )
    assert uploaded.json()["stage"] == "active"


def test_a_page_follows_a_rollout_that_a_form_begins(extender: Extender, browser: Chromium) -> None:
    upload(extender, 3)
    browser.open(f"{extender.admin_url}/ui/plugin?name=nodenumber&profile=default")
    browser.eval("document.querySelector('[name=dryRun]').checked = false")
    browser.eval("document.querySelector('#swap-reason').value = 'in a browser'")
    browser.eval("document.querySelector('#swap-reason').form.requestSubmit()")
    browser.until("document.querySelector('h1')?.textContent.startsWith('Rollout')")
    browser.until(STAGE.format("active"))
    assert browser.complaints == []


def tab_to(browser: Chromium, name: str) -> None:
    """Moves the focus on until it is on something of that name."""
    passed: list[str] = []
    while not passed or passed[-1] != name:
        assert len(passed) < 60, f"no key leads to {name!r}: {passed}"
        browser.press("Tab")
        passed.append(browser.eval(f"{FOCUSED}(document.activeElement)"))


def has_heading(text: str) -> str:
    return f"document.querySelector('h1')?.textContent.startsWith('{text}')"


def test_the_first_key_leads_past_the_navigation(extender: Extender, browser: Chromium) -> None:
    browser.open(f"{extender.admin_url}/ui/")
    browser.press("Tab")
    assert browser.eval("document.activeElement.textContent") == "Skip to the content"
    browser.press("Tab")
    assert browser.eval("document.activeElement.textContent") == "Plugins"


def test_keys_alone_sign_in_find_a_pod_swap_and_roll_back(extender: Extender, browser: Chromium) -> None:
    browser.open(f"{extender.admin_url}/ui/sign-in")
    tab_to(browser, "A token of server.adminTokens")
    browser.type(TOKEN)
    browser.press("Enter")
    browser.until(has_heading("Plugins"))

    tab_to(browser, "Decisions")
    browser.press("Enter")
    browser.until(has_heading("Decisions"))
    tab_to(browser, "Pod contains")
    browser.type("web")
    browser.press("Enter")
    browser.until("location.search.includes('pod=web') && document.querySelectorAll('tbody tr').length == 1")
    tab_to(browser, "default/web-7")
    browser.press("Enter")
    browser.until(has_heading("Pod default/web-7"))
    tab_to(browser, "Node")
    browser.press("Enter")
    browser.until("document.querySelector('[aria-sort=ascending]')?.textContent == 'Node'")

    upload(extender, 4)
    browser.open(f"{extender.admin_url}{PLUGIN}")
    tab_to(browser, "Reason, for the history")
    browser.type("by keys")
    tab_to(browser, "Dry run: only compare it on recorded requests")
    browser.press("Space")
    tab_to(browser, "Begin")
    browser.press("Enter")
    browser.until(has_heading("Rollout"))
    browser.until(STAGE.format("active"))
    tab_to(browser, "nodenumber")
    browser.press("Enter")
    browser.until(has_heading("Plugin nodenumber"))
    tab_to(browser, "Roll back to the last good revision")
    browser.press("Enter")
    browser.until(has_heading("Rollout"))
    browser.until(STAGE.format("active"))
    assert browser.complaints == []


def test_a_module_is_uploaded_from_a_file(extender: Extender, browser: Chromium, tmp_path: Path) -> None:
    file = tmp_path / "new.wasm"
    file.write_bytes(guests.constant_score(7))
    browser.open(f"{extender.admin_url}{PLUGIN}")
    upload_by_page(browser, module=file)
    browser.until(STAGE.format("rehearsed (dry run)"))
    assert browser.complaints == []


def upload_by_page(browser: Chromium, **files: Path) -> None:
    """Chooses files on the page of a plugin, by the id of their fields, and has them uploaded."""
    for field, file in files.items():
        browser.choose(f"#{field}", file)
    browser.eval("document.querySelector('#upload button').click()")
    browser.until(has_heading("Rollout"))


SIGNATURES: dict[str, Callable[[Sign, bytes], bytes]] = {
    "base64": lambda sign, module: base64.encodebytes(sign(module)),
    "as it is": lambda sign, module: sign(module),
    "a bundle": lambda sign, module: json.dumps(json.loads(message_bundle(sign, module)), indent=2).encode(),
}


@pytest.mark.parametrize("form", SIGNATURES)
def test_a_signed_module_is_uploaded_with_its_signature(
    extender: Extender, browser: Chromium, signer: Signer, tmp_path: Path, form: str
) -> None:
    module, signature = tmp_path / "new.wasm", tmp_path / "new.wasm.sig"
    module.write_bytes(guests.constant_score(7))
    signature.write_bytes(SIGNATURES[form](signer, module.read_bytes()))
    browser.open(f"{extender.admin_url}/ui/plugin?name=signed&profile=signatures")
    upload_by_page(browser, module=module, signature=signature)
    browser.until(STAGE.format("rehearsed (dry run)"))
    assert browser.complaints == []


def test_one_that_is_not_signed_is_refused_where_that_is_asked_for(
    extender: Extender, browser: Chromium, signer: Signer, tmp_path: Path
) -> None:
    module = tmp_path / "new.wasm"
    module.write_bytes(guests.constant_score(7))
    browser.open(f"{extender.admin_url}/ui/plugin?name=signed&profile=signatures")
    upload_by_page(browser, module=module)
    browser.until(STAGE.format("failed (dry run)"))
    told = browser.eval("[...document.querySelectorAll('dd')].map((each) => each.textContent)")[2]
    assert told.startswith(f"upload by alice is not signed; expected a signature by {signer.public_key} (sha256:"), told


def test_an_upload_that_is_refused_says_why_beside_the_button(
    extender: Extender, browser: Chromium, tmp_path: Path
) -> None:
    file = tmp_path / "new.wasm"
    file.write_bytes(b"12345678")
    browser.open(f"{extender.admin_url}{PLUGIN}")
    told = "document.querySelector('#upload [role=alert]').textContent"
    for tampering, message in (
        ("form.dataset.limit = 7", "The file has 8 bytes; runtime.moduleLimit allows 7."),
        (
            "form.dataset.limit = 8; form.dataset.signatureLimit = 7",
            "The signature has 8 bytes; at most 7 are allowed.",
        ),
        ("form.dataset.signatureLimit = 8; form.elements.name.value = 'nope'", "there is no plugin 'nope'; there are"),
    ):
        browser.choose("#module", file)
        browser.choose("#signature", file)
        browser.eval(f"{{ const form = document.querySelector('#upload'); {tampering} }}")
        browser.eval("document.querySelector('#upload button').click()")
        browser.until(f"{told}.startsWith({json.dumps(message)})")
    browser.complaints.clear()  # It tells of each answer that is an error.


def test_a_page_whose_session_is_over_leads_to_the_form_to_sign_in(extender: Extender, browser: Chromium) -> None:
    browser.open(f"{extender.admin_url}/ui/")
    browser.eval("fetch('/ui/sign-out', { method: 'POST' })")
    browser.until(has_heading("Sign in"))
