"""scripts/gpu_check without a GPU: what it reads, rounds and writes, and all of it on the CPU."""

import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from support import AUTOPAR, MODELS, SOURCE, TemporaryFolderTest

sys.path.insert(0, str(SOURCE / "scripts"))
from gpu_checks import (  # noqa: E402
    cost_model, faults, half_models, launches, machine, processes, products, program, report,
    sanitizers, tensors)
from gpu_checks.context import Clock  # noqa: E402
from gpu_checks.correctness import same_bits  # noqa: E402
from gpu_checks.tensors import BFLOAT16, FLOAT, FLOAT16  # noqa: E402


class ReportTest(TemporaryFolderTest):
    def setUp(self):
        super().setUp()
        self.report = report.Report(self.tmp / "new" / "page.md", "# Head", {"/long/bin/a": "a"})
        self.report.start("First")

    def test_a_page_has_a_table_a_section(self):
        self.report.judge("speed", "at least 1", "1.2", True, "/long/bin/a run | tee")
        self.report.start("Second")
        self.report.tell("rate", "3 GB/s")
        self.report.skip("nsys", "not installed")
        self.report.write()
        self.assertEqual(self.report.file.read_text(), "\n".join([
            "# Head", "", "## First", "| what | asked | measured | | command |",
            "| --- | --- | --- | --- | --- |",
            "| speed | at least 1 | 1.2 | ok | `a run \\| tee` |", "", "## Second",
            "| what | asked | measured | | command |", "| --- | --- | --- | --- | --- |",
            "| rate |  | 3 GB/s |  |  |", "| nsys |  | not installed | skipped |  |", ""]))
        self.assertFalse(self.report.has_failed())

    def test_what_was_missed_or_failed_is_told(self):
        self.report.judge("speed", "at least 1", "0.8", False)
        self.assertTrue(self.report.has_failed())
        self.assertIn("| 0.8 | MISSED |", self.report.page())

    def test_an_error_of_several_lines_is_one_cell(self):
        self.report.fail("model", ValueError("one\n\ttwo"))
        self.assertTrue(self.report.has_failed())
        self.assertIn("| model |  | one two | FAILED |  |", self.report.page())


class ClockTest(unittest.TestCase):
    def test_a_section_leaves_later_ones_their_time(self):
        clock = Clock(100)
        clock.start_section(kept_for_later=60)
        self.assertAlmostEqual(clock.left(), 40, delta=5)
        clock.start_section(kept_for_later=0)
        self.assertAlmostEqual(clock.left(), 100, delta=5)


class ProcessTest(unittest.TestCase):
    def test_a_command_that_says_much_ends(self):
        done = processes.run(["bash", "-c", "yes | head -c 1000000; echo end >&2; exit 3"], None, 60)
        self.assertEqual((done.code, len(done.stdout), done.last_line()), (3, 1000000, "end"))

    def test_a_command_that_takes_too_long_is_ended_with_what_it_started(self):
        own = f"sleep 4242.{os.getpid()}"
        with self.assertRaisesRegex(processes.Failure, "did not end within 1 s"):
            processes.run(["bash", "-c", f"{own} & {own}"], None, 1)
        while subprocess.run(["pgrep", "-f", own], capture_output=True, check=False).stdout:
            time.sleep(0.01)  # ctest has the deadline


class LibrariesTest(TemporaryFolderTest):
    def test_the_names_stand_in_the_plugin(self):
        plugin = self.tmp / "libautopar_cuda.so"
        plugin.write_bytes(b"\0libcudart.so.13\0libcublasLt.so.13\0libc.so.6\0libcudart.so.13\0")
        self.assertEqual(program.needed_libraries([plugin]), ["libcublasLt.so.13", "libcudart.so.13"])

    def test_the_first_folder_that_has_a_library_counts(self):
        old, new, pip = (self.tmp / name for name in ("old", "new", "pip"))
        for folder, names in ((old, ["libcudart.so.12"]), (new, ["libcudart.so.13"]),
                              (pip, ["libcudart.so.13", "libnccl.so.2"])):
            folder.mkdir()
            for name in names:
                (folder / name).touch()
        found = program.library_folders(["libcudart.so.13", "libnccl.so.2", "libno.so"], [old, new, pip])
        self.assertEqual(found, [new, pip])

    def test_the_package_is_unpacked(self):
        packed = self.tmp / "autopar-1-linux" / "bin" / "autopar"
        packed.parent.mkdir(parents=True)
        packed.touch()
        archive = shutil.make_archive(self.tmp / "package", "gztar", self.tmp, "autopar-1-linux")
        work = self.tmp / "work"
        work.mkdir()
        self.assertEqual(program.unpacked(archive, work), work / "autopar-1-linux")

    def test_a_folder_without_the_program_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "no bin/autopar"):
            program.unpacked(self.tmp, self.tmp)


