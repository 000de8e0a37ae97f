"""The libraries as packages of their languages: used from any folder, by the language's own tools, beside others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest

from extender.commands.build import SDK
from extender.commands.new.project import GO_PATH, create

VERSION: Final = metadata.version("kube-wasm-extender")
TIMEOUT_S: Final = 900.0
"""For one command: the types of Kubernetes are compiled."""

NO_CARGO: Final = "there is no cargo: apt-get install cargo"
NO_GO: Final = "there is no Go: https://go.dev/dl"

with_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason=NO_CARGO)
with_go = pytest.mark.skipif(shutil.which("go") is None, reason=NO_GO)


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """What a command prints that succeeds."""
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_packages_have_the_distributions_version_and_their_paths() -> None:
    assert (SDK / "go/go.mod").read_text().startswith(f"module {GO_PATH}\n")
    assert f'\nversion = "{VERSION}"\n' in (SDK / "rust/Cargo.toml").read_text()
    assert json.loads((SDK / "assemblyscript/guest/package.json").read_text())["version"] == VERSION


# -- Rust --------------------------------------------------------------------------------------------

FNV: Final = """
#[cfg(test)]
mod others {
    #[test]
    fn another_crate_is_there() {
        let tiers = fnv::FnvHashMap::<u8, u32>::default();
        assert!(tiers.is_empty());
    }
}
"""


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT_S)
@with_cargo
def test_a_crate_is_added_beside_another_one(tmp_path: Path) -> None:
    plugin = create("rust", "tier", tmp_path)
    shutil.rmtree(plugin / "guest")
    manifest = plugin / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace('kwx-guest = { path = "guest" }\n', ""))
    source = plugin / "src" / "lib.rs"
    source.write_text(source.read_text() + FNV)
    run("cargo", "add", "--path", SDK / "rust", folder=plugin)
    run("cargo", "add", "fnv", folder=plugin)
    target = ("--target-dir", tmp_path / "target")
    tested = run("cargo", "test", *target, folder=plugin, RUSTFLAGS="-D warnings")  # Not those of other crates.
    assert "test result: ok. 3 passed; 0 failed" in tested
    run("cargo", "doc", "--no-deps", "--package", "kwx-guest", *target, folder=plugin)
    assert (tmp_path / "target" / "doc" / "guest" / "trait.Plugin.html").exists()


# -- Go ----------------------------------------------------------------------------------------------

YAML: Final = """
func TestAnotherModuleIsThere(t *testing.T) {
	written, err := yaml.Marshal(node{})
	if err != nil || string(written) != "{}\\n" {
		t.Errorf("%s %v", written, err)
	}
}
"""
YAMLS: Final = "sigs.k8s.io/yaml"


def tagged(folder: Path) -> Path:
    """A module proxy that has the library, as a proxy makes it of the tag `sdk-guest/go/VERSION`."""
    version, files = f"v{VERSION}", folder / GO_PATH / "@v"
    files.mkdir(parents=True)
    (files / "list").write_text(f"{version}\n")
    (files / f"{version}.info").write_text(json.dumps({"Version": version}))
    shutil.copy(SDK / "go" / "go.mod", files / f"{version}.mod")
    with zipfile.ZipFile(files / f"{version}.zip", "w") as archive:
        for file in sorted((SDK / "go").rglob("*")):
            if file.is_file():
                archive.write(file, f"{GO_PATH}@{version}/{file.relative_to(SDK / 'go')}")
    return folder


def beside(plugin: Path) -> None:
    """Has the plugin's unit tests use another module."""
    tests = plugin / "main_test.go"
    text = tests.read_text().replace('\t"kwx.dev/guest"\n', f'\t"kwx.dev/guest"\n\t"{YAMLS}"\n')
    tests.write_text(text + YAML)


def go_environment(folder: Path) -> Mapping[str, str]:
    """Modules come from the proxy in the folder, and those of others from where they come usually."""
    usual = run("go", "env", "GOPROXY", folder=folder).strip()
    return {
        "GOPROXY": f"file://{tagged(folder / 'proxy')},{usual}",
        "GONOSUMDB": GO_PATH,
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(folder / "modules"),
    }


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT_S)
@with_go
def test_a_go_module_is_got_by_its_tag_beside_another_one(tmp_path: Path) -> None:
    plugin = create("go", "tier", tmp_path)
    shutil.rmtree(plugin / "guest")
    (plugin / "go.sum").unlink()
    environment = go_environment(tmp_path)
    beside(plugin)
    run("go", "mod", "edit", f"-dropreplace={GO_PATH}", f"-droprequire={GO_PATH}", folder=plugin)
    run("go", "get", f"{GO_PATH}@v{VERSION}", folder=plugin, **environment)
    run("go", "get", YAMLS, folder=plugin, **environment)
    run("go", "mod", "tidy", folder=plugin, **environment)
    assert f"{GO_PATH} v{VERSION}\n" in run("go", "list", "-m", GO_PATH, folder=plugin, **environment)
    assert run("go", "test", "./...", folder=plugin, **environment).startswith("ok  \ttier\t")


@pytest.mark.nightly
@pytest.mark.timeout(TIMEOUT_S)
@with_go
def test_a_go_module_is_replaced_by_a_folder_beside_another_one(tmp_path: Path) -> None:
    plugin = create("go", "tier", tmp_path)
    shutil.rmtree(plugin / "guest")
    beside(plugin)
    run("go", "mod", "edit", f"-replace={GO_PATH}={SDK / 'go'}", folder=plugin)
    run("go", "get", YAMLS, folder=plugin)
    run("go", "mod", "tidy", folder=plugin)
    assert run("go", "test", "./...", folder=plugin).startswith("ok  \ttier\t")
