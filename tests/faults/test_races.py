"""What others do to files while a command works on them: nothing of theirs is lost, and what they
take away ends in one line."""

import os
import subprocess
import tempfile
import unittest

import onnx

import faults
from places import Places, bundle_of, contents, partition
from support import AUTOPAR, autopar


class RacesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.places = Places(folder.name)
        self.places.reset()
        self.work = self.places.work.resolve()
        self.out = self.work / "out"

    def stopped(self, arguments, fault):
        process = faults.stopped(arguments, faults=fault, under=self.work)
        self.addCleanup(process.kill)
        return process

    def assert_refused(self, done, *parts):
        """One line of error that has every part."""
        self.assertEqual(done.returncode, 1, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
        self.assertEqual(len(errors), 1, done.stderr)
        for part in parts:
            self.assertIn(part, errors[0])

    def test_a_folder_that_appears_stays(self):
        for options in ((), ("--force",)):
            with self.subTest(options=options):
                process = self.stopped(partition(self.places.model, self.out, 2, *options), "mkdir:1:stop")
                self.out.mkdir(exist_ok=True)
                (self.out / "thesis.tex").write_text("years of work")
                self.assert_refused(faults.resumed(process), str(self.out))
                self.assertEqual((self.out / "thesis.tex").read_text(), "years of work")
                self.assertEqual(self.places.names(), {"model", "out"})
                (self.out / "thesis.tex").unlink()
                self.out.rmdir()

    def test_a_folder_that_appears_stays_where_renames_replace(self):
        """As on NFS."""
        process = self.stopped(
            partition(self.places.model, self.out, 2), "noreplace:1:EINVAL+,mkdir:1:stop"
        )
        self.out.mkdir()
        (self.out / "thesis.tex").write_text("years of work")
        self.assert_refused(faults.resumed(process), str(self.out))
        self.assertEqual([path.name for path in self.out.iterdir()], ["thesis.tex"])

    def test_of_two_at_once_one_has_the_place(self):
        for fault in ("noreplace:1:stop", "noreplace:1:EINVAL+,rename:999:kill,sync:9:stop"):
            with self.subTest(fault=fault):
                self.places.reset()
                first = self.stopped(partition(self.places.model, self.out, 2), fault)
                autopar(*partition(self.places.model, self.out, 3))
                before = contents(self.out)
                self.assert_refused(faults.resumed(first), str(self.out))
                self.assertEqual(contents(self.out), before)
                self.assertEqual(self.places.names(), {"model", "out"})

    def test_one_that_lives_is_not_swept(self):
        first = self.stopped(partition(self.places.model, self.out, 2), "noreplace:1:stop")
        autopar(*partition(self.places.model, self.out, 3))
        partials = [name for name in self.places.names() if ".partial-" in name]
        self.assertEqual(len(partials), 1)
        self.assert_refused(faults.resumed(first), str(self.out))

    def test_a_model_that_is_truncated(self):
        for outside in (False, True):
            for bytes_left in (0, 5000):
                with self.subTest(outside=outside, bytes_left=bytes_left):
                    self.places.reset()
                    name = "weights" if outside else "model.onnx"
                    if outside:  # the weights lie in a file of their own
                        model = onnx.load(self.places.model)
                        onnx.save(model, self.places.model, save_as_external_data=True,
                                  location=name, size_threshold=0)  # fmt: skip
                    process = self.stopped(
                        partition(self.places.model, self.out, 2), "mkdir:1:stop"
                    )
                    os.truncate(self.places.model.parent / name, bytes_left)
                    self.assert_refused(faults.resumed(process), name, "while it was read")
                    self.assertEqual(self.places.names(), {"model"})

    def test_a_model_that_is_written_anew(self):
        process = self.stopped(partition(self.places.model, self.out, 2), "mkdir:1:stop")
        data = self.places.model.read_bytes()
        with self.places.model.open("r+b") as file:
            file.write(data)
        os.utime(self.places.model, ns=(1, 1))
        self.assert_refused(faults.resumed(process), "model.onnx", "was changed while it was read")
        self.assertEqual(self.places.names(), {"model"})

    def test_shards_that_are_truncated(self):
        arguments = ["run", "--dir", self.out, "--random-inputs", 1]
        autopar(*partition(self.places.model, self.out, 1))
        counted = self.work / "counts"
        faults.run(arguments, under=self.work, counts=counted)
        # The last file that is closed is the one of weights, which is mapped by then; where kernels
        # keep weights in forms of their own, it is closed once more, when all of them were read.
        for closes_behind in (0, 1):
            autopar(*partition(self.places.model, self.out, 1), "--force")
            close = faults.counts(counted)["close"] - closes_behind
            process = self.stopped(arguments, f"close:{close}:stop")
            os.truncate(self.out / "rank0.data", 100)
            done = faults.resumed(process)
            if done.returncode != 0:
                break
        self.assert_refused(done, "rank0.data", "while it was read")
        self.assertEqual(done.stdout, "")

    def test_pipes_that_nobody_writes(self):
        pipe = self.work / "pipe"
        os.mkfifo(pipe)
        for name in ("device.json", "x.npy", "x.pb"):
            os.symlink(pipe, self.work / name)
        plan = ["plan", self.places.model, "--ngpus", 2]
        self.assert_refused(faults.run([*plan, "--strategy", pipe]), "nobody writes")
        self.assert_refused(
            faults.run([*plan, "--device", self.work / "device.json"]), "nor a file"
        )
        autopar(*partition(self.places.model, self.out, 2))
        self.assert_refused(faults.run(["plan", "--compare", self.out, pipe]), "nobody writes")
        for name in ("x.npy", "x.pb"):
            done = faults.run(["run", "--dir", self.out, "--input", f"x={self.work / name}"])
            self.assert_refused(done, name, "not a regular file")
        (self.out / "meta-info.json").unlink()
        os.mkfifo(self.out / "meta-info.json")
        self.assert_refused(faults.run(["run", "--dir", self.out]), "nobody writes")

    def test_a_pipe_that_somebody_writes(self):
        _, bundle = bundle_of(self.work, 2)
        command = f'"{AUTOPAR}" plan --compare "{bundle}" <(cat "{bundle}/plan.json")'
        subprocess.run(["bash", "-c", command], check=True, capture_output=True, timeout=600)

    def test_a_link_at_the_place_of_an_output(self):
        autopar(*partition(self.places.model, self.out, 2))
        precious = self.work / "precious"
        precious.write_text("years of work")
        results = self.work / "results"
        results.mkdir()
        for name in ("y.npy", "trace.json"):
            os.symlink(precious, results / name)
        autopar("run", "--dir", self.out, "--random-inputs", 1, "--output-dir", results,
                "--profile", results / "trace.json")  # fmt: skip
        self.assertEqual(precious.read_text(), "years of work")
        self.assertFalse((results / "y.npy").is_symlink())

    def test_a_full_disk_leaves_no_empty_trace(self):
        autopar(*partition(self.places.model, self.out, 2))
        trace = self.work / "trace.json"
        for command in (["run", "--dir", self.out, "--random-inputs", 1, "--profile", trace],
                        ["plan", self.places.model, "--ngpus", 2, "--simulate", trace]):  # fmt: skip
            done = faults.run(command, faults="write:1:ENOSPC+", under=self.work)
            self.assert_refused(done, str(trace), "No space left")
            self.assertEqual(self.places.names(), {"model", "out"})


if __name__ == "__main__":
    unittest.main()