class RoundingTest(unittest.TestCase):
    def test_float32_becomes_the_nearest_bfloat16_ties_to_even(self):
        one, next_one = 1.0, 1 + 2**-7
        tie, tie_above = 1 + 2**-8, 1 + 3 * 2**-8
        values = np.array([one, next_one, tie, np.nextafter(np.float32(tie), np.float32(2)),
                           tie_above, -tie, 0, 3.4e38, -np.inf], np.float32)
        expected = [one, next_one, one, next_one, 1 + 2**-6, -one, 0]
        rounded = tensors.rounded(values, BFLOAT16)
        np.testing.assert_array_equal(rounded[:7], expected)
        np.testing.assert_array_equal(rounded[7:], [tensors.LARGEST[BFLOAT16],
                                                    -tensors.LARGEST[BFLOAT16]])

    def test_random_numbers_are_nearest(self):
        values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
        for half, bits in ((FLOAT16, 11), (BFLOAT16, 8)):
            step = 2.0 ** (np.floor(np.log2(np.abs(values))) - bits + 1)
            step = np.maximum(step, 2.0**-24)  # float16 has no finer ones
            np.testing.assert_array_less(
                np.abs(tensors.rounded(values, half) - values), step / 2 + 1e-12)

    def test_errors_are_relative_to_the_largest_value(self):
        self.assertAlmostEqual(tensors.relative_error(np.array([4.0, 1]), np.array([4.0, 2])), 0.25)
        self.assertEqual(tensors.relative_error(np.ones(2), np.ones(3)), np.inf)
        self.assertEqual(tensors.relative_error(np.ones(1), np.array([np.nan])), np.inf)
        self.assertEqual(tensors.relative_error(np.ones((0, 2)), np.ones((0, 2))), 0)


class HalfModelTest(unittest.TestCase):
    def setUp(self):
        self.model = onnx.load(MODELS / "llama-torchscript" / "model.onnx")

    def test_a_converted_model_has_no_float32_but_between_casts(self):
        for half in (FLOAT16, BFLOAT16):
            converted = half_models.converted(self.model, half)
            inferred = onnx.shape_inference.infer_shapes(converted, strict_mode=True)
            onnx.checker.check_model(converted)
            wide = {value.name for value in inferred.graph.value_info
                    if value.type.tensor_type.elem_type == FLOAT}
            self.assertTrue(all("/float32" in name for name in wide), wide)
            self.assertEqual(bool(wide), half == BFLOAT16)  # cosine is not defined on it
            self.assertEqual(converted.graph.output[0].type.tensor_type.elem_type, half)

    def test_rounding_every_value_shows(self):
        data = MODELS / "llama-torchscript" / "test_data_set_0"
        inputs = dict(map(tensors.read_proto, sorted(data.glob("input_*.pb"))))
        [(name, exact)] = map(tensors.read_proto, data.glob("output_*.pb"))
        errors = []
        for half in (FLOAT16, BFLOAT16):
            rounded = half_models.run_reference(half_models.rounding(self.model, half), inputs)
            errors.append(tensors.relative_error(exact, rounded[name]))
        self.assertGreater(errors[0], 2**-11)
        self.assertGreater(errors[1], 2 * errors[0])
        self.assertLess(errors[1], 0.1)


class ProductsTest(TemporaryFolderTest):
    def test_the_chain_keeps_its_values_in_range(self):
        m, k, n, pairs = 8, 32, 80, 4
        file = self.tmp / "model.onnx"
        products.write_chain(file, m, k, n, pairs, FLOAT16)
        x = np.random.default_rng(1).standard_normal((m, k)).astype(np.float16)
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        [y] = session.run(None, {"x": x})
        w, v = (onnx.numpy_helper.to_array(weight).astype(np.float32)
                for weight in onnx.load(file).graph.initializer)
        expected = x.astype(np.float32)
        for _ in range(pairs):
            expected = expected @ w @ v
        self.assertLess(tensors.relative_error(expected, y), 1e-2)
        self.assertTrue(0.1 < np.std(expected) < 10)


