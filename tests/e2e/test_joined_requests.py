"""`serve --max-batch`: requests that come together are one run, and nobody can tell by the bytes."""

import json
import socket
import threading

import numpy as np
import onnxruntime
import tritonclient.http as triton
from onnx import TensorProto, helper, numpy_helper, save
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from served import ServedTest
from support import MODELS, autopar, relative_error
from test_rendezvous import free_port

LONG = "60s"  # that a request waits at most: here as many come as may be joined


def elementwise_model(file):
    """A model whose numbers are the same on any processor: a batch in dimension 0 of x and y and in
    dimension 1 of h, and an input for all rows."""
    def floats(name, *dims):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    weight = numpy_helper.from_array(np.linspace(-2, 2, 8, dtype=np.float32), "w")
    nodes = [
        helper.make_node("Transpose", ["h"], ["rows"], perm=[1, 0, 2]),
        helper.make_node("Mul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "rows"], ["sum"]),
        helper.make_node("Mul", ["sum", "scale"], ["y"]),
        helper.make_node("Relu", ["rows"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [floats("x", "batch", "n", 8), floats("h", 1, "batch", 8), floats("scale", 1)],
        [floats("y", "batch", "n", 8), floats("z", "batch", 1, 8)], [weight])
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), file)


def single_node_model(file, *nodes, batch="batch"):
    def floats(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 4])

    graph = helper.make_graph(list(nodes), "g", [floats("x")], [floats("y")])
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), file)


