// How many devices, and which: a plan for each pair, or why there is none.

const device_colours = ["first", "last", "middle", "sum", "several", "whole"];

const number_text = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

function row_mark(row) {
  const marks = [];
  if (row.first_that_fits) marks.push("the first that fits");
  if (row.cheapest) marks.push("the cheapest");
  if (row.plan && !row.plan.fits) marks.push("exceeds the device's memory");
  return marks.join(", ");
}

const row_name = (row) => `${row.ngpus} × ${row.device}`;

/// A line for each device over the numbers of devices; of rows that have it, `value(plan)`.
function lines_by_device(rows, value, text) {
  const counts = [...new Set(rows.map((row) => row.ngpus))].sort((a, b) => a - b);
  const devices = [...new Set(rows.map((row) => row.device))];
  const [box] = chart(260, () => ({
    type: "line",
    data: {
      labels: counts.map(String),
      datasets: devices.map((device, d) => {
        const found = counts.map((count) => rows.find((row) => row.device === device && row.ngpus === count && row.plan));
        return {
          label: device, data: found.map((row) => (row ? value(row.plan) : null)), spanGaps: true, borderWidth: 2,
          pointRadius: found.map((row) => (row && (row.first_that_fits || row.cheapest) ? 7 : 3)),
          borderColor: colour(device_colours[d % device_colours.length]),
          backgroundColor: colour(device_colours[d % device_colours.length]),
        };
      }),
    },
    options: {
      scales: { x: axis((i) => counts[i]), y: axis(text, { beginAtZero: true }) },
      plugins: plugins((item) => `${item.dataset.label}: ${text(item.raw)}`, true, (items) => counted(counts[items[0].dataIndex], "device")),
    },
  }));
  return box;
}

function memory_of_rows(rows) {
  const parts = [["weights", "weight_bytes", "weights"], ["states", "state_bytes", "middle"],
    ["activations", "activation_bytes", "values"]];
  const most = Math.max(...rows.map((row) => row.plan.peak_bytes));
  const [box] = chart(70 + 26 * rows.length, () => ({
    type: "bar",
    data: {
      labels: rows.map(row_name),
      datasets: parts.map(([label, field, name]) => ({
        label, data: rows.map((row) => row.plan[field]), backgroundColor: colour(name), maxBarThickness: 18,
      })),
    },
    options: {
      indexAxis: "y",
      scales: { x: bytes_axis(most, { stacked: true }), y: { ...names_axis(), stacked: true } },
      plugins: plugins((item) => `${item.dataset.label}: ${in_bytes(item.raw)}`, true),
    },
  }));
  return box;
}

function plan_text(row) {
  if (!row.plan) return `none: ${row.refusal.split("\n")[0]}`;
  const { proven_optimal, lower_bound_seconds, seconds } = row.plan;
  if (proven_optimal) return "proven";
  return lower_bound_seconds > 0 ? `gap ${in_percent(seconds / lower_bound_seconds - 1)}` : "no bound";
}

/// Columns of the table: a name, and the cell of a row that has a plan. Those that no row fills are
/// left out.
function sizing_table(rows, unit) {
  const columns = [
    ["a run", (plan) => in_seconds(plan.seconds)],
    ["tokens a second", (plan) => ("tokens_a_second" in plan ? number_text(plan.tokens_a_second) : "")],
    ["communication", (plan) => in_percent(plan.communication_share)],
    ["weights a rank", (plan) => in_bytes(plan.weight_bytes)],
    ["states", (plan) => (plan.state_bytes ? in_bytes(plan.state_bytes) : "")],
    ["activations", (plan) => in_bytes(plan.activation_bytes)],
    ["speed-up", (plan) => plan.speed_up.toFixed(2)],
    ["efficiency", (plan) => in_percent(plan.efficiency)],
    [`a million ${unit}`, (plan) => ("price_of_a_million" in plan ? number_text(plan.price_of_a_million) : "")],
  ].filter(([, text]) => rows.some((row) => row.plan && text(row.plan) !== ""));
  const cells = (row) => [row_name(row), plan_text(row), row_mark(row),
    ...columns.map(([, text]) => (row.plan ? text(row.plan) : ""))];
  return table(["devices", "plan", "", ...columns.map(([name]) => name)], rows.map(cells), columns.length);
}

function sizing_cards(rows, unit) {
  const [fits, cheapest] = ["first_that_fits", "cheapest"].map((mark) => rows.find((row) => row[mark]));
  const found = rows.filter((row) => row.plan);
  const fastest = found.reduce((best, row) => (!best || row.plan.seconds < best.plan.seconds ? row : best), null);
  const cards = [card("the first that fits", fits ? row_name(fits) : "none", fits ? `${in_seconds(fits.plan.seconds)} a run` : "")];
  if (fastest) cards.push(card("the fastest", row_name(fastest), `${in_seconds(fastest.plan.seconds)} a run`));
  if (cheapest)
    cards.push(card("the cheapest", row_name(cheapest), `${number_text(cheapest.plan.price_of_a_million)} for a million ${unit}`));
  return make("div", { className: "cards" }, ...cards);
}

function sizing_page(header, main) {
  const { rows, price_of_a_million: unit } = data.sizing;
  const found = rows.filter((row) => row.plan);
  document.title = `${data.model}: how many devices`;
  header.append(make("h1", { textContent: `${data.model}: how many devices, and which` }),
    make("p", { className: "soft", textContent: `All times and sizes are the cost model's predictions.${data.assumed ? ` Assumed: ${data.assumed}.` : ""}` }));
  const sections = [section("sizing", "Plans", "", sizing_table(rows, unit))];
  if (found.length) {
    sections.push(
      section("seconds", "Time of a run", "Larger points: the first that fits and the cheapest.",
        lines_by_device(rows, (plan) => plan.seconds, in_seconds)),
      section("memory", "Memory of the rank that needs most", "", memory_of_rows(found)));
    if (found.some((row) => "price_of_a_million" in row.plan))
      sections.push(section("prices", `Price of a million ${unit}`, "",
        lines_by_device(rows, (plan) => plan.price_of_a_million ?? null, number_text)));
  }
  main.append(sizing_cards(rows, unit), ...sections);
  draw_charts();
}
