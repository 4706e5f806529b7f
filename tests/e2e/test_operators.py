"""Operators of a shared library that the test compiles: split as discovery finds, run on several ranks,
compared with NumPy; and libraries that are refused."""

import json
import os
import re
import subprocess

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

from support import AUTOPAR, SOURCE, TemporaryFolderTest, autopar, mpirun, relative_error

HEADER = SOURCE / "lib" / "graph" / "operators" / "autopar_operator.h"
LIBRARY = SOURCE / "tests" / "e2e" / "operators.c"
DOMAIN = "com.example"
ROWS, COLUMNS, HEADS = 8, 24, 6


def compiled(source, library, *flags):
    compiler = os.environ.get("CC", "cc")
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command = [compiler, *strict, "-O2", "-shared", "-fPIC", *flags, source, "-o", library, "-lm"]
    subprocess.run(list(map(str, command)), check=True)
    return library


def own(name, inputs, outputs, **attributes):
    return helper.make_node(name, inputs, outputs, name=name, domain=DOMAIN, **attributes)


def saved(path, nodes, inputs, outputs, initializers=(), functions=()):
    def info(tensors):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in tensors]

    graph = helper.make_graph(nodes, "g", info(inputs), info(outputs), list(initializers))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=list(functions))
    checker.check_model(model)
    save(model, path)
    return path


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def swish(x, beta):
    return x / (1 + np.exp(-beta * x.astype(np.float64)))


def head_shares(x, heads):
    parts = x.reshape(len(x), heads, -1)
    return (parts / (1 + np.abs(parts).sum(axis=2, keepdims=True))).reshape(x.shape)


class OperatorTest(TemporaryFolderTest):
    def library(self, *flags):
        name = re.sub(r"\W", "", "".join(flags))
        return compiled(LIBRARY, self.tmp / f"lib{name}.so", f"-I{HEADER.parent}", *flags)

    def refused(self, *arguments):
        """The one line that tells why."""
        lines = autopar(*arguments, expect=1).stderr.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, lines)
        return errors[0]