class JoinedRequestsTest(ServedTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.tmp / "bundle"
        self.model = self.tmp / "model.onnx"
        self.random = np.random.default_rng(5)

    def partition(self, *options, ranks=2):
        autopar("partition", self.model, "--ngpus", ranks, "--out", self.bundle, *options)

    def request(self, rows=1, tokens=5, scale=2.0):
        """Inputs of the elementwise model."""
        def draw(*shape):
            return self.random.standard_normal(shape).astype(np.float32)
        return {"x": draw(rows, tokens, 8), "h": draw(1, rows, 8),
                "scale": np.array([scale], np.float32)}

    def infer(self, place, request):
        inputs = []
        for name, tensor in request.items():
            inputs.append(triton.InferInput(name, tensor.shape, np_to_triton_dtype(tensor.dtype)))
            inputs[-1].set_data_from_numpy(tensor)
        with triton.InferenceServerClient(place) as client:
            result = client.infer("bundle", inputs)
            return {each["name"]: result.as_numpy(each["name"])
                    for each in result.get_response()["outputs"]}

    def at_once(self, place, requests):
        """Each request's answer, or error, where a client sends each."""
        answers = [None] * len(requests)

        def ask(number):
            try:
                answers[number] = self.infer(place, requests[number])
            except Exception as failure:
                answers[number] = failure

        clients = [threading.Thread(target=ask, args=[number]) for number in range(len(requests))]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return answers

    def runs(self, place):
        told = self.get(place, "/v2/models/bundle/stats")[1]["model_stats"]
        self.assertEqual([(each["name"], each["version"]) for each in told], [("bundle", "1")])
        return told[0]["inference_count"], told[0]["execution_count"]

    def check(self, alone, session, requests, answers):
        """Answers have the bytes of those of a server that joins nothing, and ONNX Runtime's values."""
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, Exception):
                raise answer
            for name, expected in self.infer(alone, request).items():
                self.assertEqual(answer[name].tobytes(), expected.tobytes(), name)
            for port, expected in zip(session.get_outputs(), session.run(None, request)):
                self.assertLessEqual(relative_error(expected, answer[port.name]), 1e-4)

    def serve_both(self, *options):
        """Places of a server that joins and of one that does not, and ONNX Runtime's session."""
        _, alone = self.serve()
        process, place = self.serve(*options)
        self.until_ready(alone)
        self.until_ready(place)
        return process, place, alone, onnxruntime.InferenceSession(self.model)

    def check_joined(self, place, alone, session, requests, runs):
        before = self.runs(place)
        self.check(alone, session, requests, self.at_once(place, requests))
        after = self.runs(place)
        self.assertEqual((after[0] - before[0], after[1] - before[1]), (len(requests), runs))

    def test_requests_that_come_together_are_one_run(self):
        elementwise_model(self.model)
        self.partition("--shape", "batch=1", "--shape", "n=5")
        process, place, alone, session = self.serve_both("--max-batch", 4, "--max-delay", LONG)
        self.check_joined(place, alone, session, [self.request() for _ in range(4)], 1)
        self.check_joined(place, alone, session, [self.request(2), self.request(2)], 1)
        # Another shape is run alone and checked before it is joined.
        other = [self.request(tokens=7) for _ in range(4)]
        self.check_joined(place, alone, session, other, 4)
        self.check_joined(place, alone, session, other, 1)
        # As many rows as there may be, or more, wait for nobody.
        self.check_joined(place, alone, session, [self.request(4)], 1)
        self.check_joined(place, alone, session, [self.request(6)], 1)
        # An input for all rows must be the same.
        scales = [self.request(2, scale=scale) for scale in (2.0, 3.0, 2.0, 3.0)]
        self.check_joined(place, alone, session, scales, 2)
        self.end(process)

    def test_requests_of_many_shapes_at_once(self):
        elementwise_model(self.model)
        self.partition("--shape", "batch=1", "--shape", "n=5")
        process, place, alone, session = self.serve_both("--max-batch", 5, "--max-delay", "1ms")
        requests = [self.request(1 + number % 3, 4 + number % 2, 1.0 + number % 2)
                    for number in range(24)]
        for _ in range(3):
            self.check(alone, session, requests, self.at_once(place, requests))
        self.end(process)

    def test_several_processes_join_too(self):
        elementwise_model(self.model)
        self.partition("--shape", "batch=1", "--shape", "n=5")
        meeting = ("--rendezvous", f"127.0.0.1:{free_port()}", "--max-batch", 3, "--max-delay", LONG)
        follower = self.start("--rank", 1, *meeting)
        process, place = self.serve("--rank", 0, *meeting)
        _, alone = self.serve()
        self.until_ready(place)
        self.until_ready(alone)
        session = onnxruntime.InferenceSession(self.model)
        self.check_joined(place, alone, session, [self.request() for _ in range(3)], 1)
        self.end(process)
        self.assertEqual((follower.communicate(timeout=300)[1], follower.returncode), ("", 0))

    def serve_bert(self, *options):
        """As serve_both; skipped where this machine's kernels compute rows otherwise in a batch."""
        self.model = MODELS / "bert-dynamo" / "model.onnx"
        self.partition("--shape", "batch=1", "--shape", "sequence=9")
        trial = self.start("--listen", "127.0.0.1:0", "--max-batch", 3, *options)
        line = trial.stderr.readline()
        trial.kill()
        if "has other bytes" in line:
            self.skipTest(line)
        return self.serve_both("--max-batch", 3, "--max-delay", LONG, *options)

    def bert_request(self, rows=1, tokens=9):
        ids = self.random.integers(0, 100, (rows, tokens))
        return {"input_ids": ids, "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids)}

    def test_a_transformers_rows_are_joined(self):
        process, place, alone, session = self.serve_bert()
        self.check_joined(place, alone, session, [self.bert_request() for _ in range(3)], 1)
        self.check_joined(place, alone, session, [self.bert_request(1), self.bert_request(2)], 1)
        self.end(process)

    def test_what_is_wrong_with_one_request_is_its_alone(self):
        process, place, alone, session = self.serve_bert()
        good = [self.bert_request(), self.bert_request()]
        wild = self.bert_request()
        wild["input_ids"] = wild["input_ids"] + 10**6
        answers = self.at_once(place, [*good, wild])
        self.check(alone, session, good, answers[:2])
        self.assertIsInstance(answers[2], InferenceServerException)
        self.assertIn("out of range", str(answers[2]))
        # Those that fit nothing are not waited with, and take nobody's place.
        missing = {"input_ids": good[0]["input_ids"]}
        uneven = {**self.bert_request(), "attention_mask": np.ones((1, 4), np.int64)}
        flat = {name: tensor[0] for name, tensor in good[0].items()}
        for bad in ([missing], [flat], [uneven] * 3):
            for answer in self.at_once(place, bad):
                self.assertIsInstance(answer, InferenceServerException)
        self.check_joined(place, alone, session, [*good, self.bert_request()], 1)
        self.end(process, r"warning: inputs bind 'sequence' to 9 in input 'input_ids' and to 4 in .*\n")

    def test_a_client_that_goes_away_is_missed_by_nobody(self):
        elementwise_model(self.model)
        self.partition("--shape", "batch=1", "--shape", "n=5")
        process, place, alone, session = self.serve_both("--max-batch", 3, "--max-delay", LONG)
        inputs = [{"name": name, "datatype": "FP32", "shape": list(tensor.shape),
                   "data": tensor.ravel().tolist()} for name, tensor in self.request().items()]
        body = json.dumps({"inputs": inputs}).encode()
        with socket.create_connection(place.split(":")) as client:
            client.sendall((f"POST /v2/models/bundle/infer HTTP/1.1\r\nHost: {place}\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        requests = [self.request(), self.request()]
        self.check(alone, session, requests, self.at_once(place, requests))
        self.end(process)

    def assert_refused(self, *parts, options=("--max-batch", 4), environment=None):
        process = self.start("--listen", "127.0.0.1:0", *options, environment=environment)
        told = process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, 1, told)
        self.assertEqual(len(told.splitlines()), 1, told)
        for part in parts:
            self.assertIn(part, told)

    def test_models_whose_rows_touch_each_other_are_refused(self):
        softmax = helper.make_node("Softmax", ["x"], ["y"], "mixed", axis=0)
        single_node_model(self.model, softmax)
        self.partition("--shape", "batch=2")
        self.assert_refused("--max-batch 4", "'mixed' (Softmax) computes across the batch")
        by_size = (helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
                   helper.make_node("Cast", ["shape"], ["size"], to=TensorProto.FLOAT),
                   helper.make_node("Div", ["x", "size"], ["y"]))
        single_node_model(self.model, *by_size)
        self.partition("--shape", "batch=2", "--force")
        self.assert_refused("--max-batch 4", "computes with the size of its batch")
        relu = helper.make_node("Relu", ["x"], ["y"])
        single_node_model(self.model, relu, batch=2)
        self.partition("--force")
        self.assert_refused("--max-batch 4", "no input whose batch may have another size")
        tanh = helper.make_node("Tanh", ["x"], ["t"])
        single_node_model(self.model, tanh, helper.make_node("Softmax", ["t"], ["y"], axis=1))
        self.partition("--shape", "batch=4", "--microbatches", 2, "--force")
        self.assert_refused("--max-batch 4", "microbatches")

    def test_where_rows_have_other_bytes_in_a_batch_the_option_is_refused(self):
        self.model = MODELS / "bert-dynamo" / "model.onnx"
        self.partition("--shape", "batch=1", "--shape", "sequence=1")
        # oneDNN's kernels for AVX2 add up a product of one row otherwise than one of more.
        self.assert_refused("--max-batch 4", "output 'last_hidden_state' has other bytes",
                            environment={"ONEDNN_MAX_CPU_ISA": "AVX2"})

    def test_options_that_make_no_sense(self):
        elementwise_model(self.model)
        self.partition("--shape", "batch=1", "--shape", "n=5")
        for number in (0, -3, 5000):
            self.assert_refused(f"--max-batch {number}: give 1 to", options=("--max-batch", number))
        self.assert_refused("--max-delay 2ms", "--max-batch", options=("--max-delay", "2ms"))
        for delay in ("2parsecs", "-1ms", "2", "ms", "100s", "nans", "2 ms"):
            self.assert_refused(f"--max-delay {delay}: give a time",
                                options=("--max-batch", 2, f"--max-delay={delay}"))
