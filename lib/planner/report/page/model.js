// The model as blocks of operators, and how operators are found.

const most_found = 200;
const most_cells = 600;

const kinds = {
  whole: "whole on every rank",
  first: "split by the first dimension",
  middle: "split by a dimension between",
  last: "split by the last dimension",
  sum: "split by what is summed up",
  several: "split by several of these",
};

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
