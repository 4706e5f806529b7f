"""What the documents say is true: their commands run, what they print is printed, their options,
paths and links exist.

A block of ```sh is run with bash in a folder where the repository's folders and the program are; all
blocks of a page run there, in order. In a block of ```console, what follows a line with `$ ` is what
that command prints; a line of `...` stands for any lines. A comment before a block says what else
is to be done with it:

    <!-- on emulated GPUs -->        run it on the CUDA emulation of the tests
    <!-- not run: the reason -->     do not
"""

import os
import re
import subprocess
import unittest
from pathlib import Path

from support import AUTOPAR, SOURCE, TemporaryFolderTest, run

PAGES = [SOURCE / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
PAGES += sorted((SOURCE / "docs").glob("*.md"))
MOST_NOT_RUN = 8
PROGRAMS = ("partition", "plan", "run", "generate", "serve", "verify", "inspect", "calibrate")
# What the documents name of other programs.
OTHER_OPTIONS = {
    "--allow-run-as-root", "--oversubscribe",  # mpirun
    "--fix", "--all", "--since", "--most",  # scripts/
    "--part", "--merge", "--list-kernels", "--self-test", "--hold", "--work", "--out", "--full", "--python",
    "--preset", "--build", "--target", "--install", "--prefix", "--set-config",  # CMake, ccache
    "--parameter", "--parameters",  # assignment_benchmark
    "--ranks",  # onnx_conformance
    "--help", "--version",
}  # fmt: skip
ROOTS = ("lib", "apps", "tests", "scripts", "docs", "models", "third_party", ".ci")
BLOCK = re.compile(r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


def blocks(page, *kinds):
    """The mark and the text of each."""
    found = BLOCK.finditer(page.read_text())
    return [(block["mark"] or "", block["text"]) for block in found if block["kind"] in kinds]


def prose(page):
    return BLOCK.sub("", page.read_text())


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def is_printed(expected, printed):
    """Whether these lines are there in order, one after another but for `...`."""
    parts = re.split(r"^\.\.\.\n", expected, flags=re.M)
    pattern = r"(?:.*\n)*?".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, printed) is not None


class CommandsTest(TemporaryFolderTest):
    """A method for each page is added below."""

    def setUp(self):
        super().setUp()
        for name in ROOTS:
            (self.tmp / name).symlink_to(SOURCE / name)
        build = self.tmp / "build"
        build.mkdir()
        (build / "release").symlink_to(Path(AUTOPAR).parents[1])
        (self.tmp / "CMakePresets.json").symlink_to(SOURCE / "CMakePresets.json")
        self.environment = {
            **os.environ,
            "PATH": f"{Path(AUTOPAR).parent}:{os.environ['PATH']}",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }

    def bash(self, script, **environment):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self.tmp, timeout=600, text=True,
            env={**self.environment, **environment}, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}")
        return done.stdout

    def run_page(self, page):
        for mark, text in blocks(page, "sh"):
            if mark == "on emulated GPUs":
                self.bash(text, AUTOPAR_PLUGIN_DIR=os.environ["AUTOPAR_EMULATED_PLUGINS"])
            elif not mark.startswith("not run: "):
                self.assertEqual(mark, "", "an unknown mark")
                self.bash(text)
        for _, text in blocks(page, "console"):
            command, expected = text.removeprefix("$ ").split("\n", 1)
            printed = self.bash(command)
            self.assertTrue(is_printed(expected, printed), f"{command}\nprints\n{printed}")


for each in PAGES:
    if blocks(each, "sh", "console"):
        name = "test_commands_of_" + each.stem.lower().replace("-", "_")
        setattr(CommandsTest, name, lambda self, page=each: self.run_page(page))


class PagesTest(unittest.TestCase):
    def test_few_blocks_are_not_run(self):
        marks = [mark for page in PAGES for mark, _ in blocks(page, "sh")]
        self.assertLessEqual(sum(mark.startswith("not run") for mark in marks), MOST_NOT_RUN)

    def test_options_exist(self):
        known = set(OTHER_OPTIONS)
        for command in ((), *((name,) for name in PROGRAMS)):
            known |= set(re.findall(r"--[a-z][\w-]*", run(AUTOPAR, *command, "--help").stdout))
        for page in PAGES:
            for code in re.findall(r"`([^`\n]+)`", prose(page)):
                for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", code):
                    self.assertIn(option, known, f"{page.name}: `{code}`")

    def test_paths_exist(self):
        for page in PAGES:
            for code in re.findall(r"`([^`\s]+)`", page.read_text()):
                if code.split("/")[0] in ROOTS and "/" in code and not re.search(r"[A-Z]{4}", code):
                    name = re.sub(r"[{<].*", "", code)
                    self.assertTrue(list(SOURCE.glob(name + "*")), f"{page.name}: `{code}`")

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                if link.startswith("https://"):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                self.assertTrue(target.exists(), f"{page.name}: {link}")
                if anchor:
                    self.assertIn(anchor, anchors(target), f"{page.name}: {link}")

    def test_every_page_is_linked(self):
        linked = " ".join(page.read_text() for page in PAGES)
        for page in (SOURCE / "docs").glob("*.md"):
            self.assertIn(f"{page.name})", linked)

    def test_first_pages_are_short(self):
        readme = (SOURCE / "README.md").read_bytes()
        self.assertLessEqual(len(readme), 6 * 1024)
        self.assertLessEqual(max(map(len, readme.decode().splitlines())), 200)
        self.assertLessEqual(len((SOURCE / "ARCHITECTURE.md").read_bytes()), 8 * 1024)

    def test_operators_are_those_of_the_tables(self):
        printed = run(Path(AUTOPAR).parent / "operator_support").stdout
        self.assertIn("MatMul", printed)
        self.assertEqual(printed, (SOURCE / "docs" / "operators.md").read_text())


if __name__ == "__main__":
    unittest.main()
