"""`serve` speaks the Open Inference Protocol: tritonclient is its client, and bad ones do no harm."""

import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from served import ServedTest
from support import Model, autopar, relative_error
from test_rendezvous import free_port

BODY_LIMIT = 1 << 20


class ServeTest(ServedTest):
    options = ("--max-body", BODY_LIMIT)

    def setUp(self):
        super().setUp()
        self.model = Model("bert-dynamo")
        self.bundle = self.tmp / "bert base"
        self.model.partition(self.bundle, 2)

    def triton_inputs(self, binary=True):
        inputs = []
        for name, tensor in self.model.inputs.items():
            inputs.append(triton.InferInput(name, tensor.shape, np_to_triton_dtype(tensor.dtype)))
            inputs[-1].set_data_from_numpy(tensor, binary_data=binary)
        return inputs

    def check(self, result):
        for name, expected in self.model.outputs.items():
            self.assertLessEqual(relative_error(expected, result.as_numpy(name)), 1e-4)

    def json_request(self, **changes):
        inputs = [{"name": name, "datatype": np_to_triton_dtype(tensor.dtype),
                   "shape": list(tensor.shape), "data": tensor.tolist()}
                  for name, tensor in self.model.inputs.items()]
        inputs[0].update(changes)
        return {"id": "7", "inputs": inputs}

    def test_tritonclient_is_a_client(self):
        process, place = self.serve()
        client = triton.InferenceServerClient(place)
        self.until_ready(place)
        self.assertTrue(client.is_server_live())
        self.assertTrue(client.is_server_ready())
        self.assertTrue(client.is_model_ready("bert base"))
        self.assertTrue(client.is_model_ready("bert base", "1"))
        self.assertIn("binary_tensor_data", client.get_server_metadata()["extensions"])
        told = client.get_model_metadata("bert base", "1")
        self.assertEqual({each["name"]: each["datatype"] for each in told["inputs"]},
                         {name: np_to_triton_dtype(tensor.dtype)
                          for name, tensor in self.model.inputs.items()})
        self.assertEqual({each["name"] for each in told["outputs"]}, set(self.model.outputs))
        self.assertEqual([each["shape"] for each in told["inputs"]], [[-1, -1]] * 3)
        self.assertEqual([each["shape"] for each in told["outputs"]], [[-1, -1, 64]])
        for binary in (True, False):
            outputs = [triton.InferRequestedOutput(name, binary_data=binary)
                       for name in self.model.outputs]
            self.check(client.infer("bert base", self.triton_inputs(binary), outputs=outputs))
            self.check(client.infer("bert base", self.triton_inputs(binary), request_id="x"))
        with self.assertRaisesRegex(InferenceServerException, "there is no model 'other'"):
            client.infer("other", self.triton_inputs())
        status, answer = self.get(place, "/v2/models/bert%20base/infer", "POST",
                                  json.dumps(self.json_request()).encode())
        self.assertEqual((status, answer["id"], answer["model_name"]), (200, "7", "bert base"))
        for output in answer["outputs"]:
            expected = self.model.outputs[output["name"]]
            actual = np.array(output["data"], expected.dtype).reshape(output["shape"])
            self.assertLessEqual(relative_error(expected, actual), 1e-4)
        client.close()
        self.end(process)

    def test_eight_clients_at_once(self):
        process, place = self.serve()
        failures = []

        def ask():
            try:
                with triton.InferenceServerClient(place) as client:
                    for _ in range(10):
                        self.check(client.infer("bert base", self.triton_inputs()))
            except Exception as failure:  # told by the test's own thread
                failures.append(failure)

        clients = [threading.Thread(target=ask) for _ in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        self.end(process)

    def test_bad_requests_are_refused_with_a_line_and_the_server_goes_on(self):
        process, place = self.serve()
        self.until_ready(place)
        name = next(iter(self.model.inputs))
        infer = "/v2/models/bert%20base/infer"
        two = self.json_request()
        two["inputs"].append(two["inputs"][0])
        outputs = {**self.json_request(), "outputs": [{"name": "no_such"}]}
        classes = {**self.json_request(), "outputs": [
            {"name": next(iter(self.model.outputs)), "parameters": {"classification": 3}}]}
        binary = self.json_request(data=None, parameters={"binary_data_size": 3})
        posted = (
            (b'{"inputs": [', "this is no JSON"),
            (b"[]", "a request is an object"),
            (b"{}", '"inputs" is missing'),
            (b'{"inputs": []}', "are missing; the model has input_ids"),
            (two, "is given twice"),
            (outputs, 'no output "no_such"'),
            (classes, "classification"),
            (binary, '"binary_data_size" is 3'),
            (self.json_request(name="no_such"), 'no input "no_such"'),
            (self.json_request(datatype="BYTES"), '"datatype" is "BYTES"'),
            (self.json_request(datatype="FP32"), f"input '{name}'"),
            (self.json_request(shape=[1, 1]), f"input '{name}'"),
            (self.json_request(shape=[1, -1]), '"shape"'),
            (self.json_request(shape=[2], data=[1, 2]), f"input '{name}'"),
            (self.json_request(data=[[1], [1, 2]]), "ragged"),
            (self.json_request(data=[1.5] * self.model.inputs[name].size), "1.5 is no int64"),
            (b" " * (BODY_LIMIT + 1), f"more than {BODY_LIMIT} bytes"),
        )
        for body, part in posted:
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            status, answer = self.get(place, infer, "POST", body)
            self.assertEqual(status, 413 if "bytes" in part and len(body) > BODY_LIMIT else 400, answer)
            self.assertIn(part, answer["error"])
            self.assertEqual(len(answer["error"].splitlines()), 1)
        wild = json.dumps(self.json_request(data=[10**6] * self.model.inputs[name].size)).encode()
        status, answer = self.get(place, infer, "POST", wild)
        self.assertEqual(status, 500)
        self.assertIn("out of range", answer["error"])
        header = "Inference-Header-Content-Length"
        for headers, status, part in (
                ({header: "5000"}, 400, header), ({header: "x"}, 400, header),
                ({"Content-Encoding": "gzip"}, 415, "gzip")):
            answer = self.get(place, infer, "POST", b"{}", headers)
            self.assertEqual(answer[0], status)
            self.assertIn(part, answer[1]["error"])
        for path, method, status in (
                ("/", "GET", 404), ("/v2/models/other", "GET", 404), ("/v3", "GET", 404),
                ("/v2/models/bert%20base/versions/2/infer", "POST", 404),
                ("/v2/models/bert%20base/versions/1/ready/x", "GET", 404),
                (infer, "GET", 405), ("/v2", "POST", 405)):
            answer = self.get(place, path, method, b"{}" if method == "POST" else None)
            self.assertEqual(answer[0], status, path)
            self.assertEqual(len(answer[1]["error"].splitlines()), 1)
        with socket.create_connection(place.split(":")) as stranger:
            stranger.sendall(b"HELLO, who is there?\r\n\r\n")
            self.assertTrue(stranger.recv(100).startswith(b"HTTP/1.1 400"))
        with triton.InferenceServerClient(place) as client:
            self.check(client.infer("bert base", self.triton_inputs()))
        self.end(process)

    def test_clients_that_go_away(self):
        process, place = self.serve()
        self.until_ready(place)
        body = json.dumps(self.json_request()).encode()
        head = (f"POST /v2/models/bert%20base/infer HTTP/1.1\r\nHost: {place}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        for sent in (head[:20], head, head + body[:100], head + body):
            with socket.create_connection(place.split(":")) as client:
                client.sendall(sent)
        waiting = socket.create_connection(place.split(":"))  # sends nothing, and delays no end
        self.addCleanup(waiting.close)
        with triton.InferenceServerClient(place) as client:
            self.check(client.infer("bert base", self.triton_inputs()))
        self.end(process)

    def test_a_client_may_be_asked_to_go_on(self):
        process, place = self.serve()
        self.until_ready(place)
        body = json.dumps(self.json_request()).encode()
        with socket.create_connection(place.split(":")) as client:
            client.sendall((f"POST /v2/models/bert%20base/infer HTTP/1.1\r\nHost: {place}\r\n"
                            f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n").encode())
            self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 100"))
            client.sendall(body)
            answer = http.client.HTTPResponse(client)
            answer.begin()
            self.assertEqual(answer.status, 200)
            self.assertEqual(json.loads(answer.read())["id"], "7")
        self.end(process)

    def test_places_that_cannot_be(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            for place, part in ((f"127.0.0.1:{port}", "in use"), ("127.0.0.1", "HOST:PORT"),
                                ("127.0.0.1:x", "HOST:PORT"), ("::1:80", "HOST:PORT"),
                                ("no.such.host.invalid:80", "is not known")):
                done = autopar("serve", "--dir", self.bundle, "--listen", place, expect=1)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(f"--listen {place}: ", done.stderr)
                self.assertIn(part, done.stderr)

    def ranks(self):
        meeting = ("--rendezvous", f"127.0.0.1:{free_port()}")
        follower = self.start("--rank", 1, *meeting)
        leader, place = self.serve("--rank", 0, *meeting)
        self.until_ready(place)
        with triton.InferenceServerClient(place) as client:
            self.check(client.infer("bert base", self.triton_inputs()))
        return leader, follower, place

    def test_rank_0_leads_the_others_and_ends_them(self):
        leader, follower, place = self.ranks()
        status, _ = self.get(place, "/v2/models/bert%20base/infer", "POST",
                             json.dumps(self.json_request(shape=[1], data=[1])).encode())
        self.assertEqual(status, 400)
        with triton.InferenceServerClient(place) as client:
            self.check(client.infer("bert base", self.triton_inputs()))
        self.end(leader)
        self.assertEqual(follower.communicate(timeout=300)[1], "")
        self.assertEqual(follower.returncode, 0)

    def test_a_rank_that_dies_ends_the_server_with_its_line(self):
        leader, follower, place = self.ranks()
        follower.kill()
        try:
            while self.get(place, "/v2/health/ready")[0] == 200:
                time.sleep(0.01)
        except (urllib.error.URLError, ConnectionError):  # it has ended already
            pass
        error = leader.communicate(timeout=300)[1]
        self.assertEqual(leader.returncode, 1)
        self.assertEqual(len(error.splitlines()), 1, error)
        self.assertIn("rank 1", error)

    def test_a_follower_ends_where_rank_0_dies(self):
        leader, follower, _ = self.ranks()
        leader.kill()
        error = follower.communicate(timeout=300)[1]
        self.assertEqual(follower.returncode, 1)
        self.assertEqual(len(error.splitlines()), 1, error)
        self.assertIn("rank 0", error)
