"""Hooks of mkdocs for the documentation site (mkdocs.yml).

The pages in docs link to files elsewhere in the repository, such as ../ARCHITECTURE.md and
../configs/examples/ray.yaml. These links work in a clone of the repository. For the site, these
hooks add a page source/PATH for each such file, and change the links. A Markdown file becomes a
page, a folder becomes a list of its files, and any other file becomes a block of code; only a
picture stays a picture. The hooks make the page of the commands from docs/dlrun.1, which `dlrun
man` prints.
"""

import os
import pathlib
import posixpath
import re
import tempfile

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\()([^()\s]+)(\))")
LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".cc": "cpp", ".h": "cpp",
             ".sh": "bash", ".json": "json"}
PICTURES = (".png", ".svg")
# The pages outside docs that mkdocs.yml lists. The site needs them even if no page links to them.
LISTED = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "cli/OUTPUT.md", "configs/examples",
          "runtime/ENVIRONMENT.md"]

generated_folder = tempfile.TemporaryDirectory(prefix="dlrun-site-")


def change_outside_code(markdown, change):
    """Returns the text with change(part) in place of each part outside blocks of code."""
    parts = re.split(r"(^(?: *)```.*?^(?: *)```[^\n]*$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def for_python_markdown(part):
    """Returns the Markdown in the form that mkdocs needs: nested lists have four spaces, and code
    in tables has no backslash before a bar, because mkdocs would show the backslash."""
    part = re.sub(r"^ {2,3}(?=(?:-|\d+\.) )", "    ", part, flags=re.MULTILINE)
    return re.sub(r"^\|.*", lambda row: re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"),
                                              row[0]), part, flags=re.MULTILINE)


def links_of(markdown):
    """Returns the targets of all links outside blocks of code."""
    targets = []
    change_outside_code(
        markdown, lambda part: targets.extend(m[2] for m in LINK.finditer(part)) or part)
    return targets


def repository_path(page, target):
    """Returns the path in the repository to which a link of a page leads, or None if the link leads
    to another host or into the same page."""
    path = target.split("#", 1)[0]
    if not path or re.match(r"[a-z][a-z0-9+.-]*:", path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def site_path(path):
    """Returns the path that mkdocs uses for a file or folder of the repository: the path below docs
    for pages of docs, and source/PATH for anything else."""
    if path == "docs" or path.startswith("docs/"):
        return "decisions/README.md" if path == "docs/decisions" else path[len("docs/"):]
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    return f"source/{path}" if path.endswith((".md", *PICTURES)) else f"source/{path}.md"


def with_site_links(markdown, page):
    """Returns the Markdown of a page of the repository in the form that mkdocs needs, with links
    that lead to pages of the site. page: the path of the page in the repository. The page of a
    folder is its index.md, which need not exist."""
    folder = posixpath.dirname(site_path(page)) or "."

    def changed(match):
        path = repository_path(page, match[2])
        if path is None or not (ROOT / path).exists():
            return match[0]
        anchor = match[2][len(match[2].split("#", 1)[0]):]
        return match[1] + posixpath.relpath(site_path(path), folder) + anchor + match[3]

    return change_outside_code(markdown, lambda part: LINK.sub(changed, for_python_markdown(part)))


def fence_of(text):
    """Returns a fence that is longer than each row of backticks in the text."""
    return "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))


def page_of(path):
    """Returns the Markdown of the page source/PATH. Its links are still those of the repository."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(entry.name for entry in file.iterdir() if not entry.name.startswith("."))
        return f"# {path}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)
    text = file.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    fence, language = fence_of(text), LANGUAGES.get(file.suffix, "text")
    return f"# {file.name}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def linked_paths():
    """Returns the files and folders outside docs that the site needs: those in LISTED, those to
    which a page in docs links, and, repeatedly, those to which a found file links."""
    unread = [(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
              for page in sorted((ROOT / "docs").rglob("*.md"))]
    unread += [(path, page_of(path)) for path in LISTED]
    found = set(LISTED)
    while unread:
        page, markdown = unread.pop()
        base = page + "/index" if (ROOT / page).is_dir() else page
        for target in links_of(markdown):
            path = repository_path(base, target)
            if path is None or path in found or path.startswith(("docs/", "..")) or path == "docs":
                continue
            if (ROOT / path).exists():
                found.add(path)
                if not path.endswith(PICTURES):
                    unread.append((path, page_of(path)))
    return sorted(found)


def markdown_of_roff(text):
    """Returns Markdown for a text that launcher/help/man_page.cc has escaped for the manual."""
    for escape, character in (("\\&", ""), ("\\-", "-"), ("\\(aq", "'"), ("\\(ga", "`"),
                              ("\\(ti", "~"), ("\\(ha", "^"), ("\\e", "\\")):
        text = text.replace(escape, character)
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\<>*_\[\]])", r"\\\1", part)
                   for part in parts)


def code(text):
    """Returns a text of the manual page as inline code in Markdown."""
    return "`" + re.sub(r"\\([<>*_\[\]\\])", r"\1", markdown_of_roff(text)) + "`"


def commands_page(man):
    """Returns the page of the commands in Markdown, from the text of the manual page. The keys have
    a page of their own."""
    lines = ["<!-- Made from docs/dlrun.1 by scripts/site_hooks.py. -->", "# Commands", ""]
    section, is_term = "", False
    for line in man.splitlines():
        request, _, rest = line.partition(" ")
        if request == ".SH":
            section = rest
            if section not in ("NAME", "SYNOPSIS", "DESCRIPTION", "KEYS", "SEE ALSO"):
                lines += ["", f"## {section.capitalize()}", ""]
        elif section in ("NAME", "SYNOPSIS", "KEYS", "SEE ALSO") or request in ('.\\"', ".TH"):
            continue
        elif request == ".SS":
            name = markdown_of_roff(rest).split(" ", 1)[0]
            lines += ["", f"### {name}", "", code("dlrun " + rest), ""]
        elif request == ".TP":
            is_term = True
        elif request == ".PP":
            lines += [""]
        elif is_term:
            lines += ["", f"- {code(rest)}:"]
            is_term = False
        elif request in (".B", ".I", ".BR", ".RI"):
            word, _, punctuation = rest.partition(" ")
            lines += [code(word) + punctuation]
        else:
            is_item = any(text.startswith("- ") for text in lines[-3:] if text)
            lines += [("    " if is_item else "") + markdown_of_roff(line)]
    return "\n".join(lines) + "\n"


def on_files(files, config):
    man = (ROOT / "docs/dlrun.1").read_text(encoding="utf-8")
    contents = {"reference/commands.md": commands_page(man).encode()}
    for path in linked_paths():
        if path.endswith(PICTURES):
            contents[site_path(path)] = (ROOT / path).read_bytes()
        else:
            page = path + "/index.md" if (ROOT / path).is_dir() else path
            contents[site_path(path)] = with_site_links(page_of(path), page).encode()
    for path, content in contents.items():
        file = pathlib.Path(generated_folder.name) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        files.append(File(path, generated_folder.name, config["site_dir"],
                          config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.abs_src_path.startswith(generated_folder.name + os.sep):
        return markdown
    return with_site_links(markdown, "docs/" + page.file.src_uri)
