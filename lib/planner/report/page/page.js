"use strict";
// Shows the data that stand in the page; they are all computed by autopar (report_data.h). Names
// come from models: they are only ever set as text.

const data = JSON.parse(document.getElementById("data").textContent);
const most_found = 200;
const most_cells = 600;
const most_outlined = 400;

const kinds = {
  whole: "whole on every rank",
  first: "split by the first dimension",
  middle: "split by a dimension between",
  last: "split by the last dimension",
  sum: "split by what is summed up",
  several: "split by several of these",
};

// ---- Text and elements ---------------------------------------------------------------------

function scaled(value, units, base) {
  let i = 0;
  while (i + 1 < units.length && Math.abs(value) >= base) {
    value /= base;
    ++i;
  }
  return `${i === 0 && Number.isInteger(value) ? value : value.toFixed(1)} ${units[i]}`;
}

const in_seconds = (seconds) =>
  seconds < 1 ? scaled(seconds * 1e6, ["us", "ms"], 1000) : `${seconds.toFixed(2)} s`;
const in_bytes = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const in_percent = (share) => `${(100 * share).toFixed(1)} %`;
const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const over = (axes) => (axes.length ? ` over axis ${axes.join(",")}` : "");

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(element.dataset, value);
    else if (name.startsWith("aria-")) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const chip = (kind, properties = {}) => make("span", { className: `chip ${kind}`, ...properties });

function section(id, title, note, ...children) {
  const head = [make("h2", { textContent: title })];
  if (note) head.push(make("p", { className: "soft", textContent: note }));
  return make("section", { id }, ...head, ...children);
}

/// Cells are texts; of `numbers` columns from the right, numbers.
function table(names, rows, numbers = 0) {
  const row = (tag, cells) =>
    make("tr", {}, ...cells.map((text, i) =>
      make(tag, { textContent: text, className: i >= cells.length - numbers ? "number" : "" })));
  return make("table", {}, make("thead", {}, row("th", names)),
    make("tbody", {}, ...rows.map((cells) => row("td", cells))));
}

const as_table = (...arguments_) =>
  make("details", {}, make("summary", { textContent: "as a table" }), table(...arguments_));

function card(name, value, note = "") {
  return make("div", { className: "card" }, make("div", { className: "name", textContent: name }),
    make("div", { className: "value", textContent: value }),
    make("div", { className: "note", textContent: note }));
}

// ---- What is told where the pointer is -------------------------------------------------------

const tooltip = document.getElementById("tooltip");

function show_tooltip(event, title, facts) {
  const list = make("dl", {}, ...facts.flatMap(([name, value]) =>
    [make("dt", { textContent: name }), make("dd", { textContent: value })]));
  tooltip.replaceChildren(make("b", { textContent: title }), list);
  tooltip.hidden = false;
  const place = (at, size, room) => Math.max(4, at + size + 20 > room ? at - size - 12 : at + 14);
  tooltip.style.left = `${place(event.clientX, tooltip.offsetWidth, innerWidth)}px`;
  tooltip.style.top = `${place(event.clientY, tooltip.offsetHeight, innerHeight)}px`;
}

// ---- Charts ----------------------------------------------------------------------------------

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const shown_charts = [];  // functions that make a chart and return it

function chart(height, configure) {
  const canvas = make("canvas");
  const box = make("div", { className: "chart" }, canvas);
  box.style.height = `${height}px`;
  const shown = { canvas, configure, chart: null };
  shown_charts.push(shown);
  return [box, shown];
}

/// An axis of numbers that `text` tells.
function axis(text, more = {}) {
  return {
    ticks: { color: colour("soft"), callback: (value) => text(value), maxRotation: 0, ...more.ticks },
    grid: { color: colour("grid"), borderColor: colour("line") },
    ...Object.fromEntries(Object.entries(more).filter(([name]) => name !== "ticks")),
  };
}

/// An axis of bytes has ticks at a power of two.
const bytes_axis = (most, more = {}) =>
  axis(in_bytes, { ...more, ticks: { stepSize: 2 ** Math.max(0, Math.ceil(Math.log2(most / 8))) } });

function names_axis() {
  return { ticks: { color: colour("text"), autoSkip: false }, grid: { display: false, borderColor: colour("line") } };
}

/// `label` and `title` tell what is under the pointer.
function plugins(label, has_legend, title) {
  return {
    legend: { display: has_legend, labels: { color: colour("text"), boxWidth: 14 } },
    tooltip: { callbacks: title ? { label, title } : { label } },
  };
}

