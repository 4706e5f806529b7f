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