class SplitTest(OperatorTest):
    def setUp(self):
        super().setUp()
        self.mine = self.library()
        self.x = numbers(1, ROWS, COLUMNS)
        self.input = self.tmp / "x.npy"
        np.save(self.input, self.x)

    def model(self):
        """x -> Swish -> times a weight -> HeadShares -> SumOver, which also RunningSum reads."""
        weight = numbers(2, COLUMNS, COLUMNS)
        axis = numpy_helper.from_array(np.array([1], np.int64), "axis")
        nodes = [
            own("Swish", ["x"], ["s"], beta=1.5),
            helper.make_node("MatMul", ["s", "w"], ["m"], name="MatMul"),
            own("HeadShares", ["m"], ["h"], heads=HEADS),
            own("SumOver", ["h", "axis"], ["sums"]),
            own("RunningSum", ["sums"], ["running"]),
            own("Whole", ["sums"], ["whole"]),
        ]
        outputs = [("sums", [ROWS]), ("running", [ROWS]), ("whole", [ROWS])]
        initializers = [numpy_helper.from_array(weight, "w"), axis]
        self.sums = head_shares(swish(self.x, 1.5) @ weight, HEADS).sum(axis=1)
        return saved(
            self.tmp / "m.onnx", nodes, [("x", [ROWS, COLUMNS])], outputs, initializers
        )

    def partition(self, model, ngpus, *more):
        bundle = self.tmp / f"bundle{ngpus}"
        done = autopar(
            "partition", model, "--ngpus", ngpus, "--out", bundle, "--force",
            "--operators", self.mine, *more,
        )  # fmt: skip
        return bundle, done.stderr

    def run_on_cpu(self, bundle, start=autopar):
        out = self.tmp / "out"
        start(
            "run", "--dir", bundle, "--device", "cpu", "--input", f"x={self.input}",
            "--output-dir", out, "--operators", self.mine,
        )  # fmt: skip
        return out

    def check_outputs(self, bundle, start=autopar):
        out = self.run_on_cpu(bundle, start)
        running = np.cumsum(self.sums)
        for name, expected in (("sums", self.sums), ("running", running), ("whole", running)):
            self.assertLess(relative_error(expected, np.load(out / f"{name}.npy")), 1e-5)

    def pinned(self, **strategies):
        """A file of strategies, each "inputs->outputs" and the reduction's name or none."""
        pins = []
        for name, strategy in strategies.items():
            specs, _, reduction = strategy.partition(" ")
            inputs, outputs = (side.split(",") for side in specs.split("->"))
            pins.append(
                {"name": name, "inputs": inputs, "outputs": outputs, "reductions": [reduction or "none"]}
            )
        file = self.tmp / "strategy.json"
        file.write_text(json.dumps({"operators": pins}))
        return ["--strategy", file]

    def test_any_number_of_ranks_computes_what_numpy_does(self):
        model = self.model()
        for ngpus in (1, 2, 3, 4):
            with self.subTest(ngpus=ngpus):
                bundle, _ = self.partition(model, ngpus)
                self.check_outputs(bundle)
                autopar("verify", model, bundle, "--operators", self.mine)

    def test_splits_that_are_found_can_be_chosen_and_are_right(self):
        """Rows of all; or elements, heads (an attribute), and a sum's partial results."""
        model = self.model()
        by_rows = self.pinned(Swish="S0R->S0R", HeadShares="S0R->S0R", SumOver="S0R,R->S0")
        for ngpus in (2, 4):
            with self.subTest(ngpus=ngpus):
                bundle, _ = self.partition(model, ngpus, *by_rows)
                self.check_outputs(bundle)
        by_columns = self.pinned(
            Swish="RS0->RS0", HeadShares="RS0->RS0", SumOver="RS0,R->R all-reduce"
        )
        for ngpus in (2, 3):
            with self.subTest(ngpus=ngpus):
                bundle, _ = self.partition(model, ngpus, *by_columns)
                self.check_outputs(bundle)
                info = json.loads((bundle / "meta-info.json").read_text())
                kinds = {total["kind"] for total in info["profiles"][0]["collectives"]}
                self.assertIn("all-reduce", kinds)
                autopar("verify", model, bundle, "--operators", self.mine)

    def test_what_does_not_split_runs_whole_with_a_warning(self):
        _, warnings = self.partition(self.model(), 2)
        self.assertIn(f"no split is found of {DOMAIN}::RunningSum: no dimension splits", warnings)
        self.assertNotIn(f"no split is found of {DOMAIN}::Whole", warnings)
        self.assertRegex(warnings, f"no sharding rule for .*{DOMAIN}::RunningSum.*: every rank runs")
        self.assertRegex(warnings, f"no sharding rule for .*{DOMAIN}::Whole.*: every rank runs")
        self.assertNotRegex(warnings, "no sharding rule for .*(Swish|HeadShares|SumOver)")

    def test_stages_and_microbatches(self):
        nodes = [own("Swish", ["x"], ["s"], beta=2.0), own("HeadShares", ["s"], ["y"], heads=HEADS)]
        shape = [ROWS, COLUMNS]
        model = saved(self.tmp / "m.onnx", nodes, [("x", shape)], [("y", shape)])
        bundle, _ = self.partition(model, 2, "--stages", 2, "--microbatches", 2)
        out = self.run_on_cpu(bundle)
        expected = head_shares(swish(self.x, 2.0), HEADS)
        self.assertLess(relative_error(expected, np.load(out / "y.npy")), 1e-5)

    def test_ranks_that_are_processes(self):
        bundle, _ = self.partition(self.model(), 2)
        self.check_outputs(bundle, start=lambda *arguments: mpirun(2, *arguments))

    def test_plan_explains_the_splits(self):
        told = autopar(
            "plan", self.model(), "--ngpus", 2, "--operators", self.mine, "--explain", "SumOver", "--json"
        ).stdout
        strategies = {candidate["strategy"] for candidate in json.loads(told)["candidates"]}
        self.assertIn("S0R,R->S0", strategies)
        self.assertTrue(any(s.startswith("RS0,R->R") for s in strategies), strategies)

    def test_large_tensors_split_as_smaller_ones_do(self):
        shape = [2400, 4096]
        nodes = [own("HeadShares", ["x"], ["y"], heads=32)]
        model = saved(self.tmp / "m.onnx", nodes, [("x", shape)], [("y", shape)])
        told = autopar(
            "plan", model, "--ngpus", 2, "--operators", self.mine, "--explain", "HeadShares", "--json"
        ).stdout
        strategies = {candidate["strategy"] for candidate in json.loads(told)["candidates"]}
        self.assertLessEqual({"S0R->S0R", "RS0->RS0"}, strategies)

    def test_optional_tensors_strings_and_tables(self):
        table = numpy_helper.from_array(np.array([2, -3], np.float32))
        shape = [ROWS, COLUMNS]
        for given, made in ((["x"], ["a", "b"]), (["x", "x"], ["a", "b"]), (["x", "x"], ["", "b"])):
            with self.subTest(given=given, made=made):
                node = own("Pair", given, made, name_="pair")
                node.attribute[0].name = "name"
                node.attribute.append(helper.make_attribute("table", table))
                ports = [(name, shape) for name in made if name]
                model = saved(self.tmp / "m.onnx", [node], [("x", shape)], ports)
                bundle, _ = self.partition(model, 2)
                out = self.run_on_cpu(bundle)
                shift = self.x if len(given) > 1 else 0
                for name, factor in zip(made, (2, -3)):
                    if name:
                        found = np.load(out / f"{name}.npy")
                        self.assertLess(relative_error(factor * self.x + shift, found), 1e-5)

    def test_a_library_comes_before_the_function_that_the_model_has(self):
        body = [helper.make_node("Neg", ["x"], ["y"])]
        opsets = [helper.make_opsetid("", 18)]
        function = helper.make_function(DOMAIN, "RunningSum", ["x"], ["y"], body, opsets)
        model = saved(
            self.tmp / "m.onnx",
            [own("RunningSum", ["x"], ["y"])],
            [("x", [ROWS, COLUMNS])],
            [("y", [ROWS, COLUMNS])],
            functions=[function],
        )
        bundle, _ = self.partition(model, 2)
        out = self.run_on_cpu(bundle)
        expected = np.cumsum(self.x.astype(np.float64)).reshape(self.x.shape)
        self.assertLess(relative_error(expected, np.load(out / "y.npy")), 1e-5)

    def test_an_operator_may_have_the_name_of_one_of_onnx(self):
        self.mine = self.library('-DLIAR_NAME="Transpose"')  # which doubles
        turn = [helper.make_node("Transpose", [x], [y], perm=[1, 0]) for x, y in (("x", "a"), ("b", "y"))]
        nodes = [turn[0], own("Transpose", ["a"], ["b"]), turn[1]]
        shape = [ROWS, COLUMNS]
        model = saved(self.tmp / "m.onnx", nodes, [("x", shape)], [("y", shape)])
        bundle, _ = self.partition(model, 2)
        out = self.run_on_cpu(bundle)
        self.assertLess(relative_error(2 * self.x, np.load(out / "y.npy")), 1e-6)

    def test_without_the_library_the_operator_is_named(self):
        model = self.model()
        bundle, _ = self.partition(model, 2)
        for arguments in (
            ["run", "--dir", bundle, "--random-inputs", 1],
            ["verify", model, bundle],
        ):
            lines = autopar(*arguments, expect=1).stderr
            self.assertIn(f"the operator Swish of domain '{DOMAIN}', opset 1, which is not known", lines)
            self.assertIn("--operators LIBRARY.so", lines)

    def test_a_gpu_without_the_kernel_refuses_the_operator_by_name(self):
        bundle, _ = self.partition(self.model(), 1)
        done = subprocess.run(
            [AUTOPAR, "run", "--dir", bundle, "--device", "cuda", "--random-inputs", "1",
             "--operators", self.mine],
            env={**os.environ, "AUTOPAR_PLUGIN_DIR": os.environ["AUTOPAR_EMULATED_PLUGINS"]},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, f"operator {DOMAIN}::Swish has no CUDA kernel; run with --device cpu")