function draw(shown) {
  shown.chart?.destroy();
  const config = shown.configure();
  config.options = { animation: false, responsive: true, maintainAspectRatio: false, ...config.options };
  shown.chart = new Chart(shown.canvas, config);
}

const draw_charts = () => shown_charts.forEach(draw);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw_charts);

// ---- Operators and how they are found --------------------------------------------------------

class Operators {
  constructor(flow) {
    this.flow = flow;
    this.moves_to = new Map();
    flow.moves.forEach((move) => {
      if (!this.moves_to.has(move.to)) this.moves_to.set(move.to, []);
      this.moves_to.get(move.to).push(move);
    });
  }
  get count() { return this.flow.operators.name.length; }
  name(i) { return this.flow.operators.name[i]; }
  op_type(i) { return this.flow.op_types[this.flow.operators.op_type[i]]; }
  shape(i) { return this.flow.shapes[this.flow.operators.shape[i]]; }
  strategy(i) { return this.flow.strategies[this.flow.operators.strategy[i]]; }
  seconds(i) { return this.flow.operators.seconds[i]; }
  stage(i) { return this.flow.operators.stage[i]; }
  /// What is moved for the operator: before it, then its own reductions.
  moves(i) { return this.moves_to.get(i) ?? []; }

  facts(i) {
    const facts = [
      ["strategy", this.strategy(i).text], ["", kinds[this.strategy(i).kind]],
      ["output", this.shape(i) || "scalar"], ["time", in_seconds(this.seconds(i))],
    ];
    for (const move of this.moves(i)) facts.push([move.kind, move_text(move)]);
    return facts;
  }

  /// Places of those that have every word in name, type or strategy.
  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    if (words.length === 0) return found;
    for (let i = 0; i < this.count; ++i) {
      const all = `${this.name(i)} ${this.op_type(i)} ${this.strategy(i).text}`.toLowerCase();
      if (words.every((word) => all.includes(word))) found.push(i);
    }
    return found;
  }

  row(i) {
    const strategy = this.strategy(i);
    return make("div", { className: "row", data: { operator: i } }, chip(strategy.kind),
      make("span", { textContent: this.op_type(i) }), make("span", { textContent: this.name(i) }),
      make("code", { textContent: strategy.text }), make("span", { className: "soft", textContent: this.shape(i) }),
      make("span", { className: "right", textContent: in_seconds(this.seconds(i)) }));
  }
}

const move_text = (move) =>
  `${move.value}: ${move.before} to ${move.after}${over(move.mesh_axes)}, ` +
  (move.bytes ? `${in_bytes(move.bytes)}, ` : "") + in_seconds(move.seconds);

function pill(use) {
  const sent = use.bytes ? `, ${in_bytes(use.bytes)}` : "";
  const times = use.times > 1 ? `${use.times} × ` : "";
  return make("span", {
    className: `pill ${use.kind}`,
    textContent: `${times}${use.kind}${over(use.mesh_axes)}${sent}, ${in_seconds(use.seconds)}`,
  });
}

const pills = (uses) => (uses.length ? make("div", { className: "pills" }, ...uses.map(pill)) : null);

// ---- The model as blocks ---------------------------------------------------------------------

