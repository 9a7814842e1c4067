// Any two series against each other: a point for each time at which both have a value. Ranks that agree prove no cause.
const scatters = (() => {
  "use strict";
  const { grouped, short, withUnit, words } = numbers;

  // All lines over time, with the times that their values are of.
  const lines = (data) => [data.throughput, data.latency[0], ...data.store, ...data.host].flatMap((panel) => {
    const times = boxes.timesOf(panel);
    return panel.lines.map((line) => ({ name: `${panel.name}: ${line.name}`, panel, times, values: line.values }));
  });
  // The usual distance of two times.
  const pace = (times) => {
    const widths = times.slice(1).map((t, at) => t - times[at]).sort((a, b) => a - b);
    return widths[widths.length >> 1] ?? 0;
  };
  // The values of both at the same time, or nearly: no further apart than half of the slower one's pace. In order of the first.
  const pairs = (one, other) => {
    const known = other.times.flatMap((t, at) => (other.values[at] == null ? [] : [[t, other.values[at]]])).sort((a, b) => a[0] - b[0]);
    const far = Math.max(pace(one.times), pace(other.times)) * .51, found = [];
    one.times.forEach((t, at) => {
      if (one.values[at] == null) return;
      let [low, high] = [0, known.length];
      while (low < high) {
        const half = (low + high) >> 1;
        if (known[half][0] < t) low = half + 1; else high = half;
      }
      const near = [known[low - 1], known[low]].filter((pair) => pair && Math.abs(pair[0] - t) <= far).sort((a, b) => Math.abs(a[0] - t) - Math.abs(b[0] - t))[0];
      if (near) found.push([one.values[at], near[1]]);
    });
    return found.sort((a, b) => a[0] - b[0]);
  };
  // Ranks, of equal values their middle one.
  const ranks = (values) => {
    const order = values.map((_, at) => at).sort((a, b) => values[a] - values[b]), ranked = Array(values.length);
    for (let from = 0; from < order.length;) {
      let to = from + 1;
      while (to < order.length && values[order[to]] === values[order[from]]) to += 1;
      for (let at = from; at < to; at += 1) ranked[order[at]] = (from + to - 1) / 2;
      from = to;
    }
    return ranked;
  };
  // Spearman's rank correlation; null with fewer than three pairs or without any variation.
  const correlation = (points) => {
    if (points.length < 3) return null;
    const [x, y] = [0, 1].map((at) => ranks(points.map((point) => point[at]))), middle = (points.length - 1) / 2;
    let [xy, xx, yy] = [0, 0, 0];
    x.forEach((rank, at) => { xy += (rank - middle) * (y[at] - middle); xx += (rank - middle) ** 2; yy += (y[at] - middle) ** 2; });
    return xx * yy > 0 ? xy / Math.sqrt(xx * yy) : null;
  };

  // A part of the page with two lists of names, and below them the plot of the two that are chosen. `page` has the data, a
  // function that makes the place of a plot, and those for its axes and its colour.
  const chooser = (page) => {
    const all = lines(page.data);
    const whole = document.createElement("details"), summary = document.createElement("summary"), inside = document.createElement("div");
    whole.id = "scatter";
    summary.textContent = "Any two series against each other";
    whole.append(summary, inside);
    const tools = document.createElement("div"), said = document.createElement("p"), stage = document.createElement("div");
    tools.className = "tools";
    said.className = "note";
    said.setAttribute("role", "status");
    said.setAttribute("aria-live", "polite");
    inside.append(tools, said, stage);
    const [across, upwards] = ["Across", "Upwards"].map((text) => {
      const label = document.createElement("label"), select = document.createElement("select");
      select.append(new Option("choose a series", ""), ...all.map((line, at) => new Option(line.name, String(at))));
      label.append(`${text} `, select);
      tools.append(label);
      return select;
    });
    let plot = null;
    const draw = () => {
      plot?.destroy();
      plot = null;
      stage.replaceChildren();
      said.textContent = "";
      if (!whole.open || !across.value || !upwards.value) return;
      const [one, other] = [all[+across.value], all[+upwards.value]], points = pairs(one, other), rank = correlation(points);
      if (!points.length) { said.textContent = "The two have no values at the same times."; return; }
      said.textContent = `${other.name} over ${one.name}: n = ${grouped(String(points.length))}, ${rank == null ? "without a rank correlation" : `rank correlation ${short(rank)}`}. It proves no cause.`;
      const element = page.box(stage, other.name, `${words(other.panel)}, over ${one.name}`, said.textContent);
      const wide = (u, min, max) => (min == null ? [0, 1] : [min - ((max - min) * .04 || 1), max + ((max - min) * .04 || 1)]);
      plot = new uPlot({
        width: element.clientWidth - 4, height: 280, padding: [8, 16, 0, 0],
        series: [{}, { stroke: page.colour(), paths: () => null, points: { show: true, size: 5, fill: page.colour() } }],
        scales: { x: { time: false, range: wide }, y: { range: wide } },
        axes: page.axes(other.panel.unit, (_, splits) => splits.map((v) => (v == null ? "" : withUnit(v, one.panel.unit)))),
        legend: { show: false }, cursor: { show: false },
      }, [points.map(([x]) => x), points.map(([, y]) => y)], element);
    };
    for (const select of [across, upwards]) select.addEventListener("change", draw);
    whole.addEventListener("toggle", draw);
    return { whole, draw };
  };

  return { pairs, correlation, chooser };
})();
