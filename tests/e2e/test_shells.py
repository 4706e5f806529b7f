"""The manual page and the completions of shells have every command and option, and work in the shells
that are here."""

import re
import shutil
import subprocess

from support import TemporaryFolderTest, autopar, run


def commands():
    text = autopar("--help").stdout
    return re.findall(r"^  (\w+)", text[text.index("Subcommands:"):], re.M)


def options_of(*command):
    return set(re.findall(r"^  (?:-\w,)?(--[a-z][\w-]*)", autopar(*command, "--help").stdout, re.M))


class ShellsTest(TemporaryFolderTest):
    def script(self, shell):
        file = self.tmp / {"bash": "autopar", "fish": "autopar.fish", "zsh": "_autopar"}[shell]
        file.write_text(autopar("--completion", shell).stdout)
        return file

    def need(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")

    def complete_in_bash(self, *words):
        line = " ".join(words)
        quoted = " ".join(f"'{word}'" for word in words)
        script = (f"source {self.script('bash')}; COMP_WORDS=({quoted}); "
                  f"COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; compopt() {{ :; }}; _autopar; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')  # fmt: skip
        return run("bash", "-euc", script).stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        every = commands()
        self.assertIn("partition", every)
        self.assertEqual(set(self.complete_in_bash("autopar", "")), {"-h", *options_of(), *every})
        self.assertEqual(self.complete_in_bash("autopar", "pa"), ["partition"])
        for command in every:
            found = set(self.complete_in_bash("autopar", command, "--"))
            self.assertEqual(found, options_of(command), command)
        values = ["ilp", "propagation", "recursive"]
        self.assertEqual(sorted(self.complete_in_bash("autopar", "plan", "--search", "")), values)
        self.assertEqual(self.complete_in_bash("autopar", "plan", "--search", "=", "il"), ["ilp"])
        self.assertEqual(self.complete_in_bash("autopar", "--completion", "z"), ["zsh"])
        self.assertEqual(self.complete_in_bash("autopar", "plan", "mod"), [])  # files, bash's own

    def test_fish_completes_commands_options_and_values(self):
        self.need("fish")
        script = self.script("fish")

        def complete(line):
            done = run("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
            return {each.split("\t")[0] for each in done.stdout.splitlines()}

        self.assertLessEqual(set(commands()), complete("autopar "))
        for command in commands():
            self.assertEqual(complete(f"autopar {command} --"), options_of(command), command)
        self.assertEqual(complete("autopar plan --search "), {"ilp", "propagation", "recursive"})

    def test_zsh_completes_commands_options_and_values(self):
        self.need("zsh")
        # _arguments and _describe are told what to complete; the words are theirs to choose from.
        script = f"""
_arguments() {{ print -r -- "${{@%%\\[*}}"; [[ $1 != -C ]] || state=$wanted; }}
_describe() {{ print -r -- ${{commands%%:*}}; }}
compdef() {{ }}
source {self.script("zsh")}
wanted=command _autopar
"""
        told = run("zsh", "-fc", script).stdout
        self.assertLessEqual(set(commands()) | options_of(), set(told.split()))
        for command in commands():
            words = f"words=({command}); wanted=arguments _autopar"
            told = run("zsh", "-fc", script + words).stdout.splitlines()[-1]
            self.assertLessEqual(options_of(command), {word.lstrip("*") for word in told.split()})
        self.assertIn(":(ilp propagation recursive)", self.script("zsh").read_text())

    def test_the_manual_has_everything_and_no_error(self):
        page = self.tmp / "autopar.1"
        page.write_text(autopar("--manual").stdout)
        text = page.read_text().replace("\\-", "-")
        for command in commands():
            section = text.split(f".SS \\fBautopar {command}\\fR")[1].split(".SS")[0]
            for option in options_of(command):
                self.assertIn(f"\\fB{option}\\fR", section, command)
        for checker in (["mandoc", "-T", "lint", "-W", "warning"],
                        ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]):
            if shutil.which(checker[0]) is None:
                continue
            done = subprocess.run([*checker, page], capture_output=True, text=True, check=False)
            told = done.stderr + (done.stdout if checker[0] == "mandoc" else "")
            wrong = [line for line in told.splitlines() if "missing date" not in line]  # it has none
            self.assertEqual(wrong, [], checker)

    def test_other_shells_are_refused(self):
        self.assertIn("bash", autopar("--completion", "ksh", expect=2).stderr)