class Block {
  constructor(operators, block) {
    Object.assign(this, { operators, block });
    const title = (block.name || this.guessed_name()) + (block.repeats > 1 ? ` × ${block.repeats}` : "");
    this.button = make("button", { type: "button", "aria-expanded": "false" },
      make("div", { className: "title" }, make("b", { textContent: title }),
        make("span", { textContent: this.size_text() })),
      this.share(), this.cells(), pills(block.collectives));
    this.button.addEventListener("click", () => (this.layer ? this.close() : this.open(0)));
    this.element = make("div", { className: block.repeats > 1 ? "block repeated" : "block" }, this.button);
  }
  has(i) { return i >= this.block.first && i < this.block.first + this.block.operators * this.block.repeats; }
  guessed_name() {
    const last = this.block.first + this.block.operators - 1;
    const ends = [this.operators.op_type(this.block.first), this.operators.op_type(last)];
    return this.block.operators > 1 ? `${ends[0]} to ${ends[1]}` : ends[0];
  }
  size_text() {
    const each = this.block.repeats > 1 ? " each" : "";
    return `${counted(this.block.operators, "operator")}${each}, ${in_seconds(this.block.seconds)}`;
  }
  share() {
    const parts = Object.entries(this.block.kinds).filter(([, seconds]) => seconds > 0);
    return make("div", { className: "share" }, ...parts.map(([kind, seconds]) => {
      const part = make("span", { className: kind, title: `${kinds[kind]}: ${in_seconds(seconds)}` });
      part.style.flexGrow = seconds / this.block.seconds;
      return part;
    }));
  }
  cells() {
    const cells = make("div", { className: "cells" });
    for (let i = 0; i < Math.min(this.block.operators, most_cells); ++i) {
      const at = this.block.first + i;
      cells.append(chip(this.operators.strategy(at).kind, { data: { operator: at } }));
    }
    return cells;
  }
  open(layer) {
    this.close();
    this.layer = make("div", { className: "layer" });
    if (this.block.repeats > 1) this.layer.append(this.layer_choice(layer));
    const first = this.block.first + layer * this.block.operators;
    for (let i = first; i < first + this.block.operators; ++i) {
      const [own, before] = [[], []];
      for (const move of this.operators.moves(i)) (move.from === i ? own : before).push(move);
      const moves = (list) => list.map((move) =>
        make("div", { className: "move", title: move_text(move) }, pill({ times: 1, ...move })));
      this.layer.append(...moves(before), this.operators.row(i), ...moves(own));
    }
    this.element.append(this.layer);
    this.button.setAttribute("aria-expanded", "true");
  }
  layer_choice(layer) {
    const choice = make("select", { "aria-label": "layer" });
    for (let r = 0; r < this.block.repeats; ++r)
      choice.append(make("option", { value: r, textContent: `repetition ${r + 1}`, selected: r === layer }));
    choice.addEventListener("change", () => this.open(Number(choice.value)));
    return choice;
  }
  close() {
    this.layer?.remove();
    this.layer = null;
    this.button.setAttribute("aria-expanded", "false");
  }
  reveal(i) {
    this.open(Math.floor((i - this.block.first) / this.block.operators));
    const row = this.layer.querySelector(`[data-operator="${i}"]`);
    row.classList.add("marked");
    row.scrollIntoView({ block: "center" });
  }
}

/// An edge that passes blocks by, as an arc beside them.
function arc(edge, lane, blocks) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const middle = (block) => block.element.offsetTop + block.button.offsetHeight / 2;
  const [from, to] = [middle(blocks[edge.from]) + 8, middle(blocks[edge.to]) - 8];
  const x = 84 - Math.min(74, 14 + 9 * lane);
  path.setAttribute("d", `M92,${from} C${x},${from} ${x},${from} ${x},${from + 14} V${to - 14} C${x},${to} ${x},${to} 92,${to}`);
  if (edge.collectives.length) path.classList.add("busy");
  return path;
}

const edge_facts = (edge) => [
  ["carries", `${counted(edge.values, "value")}, ${in_bytes(edge.bytes)} in all`],
  ...edge.collectives.map((use) => [use.kind,
    `${use.times} times${over(use.mesh_axes)}, ${in_bytes(use.bytes)}, ${in_seconds(use.seconds)}`])];

class StageFlow {
  constructor(operators, stage) {
    this.stage = stage;
    this.blocks = stage.blocks.map((block) => new Block(operators, block));
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.element = make("div", { className: "flow" }, this.svg);
    this.blocks.forEach((block, i) => {
      if (i > 0) this.element.append(this.link(i));
      this.element.append(block.element);
    });
    new ResizeObserver(() => this.draw_arcs()).observe(this.element);
  }
  link(to) {
    const edge = this.stage.edges.find((each) => each.to === to && each.from === to - 1);
    const link = make("div", { className: "link" });
    if (!edge) return link;
    link.append(make("span", { textContent: `${counted(edge.values, "value")}, ${in_bytes(edge.bytes)}` }));
    link.append(...(edge.collectives.length ? [pills(edge.collectives)] : []));
    return link;
  }
  draw_arcs() {
    const lanes = [];  // by lane: where its last arc ends
    this.svg.replaceChildren();
    for (const edge of this.stage.edges) {
      if (edge.to === edge.from + 1) continue;
      let lane = lanes.findIndex((end) => end <= edge.from);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = edge.to;
      const path = arc(edge, lane, this.blocks);
      path.addEventListener("mousemove", (event) => show_tooltip(event, "passes blocks by", edge_facts(edge)));
      path.addEventListener("mouseleave", () => (tooltip.hidden = true));
      this.svg.append(path);
    }
  }
}

