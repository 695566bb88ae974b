#!/usr/bin/env python3
"""Writes what the programs are made of: CycloneDX 1.5 as JSON, and the licence texts of all crates.

usage: packaging/bill_of_materials.py SBOM LICENCES

Crates come from `cargo metadata`, as resolved for this machine's target; those that only build scripts or tests use are not
in the programs and not in the list. The same lock file gives the same bytes.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = {"quaver", "quaver-sim-program", "quaver-preload", "quaver-qemu-plugin"}
TEXTS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crates() -> list[dict]:
    target = next(line.split()[1] for line in output("rustc", "-vV").splitlines() if line.startswith("host:"))
    metadata = json.loads(
        output("cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", target)
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [name for name in metadata["workspace_members"] if packages[name]["name"] in PROGRAMS]
    found = set()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for dependency in nodes[name]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return sorted((packages[name] for name in found), key=lambda package: (package["name"], package["version"]))


def component(package: dict, checksums: dict) -> dict:
    name, version = package["name"], package["version"]
    made = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
    if package["license"]:
        # Old crates write "MIT/Apache-2.0", which SPDX calls OR.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := checksums.get((name, version)):
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return made


def linked() -> list[dict]:
    """The C libraries inside the program that no crate holds, in the versions that pkg-config knows."""
    found = []
    for name, license_of_it in (("libelf", "LGPL-3.0-or-later OR GPL-2.0-or-later"), ("zlib", "Zlib")):
        asked = subprocess.run(["pkg-config", "--modversion", name], capture_output=True, text=True)
        made = {"type": "library", "name": name, "licenses": [{"expression": license_of_it}]}
        if asked.returncode == 0:
            made["version"] = asked.stdout.strip()
        found.append(made)
    return found


def licence_texts(packages: list[dict]) -> str:
    holders: dict[str, list[str]] = {}
    for package in packages:
        folder = pathlib.Path(package["manifest_path"]).parent
        # libbpf-sys has libbpf's own sources, with their licence, in a folder of that name.
        for path in [*sorted(folder.glob("*")), *sorted(folder.glob("libbpf/*"))]:
            if path.is_file() and path.name.upper().startswith(TEXTS):
                text = path.read_text(encoding="utf-8", errors="replace").strip()
                holders.setdefault(text, []).append(f"{package['name']} {package['version']} ({path.name})")
    rule = "=" * 80
    return "\n".join(f"{rule}\n" + "\n".join(names) + f"\n{rule}\n{text}\n" for text, names in holders.items())


def main() -> None:
    sbom, licences = map(pathlib.Path, sys.argv[1:3])
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in lock["package"]}
    packages = crates()
    own = next(package for package in packages if package["name"] == "quaver")
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "quaver", "version": own["version"]}},
        "components": [component(package, checksums) for package in packages if package is not own] + linked(),
    }
    sbom.write_text(json.dumps(bill, indent=1, ensure_ascii=False) + "\n")
    licences.write_text(licence_texts([package for package in packages if package["source"]]))


main()
