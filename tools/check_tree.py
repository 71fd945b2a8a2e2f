#!/usr/bin/env python3
"""Checks what the compiler does not: include levels, file sizes, file names, and that kernels export nothing a linker could mix up.

usage: check_tree.py SOURCE_DIR [KERNEL_OBJECT ...]
Prints one line a finding and exits 1 when there is any.
"""
import re
import subprocess
import sys
from pathlib import Path

LEVELS = {"base": 0, "model": 1, "text": 1, "plan": 2, "backend": 3, "engine": 5, "app": 6}
BACKEND_FOLDERS = ("cpu", "cuda", "metal")
MAX_LINES = 800
BANNED_STEMS = {"utils", "util", "common", "helpers", "helper", "misc"}
# Only this file may name a concrete backend outside its folder.
BACKEND_REGISTRY = "src/app/backends.cpp"


def layer(path):
    """(level, folder) of a path below src/; concrete backends are level 4, their folder is part of the name."""
    parts = path.split("/")
    if parts[0] == "backend" and len(parts) > 2 and parts[1] in BACKEND_FOLDERS:
        return 4, "backend/" + parts[1]
    return LEVELS.get(parts[0]), parts[0]


def check_includes(root, findings):
    for source in sorted((root / "src").rglob("*")):
        if source.suffix not in (".h", ".cpp", ".cu", ".cuh", ".metal"):
            continue
        name = source.relative_to(root / "src").as_posix()
        level, folder = layer(name)
        if level is None:
            findings.append(f"src/{name}: folder {folder} has no level")
            continue
        for number, line in enumerate(source.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match or f"src/{name}" == BACKEND_REGISTRY:
                continue
            target_level, target_folder = layer(match.group(1))
            if target_level is None:
                if (root / "src" / match.group(1)).exists():
                    findings.append(f"src/{name}:{number}: include of {match.group(1)}, which has no level")
            elif target_folder != folder and (target_level >= level or (target_level == 4 and level > 4)):
                findings.append(f"src/{name}:{number}: {folder} (level {level}) includes {match.group(1)} (level {target_level})")


def check_files(root, findings):
    for top in ("src", "tests", "tools", "web", "bench"):
        for path in sorted((root / top).rglob("*")) if (root / top).is_dir() else []:
            if path.suffix not in (".h", ".hpp", ".cpp", ".cu", ".cuh", ".metal", ".py", ".js", ".css", ".html", ".sh"):
                continue
            name = path.relative_to(root).as_posix()
            lines = path.read_text().count("\n")
            if lines > MAX_LINES:
                findings.append(f"{name}: {lines} lines, at most {MAX_LINES}")
            if path.stem in BANNED_STEMS:
                findings.append(f"{name}: a name that says nothing; name what it owns")


def check_kernels(objects, findings):
    """A weak symbol outside lily::cpu::<level> could be taken from this object for the whole program, with its instruction set."""
    for path in objects:
        symbols = subprocess.run(["nm", "--defined-only", "-C", path], capture_output=True, text=True, check=True).stdout
        for line in symbols.splitlines():
            kind, _, name = line[17:].partition(" ")
            if kind in ("W", "V", "u") and not name.startswith("DW.ref"):
                findings.append(f"{path}: weak symbol {name}")


def main():
    root = Path(sys.argv[1])
    findings = []
    check_includes(root, findings)
    check_files(root, findings)
    check_kernels(sys.argv[2:], findings)
    print("\n".join(findings) if findings else "tree: include levels, sizes and names hold")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
