"""Software bill of materials of a release, as CycloneDX JSON, from the packages that cargo compiles.

    python sbom.py TARGET OUT

TARGET is the platform, such as x86_64-unknown-linux-gnu. The components are the packages of the wheel and of the binary, with the
checksums of Cargo.lock. The time in the file is SOURCE_DATE_EPOCH, so builds of the same commit give the same file.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[2]
#: The package of the wheel. It depends on `nuq-cli`, the package of the binary.
PRODUCT = "nuq-python"


def cargo(*arguments: str) -> str:
    program = os.environ.get("CARGO", "cargo")
    return subprocess.run([program, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def compiled_packages(target: str) -> set[tuple[str, str]]:
    """Names and versions of the packages that are compiled for the product, without packages that only its tests need."""
    tree = ["tree", "--locked", "--package", PRODUCT, "--edges", "normal,build", "--target", target]
    lines = cargo(*tree, "--prefix", "none", "--format", "{p}").splitlines()
    return {(words[0], words[1].removeprefix("v")) for words in map(str.split, lines) if words}


def checksums() -> dict[tuple[str, str], str]:
    entry = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"')
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    return {(name, version): checksum for name, version, checksum in entry.findall(lock)}


def component(package: dict, checksum: str | None) -> dict:
    name, version = package["name"], package["version"]
    reference = f"pkg:cargo/{quote(name)}@{quote(version)}"
    fields = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    if package["description"]:
        fields["description"] = " ".join(package["description"].split())
    if package["license"]:
        # Old packages separate alternatives by a slash.
        fields["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if checksum:
        fields["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return fields


def bill(target: str) -> dict:
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    compiled, sums = compiled_packages(target), checksums()
    packages = {package["id"]: package for package in metadata["packages"]}
    known = {key: package for key, package in packages.items() if (package["name"], package["version"]) in compiled}
    components = {key: component(package, sums.get((package["name"], package["version"]))) for key, package in known.items()}
    edges = {
        node["id"]: sorted(
            components[dependency["pkg"]]["bom-ref"]
            for dependency in node["deps"]
            if dependency["pkg"] in components and any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
        )
        for node in metadata["resolve"]["nodes"]
        if node["id"] in components
    }
    (product,) = (key for key, package in known.items() if package["name"] == PRODUCT)
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    order = sorted(components, key=lambda key: components[key]["bom-ref"])
    version = components[product]["version"]
    subject = {**components[product], "type": "application", "name": "nuq", "purl": f"pkg:pypi/nuq@{version}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": subject,
            "properties": [{"name": "cargo:target", "value": target}],
        },
        "components": [components[key] for key in order if key != product],
        "dependencies": [{"ref": components[key]["bom-ref"], "dependsOn": edges[key]} for key in order],
    }


def main() -> None:
    target, out = sys.argv[1:]
    contents = bill(target)
    Path(out).write_text(json.dumps(contents, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(contents['components'])} components: {out}")


if __name__ == "__main__":
    main()
