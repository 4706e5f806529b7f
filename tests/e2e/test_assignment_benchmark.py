"""assignment_benchmark: the contest's format in, one line of JSON and a solution out."""

import gzip
import json
import sys
from pathlib import Path

from support import AUTOPAR, SOURCE, TemporaryFolderTest, run

BENCHMARK = Path(AUTOPAR).parent / "assignment_benchmark"
BENCHMARKS = SOURCE / "tests/benchmarks"
IMPOSSIBLE = 10**18
PROBLEM = {
    "nodes": {
        "intervals": [[0, 2], [1, 3], [5, 4]],
        "costs": [[1, 2], [10, 20], [7, IMPOSSIBLE]],
        "usages": [[5, 3], [4, 1], [9, 0]],
    },
    "edges": {"nodes": [[1, 0], [0, 2]], "costs": [[100, 300, 200, IMPOSSIBLE], [0, 0, 0, 0]]},
    "usage_limit": 8,
}


class AssignmentBenchmarkTest(TemporaryFolderTest):
    def write(self, text, name="instance.json"):
        path = self.tmp / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def enlarged(self, times, *options):
        given = self.write(gzip.compress(json.dumps({"problem": PROBLEM}).encode()), "given.json.gz")
        made = self.tmp / "made.json.gz"
        run(sys.executable, BENCHMARKS / "enlarge_instance.py", given, times, made, *options)
        return made

    def test_an_enlarged_instance_is_copies_of_the_given_one(self):
        def content(path):
            return json.loads(gzip.decompress(path.read_bytes()))["problem"]

        self.assertEqual(content(self.enlarged(1)), PROBLEM)
        joined = content(self.enlarged(3, "--joined", 1))
        self.assertEqual(len(joined["nodes"]["costs"]), 9)
        self.assertEqual(len(joined["edges"]["nodes"]), 3 * 2 + 2)
        self.assertEqual(joined["nodes"]["costs"][:3], PROBLEM["nodes"]["costs"])
        # The first copy's two edges and the one to the next copy stay as they are.
        self.assertNotEqual(joined["edges"]["costs"][3], PROBLEM["edges"]["costs"][0])
        first = self.enlarged(3).read_bytes()
        self.assertEqual(self.enlarged(3).read_bytes(), first)
        self.assertNotEqual(self.enlarged(3, "--seed", 2).read_bytes(), first)
        # Copies that nothing joins cost what each costs alone.
        apart = self.enlarged(3, "--joined", 0, "--change", 0)
        result = json.loads(run(BENCHMARK, apart, "--time-limit", 10).stdout)
        self.assertEqual(result["cost"], 3 * (1 + 20 + 7 + 200))

    def test_a_table_has_a_row_an_instance(self):
        self.enlarged(2, "--joined", 0, "--change", 0)
        done = run(sys.executable, BENCHMARKS / "bench_assignment.py", self.tmp, "--time-limit", 5,
                   "--limits", "given=10")
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()]
        self.assertEqual([(row[0], row[1], row[5], row[6]) for row in rows],
                         [("given", "10", "228", "228"), ("made", "5", "456", "456")])
        self.assertEqual(header[5], "at the end")

    def test_solves_plain_and_gzipped_files(self):
        text = json.dumps({"problem": {"name": "a \"b\"", **PROBLEM}, "more": [1.5, None, {}]})
        for path in (self.write(text), self.write(gzip.compress(text.encode()), "i.json.gz")):
            solution = self.tmp / "solution.json"
            done = run(BENCHMARK, path, "--time-limit", 10, "--solution", solution)
            result = json.loads(done.stdout)
            self.assertEqual(len(done.stdout.splitlines()), 1)
            self.assertEqual(json.loads(solution.read_text()), [0, 1, 0])
            self.assertEqual(result["cost"], 1 + 20 + 7 + 200)
            self.assertEqual(result["lower_bound"], result["cost"])
            self.assertTrue(result["proven_optimal"])
            self.assertEqual(result["peak_usage"], 6)
            self.assertLess(result["seconds"], 5)

    def test_an_infeasible_instance_is_named(self):
        path = self.write(json.dumps({"problem": {**PROBLEM, "usage_limit": 3}}))
        done = run(BENCHMARK, path, expect=1)
        self.assertIsNone(json.loads(done.stdout)["cost"])
        self.assertIn("no choice", done.stderr)

    def test_bad_files_are_refused_in_one_line(self):
        def broken(**change):
            return json.dumps({"problem": {**PROBLEM, **change}})

        nodes, edges = PROBLEM["nodes"], PROBLEM["edges"]
        cases = {
            "": "expected",
            "[1]": "expected",
            "{}": "problem is missing",
            broken()[:-30]: "expected",
            broken() + "x": "follows",
            broken(nodes={**nodes, "costs": [[1, 2], [1, 2]]}): "differ in length",
            broken(nodes={**nodes, "costs": [[1, 2], [1, 2.5], [1, 2]]}): "no integer",
            broken(nodes={**nodes, "costs": [[1, 2], [1, 10**19], [1, 2]]}): "64 bits",
            broken(nodes={**nodes, "usages": [[1, 2], [1, -1], [1, 2]]}): "node 1",
            broken(edges={**edges, "nodes": [[1, 0], [0, 3]]}): "edge 1",
            broken(edges={**edges, "costs": [[1, 2, 3], [0, 0, 0, 0]]}): "edge 0",
        }
        for text, part in cases.items():
            done = run(BENCHMARK, self.write(text), expect=1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")
        missing = run(BENCHMARK, self.tmp / "missing.json", expect=1)
        self.assertIn("missing.json", missing.stderr)
        whole = gzip.compress(broken().encode())
        cut = run(BENCHMARK, self.write(whole[:-20], "cut.json.gz"), expect=1)
        self.assertIn("cut.json.gz", cut.stderr)

    def test_parameters_are_printed_and_set(self):
        listed = run(BENCHMARK, "--parameter", "relaxation.first_sweeps=7", "--parameters").stdout
        lines = listed.splitlines()
        self.assertGreater(len(lines), 75)
        for line in lines:
            self.assertRegex(line, r"^[a-z_]+\.[a-z_]+=[0-9.e+-]+  \S")
        values = dict(line.split("  ")[0].split("=") for line in lines)
        self.assertEqual(values["relaxation.first_sweeps"], "7")
        path = self.write(json.dumps({"problem": PROBLEM}))
        every = [word for item in values.items() for word in ("--parameter", "=".join(item))]
        done = run(BENCHMARK, path, *every)
        self.assertEqual(json.loads(done.stdout)["cost"], 1 + 20 + 7 + 200)

    def test_unknown_parameters_and_bad_values_are_refused_in_one_line(self):
        path = self.write(json.dumps({"problem": PROBLEM}))
        cases = {
            "relaxation.first_sweep=7": "relaxation.first_sweeps",
            "relaxation.first_sweeps=x": "a whole number",
            "relaxation.first_sweeps": "NAME=VALUE",
        }
        for assignment, part in cases.items():
            done = run(BENCHMARK, path, "--parameter", assignment, expect=1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertIn("instance", run(BENCHMARK, expect=1).stderr)
