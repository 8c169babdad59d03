"""What a machine can check of README.md and docs: the C++ example is examples/library.cpp,
links lead to files and headings, and complete decks are accepted by kan_driver -n.

    manual.py DRIVER SOURCE_DIRECTORY"""
import pathlib
import re
import subprocess
import sys
import tempfile

driver, top = sys.argv[1], pathlib.Path(sys.argv[2])
pages = [top / "README.md", *sorted((top / "docs").glob("*.md"))]
failures, decks = [], 0


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


for page in pages:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        if "://" in target:
            continue
        if not there.exists():
            failures.append(f"{page.name}: link to {target}: no such file")
        elif anchor and anchor not in anchors(there):
            failures.append(f"{page.name}: link to {target}: no such heading")
    for block in re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.M):
        if any(f"    <{name}>\n" not in block for name in ("run", "data", "network")):
            continue
        decks += 1
        with tempfile.TemporaryDirectory() as place:
            deck = pathlib.Path(place) / "page.deck"
            deck.write_text("".join(line[4:] + "\n" for line in block.splitlines()))
            done = subprocess.run([driver, "-n", "-W", deck], capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                failures.append(f"{page.name}: {done.stderr}{deck.read_text()}")

example = (top / "examples/library.cpp").read_text()
if f"```cpp\n{example}```" not in (top / "docs/manual.md").read_text():
    failures.append("manual.md: the C++ example is not examples/library.cpp")
if decks < 2:
    failures.append(f"only {decks} complete decks found: is the search for them right?")
sys.exit("\n".join(failures) or 0)
