#!/usr/bin/env python3
"""Checks the links of all Markdown pages of the repository, and that mkdocs.yml lists every
page once, except the pages of decisions. Also checks the list of decisions, the table of exit
codes, and the length of README.md and ARCHITECTURE.md.

usage: links_test.py

A link must lead to a file or folder that exists, and its part after `#` to a heading of that page.
Links to other hosts are not followed.
"""

import pathlib
import re
import subprocess
import sys
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")
# scripts/site_hooks.py makes these pages of the site.
GENERATED_PAGE = re.compile(r"(source/.*|reference/commands\.md)$")


def pages():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists()]


def text_without_code(page):
    """Returns the page without its blocks of code, and with x in place of code in backticks."""
    text = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", page.read_text(encoding="utf-8"),
                  flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", text)


def anchors_of(page):
    """Returns the anchors of the headings, as code hosts and mkdocs make them."""
    text = re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", page.read_text(encoding="utf-8"),
                  flags=re.DOTALL | re.MULTILINE)
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def pages_in(nav):
    """Returns the names of the pages in `nav` of mkdocs.yml, or in a part of it."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [name for entry in entries for name in pages_in(entry)]


class Links(unittest.TestCase):
    def test_every_link_leads_to_a_file_and_to_a_heading(self):
        count, wrong = 0, []
        for page in pages():
            for target in LINK.findall(text_without_code(page)):
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                count += 1
                path, _, anchor = target.partition("#")
                file = (page.parent / path).resolve() if path else page
                link = f"{page.relative_to(ROOT)}: {target}"
                if not file.exists() or not file.is_relative_to(ROOT):
                    wrong.append(f"{link} leads to no file of the repository")
                elif anchor and (file.suffix != ".md" or anchor not in anchors_of(file)):
                    wrong.append(f"{link} leads to no heading")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
        self.assertGreater(count, 200)

    def test_the_site_lists_each_page_once_except_pages_of_decisions(self):
        listed = pages_in(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
        self.assertEqual(sorted(listed), sorted(set(listed)), "a page is listed twice")
        for name in listed:
            if not GENERATED_PAGE.match(name):
                self.assertTrue((ROOT / "docs" / name).is_file(), f"docs/{name} does not exist")
        docs = {str(page.relative_to(ROOT / "docs")) for page in pages()
                if page.is_relative_to(ROOT / "docs")}
        missing = {name for name in docs - set(listed) if not name.startswith("decisions/0")}
        self.assertEqual(missing, set(), "add these pages to nav in mkdocs.yml")

    def test_the_list_of_decisions_has_every_decision(self):
        text = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
        for page in (ROOT / "docs/decisions").glob("0*.md"):
            self.assertIn(f"({page.name})", text)

    def test_the_table_of_exit_codes_equals_that_of_the_manual_page(self):
        man = (ROOT / "docs/dlrun.1").read_text(encoding="utf-8")
        section = re.search(r"^\.SH EXIT STATUS\n(.*?)^\.SH", man, re.DOTALL | re.MULTILINE)[1]
        codes = [(code, text.replace("\\-", "-"))
                 for code, text in re.findall(r"^\.TP\n\.B (\d+)\n(.*)\n", section, re.MULTILINE)]
        self.assertGreater(len(codes), 5)
        page = (ROOT / "docs/exit-codes.md").read_text(encoding="utf-8")
        table = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE)
        self.assertEqual(table, codes)

    def test_the_readme_and_the_architecture_stay_short(self):
        for name, limit in (("README.md", 120), ("ARCHITECTURE.md", 150)):
            lines = (ROOT / name).read_text(encoding="utf-8").count("\n")
            self.assertLessEqual(lines, limit, name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
