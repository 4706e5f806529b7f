function cost_section(profile) {
  const measured = new Map((profile.measured_by_type ?? []).map((cost) => [cost.op_type, cost]));
  const predicted = new Map(profile.cost_by_type.map((cost) => [cost.op_type, cost]));
  const types = [...new Set([...predicted.keys(), ...measured.keys()])];
  const shown_types = types.slice(0, 16);
  const seconds = (costs) => shown_types.map((type) => costs.get(type)?.seconds ?? null);
  const sets = [["predicted", predicted, (type) => (predicted.get(type)?.is_communication ? "communication" : "computation")]];
  if (measured.size) sets.push(["measured", measured, () => "measured"]);
  const [bars] = chart(60 + 28 * shown_types.length, () => ({
    type: "bar",
    data: {
      labels: shown_types,
      datasets: sets.map(([label, costs, name]) => ({
        label, data: seconds(costs), backgroundColor: shown_types.map((type) => colour(name(type))), maxBarThickness: 18, minBarLength: 3,
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
