"""--report writes one page that shows a plan: opened in a headless Chromium, in light and dark, it has
every operator with its strategy, the numbers of plan.json, and charts that are not blank. No name of a
model runs as a script, and nothing is asked of a network."""

import base64
import json
import tempfile
import unittest
from pathlib import Path

import browser
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from support import Model, TemporaryFolderTest, autopar, run, AUTOPAR

HOSTILE = [
    "</script><script>document.title='taken'</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "'\"`${document.title='taken'}\\",
    "tab\t newline\n and \x01 \u2028 ]]>",
]
# Sets the search and returns the rows that it shows: name, type, strategy, kind.
SEARCH = """
(names) => names.map((name) => {
  const input = document.getElementById("find");
  input.value = name;
  input.dispatchEvent(new Event("input"));
  return [...document.querySelectorAll("#found .row")].map((row) => [
    row.children[2].textContent, row.children[1].textContent, row.children[3].textContent,
    row.children[0].className.replace("chip ", "")]);
})
"""
# Colours of a PNG file and, for boxes of it, how many each has and of how many pixels.
COLOURS = """
async (png, boxes) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  return boxes.map(([x, y, width, height]) => {
    const pixels = new Uint32Array(context.getImageData(x, y, width, height).data.buffer);
    const counts = new Map();
    for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    return [...counts].map(([pixel, count]) =>
      [(pixel & 255) + "," + ((pixel >> 8) & 255) + "," + ((pixel >> 16) & 255), count]);
  });
}
"""
BOXES = """
[...document.querySelectorAll("canvas")].map((canvas) => {
  const box = canvas.getBoundingClientRect();
  return [box.left + scrollX, box.top + scrollY, box.width, box.height].map(Math.round);
})
"""


def as_call(script, *arguments):
    return f"({script})({', '.join(json.dumps(argument) for argument in arguments)})"


def in_seconds(seconds):
    """As the page writes it."""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def chain_model(file, names, op_types):
    """Operators one behind the other."""
    values = ["x", *(f"v{i}" for i in range(len(names) - 1)), "y"]
    nodes = [
        helper.make_node(op_type, [values[i], *(["w"] if op_type == "MatMul" else [])],
                         [values[i + 1]], name=name)
        for i, (name, op_type) in enumerate(zip(names, op_types, strict=True))
    ]  # fmt: skip
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 8]) for n in ("x", "y")]
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], [weight])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), file)


def slow_down(trace, factor):
    """As a machine would have measured it beside which what is predicted takes next to nothing."""
    document = json.loads(trace.read_text())
    for event in document["traceEvents"]:
        for key in event.keys() & {"ts", "dur"}:
            event[key] *= factor
    trace.write_text(json.dumps(document))


