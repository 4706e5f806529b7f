"""What tests of `autopar serve` share."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from support import AUTOPAR, TemporaryFolderTest


class ServedTest(TemporaryFolderTest):
    """A bundle in `self.bundle`, served with `options` and more."""

    options = ()

    def start(self, *options, environment=None):
        command = [AUTOPAR, "serve", "--dir", self.bundle, *self.options, *options]
        process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **(environment or {})})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def serve(self, *options):
        """The process, and where it listens."""
        process = self.start("--listen", "127.0.0.1:0", *options)
        line = process.stderr.readline()
        self.assertRegex(line, rf"^(\[rank 0\] )?serving '{self.bundle.name}' at http://127.0.0.1:\d+\n$")
        return process, re.search(r"127.*:\d+", line)[0]

    def until_ready(self, place):
        while self.get(place, "/v2/health/ready")[0] != 200:
            time.sleep(0.01)

    def get(self, place, path, method="GET", body=None, headers={}):
        """The status and the JSON of an answer."""
        request = urllib.request.Request(f"http://{place}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def end(self, process, told=""):
        """`told`: what standard error has, as a pattern."""
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, 0, error)
        self.assertRegex(error, rf"\A{told}\Z")
