"""scripts/gpu_check without a GPU: what it reads, rounds and writes. test_gpu_check_parts runs it."""

import os
import shutil
import subprocess
import sys
import time
import unittest.mock
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from support import AUTOPAR, MODELS, SOURCE, TemporaryFolderTest

sys.path.insert(0, str(SOURCE / "scripts"))
from gpu_checks import (  # noqa: E402
    collective_cases, cost_model, faults, half_models, kernel_names, kernels, launches, machine, nccl,
    parts, processes, products, program, report, sanitizers, tensors)
from gpu_checks.context import Clock, Context  # noqa: E402
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

    def test_times_are_judged_on_a_gpu_alone(self):
        for judges_times, verdict in ((True, report.MISSED), (False, report.TOLD)):
            page = report.Report("unused", "", judges_times=judges_times)
            page.judge_time("speed", "at least 1", "0.8", False)
            self.assertEqual(page.rows[-1].verdict, verdict)

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


MEMCHECK = """
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void autopar::runtime::cuda::loop_each<Pool<float>>(T1, long)+0x70
=========     by thread (3,0,0) in block (0,0,0)
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cudaLaunchKernelExC [0x1] in libcudart.so.13
========= Uninitialized __global__ memory read of size 2 bytes
=========     at sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64+0xf0
=========     by thread (0,0,0) in block (1,0,0)
========= Program hit cudaErrorInvalidValue (error 1) due to "invalid argument" on CUDA API call
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: cublasLtMatmul [0x2] in libcublasLt.so.13
=========
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at void autopar::runtime::cuda::softmax_rows<float>(Rows)+0x90
=========     and Read access at void autopar::runtime::cuda::softmax_rows<float>(Rows)+0x120 [8 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


class SanitizerTest(unittest.TestCase):
    def test_findings_in_libraries_kernels_are_told_apart(self):
        findings = sanitizers.findings_of(MEMCHECK)
        self.assertEqual((len(findings.ours), len(findings.of_libraries)), (1, 2))
        self.assertEqual(findings.not_shown, 0)
        self.assertIn("Invalid __global__ write of size 4 bytes at void autopar", findings.ours[0])
        self.assertTrue(findings.text().startswith("1 in autopar, 2 in libraries' own kernels; Inv"))

    def test_a_race_is_ours(self):
        findings = sanitizers.findings_of(RACECHECK)
        self.assertEqual((len(findings.ours), findings.of_libraries), (1, []))

    def test_what_was_not_printed_is_counted(self):
        more = MEMCHECK.replace("3 errors", "12 errors")
        self.assertEqual(sanitizers.findings_of(more).not_shown, 9)
        self.assertIn("9 that were not shown", sanitizers.findings_of(more).text())

    def test_nothing_is_found_or_nothing_is_said(self):
        clean = sanitizers.findings_of("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")
        self.assertEqual((clean.ours, clean.of_libraries, clean.not_shown), ([], [], 0))
        with self.assertRaisesRegex(processes.Failure, "cannot start"):
            sanitizers.findings_of("cannot start\n")

    def test_a_machine_that_it_cannot_look_into_is_skipped(self):
        with self.assertRaisesRegex(processes.Skip, "not possible here: Device not supported"):
            sanitizers.findings_of("========= Error: Device not supported\n========= ERROR SUMMARY: 1 error")

    def test_only_ours_and_an_exit_code_count(self):
        page = report.Report("unused", "")
        for text, code, is_right in ((MEMCHECK, 0, False), ("= ERROR SUMMARY: 0 errors", 1, False),
                                     (MEMCHECK.replace("autopar::", "cutlass::"), 0, True)):
            sanitizers.judge(page, "what", processes.Finished(["a"], code, text, ""))
            self.assertEqual(page.rows[-1].verdict, report.OK if is_right else report.MISSED, text)


class TimeTest(TemporaryFolderTest):
    def context(self, seconds):
        clock = Clock(seconds)
        return Context(None, None, clock, self.tmp, False)

    def test_a_command_that_its_section_has_no_time_for_is_skipped(self):
        command = ["sleep", "4242"]
        with self.assertRaisesRegex(processes.Skip, "no time was left: did not end within 1 s"):
            processes.run(command, None, self.context(0).timeout())
        with self.assertRaisesRegex(processes.Failure, "did not end within 1 s"):
            processes.run(command, None, self.context(1000).timeout(most=1))

    def test_parts_keep_time_for_their_later_sections(self):
        for sections in parts.PARTS.values():
            self.assertLessEqual(sum(sections.values()), parts.SECONDS)
        self.assertLess(parts.SECONDS, 540)
        self.assertEqual(list(parts.PARTS[1]), ["correctness", "nccl", "kernels"])


class MergeTest(TemporaryFolderTest):
    def write(self, part, verdicts, launched_in):
        page = report.Report(self.tmp / f"gpu-part{part}.md", f"# Results\n\ncalled for part {part}\n")
        page.start(f"Section {part}")
        for what, is_met in verdicts.items():
            page.judge(what, "asked", 1.5, is_met)
        page.notes[f"Note {part}"] = "text"
        page.write()
        page.write_part(part, {"all": ["a<float>", "b"], "launched_in": launched_in})
        return page.file.with_suffix(".json")

    def test_parts_become_one_page(self):
        files = [self.write(2, {"second": True}, {"b": ["faults"]}),
                 self.write(1, {"first": True}, {"a<float>": ["nccl", "kernels"]})]
        merged = parts.merged(files, self.tmp / "all.md")
        merged.write()
        text = merged.file.read_text()
        places = [text.index(word) for word in (
            "called for part 1", "called for part 2", "| first |", "| second |", "## Kernels of all",
            "## Note 1", "## Part 3\nIt was not run.")]
        self.assertEqual(places, sorted(places))
        self.assertIn("| first | asked | 1.5 | ok |", text)
        self.assertFalse(merged.has_failed())

    def test_what_failed_in_a_part_or_was_launched_in_none_is_told(self):
        merged = parts.merged([self.write(1, {"first": False}, {})], self.tmp / "all.md")
        self.assertTrue(merged.has_failed())
        self.assertEqual(merged.rows[-1].measured, "0; a<float>; b")
        merged = parts.merged([self.write(1, {}, {"a<float>": ["nccl"]})], self.tmp / "all.md")
        self.assertEqual(merged.rows[-1].verdict, report.MISSED)

    def test_kernels_and_who_launched_them(self):
        files = [self.write(2, {}, {"b": ["faults"]}), self.write(1, {}, {"b": ["nccl"]})]
        self.assertEqual(parts.kernels_by_section(files), ["a<float>: none", "b: 1 nccl, 2 faults"])

    def test_the_command_line_merges(self):
        file = self.write(1, {}, {"a<float>": ["nccl"], "b": ["nccl"]})
        out = self.tmp / "page.md"
        command = [sys.executable, SOURCE / "scripts" / "gpu_check"]
        done = subprocess.run([*command, "--merge", file, "--out", out], check=False)
        self.assertEqual((done.returncode, out.exists()), (0, True))
        done = subprocess.run([*command, "--list-kernels", file], capture_output=True, text=True,
                              check=True)
        self.assertEqual(done.stdout, "a<float>: 1 nccl\nb: 1 nccl\n")


class KernelNamesTest(unittest.TestCase):
    LOOP = ("void autopar::runtime::cuda::loop_each<autopar::runtime::(anonymous namespace)::Pool<float, "
            "autopar::runtime::Most<2> > >(autopar::runtime::Pool<float>, long)")

    def test_a_kernel_is_told_by_its_name(self):
        self.assertEqual(kernel_names.base_name(self.LOOP), "loop_each")
        self.assertEqual(kernel_names.base_name("autopar::runtime::cuda::(anonymous namespace)::pad(int)"),
                         "pad")
        for other in ("int autopar::runtime::cuda::rows(int)", "autopar::runtime::cuda::Pad::run(int)",
                      "void autopar::runtime::rows<int>(int)"):
            self.assertIsNone(kernel_names.base_name(other))
        self.assertEqual(kernel_names.short(self.LOOP), "loop_each<Pool<float, Most<2> > >")

    def test_sources_name_their_kernels(self):
        self.assertLessEqual({"loop_each", "loop_rows", "attend", "multiply_rows", "transpose_tiles"},
                             kernel_names.names_in_sources())

    def test_the_emulation_has_the_kernels_that_nvcc_compiles(self):
        lib = Path(AUTOPAR).parents[1] / "lib"
        of_emulation, of_nvcc = (lib / folder / "libautopar_cuda.so" for folder in ("emulated", "autopar"))
        emulated = kernel_names.kernels_of(of_emulation)
        self.assertGreater(len(emulated), 900)
        if not of_nvcc.exists():
            self.skipTest("this build has no CUDA")
        texts = [sorted(map(kernel_names.short, kernel_names.demangled(names).values()))
                 for names in (emulated, kernel_names.kernels_of(of_nvcc))]
        self.assertEqual(*texts)
        self.assertLessEqual(set(kernels.UNREACHABLE), set(texts[0]))

    def test_failures_are_read_from_what_onnx_conformance_says(self):
        self.assertEqual(kernels.failures_of("Attention\n  WRONG test_a: output 'Y': no\n"
                                             "Pad\n  CRASHED test_b: ended by signal 6\n"),
                         {"test_a": "WRONG: output 'Y': no", "test_b": "CRASHED: ended by signal 6"})


class CollectiveCasesTest(TemporaryFolderTest):
    def test_every_operation_type_and_size_is_there(self):
        cases = list(collective_cases.of_world(4))
        for word in ("all-reduce mean", "all-gather", "reduce-scatter max", "all-to-all", "broadcast",
                     "by [0, 2, 4, 6]", "1048576", "together"):
            self.assertTrue(any(word in case.name for case in cases), word)
        self.assertEqual({case.type_name for case in cases}, set(collective_cases.TYPES))

    def test_on_cpus_all_are_as_numpy_has_them(self):
        for ranks in (1, 2, 4):
            worlds = [("world", 1, collective_cases.of_world(ranks))]
            if ranks > 1:
                worlds.append(("stages", 2, collective_cases.of_stages(ranks)))
            if ranks == 4:
                worlds.append(("axes", 1, collective_cases.of_two_axes()))
            for name, stages, cases in worlds:
                with self.subTest(ranks=ranks, world=name):
                    self.check_world(ranks, stages, list(cases), self.tmp / f"{name}{ranks}")

    def check_world(self, ranks, stages, cases, folder):
        folders = [folder / str(i) for i in range(len(cases))]
        for case, place in zip(cases, folders):
            case.write(place)
        port = faults.free_port()
        command = [Path(AUTOPAR).with_name("run_shards"), *folders, "--ranks", ranks, "--stages", stages,
                   "--port", port, "--repeat", 2, "--rank"]
        environment = {**os.environ, "AUTOPAR_SECRET": nccl.SECRET}
        started = [processes.Process([*command, rank], environment) for rank in range(ranks)]
        for process in started:
            done = process.finish(300)
            process.stop()
            self.assertEqual(done.code, 0, done.stderr)
        self.assertEqual([case.name for case, place in zip(cases, folders) if case.faults(place)], [])
        wrong = folders[0] / "last" / f"rank{ranks - 1}.y0.npy"
        np.save(wrong, np.load(wrong) + 1)
        self.assertEqual(cases[0].faults(folders[0]), [f"rank {ranks - 1}, last run"])

    def test_a_missing_rank_is_one_line(self):
        done = processes.run([Path(AUTOPAR).with_name("run_shards"), self.tmp, "--ranks", 2],
                             os.environ, 60)
        self.assertEqual((done.code, done.stderr),
                         (1, "error: --port is missing: 2 ranks meet at one\n"))


class NcclTest(unittest.TestCase):
    def test_each_rank_is_on_a_machine_of_its_own(self):
        class OfPackage:
            environment = {"PATH": "/bin"}

        first, second = (nccl.environment_of(OfPackage, rank) for rank in (0, 1))
        self.assertNotEqual(first["NCCL_HOSTID"], second["NCCL_HOSTID"])
        self.assertEqual((first["NCCL_NET"], first["NCCL_SOCKET_IFNAME"]), ("Socket", "lo"))

    def test_a_refusal_is_told_from_a_failure(self):
        for words in ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000",
                      "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1"):
            self.assertTrue(nccl.REFUSALS.search(f"error: rank 0: NCCL: connecting: {words}"))
        self.assertFalse(nccl.REFUSALS.search("error: rank 0: NCCL: a collective: unhandled system error"))


class RefusalTest(TemporaryFolderTest):
    def test_where_nccl_sees_one_machine_it_is_told_and_no_pass(self):
        package = program.Program(Path(AUTOPAR).parents[1], "cuda",
                                  Path(os.environ["AUTOPAR_EMULATED_PLUGINS"]))
        page = report.Report(self.tmp / "page.md", "")
        context = Context(package, page, Clock(600), self.tmp, True)
        of_one_machine = {**package.environment, "NCCL_HOSTID": "one", "AUTOPAR_SECRET": nccl.SECRET}
        with unittest.mock.patch.object(nccl, "environment_of", lambda *_: of_one_machine):
            self.assertFalse(nccl.try_all(context, "2 ranks", nccl.check_collectives, 2))
        [row] = page.rows
        self.assertEqual(row.verdict, report.SKIPPED)
        self.assertRegex(row.measured, "not possible here: error: rank [01]: NCCL: connecting the GPUs")


class ParserTest(unittest.TestCase):
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
        self.assertGreater(preset["links"][0]["bytes_per_second"], 1e11)

    def test_a_run_fills_the_preset(self):
        preset = cost_model.preset_figures(cost_model.PRESETS.read_text())
        peaks = {"memory_bytes": 150_000_000_000, "flops_per_second": {"float32": 5.1e13},
                 "copy_bytes_per_second": 4.1e12, "launch_seconds": 2.1e-6}
        device = cost_model.measured_device(peaks, preset)
        lines = cost_model.preset_lines(device, preset)
        self.assertIn("{DataType::float32, 51.0 * tera}", lines)
        self.assertIn(".memory_bytes_per_second = 4100 * giga", lines)
        self.assertIn("data sheet for bfloat16", lines)

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