function model_section(flow) {
  const operators = new Operators(flow);
  const used = new Set(flow.strategies.map((strategy) => strategy.kind));
  const legend = make("div", { className: "legend" }, ...Object.entries(kinds)
    .filter(([kind]) => used.has(kind))
    .map(([kind, text]) => make("span", {}, chip(kind), text)));
  const stages = flow.stages.map((stage) => new StageFlow(operators, stage));
  const titled = stages.flatMap((shown, s) => stages.length === 1 ? [shown.element] : [
    make("h3", { textContent: `Stage ${s}: ${ranks_text(shown.stage)}, mesh ${shown.stage.mesh}` }), shown.element]);

  const input = make("input", { id: "find", type: "search", placeholder: "Find operators: words of name, type or strategy", "aria-label": "Find operators" });
  const count = make("div", { id: "found_count", className: "soft", "aria-live": "polite" });
  const list = make("div", { className: "found", id: "found" });
  const find = () => {
    const found = operators.find(input.value);
    const more = found.length > most_found ? `, the first ${most_found} of them here` : "";
    count.textContent = input.value.trim() ? `${counted(found.length, "operator")} found${more}` : "";
    list.replaceChildren(...found.slice(0, most_found).map((i) => operators.row(i)));
  };
  input.addEventListener("input", find);
  input.addEventListener("change", () =>
    history.replaceState(null, "", input.value ? `#find=${encodeURIComponent(input.value)}` : "#"));
  list.addEventListener("click", (event) => {
    const row = event.target.closest("[data-operator]");
    if (!row) return;
    const i = Number(row.dataset.operator);
    stages[operators.stage(i)].blocks.find((block) => block.has(i)).reveal(i);
  });
  const shown = section("model", "How the model is split",
    `${counted(operators.count, "operator")} in the order in which they run; a square is an operator, a stack of boxes ` +
    "is a layer that is repeated. Point at a square for its strategy, open a box for its operators.",
    input, count, list, legend, ...titled);
  shown.addEventListener("mousemove", (event) => {
    const of = event.target.closest("[data-operator]");
    if (of) {
      const i = Number(of.dataset.operator);
      show_tooltip(event, `${operators.op_type(i)} ${operators.name(i)}`, operators.facts(i));
    } else if (!event.target.closest("path")) {
      tooltip.hidden = true;
    }
  });
  shown.addEventListener("mouseleave", () => (tooltip.hidden = true));
  const wanted = /^#find=(.*)$/.exec(location.hash);
  if (wanted) {
    input.value = decodeURIComponent(wanted[1]);
    find();
  }
  return shown;
}

const ranks_text = (stage) => stage.ranks === 1 ? `rank ${stage.first_rank}`
  : `ranks ${stage.first_rank}-${stage.first_rank + stage.ranks - 1}`;

// ---- Memory ----------------------------------------------------------------------------------

function list_of_ranks(ranks) {
  const last = ranks[ranks.length - 1];
  const is_row = last - ranks[0] === ranks.length - 1;
  if (ranks.length === 1) return `rank ${last}`;
  return is_row ? `ranks ${ranks[0]}-${last}` : `ranks ${ranks.join(", ")}`;
}

const curve_colours = ["first", "last", "middle", "sum", "several", "whole"];