class LiarTest(OperatorTest):
    """A library whose shapes are not what its kernel writes is refused, as early as it can be known."""

    def setUp(self):
        super().setUp()
        shape = [COLUMNS]
        self.model = saved(
            self.tmp / "m.onnx", [own("Liar", ["x"], ["y"])], [("x", shape)], [("y", shape)]
        )

    def partition(self, library):
        return ["partition", self.model, "--ngpus", 2, "--out", self.tmp / "out", "--operators", library]

    def test_lies_are_told_in_one_line(self):
        lies = {
            1: "gives output 0 the impossible shape -1",
            2: "gives output 0 17 dimensions",
            3: "tells nothing of output 0",
            4: "tells of output 1, but the node has 1",
            5: "gives output 0 the type 99",
            6: r"leaves 1 of the \d+ elements of output 0, float32 \d+, unwritten",
            7: "writes outside of output 0, float32 24",
            8: "leaves 1 of the 24 elements of output 0, float32 24, unwritten",
            9: "writes outside of its 0 bytes of scratch",
        }
        for lie, text in lies.items():
            with self.subTest(lie=lie):
                error = self.refused(*self.partition(self.library(f"-DLIE={lie}")))
                self.assertRegex(error, text)
                self.assertIn(f"{DOMAIN}::Liar", error)
                self.assertIn("mend the library", error)
                self.assertFalse((self.tmp / "out").exists())

    def test_a_run_refuses_a_library_that_lies_since_it_was_partitioned(self):
        autopar(*self.partition(self.library()))
        error = self.refused(
            "run", "--dir", self.tmp / "out", "--random-inputs", 1, "--operators", self.library("-DLIE=8")
        )
        self.assertRegex(error, "node 'Liar': .*leaves 1 of the 12 elements of output 0")


