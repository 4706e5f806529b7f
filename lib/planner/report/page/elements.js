"use strict";
// Shows the data that stand in the page; they are all computed by autopar (report_data.h). Names
// come from models: they are only ever set as text.

const data = JSON.parse(document.getElementById("data").textContent);

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
