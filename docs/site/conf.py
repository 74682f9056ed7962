"""How the pages of the repository become a site; `make site` runs it.

The pages stay plain Markdown that reads well on a code host too. What a site needs beyond that is made here: the order of
the pages (the links of the pages that lead to others), and a page for each directory that a link names.
"""

import html
import re
import shutil
from pathlib import Path
from posixpath import normpath

ROOT = Path(__file__).resolve().parents[2]

project = "Ebb"
author = "The Ebb developers"
copyright = "The Ebb developers"
version = release = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
language = "en"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "bench/*/README.md", "crates/**/README.md", "python/README.md", "tests/**/README.md"]
# README is the code host's front page, docs/index the site's.
exclude_patterns = ["README.md", "target", "**/.*"]
myst_heading_anchors = 6
# Other programs' formats, in which a colourful guess would be wrong.
highlight_language = "none"

html_theme = "furo"
html_title = f"Ebb {version}"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "to-start.html"}
templates_path = ["."]

#: Pages that lead to others: their links, in their order, are the site's order.
LEADING = re.compile(r"docs/(index|kinds/[a-z-]+|readers/contributor)")
#: Readers' pages lead through pages that have a place of their own already.
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def place(docname, target):
    """The path from the root of what a page links to."""
    return normpath(f"{Path(docname).parent.as_posix()}/{target}")


def order(app, docname, source):
    """Puts the pages that a leading page links to below it."""
    if not LEADING.fullmatch(docname):
        return
    found = {}
    for link in LINK.finditer(source[0]):
        path = place(docname, link["target"])
        name, end = path[:-3], path[-3:]
        if end != ".md" or name == docname or name not in app.env.found_docs:
            continue
        group = ""
        if docname == root_doc:
            group = {"docs/readers": "By reader", "docs/kinds": "By kind"}.get(Path(name).parent.as_posix())
        elif docname.startswith("docs/readers/") and name.startswith("docs/"):
            group = None
        if group is not None:
            found.setdefault(group, dict())[name] = None
    for caption, names in found.items():
        title = f":caption: {caption}\n" if caption else ""
        source[0] += f"\n```{{toctree}}\n:hidden:\n{title}\n" + "".join(f"/{name}\n" for name in names) + "```\n"


def directories(app, docname, source):
    """Turns links to directories, which a code host lists, into links to pages that list them."""

    def listed(link):
        path = place(docname, link["target"])
        if not (ROOT / path).is_dir():
            return link[0]
        app.env.ebb_directories.add(path)
        return f'<a href="{link["target"].rstrip("/")}.html">{link["text"]}</a>'

    source[0] = LINK.sub(listed, source[0])


def prepare(app, env, docnames):
    env.ebb_directories = set()


def list_directories(app):
    """A page for each of them, with its files beside it."""
    for path in sorted(app.env.ebb_directories):
        rows = []
        for file in sorted(path for path in (ROOT / path).iterdir() if path.is_file()):
            copy = Path(app.outdir) / path / file.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
            name = html.escape(file.name)
            rows.append(f'<li><a href="{Path(path).name}/{name}">{name}</a></li>')
        body = f"<h1>{html.escape(path)}</h1><ul>{''.join(rows)}</ul>"
        yield path, {"title": path, "body": body}, "page.html"


def setup(app):
    app.connect("env-before-read-docs", prepare)
    app.connect("source-read", order)
    app.connect("source-read", directories)
    app.connect("html-collect-pages", list_directories)
    return {"parallel_read_safe": False}