@unittest.skipUnless(browser.found, "no Chromium: install chromium-headless-shell")
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tmp = Path(folder.name)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, page, scheme="light"):
        self.browser.open(page, scheme)
        self.assertEqual(self.browser.errors, [])
        self.assertEqual(self.browser.requests, [])

    def search(self, names):
        return self.browser.run(as_call(SEARCH, names))

    def colours_of_charts(self):
        """By canvas: the pixels of each colour."""
        png = base64.b64encode(self.browser.screenshot()).decode()
        boxes = self.browser.run(BOXES)
        return [dict(each) for each in self.browser.run(as_call(COLOURS, png, boxes))]

    def test_bundle_with_a_measured_run(self):
        model = Model("gpt2-dynamo")
        bundle, trace, page = (self.tmp / name for name in ("bundle", "trace.json", "report.html"))
        model.partition(bundle, 4)
        autopar("run", "--dir", bundle, *model.input_options(), "--profile", trace)
        slow_down(trace, 1000)
        autopar("inspect", bundle, "--report", page, "--measured", trace)
        plan = json.loads((bundle / "plan.json").read_text())
        backgrounds = {}
        for scheme in ("light", "dark"):
            with self.subTest(scheme=scheme):
                self.open(page, scheme)
                self.check_operators(plan)
                self.check_numbers(plan)
                backgrounds[scheme] = self.check_charts()
        self.assertGreater(sum(backgrounds["light"]), 3 * 230)
        self.assertLess(sum(backgrounds["dark"]), 3 * 50)

    def check_operators(self, plan):
        operators = [entry for entry in plan["operators"] if "inputs" in entry]
        for entry, rows in zip(operators, self.search([e["name"] for e in operators]), strict=True):
            rows = [row for row in rows if row[0] == entry["name"]]
            self.assertEqual(len(rows), 1, entry["name"])
            _, op_type, strategy, kind = rows[0]
            self.assertEqual(op_type, entry["op_type"])
            wanted = ",".join(entry["inputs"]) + "->" + ",".join(entry["outputs"])
            self.assertTrue(strategy.startswith(wanted), strategy)
            is_whole = not any(c in "".join(entry["inputs"] + entry["outputs"]) for c in "SP")
            self.assertEqual(kind == "whole", is_whole, strategy)
        self.assertEqual(self.search(["no such operator"]), [[]])

    def check_numbers(self, plan):
        shown = self.browser.run("data.plan")
        self.assertEqual(shown, {key: plan[key] for key in plan if key != "operators"})
        cards = self.browser.run("[...document.querySelectorAll('.card .value')].map((e) => e.textContent)")
        self.assertEqual(cards[0], in_seconds(plan["summary"]["cost_seconds"]))
        self.assertEqual(cards[1], in_seconds(plan["summary"]["communication_seconds"]))
        self.assertEqual(self.browser.run("document.querySelectorAll('#memory tbody tr').length"), 4)
        uses = self.browser.run("document.querySelectorAll('#communication tbody tr').length")
        self.assertEqual(uses, len(plan["collectives"]))

    def check_charts(self):
        """Each has something in the colours of its series; returns the page's background."""
        bars, curves, simulated, measured, costs = self.colours_of_charts()
        colour = lambda name: self.browser.run(  # noqa: E731
            f"(() => {{ const probe = make('i'); probe.style.color = 'var(--{name})'; document.body.append(probe);"
            "const text = getComputedStyle(probe).color; probe.remove(); return text.match(/[0-9]+/g).join(); })()"
        )
        for name in ("weights", "values"):
            self.assertGreater(bars.get(colour(name), 0), 50, name)
        self.assertGreater(curves.get(colour("first"), 0), 200)
        self.assertGreater(simulated.get(colour("computation"), 0), 200)
        self.assertGreater(simulated.get(colour("communication"), 0), 20)
        self.assertGreater(measured.get(colour("computation"), 0), 10)
        self.assertGreater(costs.get(colour("measured"), 0), 100)
        for name in ("computation", "communication"):
            self.assertGreater(costs.get(colour(name), 0), 10, name)
        curve_ranks = self.browser.run("data.profiles[0].memory.curves.flatMap((curve) => curve.ranks).sort()")
        self.assertEqual(curve_ranks, [0, 1, 2, 3])
        drawn = self.browser.run("shown_charts[1].chart.data.datasets.length")
        self.assertEqual(drawn, self.browser.run("data.profiles[0].memory.curves.length"))
        lanes = self.browser.run("shown_charts[3].chart.data.labels")
        self.assertEqual({lane[:6] for lane in lanes}, {f"rank {rank}" for rank in range(4)})
        return [int(part) for part in colour("page").split(",")]

    def test_blocks_open_and_operators_are_told_where_the_pointer_is(self):
        page = self.tmp / "llama.html"
        autopar("plan", Model("llama-dynamo").file, "--shape", "input_ids=1x16", "--ngpus", 2,
                "--report", page)  # fmt: skip
        self.open(page)
        opened = self.browser.run(
            "(() => { const block = document.querySelectorAll('.block')[1]; block.querySelector('button').click();"
            "return [block.querySelectorAll('.layer .row').length, block.querySelectorAll('.cells .chip').length]; })()"
        )
        self.assertGreater(opened[0], 3)
        self.assertEqual(opened[0], opened[1])
        told = self.browser.run(
            "(() => { const cell = document.querySelectorAll('.cells .chip')[3]; cell.dispatchEvent("
            "new MouseEvent('mousemove', {bubbles: true, clientX: 300, clientY: 300}));"
            "return [tooltip.hidden, tooltip.textContent, operators_text(Number(cell.dataset.operator))];"
            "function operators_text(i) { const flow = data.profiles[0].flow; return [flow.operators.name[i],"
            "flow.strategies[flow.operators.strategy[i]].text]; } })()"
        )
        self.assertFalse(told[0])
        for text in told[2]:
            self.assertIn(text, told[1])
        revealed = self.browser.run(
            "(() => { const name = data.profiles[0].flow.operators.name.at(-1); const input = document.getElementById('find');"
            "input.value = name; input.dispatchEvent(new Event('input')); document.querySelector('#found .row').click();"
            "return document.querySelector('.row.marked span:nth-child(3)').textContent === name; })()"
        )
        self.assertTrue(revealed)

    def test_names_are_never_run(self):
        model, page = self.tmp / "hostile.onnx", self.tmp / "hostile.html"
        chain_model(model, HOSTILE, ["MatMul", "Relu", "MatMul", "Tanh", "Relu"])
        autopar("plan", model, "--ngpus", 2, "--report", page)
        self.open(page)
        self.assertEqual(self.browser.run("document.title"), "hostile.onnx on 2 × h200")
        names = self.browser.run("data.profiles[0].flow.operators.name")
        self.assertEqual(names, HOSTILE)
        self.browser.run("document.querySelectorAll('.block > button').forEach((button) => button.click())")
        shown = self.browser.run("[...document.querySelectorAll('.layer .row span:nth-child(3)')].map((e) => e.textContent)")
        self.assertEqual(shown, HOSTILE)
        self.assertEqual(self.browser.run("document.scripts.length"), 3)
        self.assertEqual(self.browser.run("document.images.length"), 0)
        self.assertEqual(self.browser.run("document.title"), "hostile.onnx on 2 × h200")

    def test_ten_thousand_operators(self):
        model, page = self.tmp / "large.onnx", self.tmp / "large.html"
        layer = ["MatMul", "Relu", "Tanh", "Sigmoid"]
        names = [f"/layers.{i}/{op_type}" for i in range(2500) for op_type in layer]
        chain_model(model, names, layer * 2500)
        autopar("plan", model, "--ngpus", 2, "--search", "propagation", "--report", page)
        self.assertLess(page.stat().st_size, 4_000_000)
        self.open(page)
        self.assertGreater(self.browser.run("document.querySelectorAll('.block.repeated').length"), 0)
        self.assertEqual(self.search(["layers.2499/ sigmoid"])[0][0][0], "/layers.2499/Sigmoid")
        self.assertLess(self.browser.run("document.querySelectorAll('*').length"), 3000)

    def test_comparison(self):
        model = Model("gpt2-dynamo")
        files = [self.tmp / name for name in ("a.json", "b.json")]
        for file, memory in zip(files, ("fair", "device"), strict=True):
            file.write_text(autopar("plan", model.file, *model.shape_options(), "--ngpus", 4,
                                    "--memory", memory, "--json").stdout)  # fmt: skip
        page = self.tmp / "comparison.html"
        compared = json.loads(autopar("plan", "--compare", *files, "--report", page, "--json").stdout)
        self.open(page, "dark")
        self.assertEqual(self.browser.run("data.comparison"), compared)
        rows = self.browser.run("document.querySelectorAll('#operators tbody tr').length")
        self.assertEqual(rows, len(compared["operators"]))
        self.assertGreater(rows, 0)
        cells = self.browser.run("[...document.querySelectorAll('#summary tr:first-child td')].map((e) => e.textContent)")
        self.assertEqual(cells[1:], [in_seconds(compared[side]["cost_seconds"]) for side in "ab"])
        self.assertGreater(len(self.colours_of_charts()[0]), 5)


    def test_table_of_devices(self):
        model = Model("gpt2-dynamo")
        page = self.tmp / "sizing.html"
        table = json.loads(autopar(
            "plan", model.file, *model.shape_options(), "--ngpus", "1,2,4", "--device", "h100,l4",
            "--price", "h100=2.5", "--memory", "500KiB", "--report", page, "--json").stdout)  # fmt: skip
        self.open(page)
        self.assertEqual(self.browser.run("data.sizing"), table)
        cells = self.browser.run(
            "[...document.querySelectorAll('#sizing tbody tr')].map((row) => "
            "[...row.children].map((cell) => cell.textContent))")  # fmt: skip
        self.assertEqual(len(cells), 6)
        for row, shown in zip(table["rows"], cells, strict=True):
            self.assertEqual(shown[0], f"{row['ngpus']} × {row['device']}")
            self.assertEqual("the cheapest" in shown[2], row["cheapest"])
            self.assertEqual("the first that fits" in shown[2], row["first_that_fits"])
            if "plan" in row:
                self.assertEqual(shown[3], in_seconds(row["plan"]["seconds"]))
            else:
                self.assertTrue(shown[1].startswith("none: "), shown)
        self.assertTrue(any("plan" not in row for row in table["rows"]), "one device has less memory")
        self.assertTrue(any(row["cheapest"] for row in table["rows"]))
        seconds = self.browser.run("shown_charts[0].chart.data.datasets.map((set) => [set.label, ...set.data])")
        wanted = [[device, *(row.get("plan", {}).get("seconds") for row in table["rows"] if row["device"] == device)]
                  for device in ("h100", "l4")]  # fmt: skip
        self.assertEqual(seconds, wanted)
        charts = self.colours_of_charts()
        self.assertEqual(len(charts), 3)  # the last is of prices
        for chart in charts:
            self.assertGreater(len(chart), 5)


