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
