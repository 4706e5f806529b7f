"""What a terminal shows of work that takes long."""

import os
import pty
import re
import signal
import subprocess
import unittest

from support import AUTOPAR, Model


class ProgressTest(unittest.TestCase):
    def shown_until(self, pattern, *arguments):
        """What a command has written to its terminal when the pattern is there; then it is interrupted."""
        terminal, end_of_program = pty.openpty()
        with subprocess.Popen(
            [AUTOPAR, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=end_of_program
        ) as process:
            os.close(end_of_program)
            shown = ""
            while not re.search(pattern, shown):
                try:
                    shown += os.read(terminal, 4096).decode()
                except OSError:  # the program has ended
                    self.fail(f"it ended with {process.wait()}: {shown}")
            process.send_signal(signal.SIGINT)
            try:
                while os.read(terminal, 4096):
                    pass
            except OSError:
                pass
        os.close(terminal)
        return shown

    def test_a_search_tells_how_near_the_best_its_plan_is(self):
        model = Model("llama-torchscript")
        shown = self.shown_until(
            r"within [0-9.e-]+ % of the best, [0-9]+ s",
            "plan", model.file, "--shape", "input_ids=4x16", "--ngpus", 4, "--mesh", "2x2",
            "--memory", 560000, "--time-limit", 3600,
        )  # fmt: skip
        self.assertIn("searching for the best plan", shown)


if __name__ == "__main__":
    unittest.main()
