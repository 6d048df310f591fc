"""What programs do to files, for tests: a tree, and a script that does any list of edits to it; what is not possible it leaves out."""

from __future__ import annotations

import json

from hypothesis import strategies as st

FILES = {
    r"a.txt": "one", r"B.bin": "x" * 5000, r"Sub\c.txt": "three", r"Sub\Deep\d.txt": "four", r"Sub\Deep\e.txt": "five",
    r"Brief an Müller 2026.txt": "long name", r"Other\f.txt": "six",
}  # fmt: skip
PATHS = (
    "a.txt", "A.TXT", "B.bin", "Sub", "Sub/c.txt", "Sub/Deep", "Sub/Deep/d.txt", "Sub/Deep/e.txt", "Other", "Other/f.txt",
    "Brief an Müller 2026.txt", "New", "New/x.txt", "New/y.txt", "Sub/n.txt", "Sub/Deep/New",
)  # fmt: skip
VERBS = (
    "write", "append", "truncate", "open", "same", "sneak", "readonly", "hide", "mkdir", "remove", "again", "rename", "link",
    "symlink", "map", "touch",
)  # fmt: skip
EDIT = r"""
import json, mmap, os, shutil, sys
root = sys.argv[1] + "/"
def do(verb, path, other):
    path, other = root + path, root + other
    if verb == "write":
        open(path, "wb").write(other.encode())
    elif verb == "append":
        open(path, "ab").write(b"more")
    elif verb == "truncate":
        os.truncate(path, 2)
    elif verb == "open":
        os.close(os.open(path, os.O_RDWR))
    elif verb in ("same", "sneak"):
        was, old = os.stat(path), open(path, "rb").read()
        new = old if verb == "same" else bytes(255 - byte for byte in old)
        open(path, "r+b").write(new)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    elif verb == "readonly":
        os.chmod(path, 0o444 if os.path.isfile(path) else 0o755)
    elif verb == "hide":
        os.setxattr(path, "user.DOSATTRIB", b"0x2")
    elif verb == "mkdir":
        os.makedirs(path)
    elif verb == "remove":
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    elif verb == "again":
        if os.path.isdir(path):
            shutil.rmtree(path)
            os.mkdir(path)
        else:
            was, old = os.stat(path), open(path, "rb").read()
            os.unlink(path)
            open(path, "wb").write(old)
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    elif verb == "rename":
        os.rename(path, other)
    elif verb == "link":
        os.link(path, other)
    elif verb == "symlink":
        os.symlink(os.path.basename(path), other)
    elif verb == "map":
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0] = mapped[0] ^ 255
    elif verb == "touch":
        os.utime(path, ns=(10**18, 10**18))
for verb, path, other in json.loads(sys.argv[2]):
    try:
        do(verb, path, other)
    except OSError:
        pass
    except ValueError:
        pass
"""
EDITS = st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from(PATHS), st.sampled_from(PATHS)), max_size=8)
"""Lists of edits: verb, path, and another path for those that have two."""


def command(root: str, *edits: tuple[str, str, str]) -> list[str]:
    """The command line that does edits to the tree at ``root``."""
    return ["/usr/bin/python3", "-c", EDIT, root, json.dumps(edits)]
