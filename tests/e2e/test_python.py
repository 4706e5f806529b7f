"""The module of Python: plans, bundles and runs as the program makes them, beside ONNX Runtime."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import unittest
import weakref

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from support import (MODELS, TOLERANCE, Model, TemporaryFolderTest, autopar as program,
                     relative_error, wait_until_it_catches)  # fmt: skip
from test_rendezvous import free_port

if not os.environ["AUTOPAR_PYTHON_DIR"]:
    raise unittest.SkipTest("the module of Python was not built")
sys.path.insert(0, os.environ["AUTOPAR_PYTHON_DIR"])
import autopar  # noqa: E402

MLP = MODELS / "mlp-dynamo" / "model.onnx"
ZOO = ("bert-torchscript", "gpt2-step", "mlp-dynamo", "detector-yolo", "resnet50-qdq", "vit-dynamo")


def of_type(type_name, folder):
    """A model of one Identity, y of x, in two dimensions."""
    element = getattr(TensorProto, type_name)
    x, y = (helper.make_tensor_value_info(name, element, [2, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [x], [y])
    file = folder / f"{type_name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)
    return file


class PythonTest(TemporaryFolderTest):
    def bundle(self, model=MLP, ngpus=2, **options):
        out = self.tmp / f"bundle{len(list(self.tmp.iterdir()))}"
        autopar.partition(model, ngpus=ngpus, out=out, **options)
        return out

    def mlp(self):
        return autopar.Session(self.bundle(shapes={"x": (5, 48)}), threads=1)

    def test_outputs_of_the_zoo_are_those_of_onnx_runtime(self):
        for name in ZOO:
            model = Model(name)
            shapes = {name: x.shape for name, x in model.inputs.items()}
            session = autopar.Session(self.bundle(model.file, shapes=shapes), threads=1)
            outputs = session.run(model.inputs)
            self.assertEqual(list(outputs), list(model.outputs), name)
            for output, expected in model.outputs.items():
                self.assertLessEqual(relative_error(expected, outputs[output]), TOLERANCE, name)

    def test_annotations_are_written_and_read(self):
        options = {"ngpus": 4, "mesh": "2x2", "shapes": {"x": (8, 48)}}
        written = self.bundle(shards="annotated", **options) / "annotated.onnx"
        self.assertEqual(onnx.load(written).configuration[0].num_devices, 4)
        free, pinned = (autopar.plan(MLP, **options, strategy=given) for given in (None, written))
        self.assertEqual(pinned.summary.cost_seconds, free.summary.cost_seconds)
        with self.assertRaisesRegex(autopar.Error, "^--shards other: give autopar"):
            autopar.plan(MLP, **options, shards="other")

    def test_the_interface_is_that_of_onnx_runtime(self):
        model = Model("gpt2-step")
        theirs = onnxruntime.InferenceSession(model.file)
        ours = autopar.Session(self.bundle(
            model.file, shapes={name: x.shape for name, x in model.inputs.items()}), threads=1)
        for get in ("get_inputs", "get_outputs"):
            expected = [(port.name, port.type, len(port.shape)) for port in getattr(theirs, get)()]
            found = [(port.name, port.type, len(port.shape)) for port in getattr(ours, get)()]
            self.assertEqual(found, expected)
        names = [port.name for port in theirs.get_outputs()]
        for wanted in (None, names[-2:], names[:1] * 2):
            for y, expected in zip(ours.run(wanted, model.inputs), theirs.run(wanted, model.inputs),
                                   strict=True):
                self.assertEqual(y.dtype, expected.dtype)
                self.assertLessEqual(relative_error(expected, y), TOLERANCE)
        with self.assertRaisesRegex(autopar.Error, "^there is no output 'z'; there are logits, "):
            ours.run(["z"], model.inputs)
        with self.assertRaises(TypeError):
            ours.run(None)

    def test_inputs_have_other_shapes_and_outputs_outlive_the_session(self):
        session = self.mlp()
        theirs = onnxruntime.InferenceSession(MLP)
        outputs = {}
        for rows in (5, 7):
            x = np.random.default_rng(rows).random((rows, 48), np.float32)
            outputs[rows] = (theirs.run(None, {"x": x})[0], session.run({"x": x})["y"])
        del session
        for expected, y in outputs.values():
            self.assertTrue(y.flags.writeable)
            self.assertIsInstance(y.base.base, memoryview)  # of the library's memory: no copy
            self.assertLessEqual(relative_error(expected, y), TOLERANCE)

    def test_arrays_lie_in_any_way_and_are_let_go(self):
        session = self.mlp()
        x = np.random.default_rng(0).random((5, 48), np.float32)
        expected = session.run({"x": x})["y"]
        padded = np.zeros(x.nbytes + 1, np.uint8)
        padded[1:] = np.frombuffer(x.tobytes(), np.uint8)
        read_only = x.copy()
        read_only.flags.writeable = False
        for given in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1].copy()[::-1],
                      padded[1:].view(np.float32).reshape(5, 48), read_only, x.tolist()):
            if isinstance(given, list):  # of Python's numbers, which NumPy reads as float64
                given = np.float32(given)
            np.testing.assert_array_equal(session.run({"x": given})["y"], expected)
        *_, data = autopar.arrays.to_tensor("x", read_only)
        self.assertTrue(np.shares_memory(data, read_only))
        borrowed = weakref.ref(read_only)
        del data, _
        del read_only, given
        gc.collect()
        self.assertIsNone(borrowed())

    def test_arrays_of_other_types_are_refused(self):
        session = self.mlp()
        x = np.ones((5, 48), np.float32)
        for value, message in ((x.astype(">f4"), "'x' has the bytes of its numbers in another order"),
                               (x.astype(np.float64), "x.*float64.*float32"),
                               (x.astype(str), "'x': a tensor cannot have NumPy's type <U"),
                               (x[:, :4], "x.*5x4")):  # fmt: skip
            with self.assertRaisesRegex(autopar.Error, message) as raised:
                session.run({"x": value})
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(autopar.Error, "x"):
            session.run({})
        with self.assertRaisesRegex(autopar.Error, "z"):
            session.run({"x": x, "z": x})
        self.assertEqual(session.run({"x": x})["y"].dtype, np.float32)  # it still runs

    def test_each_type_comes_back_as_it_went(self):
        for type_name, numpys in (("FLOAT16", "float16"), ("BFLOAT16", "bfloat16"), ("BOOL", "bool"),
                                  ("DOUBLE", "float64"), ("INT8", "int8"), ("UINT64", "uint64")):
            session = autopar.Session(self.bundle(of_type(type_name, self.tmp)), threads=1)
            dtype = session.get_inputs()[0].dtype
            self.assertEqual(dtype.name, numpys)
            x = np.array([[0, 1, 1], [1, 0, 100]], np.uint8).astype(dtype)
            (y,) = session.run(None, {"x": x})
            self.assertEqual(y.dtype, dtype)
            self.assertEqual(y.tobytes(), x.tobytes())

    def test_a_plan_is_that_of_the_program(self):
        options = {"ngpus": 4, "mesh": "2x2", "shapes": {"x": (5, 48)}}
        plan = autopar.plan(MLP, **options)
        printed = program("plan", MLP, "--ngpus", 4, "--mesh", "2x2", "--shape", "x=5x48", "--json")
        operators = plan.json()["operators"]
        self.assertGreater(len(operators), 3)
        self.assertEqual(operators, json.loads(printed.stdout)["operators"])
        self.assertIn("mesh 2x2", plan.report())
        self.assertEqual(plan.summary.ranks, 4)
        self.assertTrue(plan.summary.proven_optimal)
        self.assertGreaterEqual(plan.summary.cost_seconds, plan.summary.lower_bound_seconds)
        plan.write(self.tmp / "bundle")
        program("run", "--dir", self.tmp / "bundle", "--random-inputs", 1)

    def test_profiles_are_lists(self):
        session = autopar.Session(self.bundle(shapes={"x": [(5, 48), (1, 48)]}), threads=1)
        self.assertEqual(session.get_inputs()[0].shape, [5, 48])

    def test_errors_are_those_of_the_program(self):
        self.assertTrue(issubclass(autopar.Error, Exception))
        taken = self.bundle(shapes={"x": (5, 48)})
        wrong = {"ngpus": 0, "out": taken, "shapes": {"x": (5, 48)}, "device": "h2000"}
        with self.assertRaises(autopar.Error) as raised:
            autopar.partition(MLP, **wrong)
        printed = program("partition", MLP, "--ngpus", 0, "--out", taken, "--shape", "x=5x48",
                          "--device", "h2000", expect=1).stderr
        self.assertEqual([f"error: {line}" for line in str(raised.exception).split("\n")],
                         printed.splitlines())
        with self.assertRaisesRegex(TypeError, "ngpus='two'"):
            autopar.plan(MLP, ngpus="two")
        with self.assertRaisesRegex(TypeError, "nodes"):
            autopar.plan(MLP, ngpus=2, nodes=3)
        with self.assertRaisesRegex(autopar.Error, "none"):
            autopar.Session(self.tmp / "none")
        with self.assertRaisesRegex(autopar.Error, "--device gpu"):
            autopar.Session(taken, device="gpu")

    def test_other_threads_run_meanwhile(self):
        # Each rank waits for the other one within the library, where both get only without the lock.
        bundle = self.bundle(shapes={"x": (5, 48)})
        place = f"127.0.0.1:{free_port()}"
        x = np.ones((5, 48), np.float32)
        outputs = {}

        def run_rank(rank):
            session = autopar.Session(bundle, rank=rank, rendezvous=place, threads=1, timeout=120)
            outputs[rank] = session.has_first_rank, session.run({"x": x}), session.run(None, {"x": x})

        other = threading.Thread(target=run_rank, args=(1,))
        other.start()
        run_rank(0)
        other.join()
        self.assertEqual(outputs[1], (False, {}, []))
        first, named, (y,) = outputs[0]
        self.assertTrue(first)
        np.testing.assert_array_equal(named["y"], y)

    def test_threads_share_a_session(self):
        session = self.mlp()
        inputs = [np.full((5, 48), i, np.float32) for i in range(4)]
        expected = [session.run({"x": x})["y"] for x in inputs]
        found = [None] * len(inputs)

        def run(i):
            found[i] = [session.run({"x": inputs[i]})["y"] for _ in range(5)]

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for y, same in zip(expected, found, strict=True):
            for each in same:
                np.testing.assert_array_equal(each, y)

    def test_an_interrupted_search_returns_the_best_plan_so_far(self):
        script = f"""
