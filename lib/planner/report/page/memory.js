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
