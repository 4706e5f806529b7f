"""`run --requests`: a session answers requests, a line each, and what is wrong with one is its alone."""

import json
import signal
import subprocess

import numpy as np
import onnxruntime

from support import AUTOPAR, Model, TemporaryFolderTest, autopar, mpirun, relative_error
from test_rendezvous import free_port


class RequestsTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.model = Model("bert-dynamo")
        self.bundle = self.tmp / "bundle"
        self.model.partition(self.bundle, 2)
        self.files = {}
        for name, tensor in self.model.inputs.items():
            self.files[name] = str(self.tmp / f"{name}.npy")
            np.save(self.files[name], tensor)
        self.lists = {name: tensor.tolist() for name, tensor in self.model.inputs.items()}
        self.first = next(iter(self.lists))

    def good(self, number, **more):
        """A request, by files or lists in turn."""
        return {"id": number, "inputs": self.files if number % 2 else self.lists, **more}

    def lines(self):
        """Requests, some good and some bad, and a part of the error that each of these gets."""
        bad = {
            "unknown": ({"inputs": {**self.lists, "no_such": [1]}}, "no input"),
            "shape": ({"inputs": {**self.lists, self.first: [1, 2]}}, "input '" + self.first),
            "ragged": ({"inputs": {**self.lists, self.first: [[1], [1, 2]]}}, "ragged"),
            "type": ({"inputs": {**self.lists, self.first: [[1.5]]}}, "1.5 is no int64"),
            "file": ({"inputs": {**self.lists, self.first: "no.npy"}}, "cannot read no.npy"),
            "missing": ({"inputs": {}}, "are missing; the model has input_ids"),
            "field": ({"inputs": self.lists, "input": 1}, "no field"),
            "unsafe": ({"inputs": self.lists, "outputs": "../x"}, "no safe name"),
            "taken": ({"inputs": self.lists, "outputs": "one"}, "there already"),
        }
        requests = [(json.dumps(self.good(1, outputs="one")), None)]
        for number, (name, (request, error)) in enumerate(bad.items(), 2):
            requests.append((json.dumps({"id": name, **request}), error))
            requests.append((json.dumps(self.good(number)), None))
        requests.append(('{"id": 5, "inputs": {', "this is no JSON"))
        return requests

    def check(self, requests, text, done_stderr, folder):
        answers = [json.loads(line) for line in text.splitlines()]
        self.assertEqual(len(answers), len(requests), text)
        refused = 0
        for number, ((request, error), answer) in enumerate(zip(requests, answers), 1):
            if error is not None:
                refused += 1
                self.assertIn(error, answer["error"])
                self.assertTrue(answer["error"].startswith(f"line {number}: "), answer["error"])
                continue
            self.assertEqual(answer["id"], json.loads(request)["id"])
            self.assertGreater(answer["seconds"], 0)
            for name, expected in self.model.outputs.items():
                if isinstance(answer["outputs"], str):
                    self.assertEqual(answer["outputs"], str(folder / "one"))
                    actual = np.load(folder / "one" / f"{name}.npy")
                else:
                    actual = np.array(answer["outputs"][name], expected.dtype)
                self.assertLessEqual(relative_error(expected, actual), 1e-4)
        self.assertRegex(done_stderr, rf"error: (\[rank 0\] )?{refused} of {len(requests)} requests were")

    def test_answers_come_in_order_and_errors_are_their_requests_alone(self):
        requests = self.lines()
        arguments = ("run", "--dir", self.bundle, "--output-dir")
        alone = self.tmp / "requests"
        file = self.tmp / "requests.jsonl"
        file.write_text("\n".join(line for line, _ in requests))
        done = autopar(*arguments, alone, "--requests", file, expect=1)
        self.check(requests, done.stdout, done.stderr, alone)
        by_mpi = self.tmp / "mpi"
        done = mpirun(2, *arguments, by_mpi, "--requests", file, expect=1)
        self.check(requests, done.stdout, done.stderr, by_mpi)

    def rank(self, rank, place, *options):
        command = [AUTOPAR, "run", "--dir", self.bundle, "--rank", rank, "--rendezvous", place,
                   "--requests", "-", *options]
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ask(self, process, request):
        process.stdin.write(request + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    def test_one_process_reads_and_the_other_follows(self):
        requests = self.lines()
        place = f"127.0.0.1:{free_port()}"
        out = self.tmp / "out"
        ranks = [self.rank(rank, place, "--output-dir", out) for rank in range(2)]
        answers = [self.ask(ranks[0], request) for request, _ in requests]  # each before the next
        told = ranks[0].communicate(timeout=300)
        self.assertEqual(ranks[0].returncode, 1)
        self.check(requests, "".join(answers), told[1], out)
        self.assertEqual(ranks[1].communicate(timeout=300), ("", ""))
        self.assertEqual(ranks[1].returncode, 0)

    def test_a_rank_that_dies_ends_a_session_that_waits(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                place = f"127.0.0.1:{free_port()}"
                ranks = [self.rank(rank, place) for rank in range(2)]
                self.assertIn("seconds", self.ask(ranks[0], json.dumps(self.good(1))))
                ranks[victim].send_signal(signal.SIGKILL)
                ranks[victim].wait()
                _, error = ranks[1 - victim].communicate(timeout=300)
                self.assertEqual(ranks[1 - victim].returncode, 1)
                self.assertEqual(len(error.splitlines()), 1, error)
                self.assertIn(f"rank {victim}", error)

    def test_requests_that_are_all_answered_are_no_error(self):
        file = self.tmp / "requests.jsonl"
        file.write_text("".join(json.dumps(self.good(n)) + "\n" for n in range(4)))
        done = autopar("run", "--dir", self.bundle, "--requests", file)
        self.assertEqual([json.loads(line)["id"] for line in done.stdout.splitlines()], list(range(4)))
        file.write_text(json.dumps(self.good(1, outputs="of-one")))
        out = self.tmp / "here"  # the current folder, where no other is told
        out.mkdir()
        done = subprocess.run([AUTOPAR, "run", "--dir", self.bundle, "--requests", file], cwd=out,
                              capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["outputs"], "of-one")
        self.assertEqual({path.stem for path in (out / "of-one").iterdir()}, set(self.model.outputs))
        file.write_text("")
        self.assertEqual(autopar("run", "--dir", self.bundle, "--requests", file).stdout, "")

    def test_an_index_that_only_the_run_finds_wrong_is_one_requests_error(self):
        wild = {**self.lists, "input_ids": np.full_like(self.model.inputs["input_ids"], 10**6).tolist()}
        file = self.tmp / "requests.jsonl"
        file.write_text("".join(json.dumps(request) + "\n" for request in (
            self.good(1), {"id": 2, "inputs": wild}, self.good(3))))
        done = autopar("run", "--dir", self.bundle, "--requests", file, expect=1)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertIn("out of range", answers[1]["error"])
        for answer in (answers[0], answers[2]):
            for name, expected in self.model.outputs.items():
                self.assertLessEqual(relative_error(expected, np.array(answer["outputs"][name])), 1e-4)

    def test_extents_that_the_model_calls_alike_may_differ_where_it_computes_with_them(self):
        session = onnxruntime.InferenceSession(self.model.file)
        longer = {name: np.ones((1, 16 if "mask" in name else 1), np.int64) for name in self.lists}
        shorter = {name: np.ones((1, 4 if "mask" in name else 9), np.int64) for name in self.lists}
        file = self.tmp / "requests.jsonl"
        file.write_text("".join(
            json.dumps({"inputs": {name: tensor.tolist() for name, tensor in request.items()}}) + "\n"
            for request in (longer, shorter)))
        done = autopar("run", "--dir", self.bundle, "--requests", file, expect=1)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        for port, expected in zip(session.get_outputs(), session.run(None, longer)):
            actual = np.array(answers[0]["outputs"][port.name])
            self.assertLessEqual(relative_error(expected, actual), 1e-4)
        with self.assertRaises(Exception):
            session.run(None, shorter)
        self.assertIn("out of range", answers[1]["error"])
        warnings = [line for line in done.stderr.splitlines() if line.startswith("warning")]
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertIn("inputs bind 'sequence' to ", warnings[0])
        self.assertNotIn("--", warnings[0] + answers[1]["error"])

    def test_options_that_requests_leave_no_place_for(self):
        for options, part in ((("--random-inputs", 1), "--random-inputs"), (("--json",), "--json"),
                              (("--repeat", 2), "--repeat")):
            done = autopar("run", "--dir", self.bundle, "--requests", "-", *options, expect=1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(part, done.stderr)
        done = autopar("run", "--dir", self.bundle, "--requests", self.tmp / "no", expect=1)
        self.assertIn("No such file", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