function memory_section(memory) {
  const parts = [["weights", "weight_bytes", "weights"], ["values alive at the peak", "activation_bytes", "values"],
    ["kept for packing them", "reserve_bytes", "packing"]];
  const most = Math.max(...memory.ranks.map((rank) => rank.peak_bytes));
  const [bars] = chart(70 + 26 * memory.ranks.length, () => ({
    type: "bar",
    data: {
      labels: memory.ranks.map((rank) => `rank ${rank.rank}`),
      datasets: parts.map(([label, field, name]) => ({
        label, data: memory.ranks.map((rank) => rank[field]), backgroundColor: colour(name), maxBarThickness: 18,
      })),
    },
    options: {
      indexAxis: "y",
      scales: { x: bytes_axis(most, { stacked: true }), y: { ...names_axis(), stacked: true } },
      plugins: plugins((item) => `${item.dataset.label}: ${in_bytes(item.raw)}`, true),
    },
  }));
  const [curves] = chart(280, () => ({
    type: "line",
    data: {
      datasets: memory.curves.map((curve, c) => ({
        label: list_of_ranks(curve.ranks), stepped: true, pointRadius: 0, borderWidth: 2, fill: memory.curves.length === 1,
        data: curve.seconds.map((x, i) => ({ x, y: curve.bytes[i] })),
        borderColor: colour(curve_colours[c % curve_colours.length]),
        backgroundColor: `${colour(curve_colours[c % curve_colours.length])}33`,
      })),
    },
    options: {
      parsing: false, interaction: { mode: "nearest", axis: "x", intersect: false },
      scales: { x: axis(in_seconds, { type: "linear" }), y: bytes_axis(most, { beginAtZero: true }) },
      plugins: plugins((item) => `${item.dataset.label}: ${in_bytes(item.raw.y)}`, true, (items) => in_seconds(items[0].raw.x)),
    },
  }));
  const rows = memory.ranks.map((rank) => [`rank ${rank.rank}`, memory.curves[rank.curve].peak_operator,
    in_bytes(rank.weight_bytes), in_bytes(rank.activation_bytes), in_bytes(rank.reserve_bytes), in_bytes(rank.peak_bytes)]);
  return section("memory", "Memory",
    `Of each rank, predicted. The limit that the plan keeps is ${in_bytes(memory.limit_bytes)} a rank.`,
    bars, make("h3", { textContent: "Over the time of a run (of one microbatch)" }), curves,
    as_table(["rank", "the peak is where", "weights", "values", "packing", "together"], rows, 4));
}

// ---- Timelines -------------------------------------------------------------------------------

/// The bars of [begin, end] as they can be seen: neighbours that are narrower than half a pixel are one.
function visible_bars(timeline, begin, end, pixels) {
  const bars = { computation: [], communication: [], transfer: [] };
  const narrow = (end - begin) / pixels / 2;
  for (const lane of timeline.lanes) {
    const last = {};
    for (let i = 0; i < lane.begin.length; ++i) {
      const to = lane.begin[i] + lane.duration[i];
      if (to < begin || lane.begin[i] > end || lane.duration[i] === 0) continue;
      const kind = lane.kind[i];
      const before = last[kind];
      if (before && to - before.x[0] < narrow) {
        before.x[1] = to;
        before.count += lane.count[i];
        continue;
      }
      last[kind] = { x: [lane.begin[i], to], y: lane.name, operator: lane.operator[i], count: lane.count[i] };
      bars[kind].push(last[kind]);
    }
  }
  return bars;
}

function bar_text(timeline, bar) {
  const [op_type, name] = timeline.names[bar.operator];
  const others = bar.count > 1 ? ` and ${bar.count - 1} more` : "";
  return `${op_type} ${name}${others}: ${in_seconds((bar.x[1] - bar.x[0]) * 1e-6)}`;
}

function timeline_chart(timeline) {
  const whole = [0, timeline.microseconds];
  let range = whole;
  const [box, shown] = chart(64 + 30 * timeline.lanes.length, () => {
    const bars = visible_bars(timeline, ...range, 1000);
    return {
      type: "bar",
      data: {
        labels: timeline.lanes.map((lane) => lane.name),
        datasets: Object.entries(bars).filter(([, list]) => list.length).map(([kind, list]) => ({
          label: kind, data: list, backgroundColor: colour(kind), grouped: false, minBarLength: 1,
          barPercentage: 0.8, categoryPercentage: 0.9, borderSkipped: false, borderColor: colour("card"),
          borderWidth: list.length > most_outlined ? 0 : 0.5,
        })),
      },
      options: {
        indexAxis: "y",
        scales: { x: axis((us) => in_seconds(us * 1e-6), { type: "linear", min: range[0], max: range[1] }), y: names_axis() },
        plugins: plugins((item) => bar_text(timeline, item.raw), true),
      },
    };
  });
  const show = (next) => {
    range = next;
    draw(shown);
  };
  zoom_by_dragging(box, shown, (from, to) => show([Math.max(0, from), Math.min(timeline.microseconds, to)]), () => show(whole));
  return box;
}

