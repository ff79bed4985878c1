#!/usr/bin/env python3
"""Builds the documentation site with `mkdocs build --strict`, and checks every page: each link
leads to a file of the site and to an anchor of that file, and no page loads anything from another
host.

usage: site_test.py MKDOCS
"""

import html.parser
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MKDOCS = sys.argv[1] if len(sys.argv) > 1 else "mkdocs"


class PageParts(html.parser.HTMLParser):
    """The links of a page, the addresses that it loads, its anchors, and its text outside code."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors, self.text = [], [], set(), []
        self.code_depth = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag in ("pre", "code", "script", "style"):
            self.code_depth += 1
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") != "canonical" and values.get("href"):
            self.loaded.append(values["href"])
        if tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.loaded.append(values["src"])

    def handle_endtag(self, tag):
        if tag in ("pre", "code", "script", "style"):
            self.code_depth -= 1

    def handle_data(self, data):
        if not self.code_depth:
            self.text.append(data)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="dlrun-site-test-")
        cls.site = pathlib.Path(cls.folder.name).resolve() / "site"
        cls.built = subprocess.run([MKDOCS, "build", "--strict", "--site-dir", cls.site], cwd=ROOT,
                                   check=False, capture_output=True, text=True)
        cls.pages = {page: PageParts(page.read_text(encoding="utf-8"))
                     for page in sorted(cls.site.rglob("*.html")) if page.name != "404.html"}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_mkdocs_builds_the_site_without_a_warning(self):
        self.assertEqual(self.built.returncode, 0, self.built.stderr)
        self.assertNotIn("WARNING", self.built.stderr)
        self.assertGreater(len(self.pages), 80)
        for name in ("index.html", "keys/index.html", "reference/commands/index.html",
                     "source/ARCHITECTURE/index.html", "exp.schema.json"):
            self.assertTrue((self.site / name).is_file(), name)

    def file_of(self, page, target):
        """Returns the file of the site to which a link leads."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(target).path)
        if path.startswith("/"):
            file = self.site / path.lstrip("/")
        else:
            file = (page.parent / path).resolve() if path else page
        return file / "index.html" if file.is_dir() else file

    def test_every_link_leads_to_a_page_and_to_an_anchor_of_it(self):
        count, wrong = 0, []
        for page, parts in self.pages.items():
            for target in parts.links:
                address = urllib.parse.urlsplit(target)
                if address.scheme or address.netloc:
                    continue
                count += 1
                file = self.file_of(page, target)
                link = f"{page.relative_to(self.site)}: {target}"
                if not file.is_file():
                    wrong.append(f"{link} leads to no file")
                elif address.fragment and file.suffix == ".html" and \
                        urllib.parse.unquote(address.fragment) not in self.pages[file].anchors:
                    wrong.append(f"{link} leads to no anchor")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong[:40]))
        self.assertGreater(count, 1000)

    def test_a_page_loads_only_files_of_the_site(self):
        for page, parts in self.pages.items():
            for target in parts.loaded:
                if target.startswith("data:"):
                    continue
                self.assertFalse(urllib.parse.urlsplit(target).netloc, f"{page}: {target}")
                self.assertTrue(self.file_of(page, target).is_file(), f"{page}: {target}")

    def test_no_markdown_is_left_in_the_text(self):
        for page, parts in self.pages.items():
            text = "".join(parts.text)
            markdown = re.search(r"^\s*- \S.*|\]\([^)]*\)|^\|.*\|$|```|<!--", text, re.MULTILINE)
            self.assertIsNone(markdown,
                              f"{page.relative_to(self.site)}: {markdown and markdown[0]}")

    def test_nested_lists_and_pipe_characters_in_tables_look_as_in_the_repository(self):
        architecture = (self.site / "source/ARCHITECTURE/index.html").read_text(encoding="utf-8")
        self.assertRegex(architecture, r"if no other one applies:\s*<ul>")
        environment_page = self.site / "source/runtime/ENVIRONMENT/index.html"
        self.assertIn("<code>--role main|service</code>",
                      environment_page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