class ParserTest(unittest.TestCase):
    def test_findings_of_sanitizers(self):
        self.assertEqual(sanitizers.count_findings("========= ERROR SUMMARY: 0 errors\n"), 0)
        self.assertEqual(sanitizers.count_findings("=== ERROR SUMMARY: 1 error\n"), 1)
        self.assertEqual(sanitizers.count_findings(
            "========= RACECHECK SUMMARY: 12 hazards displayed (12 errors, 0 warnings)"), 12)
        with self.assertRaisesRegex(processes.Failure, "cannot start"):
            sanitizers.count_findings("cannot start\n")

    def test_calls_that_more_runs_add(self):
        head = "Processing...\nTime (%),Total Time (ns),Num Calls,Name\n"
        fewer = launches.calls_by_name(head + "9,9,11,cudaGraphLaunch_v10000\n1,1,4,cudaMalloc\n")
        more = launches.calls_by_name(head + "9,9,31,cudaGraphLaunch_v10000\n1,1,4,cudaMalloc\n"
                                             "1,1,\"1,040\",cudaEventRecord\n")
        self.assertEqual(launches.calls_a_run(fewer, more, 20),
                         {"cudaGraphLaunch": 1, "cudaEventRecord": 52})
        with self.assertRaises(processes.Failure):
            launches.calls_by_name("no table")

    def test_the_preset_is_read_from_its_source(self):
        preset = cost_model.preset_figures(cost_model.PRESETS.read_text())
        self.assertGreater(preset["flops_per_second"]["bfloat16"], 1e14)
        self.assertGreater(preset["memory_bytes_per_second"], 1e12)
        self.assertTrue(1e-7 < preset["launch_seconds"] < 1e-4)

    def test_the_gpu_is_told(self):
        line = "NVIDIA H200, 580.65, 143771 MiB, 345 MHz, 3201 MHz, 1980 MHz, 3201 MHz, 700.00 W"
        text = machine.gpu_text(line)
        self.assertTrue(text.startswith("NVIDIA H200, 143771 MiB, driver 580.65, clocks"))
        self.assertIn("at most 1980 MHz and 3201 MHz", text)
        self.assertEqual(machine.gpu_text(""), "no GPU")

    def test_a_clear_fault_is_one_line_that_names_it(self):
        def finished(code, stderr):
            return processes.Finished(["a"], code, "", stderr)

        self.assertTrue(faults.is_clear(finished(1, "collectives: host\nerror: rank 1 died\n"), ["rank 1"]))
        self.assertFalse(faults.is_clear(finished(1, "error: rank 1\nerror: rank 2\n"), ["rank 1"]))
        self.assertFalse(faults.is_clear(finished(0, "error: rank 1\n"), ["rank 1"]))
        self.assertFalse(faults.is_clear(finished(1, "error: something\n"), ["rank 1"]))
        self.assertFalse(faults.is_clear(finished(-11, ""), ["rank 1"]))


class BitsTest(TemporaryFolderTest):
    def test_folders_are_equal_by_names_and_bytes(self):
        a, b = self.tmp / "a", self.tmp / "b"
        for folder in (a, b):
            folder.mkdir()
            (folder / "y.npy").write_bytes(b"12")
        self.assertTrue(same_bits(a, b))
        (b / "y.npy").write_bytes(b"13")
        self.assertFalse(same_bits(a, b))
        (b / "y.npy").write_bytes(b"12")
        (b / "z.npy").write_bytes(b"")
        self.assertFalse(same_bits(a, b))


class SelfTest(TemporaryFolderTest):
    def test_on_the_cpu(self):
        page = self.tmp / "page.md"
        done = subprocess.run(
            [sys.executable, SOURCE / "scripts" / "gpu_check", "--self-test",
             Path(AUTOPAR).parents[1], "--out", page, "--only", "correctness", "launches", "products"],
            capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        text = page.read_text()
        for line in ("| mlp-dynamo, bfloat16 |", "| bytes of collectives counted as predicted | 48 runs",
                     "| One launch |  | for GPUs alone | skipped |", "TFLOP/s"):
            self.assertIn(line, text)
        self.assertNotIn("FAILED", text)