function zoom_by_dragging(box, shown, zoom, reset) {
  const band = make("div", { className: "band", hidden: true });
  let from = null;
  box.append(band);
  const x_of = (event) => event.clientX - shown.canvas.getBoundingClientRect().left;
  box.addEventListener("mousedown", (event) => (from = x_of(event)));
  box.addEventListener("mousemove", (event) => {
    band.hidden = from === null;
    if (from === null) return;
    band.style.left = `${Math.min(from, x_of(event))}px`;
    band.style.width = `${Math.abs(from - x_of(event))}px`;
  });
  addEventListener("mouseup", (event) => {
    if (from === null) return;
    const [a, b] = [from, x_of(event)].sort((p, q) => p - q).map((x) => shown.chart.scales.x.getValueForPixel(x));
    const is_drag = Math.abs(from - x_of(event)) > 5;
    from = null;
    band.hidden = true;
    if (is_drag) zoom(a, b);
  });
  box.addEventListener("dblclick", reset);
}

function timeline_section(profile) {
  const joined = (timeline) => timeline.joined > 1 ? ` Up to ${timeline.joined} operators are one bar.` : "";
  const shown = section("timeline", "Timeline",
    "Drag over a part to see it larger, double-click to see all. Ranks of one stage do the same at the same time." + joined(profile.timeline),
    make("h3", { textContent: `As the cost model has it: ${in_seconds(profile.timeline.microseconds * 1e-6)}` }),
    timeline_chart(profile.timeline));
  if (profile.measured_timeline)
    shown.append(make("h3", { textContent: `Measured: ${in_seconds(profile.measured_timeline.microseconds * 1e-6)}` }),
      timeline_chart(profile.measured_timeline));
  return shown;
}

// ---- Costs -----------------------------------------------------------------------------------

function cost_section(profile) {
  const measured = new Map((profile.measured_by_type ?? []).map((cost) => [cost.op_type, cost]));
  const predicted = new Map(profile.cost_by_type.map((cost) => [cost.op_type, cost]));
  const types = [...new Set([...predicted.keys(), ...measured.keys()])];
  const shown_types = types.slice(0, 16);
  const seconds = (costs) => shown_types.map((type) => costs.get(type)?.seconds ?? 0);
  const sets = [["predicted", predicted, (type) => (predicted.get(type)?.is_communication ? "communication" : "computation")]];
  if (measured.size) sets.push(["measured", measured, () => "measured"]);
  const [bars] = chart(60 + 28 * shown_types.length, () => ({
    type: "bar",
    data: {
      labels: shown_types,
      datasets: sets.map(([label, costs, name]) => ({
        label, data: seconds(costs), backgroundColor: shown_types.map((type) => colour(name(type))), maxBarThickness: 18,
      })),
    },
    options: {
      indexAxis: "y",
      scales: { x: axis(in_seconds), y: names_axis() },
      plugins: plugins((item) => `${item.dataset.label}: ${in_seconds(item.raw)}`, sets.length > 1),
    },
  }));
  const text = (cost) => (cost ? [String(Math.round(cost.count)), in_seconds(cost.seconds)] : ["", ""]);
  const rows = types.map((type) => [type, ...sets.flatMap(([, costs]) => text(costs.get(type)))]);
  return section("costs", "Cost by operator type",
    "Of one run, on a rank; of stages, summed up. Collectives are drawn in the colour of communication.", bars,
    as_table(["type", ...sets.flatMap(([label]) => [`${label}: times`, "seconds"])], rows, 2 * sets.length));
}

function communication_section(uses) {
  const rows = uses.map((use) => [use.kind, use.mesh_axes.length ? `axis ${use.mesh_axes.join(",")}` : "to the next stage",
    String(use.times), in_bytes(use.bytes), in_seconds(use.seconds)]);
  const shown = rows.length ? table(["kind", "over", "times", "sent by all ranks", "time"], rows, 3)
    : make("p", { textContent: "Nothing is sent." });
  return section("communication", "Communication of a run", "", shown);
}

// ---- Pages -----------------------------------------------------------------------------------

function proof_text(summary) {
  if (summary.proven_optimal) return "proven: no plan is faster";
  return summary.lower_bound_seconds ? `no plan takes less than ${in_seconds(summary.lower_bound_seconds)}` : "not proven";
}

function summary_cards(plan, profile) {
  const summary = plan.summary;
  const limit = profile.memory.limit_bytes;
  return make("div", { className: "cards" },
    card("a run", in_seconds(summary.cost_seconds), proof_text(summary)),
    card("of it communication", in_seconds(summary.communication_seconds), in_percent(summary.communication_seconds / summary.cost_seconds || 0)),
    card("memory of the fullest rank", in_bytes(summary.peak_bytes), `${in_bytes(summary.weight_bytes)} of weights; limit ${in_bytes(limit)}`),
    card("one device alone", in_seconds(summary.one_device_seconds), `would need ${in_bytes(summary.one_device_bytes)}`));
}