class OptionsTest(TemporaryFolderTest):
    def test_where_it_cannot_be_written_is_told_before_the_search(self):
        model = Model("mlp-dynamo").file
        done = autopar("plan", model, "--ngpus", 0, "--report", self.tmp / "no" / "r.html", expect=1)
        self.assertIn("--ngpus 0", done.stderr)
        self.assertIn("--report", done.stderr)
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_what_is_no_trace_is_told(self):
        trace = self.tmp / "trace.json"
        trace.write_text("[]")
        done = autopar("plan", Model("mlp-dynamo").file, "--ngpus", 2, "--report",
                       self.tmp / "r.html", "--measured", trace, expect=1)  # fmt: skip
        self.assertIn("it is no trace of run --profile", done.stderr)
        self.assertFalse((self.tmp / "r.html").exists())

    def test_options_that_do_not_go_together(self):
        model = Model("mlp-dynamo").file
        run(AUTOPAR, "plan", model, "--ngpus", 2, "--measured", "t.json", expect=2)
        run(AUTOPAR, "plan", model, "--ngpus", 2, "--explain", "*", "--report", "r.html", expect=2)
        run(AUTOPAR, "plan", model, "--ngpus", "1,2", "--measured", "t.json", "--report", "r.html",
            expect=2)  # fmt: skip
        done = autopar("inspect", model, "--report", self.tmp / "r.html", expect=1)
        self.assertIn("give it to plan", done.stderr)


if __name__ == "__main__":
    unittest.main()
