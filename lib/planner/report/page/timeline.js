const most_outlined = 400;

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