import signal, sys
sys.path.insert(0, {os.environ["AUTOPAR_PYTHON_DIR"]!r})
import autopar
signal.signal(signal.SIGINT, signal.SIG_DFL)  # only the library catches it
print("ready", flush=True)
plan = autopar.plan({str(MODELS / "llama-torchscript" / "model.onnx")!r}, ngpus=4, mesh="2x2",
                    shapes={{"input_ids": (4, 16)}}, memory=560000, time_limit=3600)
print(plan.summary.ranks, plan.summary.proven_optimal, plan.summary.interrupted)
"""
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as ran:
            self.assertEqual(ran.stdout.readline(), "ready\n")
            wait_until_it_catches(ran, signal.SIGINT)
            ran.send_signal(signal.SIGINT)
            printed, _ = ran.communicate(timeout=600)
        self.assertEqual((ran.returncode, printed), (0, "4 False True\n"))

    def test_the_environment_is_as_before(self):
        script = f"import os, sys; sys.path.insert(0, {os.environ['AUTOPAR_PYTHON_DIR']!r}); import autopar"
        for name, value in (("GOMP_SPINCOUNT", "7"), ("HOME", "/")):
            done = subprocess.run(
                [sys.executable, "-c", f"{script}; print(os.environ.get('GOMP_SPINCOUNT'))"],
                env={name: value}, capture_output=True, text=True, check=True)  # fmt: skip
            self.assertEqual(done.stdout, "7\n" if name == "GOMP_SPINCOUNT" else "None\n")