class LoadTest(OperatorTest):
    def setUp(self):
        super().setUp()
        shape = [COLUMNS]
        self.model = saved(
            self.tmp / "m.onnx", [own("Swish", ["x"], ["y"], beta=1.0)], [("x", shape)], [("y", shape)]
        )

    def refused_libraries(self, *libraries):
        options = [option for library in libraries for option in ("--operators", library)]
        return self.refused("plan", self.model, "--ngpus", 2, *options)

    def test_a_library_that_is_none_is_refused(self):
        self.assertRegex(self.refused_libraries(self.tmp / "none.so"), "none.so: No such file")
        self.assertRegex(self.refused_libraries(self.model), "m.onnx cannot be loaded: ")
        source = self.tmp / "empty.c"
        source.write_text("int nothing;\n")
        empty = compiled(source, self.tmp / "empty.so")
        self.assertIn("empty.so: it has no function autopar_operators", self.refused_libraries(empty))

    def test_a_library_for_another_version_is_refused(self):
        error = self.refused_libraries(self.library("-DABI=2"))
        self.assertIn("it is for version 2 of autopar_operator.h, but this autopar has 1", error)

    def test_operators_that_are_there_already_are_refused(self):
        self.assertIn(
            f"it has {DOMAIN}::Swish twice", self.refused_libraries(self.library('-DLIAR_NAME="Swish"'))
        )
        error = self.refused("plan", self.model, "--ngpus", 2, "--operators", self.microsoft("FastGelu"))
        self.assertIn("com.microsoft::FastGelu is known already, from autopar itself", error)
        error = self.refused_libraries(self.microsoft("Mine"), self.microsoft("Mine"))
        self.assertRegex(error, r"com.microsoft::Mine is known already, from \S+Mine.so")

    def microsoft(self, name):
        """A library of one operator in a domain of which autopar has others."""
        source = self.tmp / f"{name}.c"
        source.write_text(
            f"""#include "autopar_operator.h"
            static int none(const AutoparNode* n, AutoparOutput* o, char* e) {{
              (void)n; (void)o; (void)e; return 1; }}
            static int compute(const AutoparRun* r, char* e) {{ (void)r; (void)e; return 1; }}
            const AutoparLibrary* autopar_operators(void) {{
              static const AutoparOperator op = {{.domain = "com.microsoft", .name = "{name}",
                .version = 1, .max_outputs = 1, .shapes = none, .cpu = compute}};
              static const AutoparLibrary all = {{AUTOPAR_OPERATOR_ABI, 1, &op}};
              return &all; }}"""
        )
        return compiled(source, self.tmp / f"{name}.so", f"-I{HEADER.parent}")


class DocumentTest(OperatorTest):
    """The example of docs/operators-of-your-own.md."""

    def test_the_example_compiles_and_splits_as_the_page_says(self):
        page = (SOURCE / "docs" / "operators-of-your-own.md").read_text()
        source = self.tmp / "mine.c"
        source.write_text(re.search(r"```c\n(.*?)```", page, re.S)[1])
        self.assertLess(len(source.read_text().splitlines()), 50)
        (self.tmp / "include").mkdir()
        (self.tmp / "include" / "autopar").symlink_to(HEADER.parent)
        mine = compiled(source, self.tmp / "libmine.so", "-I", self.tmp / "include")
        model = saved(
            self.tmp / "m.onnx", [own("SumSquares", ["x"], ["y"])], [("x", [8, 1024])], [("y", [8])]
        )
        bundle = self.tmp / "bundle"
        autopar("partition", model, "--ngpus", 4, "--out", bundle, "--operators", mine)
        x = numbers(3, 8, 1024)
        np.save(self.tmp / "x.npy", x)
        autopar(
            "run", "--dir", bundle, "--device", "cpu", "--input", f"x={self.tmp / 'x.npy'}",
            "--output-dir", self.tmp, "--operators", mine,
        )  # fmt: skip
        self.assertLess(relative_error((x * x).sum(axis=1), np.load(self.tmp / "y.npy")), 1e-5)
        autopar("verify", model, bundle, "--operators", mine)
        told = autopar(
            "plan", model, "--ngpus", 2, "--operators", mine, "--explain", "SumSquares", "--json"
        ).stdout
        strategies = {candidate["strategy"] for candidate in json.loads(told)["candidates"]}
        self.assertIn("S0R->S0", strategies)
        self.assertTrue(any(strategy.startswith("RS0->R") for strategy in strategies), strategies)