/// The sections of a profile's page, in order.
function profile_sections(profile, uses) {
  return [
    model_section(profile.flow),
    memory_section(profile.memory),
    timeline_section(profile),
    cost_section(profile),
    communication_section(uses),
  ];
}

function plan_page(header, main) {
  const { plan, profiles } = data;
  const ranks = profiles[0].memory.ranks.length;
  const stages = profiles[0].flow.stages;
  const meshes = stages.length === 1 ? `mesh ${stages[0].mesh}` : counted(stages.length, "stage");
  const parts = plan.microbatches > 1 ? `, ${plan.microbatches} microbatches` : "";
  document.title = `${data.model} on ${ranks} × ${plan.device}`;
  header.append(make("h1", { textContent: `${data.model} on ${ranks} × ${plan.device}` }),
    make("p", { className: "soft", textContent: `${meshes}${parts}; searched by ${plan.summary.search} for ${plan.summary.search_seconds.toFixed(1)} s; all times and sizes are the cost model's predictions` }));
  const show = (p) => {
    shown_charts.length = 0;
    const profile = profiles[p];
    const uses = (plan.profiles?.[p] ?? plan).collectives;
    main.replaceChildren(summary_cards(plan, profile), ...profile_sections(profile, uses),
      make("footer", { textContent: "Made by autopar. This file needs nothing but itself." }));
    draw_charts();
  };
  if (profiles.length > 1) {
    const tabs = profiles.map((profile, p) => make("button", { type: "button", "aria-pressed": String(p === 0), textContent: profile.binding }));
    tabs.forEach((tab, p) => tab.addEventListener("click", () => {
      tabs.forEach((each) => each.setAttribute("aria-pressed", String(each === tab)));
      show(p);
    }));
    header.append(make("div", { className: "tabs" }, ...tabs));
  }
  show(0);
}

function differences_table(differences) {
  return table(["operators", "count", "A", "B"], differences.map((each) =>
    [[each.op_type, each.name].filter(Boolean).join(" "), String(each.count), each.a, each.b]));
}

function comparison_page(header, main) {
  const { a, b, operators, stored, collectives, operators_compared } = data.comparison;
  document.title = "Two plans";
  header.append(make("h1", { textContent: "Two plans" }),
    make("p", { className: "soft", textContent: `A is ${a.plan}, B is ${b.plan}` }));
  const rows = [["a run", "cost_seconds", in_seconds], ["of it communication", "communication_seconds", in_seconds],
    ["no plan takes less than", "lower_bound_seconds", in_seconds], ["weights a rank", "weight_bytes", in_bytes],
    ["peak a rank", "peak_bytes", in_bytes]].map(([name, field, text]) => [name, text(a[field]), text(b[field])]);
  rows.push(["device", a.device, b.device]);
  const names = (collectives ?? []).map((use) => use.kind + over(use.mesh_axes));
  const bars = (label, side, name) => ({
    label, backgroundColor: colour(name), maxBarThickness: 18,
    data: [data.comparison[side].cost_seconds, ...(collectives ?? []).map((use) => use[side].seconds)],
  });
  const [times] = chart(80 + 46 * (names.length + 1), () => ({
    type: "bar",
    data: { labels: ["a run", ...names], datasets: [bars("A", "a", "first"), bars("B", "b", "last")] },
    options: {
      indexAxis: "y", scales: { x: axis(in_seconds), y: names_axis() },
      plugins: plugins((item) => `${item.dataset.label}: ${in_seconds(item.raw)}`, true),
    },
  }));
  const counts = (list) => list.reduce((sum, each) => sum + each.count, 0);
  main.append(section("summary", "What each costs", "", table(["", "A", "B"], rows, 2), make("h3", { textContent: "A run, and its communication" }), times),
    section("operators", "Operators that are split otherwise", `${counts(operators)} of ${operators_compared}`, differences_table(operators)),
    section("stored", "Inputs and weights that lie otherwise", `${counts(stored)}`, differences_table(stored)));
  draw_charts();
}

const pages = { plan: plan_page, comparison: comparison_page };
pages[data.kind](document.getElementById("header"), document.getElementById("main"));
