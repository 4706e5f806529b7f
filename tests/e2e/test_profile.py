"""--profile writes a trace of one run that agrees with what --json counts."""

import json
from collections import Counter, defaultdict

import onnx
from support import Model, TemporaryFolderTest, autopar, mpirun


class ProfileTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        Model("bert-dynamo").partition(self.bundle, 2)
        self.trace = self.tmp / "trace.json"
        self.arguments = ["run", "--dir", self.bundle, "--random-inputs", 1, "--json", "--profile",
                          self.trace]

    def check_trace(self, measured):
        events = json.loads(self.trace.read_text())["traceEvents"]
        named = {(e["name"], e["pid"], e["args"]["name"]) for e in events if e["ph"] == "M"}
        for rank in range(2):
            self.assertIn(("process_name", rank, f"rank {rank}"), named)
            self.assertIn(("thread_name", rank, "computation"), named)
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual(len(spans) + len(named), len(events))
        self.check_nodes(spans)

        queues = defaultdict(list)
        for span in spans:
            self.assertGreaterEqual(span["ts"], 0)
            self.assertGreaterEqual(span["dur"], 0)
            queues[span["pid"], span["tid"]].append((span["ts"], span["ts"] + span["dur"]))
        for times in queues.values():
            times.sort()
            for (_, end), (begin, _) in zip(times, times[1:]):
                self.assertLessEqual(end, begin + 1e-3)  # a nanosecond, of rounding

        sent = [span["args"]["bytes"] for span in spans if "bytes" in span["args"]]
        self.assertEqual(len(sent), sum(total["count"] for total in measured["collectives"]))
        self.assertEqual(sum(sent), sum(total["bytes"] for total in measured["collectives"]))
        self.assertGreater(sum(sent), 0)

    def check_nodes(self, spans):
        """Each span is a node of the rank's shard; collectives are all there, each once."""
        for rank in range(2):
            nodes = {n.name: n for n in onnx.load(self.bundle / f"rank{rank}.onnx").graph.node}
            of_rank = [span for span in spans if span["pid"] == rank]
            counts = Counter(span["name"] for span in of_rank)
            self.assertEqual(set(counts.values()), {1})
            self.assertLessEqual(set(counts), set(nodes))
            collectives = {name for name, node in nodes.items() if node.domain == "autopar"}
            self.assertLessEqual(collectives, set(counts))
            products = [n for n in nodes.values() if n.op_type == "MatMul"]
            counted = {"MatMul": 1, "FusedMatMul": 1, "Attention": 2}
            run = sum(counted.get(span["args"]["op_type"], 0) for span in of_rank)
            self.assertEqual(run, len(products))

    def test_in_one_process(self):
        self.check_trace(json.loads(autopar(*self.arguments).stdout))

    def test_in_two_processes(self):
        self.check_trace(json.loads(mpirun(2, *self.arguments).stdout))

    def test_a_place_that_cannot_be_written_fails_before_anything_runs(self):
        for place in (self.tmp / "no" / "trace.json", self.tmp):
            done = autopar(*self.arguments[:-1], place, expect=1)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, f"--profile:? {place}")
