// Draws the plots of a report. All numbers come from the data in the page; nothing is calculated here but pixels, and in
// `boxes` the comparison of a box on the heat map.
(async () => {
  "use strict";
  const { grouped, short, seconds, withUnit, words } = numbers;
  const byId = (id) => document.getElementById(id);
  const packed = byId("plots"), charts = byId("charts");
  if (!packed || !charts) return;
  if (typeof DecompressionStream === "undefined") {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = "This browser is too old to unpack the plots' data. All numbers of the run are in the tables.";
    charts.before(note);
    return;
  }
  const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(unpacked).text());
  charts.hidden = false;

  // Colours come from the style sheet, so that there is one place for them.
  let colours = {};
  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = {
      ink: get("ink"), soft: get("soft"), grid: get("grid"), rule: get("rule"),
      lines: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => get(`line-${n}`)),
      heat: [1, 2, 3, 4].map((n) => get(`heat-${n}`)),
      bands: { load: get("band-load"), ask: get("band-ask"), drive: get("band-drive") }, pause: get("pause"), act: get("act"),
    };
  };
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 2], [1, 2], [12, 4], [5, 2, 1, 2]];
  const font = (px) => `${px}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;
  const axisWidth = () => (innerWidth < 640 ? 54 : 66);

  let plots = [];
  let range = [0, data.end_s];
  const sync = uPlot.sync("run");

  // The command that compares what is shown with the rest of the run; hidden while all is shown.
  const command = document.createElement("p"), typed = document.createElement("code");
  command.id = "explain";
  command.className = "note";
  command.hidden = true;
  command.append("Differences from the rest of the run: ", typed, "; of slow operations alone with --above, such as --above 20ms");
  byId("stack").after(command);
  const offer = () => {
    const [from, to] = range.map((at) => `${Number(at.toFixed(4))}s`);
    typed.textContent = `plimsoll explain ${document.querySelector(".about code").textContent} --from ${from} --to ${to}`;
    command.hidden = range[0] <= 0 && range[1] >= data.end_s;
  };

  const zoom = (from, to) => {
    [from, to] = [Math.max(0, from), Math.min(data.end_s, to)];
    if (!(to - from > 1e-4)) return;
    range = [from, to];
    offer();
    for (const plot of plots) if (plot.onTime) plot.u.setScale("x", { min: from, max: to });
  };
  // uPlot tells of a new scale after it has drawn: also of those that `zoom` set.
  const follow = ({ min, max }) => {
    if (Math.abs(min - range[0]) < 1e-6 && Math.abs(max - range[1]) < 1e-6) return;
    byId("jump").value = "";
    zoom(min, max);
  };
  const whole = () => { byId("jump").value = ""; zoom(0, data.end_s); };
  const bandAt = (t) => data.bands.find((band) => t >= band.start_s && t < band.end_s);

  // The phases behind a plot; over the first plot also the trials' names.
  const drawBands = (u, names, cycleNames) => {
    const { ctx, bbox } = u, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, names ? 0 : bbox.top, bbox.width, bbox.height + (names ? bbox.top : 0));
    ctx.clip();
    const x = (t) => u.valToPos(t, "x", true);
    for (const band of data.bands) {
      const colour = colours.bands[band.kind];
      if (!colour || band.end_s < range[0] || band.start_s > range[1]) continue;
      const from = x(band.start_s), width = Math.max(ratio, x(band.end_s) - from);
      ctx.fillStyle = colour;
      ctx.fillRect(from, bbox.top, width, bbox.height);
      if (band.warmup_end_s != null) {
        const to = x(band.warmup_end_s);
        ctx.save();
        ctx.beginPath();
        ctx.rect(from, bbox.top, to - from, bbox.height);
        ctx.clip();
        ctx.strokeStyle = colours.rule;
        ctx.lineWidth = ratio;
        ctx.beginPath();
        for (let at = from - bbox.height; at < to; at += 7 * ratio) {
          ctx.moveTo(at, bbox.top + bbox.height);
          ctx.lineTo(at + bbox.height, bbox.top);
        }
        ctx.stroke();
        ctx.restore();
      }
    }
    // The machine stood still: shaded through the plot, and a bar at its foot that is seen however short it was.
    ctx.fillStyle = colours.pause;
    for (const [start, end] of data.pauses) {
      if (end < range[0] || start > range[1]) continue;
      const from = x(start), width = Math.max(ratio, x(end) - from);
      ctx.fillRect(from, bbox.top, width, bbox.height);
      for (let strong = 0; strong < 3; strong += 1) ctx.fillRect(from, bbox.top + bbox.height - 5 * ratio, width, 5 * ratio);
    }
    ctx.font = font(11.5 * ratio);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    let free = -Infinity;
    const mark = (at, name, named, row) => {
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      const wide = ctx.measureText(name).width;
      if (!named || at <= free || at + wide + 4 * ratio >= bbox.left + bbox.width) return;
      ctx.fillText(name, at + 3 * ratio, bbox.top + (8 + 14 * row) * ratio);
      free = at + wide + 8 * ratio;
    };
    // What was done to servers or to a disk: a line through all plots, and shaded while it was in progress.
    ctx.strokeStyle = ctx.fillStyle = colours.act;
    ctx.lineWidth = 1.5 * ratio;
    for (const act of data.acts) {
      if (act.end_s < range[0] || act.start_s > range[1]) continue;
      const from = Math.round(x(act.start_s));
      ctx.globalAlpha = .2;
      ctx.fillRect(from, bbox.top, x(act.end_s) - from, bbox.height);
      ctx.globalAlpha = 1;
      mark(from, act.name, names || cycleNames, 1);
    }
    // What the store ended of its own maintenance: a line through all plots, its name over the second where there is room.
    ctx.strokeStyle = ctx.fillStyle = colours.ink;
    ctx.lineWidth = ratio;
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    free = -Infinity;
    for (const cycle of data.cycles) {
      if (cycle.x >= range[0] && cycle.x <= range[1]) mark(Math.round(x(cycle.x)), cycle.name, cycleNames, 0);
    }
    ctx.setLineDash([]);
    const seen = new Set();
    for (const band of data.bands) {
      if (seen.has(band.trial)) continue;
      seen.add(band.trial);
      const last = data.bands.findLast((other) => other.trial === band.trial);
      const from = Math.max(x(band.start_s), bbox.left), to = Math.min(x(last.end_s), bbox.left + bbox.width);
      if (to < bbox.left || from > bbox.left + bbox.width) continue;
      ctx.fillStyle = colours.soft;
      ctx.fillRect(Math.round(from), names ? bbox.top - 18 * ratio : bbox.top, ratio / 2, bbox.height + (names ? 18 * ratio : 0));
      let label = band.trial_name;
      const room = to - from - 8 * ratio;
      while (label && ctx.measureText(label).width > room) label = label.includes(" ") ? label.slice(label.indexOf(" ") + 1) : "";
      if (names && label) ctx.fillText(label, from + 4 * ratio, bbox.top - 9 * ratio);
    }
    ctx.restore();
  };

  const readout = byId("readout");
  const say = (plot, spoken) => {
    const { left, idx } = plot.u.cursor;
    readout.setAttribute("aria-live", spoken ? "polite" : "off");
    if (left == null || left < 0) { readout.textContent = ""; return; }
    const t = plot.u.posToVal(left, "x"), band = bandAt(t);
    const parts = [`${t.toFixed(2)} s`];
    if (band) parts.push(band.trial_name, band.phase);
    const near = (range[1] - range[0]) / 200;
    parts.push(...data.acts.filter((act) => t > act.start_s - near && t < act.end_s + near).map((act) => act.name));
    if (plot.heat) {
      const cell = cellAt(plot, t);
      if (cell) parts.push(cell);
    } else if (spoken && idx != null) {
      plot.panel.lines.forEach((line) => { if (line.values[idx] != null) parts.push(`${line.name} ${valueAt(line, idx, plot.panel.unit)}`); });
    }
    readout.textContent = parts.join(" · ");
  };
  const cellAt = (plot, t) => {
    const top = plot.u.cursor.top;
    if (top == null || top < 0) return null;
    const y = plot.u.posToVal(top, "y"), map = plot.heat;
    const column = map.columns_s.findIndex(([from, to]) => t >= from && t < to);
    const row = map.edges_s.findIndex((edge, at) => y >= edge && y < map.edges_s[at + 1]);
    const cell = map.cells.find(([c, r]) => c === column && r === row);
    return cell && `${grouped(String(cell[2]))} operations took ${seconds(map.edges_s[row])} to ${seconds(map.edges_s[row + 1])}`;
  };

  // Moves the cursor and zooms with the keyboard.
  const keys = (plot) => (event) => {
    const { u } = plot;
    if (event.target !== plot.box || event.ctrlKey || event.metaKey || event.altKey) return;
    if (plot.heat && tool.keys(event)) { event.preventDefault(); return; }
    const times = u.data[0];
    const at = u.cursor.idx ?? times.findIndex((t) => t >= u.scales.x.min);
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step) {
      let to = at;
      do to += step; while (to > 0 && to < times.length - 1 && Math.abs(times[to] - times[at]) < 1e-5);
      to = Math.min(Math.max(to, 0), times.length - 1);
      if (plot.onTime && (times[to] < range[0] || times[to] > range[1])) {
        const shift = times[to] - (range[0] + range[1]) / 2;
        zoom(range[0] + shift, range[1] + shift);
      }
      u.setCursor({ left: u.valToPos(times[to], "x"), top: u.over.clientHeight / 2 }, true, true);
      say(plot, true);
    } else if (plot.onTime && (event.key === "+" || event.key === "=" || event.key === "-")) {
      const middle = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : (range[0] + range[1]) / 2;
      const half = (range[1] - range[0]) / (event.key === "-" ? 1 : 4);
      zoom(middle - half, middle + half);
    } else if (plot.onTime && event.key === "0") {
      whole();
    } else return;
    event.preventDefault();
  };

  const box = (parent, title, what, label) => {
    const element = document.createElement("div");
    element.className = "plot";
    element.tabIndex = 0;
    element.setAttribute("role", "group");
    element.setAttribute("aria-roledescription", "plot");
    element.setAttribute("aria-label", label);
    const name = document.createElement("p");
    name.textContent = `${title} `;
    const unit = document.createElement("span");
    unit.textContent = what;
    name.append(unit);
    element.append(name);
    parent.append(element);
    return element;
  };

  // The entries of a legend switch lines on and off; with the keyboard too.
  const switches = (u) => {
    u.root.querySelectorAll(".u-legend .u-series:not(:first-child) th").forEach((entry, at) => {
      entry.tabIndex = 0;
      entry.setAttribute("role", "switch");
      const update = () => entry.setAttribute("aria-checked", String(u.series[at + 1].show));
      update();
      entry.addEventListener("click", () => setTimeout(update));
      entry.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); entry.click(); }
      });
    });
  };

  // A value holds until the next time; nothing is drawn where there is none.
  const steps = (u, at) => {
    const [times, values] = [u.data[0], u.data[at]], stroke = new Path2D();
    let before = null;
    times.forEach((t, i) => {
      if (values[i] == null) { before = null; return; }
      const x = u.valToPos(t, "x", true), y = u.valToPos(values[i], "y", true);
      if (before == null) stroke.moveTo(x, y);
      else { stroke.lineTo(x, before); stroke.lineTo(x, y); }
      before = y;
    });
    return { stroke, fill: null, clip: null, band: null, gaps: null, flags: 0 };
  };

  // Of a long run each point stands for a column of several slices: their mean, and with it their extremes.
  const isCondensed = (panel) => panel.lines.some((line) => line.high);
  const valueAt = (line, at, unit) => withUnit(line.values[at], unit) + (line.high && line.high[at] != null && line.high[at] !== line.low[at] ? ` (${withUnit(line.low[at], unit)} to ${withUnit(line.high[at], unit)})` : "");
  // The time of a column: from a step to the next one, or around a reading.
  const columnAt = ({ t_s: times, steps: isStep }, at) => {
    const half = (times[Math.min(at + 1, times.length - 1)] - times[Math.max(at - 1, 0)]) / 4;
    return isStep ? [times[at], times[at + 1] ?? times[at]] : [times[at] - half, times[at] + half];
  };
  const widthOf = (panel) => {
    const widths = panel.t_s.slice(1).map((t, at) => t - panel.t_s[at]).sort((a, b) => a - b);
    return widths[widths.length >> 1] ?? 0;
  };
  const drawExtremes = (u, panel) => {
    const { ctx, bbox } = u, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = .25;
    panel.lines.forEach((line, nth) => {
      if (!line.high || !u.series[nth + 1].show) return;
      ctx.fillStyle = u.series[nth + 1].stroke(u, nth + 1);
      panel.t_s.forEach((t, at) => {
        if (line.high[at] == null || line.high[at] === line.low[at]) return;
        const [from, to] = columnAt(panel, at);
        if (to < range[0] || from > range[1]) return;
        const [left, right] = [from, to].map((t) => Math.round(u.valToPos(t, "x", true)));
        const [top, foot] = [line.high[at], Math.max(line.low[at], u.scales.y.min)].map((value) => u.valToPos(value, "y", true));
        ctx.fillRect(left, top, Math.max(right - left, ratio), Math.max(foot - top, ratio));
      });
    });
    ctx.restore();
  };
  // The lowest and the highest value that is shown, extremes included.
  const reach = (u, panel, min, max) => {
    panel.lines.forEach((line, nth) => {
      if (!line.high || !u.series[nth + 1].show) return;
      panel.t_s.forEach((t, at) => {
        if (t < range[0] || t > range[1] || line.high[at] == null) return;
        min = Math.min(min ?? Infinity, line.low[at]);
        max = Math.max(max ?? -Infinity, line.high[at]);
      });
    });
    return [min, max];
  };

  // Steps of an axis of bytes: powers of two.
  const byteSteps = Array.from({ length: 50 }, (_, power) => 2 ** power);

  // Units that stand in a plot's title and not at every tick.
  const counted = ["tasks", "requests", "records/s", "1/s"];
  const axes = (unit, xValues, xSplits) => {
    const line = { stroke: colours.soft, font: font(11), ticks: { stroke: colours.grid, width: 1, size: 4 }, grid: { stroke: colours.grid, width: 1 } };
    return [
      { ...line, size: 30, gap: 4, values: xValues, space: 60, ...(xSplits ? { splits: xSplits } : {}) },
      // Of a logarithmic axis only the decades are drawn.
      { ...line, size: axisWidth(), gap: 5, space: 26, ...(unit.startsWith("B") ? { incrs: byteSteps } : {}), grid: { ...line.grid, filter: decades }, ticks: { ...line.ticks, filter: decades }, values: (u, splits) => splits.map((v) => (v == null ? "" : withUnit(v, counted.includes(unit) ? "" : unit))) },
    ];
  };
  const decades = (u, splits) => (u.scales.y.distr === 3 ? splits.map((v) => (Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6 ? v : null)) : splits);
  const logRange = (u, min, max) => (min == null || !(max > 0) ? [1e-6, 1] : [10 ** Math.floor(Math.log10(Math.max(min, 1e-9)) + 1e-9), 10 ** Math.ceil(Math.log10(max) - 1e-9)]);

  // A box on the heat map is kept while plots are drawn again.
  const tool = boxes.tool({
    data, run: document.querySelector(".about code").textContent, op: () => +byId("op").value, shown: () => range,
    zoom: (from, to) => { byId("jump").value = ""; zoom(from, to); },
  });

  const timePlot = (parent, panel, { log = false, height, names = false, title = panel.name, heat = null, first = 0, top = null }) => {
    const label = `${title} over time, ${words(panel)}. Arrow keys move the cursor, plus and minus zoom, 0 shows the whole run.${heat ? " With Shift, arrow keys draw a box: left and right its time, up and down its lowest latency; Escape clears it." : ""}`;
    const what = isCondensed(panel) ? `${words(panel)}; a point is the mean of ${seconds(widthOf(panel))}, with its extremes as a band` : words(panel);
    const element = box(parent, title, what, label);
    const plot = { box: element, panel, heat, onTime: true };
    const series = panel.lines.map((line, at) => ({
      label: line.name, stroke: colours.lines[(at + first) % 8], width: 1.6, dash: panel.steps ? undefined : dashes[at % 8], spanGaps: !panel.steps,
      points: { show: false }, value: (u, v, of, idx) => (idx == null ? withUnit(line.median, panel.unit) : valueAt(line, idx, panel.unit)),
      ...(panel.steps ? { paths: steps } : {}),
    }));
    const y = heat
      ? { distr: 3, range: [heat.edges_s[0], heat.edges_s[heat.edges_s.length - 1]] }
      : log ? { distr: 3, range: (u, ...found) => logRange(u, ...reach(u, panel, ...found)) }
        : { range: (u, ...found) => (([min, max]) => (max == null ? [0, 1] : [Math.min(0, min), (top ?? max) > 0 ? (top ?? max) * 1.08 : 1]))(reach(u, panel, ...found)) };
    const u = new uPlot({
      width: element.clientWidth - 4, height,
      padding: [names ? 20 : 6, 16, 0, 0],
      series: [{ label: "value", value: (u, v) => (v == null ? "median" : `at ${v.toFixed(2)} s`) }, ...series],
      scales: { x: { time: false, auto: false, min: range[0], max: range[1] }, y },
      axes: axes(panel.unit, (_, splits) => splits.map((v) => `${+v.toFixed(3)} s`)),
      legend: { show: !heat, live: true, markers: { width: 0, fill: (v, at) => v.series[at].stroke(v, at) } },
      cursor: {
        y: false, points: { show: !heat, size: 6 }, drag: { x: !heat, y: false, setScale: true }, sync: { key: sync.key, scales: ["x", null] },
        bind: { dblclick: () => () => { whole(); } },
      },
      hooks: {
        drawClear: [(v) => { drawBands(v, names, title.startsWith("Latency")); drawExtremes(v, panel); }],
        draw: heat ? [(v) => { drawHeat(v, heat); tool.frame(); }] : [],
        setScale: [(v, key) => { if (key === "x" && plot.u) follow(v.scales.x); }],
        setCursor: [() => { if (plot.u && element.matches(":hover")) say(plot, false); }],
      },
    }, [panel.t_s, ...panel.lines.map((line) => line.values)], element);
    plot.u = u;
    element.addEventListener("keydown", keys(plot));
    switches(u);
    plots.push(plot);
    return plot;
  };

  const mix = (share) => {
    const stops = colours.heat, at = Math.min(share * (stops.length - 1), stops.length - 1.001), from = Math.floor(at);
    const part = (colour, n) => parseInt(colour.slice(1 + 2 * n, 3 + 2 * n), 16);
    const mixed = [0, 1, 2].map((n) => Math.round(part(stops[from], n) + (part(stops[from + 1], n) - part(stops[from], n)) * (at - from)));
    return `rgb(${mixed.join(",")})`;
  };
  const drawHeat = (u, map) => {
    const { ctx, bbox } = u, ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const y = map.edges_s.map((edge) => Math.round(u.valToPos(edge, "y", true)));
    for (const [column, row, count] of map.cells) {
      const [from, to] = map.columns_s[column];
      if (to < range[0] || from > range[1]) continue;
      const left = Math.round(u.valToPos(from, "x", true)), right = Math.round(u.valToPos(to, "x", true));
      ctx.fillStyle = mix(map.count_max > 1 ? Math.log(count) / Math.log(map.count_max) : 1);
      ctx.fillRect(left, y[row + 1], Math.max(right - left, 2 * ratio), Math.max(y[row] - y[row + 1], ratio));
    }
    ctx.restore();
  };

  const heatPlot = (parent, map) => {
    // One point a column, so that the keyboard can step from one to the next.
    const panel = { name: "How long operations took", unit: "s", steps: false, t_s: map.columns_s.map(([from, to]) => (from + to) / 2), lines: [{ name: "", values: map.columns_s.map(() => null) }] };
    if (map.cells.length) tool.enter(timePlot(parent, panel, { heat: map, height: 230, title: "Heat map: the stronger the colour, the more operations" }));
  };

  const curvePlot = (parent, curves) => {
    if (!curves.length) {
      const note = document.createElement("p");
      note.className = "note";
      note.textContent = "No phase has enough operations of this type for a curve.";
      parent.append(note);
      return;
    }
    const several = new Set(curves.map((curve) => curve.phase)).size > 1;
    const element = box(parent, "Share of operations that were faster", words({ unit: "s" }), "Percentile curves. Arrow keys move the cursor.");
    const name = (nines) => (nines <= 0 ? "p0" : `p${+(100 - 100 * 10 ** -nines).toFixed(Math.max(0, Math.ceil(nines) - 1))}`);
    const most = Math.max(...curves.map((curve) => curve.nines[curve.nines.length - 1]));
    const splits = [0, Math.log10(2), 1, 2, 3, 4, 5, 6, 7].filter((nines) => nines <= most + .3);
    const joined = uPlot.join(curves.map((curve) => [curve.nines, curve.seconds]));
    // What the legend shows while nothing is pointed at: p99, or the last that there is.
    const p99 = joined[0].findIndex((nines) => Math.abs(nines - 2) < 1e-6), rest = p99 < 0 ? joined[0].length - 1 : p99;
    const lines = curves.map((curve) => ({ name: several ? `${curve.trial_name}, ${curve.phase}` : curve.trial_name, values: [] }));
    const plot = { box: element, panel: { unit: "s", lines }, onTime: false };
    plot.u = new uPlot({
      width: element.clientWidth - 4, height: 260, padding: [8, 16, 0, 0],
      series: [{ label: "value", value: (u, v) => name(v ?? joined[0][rest]) }, ...lines.map((line, at) => ({
        label: line.name, stroke: colours.lines[at % 8], width: 1.8, dash: dashes[at % 8], spanGaps: true, points: { show: false }, value: (u, v, of, idx) => withUnit(joined[of][idx ?? rest], "s"),
      }))],
      scales: { x: { time: false, range: [0, Math.max(most, 1)] }, y: { distr: 3, range: logRange } },
      axes: axes("s", (u, at) => at.map(name), () => splits),
      legend: { live: true, markers: { width: 0, fill: (v, at) => v.series[at].stroke(v, at) } },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    }, joined, element);
    lines.forEach((line, at) => { line.values = joined[at + 1]; });
    element.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (!step || event.target !== element) return;
      event.preventDefault();
      const { u } = plot, times = u.data[0], to = Math.min(Math.max((u.cursor.idx ?? -1) + step, 0), times.length - 1);
      u.setCursor({ left: u.valToPos(times[to], "x"), top: 0 });
      readout.setAttribute("aria-live", "polite");
      readout.textContent = [name(times[to]), ...lines.filter((line) => line.values[to] != null).map((line) => `${line.name} ${seconds(line.values[to])}`)].join(" · ");
    });
    switches(plot.u);
    plots.push(plot);
  };

  // Lines and points over a number that is not time.
  const chartPlot = (parent, chart) => {
    const label = `${chart.name} over ${chart.x_name}. Arrow keys move the cursor.`;
    const element = box(parent, chart.name, `${chart.unit === "%" ? "per cent" : words(chart)}, over ${chart.x_name.toLowerCase()}`, label);
    const measured = new Set(chart.points), one = chart.x.length < 2;
    const [from, to] = [chart.x[0], chart.x[chart.x.length - 1]], margin = (to - from) * .03 || 1;
    const plot = { box: element, panel: chart, onTime: false };
    const number = (v) => withUnit(v, chart.x_unit);
    // Pairs, clients and nodes are counted: their axis has no fractions.
    const isWhole = chart.x_unit === "" && chart.x.every(Number.isInteger), every = Math.max(1, Math.ceil((to - from) / 10));
    const whole = () => Array.from({ length: Math.floor((to - from) / every) + 1 }, (_, at) => from + at * every);
    const marks = (u) => {
      const { ctx, bbox } = u, ratio = devicePixelRatio;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = colours.ink;
      ctx.lineWidth = ratio;
      ctx.setLineDash([5 * ratio, 4 * ratio]);
      ctx.font = font(11.5 * ratio);
      ctx.textBaseline = "top";
      chart.marks.forEach((mark, row) => {
        const x = u.valToPos(mark.x, "x", true);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        const left = x > bbox.left + bbox.width * .7;
        ctx.textAlign = left ? "right" : "left";
        ctx.fillText(`${mark.name} ${number(mark.x)}`, x + (left ? -5 : 5) * ratio, bbox.top + (4 + 15 * row) * ratio);
      });
      ctx.restore();
    };
    plot.u = new uPlot({
      width: element.clientWidth - 4, height: parent.parentElement.classList.contains("small") ? 150 : 240, padding: [8, 16, 0, 0],
      // A line between measured points stands for what lies between them: it leaves out places without a value.
      series: [{ label: chart.x_name, value: (u, v) => number(v ?? to) }, ...chart.lines.map((line, at) => ({
        label: line.name, stroke: colours.lines[at % 8], width: 1.8, dash: dashes[at % 8], spanGaps: !measured.has(at),
        points: { show: measured.has(at) || one, size: 6, fill: colours.lines[at % 8] }, value: (u, v, of, idx) => withUnit(line.values[idx ?? chart.x.length - 1], chart.unit),
      }))],
      scales: { x: { time: false, range: [from - margin, to + margin] }, y: chart.logarithmic ? { distr: 3, range: logRange } : { range: (u, min, max) => (max == null ? [0, 1] : [Math.min(0, min), (chart.top ?? (max > 0 ? max : .93)) * 1.08]) } },
      axes: axes(chart.unit, (_, splits) => splits.map((v) => (v == null ? "" : short(v))), isWhole ? whole : null),
      legend: { live: true, markers: { width: 0, fill: (v, at) => v.series[at].stroke(v, at) } },
      cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
      hooks: { draw: [marks] },
    }, [chart.x, ...chart.lines.map((line) => line.values)], element);
    element.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (!step || event.target !== element) return;
      event.preventDefault();
      const { u } = plot, to = Math.min(Math.max((u.cursor.idx ?? -1) + step, 0), chart.x.length - 1);
      u.setCursor({ left: u.valToPos(chart.x[to], "x"), top: 0 });
      readout.setAttribute("aria-live", "polite");
      readout.textContent = [number(chart.x[to]), ...chart.lines.filter((line) => line.values[to] != null).map((line) => `${line.name} ${withUnit(line.values[to], chart.unit)}`)].join(" · ");
    });
    switches(plot.u);
    plots.push(plot);
  };

  // Each node of a cluster has a small plot for each unit, and those of one unit have one scale: nothing is summed.
  const nodePlots = (parent, panels) => {
    [...new Set(panels.map((panel) => panel.unit))].forEach((unit) => {
      const alike = panels.filter((panel) => panel.unit === unit);
      const top = Math.max(...alike.flatMap((panel) => panel.lines.flatMap((line) => (line.high ?? line.values).filter((value) => value != null))));
      const grid = document.createElement("div");
      grid.className = "nodes";
      parent.append(grid);
      alike.forEach((panel) => timePlot(grid, panel, { height: 110, top, title: panel.name.replace(/^Store /, "") }));
    });
  };

  const chooser = scatters.chooser({ data, box, axes, colour: () => colours.lines[0] });
  const stack = byId("stack"), curves = byId("curves"), host = byId("host"), op = byId("op");
  const hostPlots = (parent, panels) => panels.forEach((panel) => timePlot(parent, panel, { height: 150 }));
  const drawn = () => [...document.querySelectorAll(".plot")];
  const draw = () => {
    const focused = drawn().indexOf(document.activeElement);
    plots.forEach((plot) => { sync.unsub(plot.u); plot.u.destroy(); });
    plots = [];
    tool.leave();
    for (const place of [stack, curves, host]) place.replaceChildren();
    readColours();
    const chosen = +op.value;
    const of = chosen ? `: ${data.ops[chosen]}` : "";
    const throughput = { ...data.throughput, lines: data.throughput.lines.filter((line) => !chosen || line.name === data.ops[chosen]) };
    if (throughput.lines.length) timePlot(stack, throughput, { height: 210, names: true, title: `Throughput${of}` });
    const loading = { ...data.loading, lines: data.loading.lines.filter((line) => !chosen || line.name === data.ops[chosen]) };
    if (loading.lines.length) timePlot(stack, loading, { height: 130, names: !throughput.lines.length, title: "Loading" });
    const latency = data.latency[chosen];
    if (latency.lines.length) timePlot(stack, latency, { height: 230, log: true, title: `Latency${of}` });
    const [ofNodes, ofWhole] = [true, false].map((wanted) => data.store.filter((panel) => / node \d+$/.test(panel.name) === wanted));
    ofWhole.forEach((panel) => timePlot(stack, panel, { height: 130, title: panel.name.startsWith("Answers, ") ? `${panel.name} by node` : `${panel.name}: its own counters` }));
    nodePlots(stack, ofNodes);
    heatPlot(stack, data.heat[chosen]);
    curvePlot(curves, data.curves.filter((curve) => curve.op === chosen));
    hostPlots(host, data.host.filter((panel) => panel.primary));
    data.charts.forEach((chart, at) => {
      const place = byId(`chart-${at}`);
      place.replaceChildren();
      chartPlot(place, chart);
    });
    const folded = (words, panels) => {
      if (!panels.length) return;
      const details = document.createElement("details"), summary = document.createElement("summary"), inside = document.createElement("div");
      summary.textContent = `${words} (${panels.length})`;
      details.append(summary, inside);
      // Drawn when it is opened: what is not shown has no width.
      details.addEventListener("toggle", () => { if (details.open && !inside.childElementCount) hostPlots(inside, panels); });
      host.append(details);
    };
    folded("More of the machine", data.host.filter((panel) => !panel.primary));
    folded("Around faults, every 50 ms", data.fine);
    host.after(chooser.whole);
    chooser.draw();
    if (focused >= 0) drawn()[focused]?.focus({ preventScroll: true });
  };

  // A part of the run to look at: a trial, or a phase under load.
  const jump = byId("jump");
  const spans = [];
  data.bands.forEach((band) => {
    let span = spans.find((other) => other.trial === band.trial && !other.phase);
    if (!span) spans.push(span = { trial: band.trial, name: band.trial_name, from: band.start_s, to: band.end_s });
    span.to = band.end_s;
    if (band.kind === "drive") spans.push({ trial: band.trial, phase: true, name: `${band.trial_name}: ${band.phase}`, from: band.start_s, to: band.end_s });
  });
  spans.forEach((span, at) => jump.append(new Option(span.phase ? `\u2003${span.name}` : span.name, String(at))));
  jump.addEventListener("change", () => {
    const value = jump.value, span = spans[+value];
    if (value === "") { whole(); return; }
    const margin = (span.to - span.from) * .02;
    zoom(span.from - margin, span.to + margin);
    jump.value = value;
  });
  op.addEventListener("change", draw);
  draw();

  let width = innerWidth, pending = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(pending);
    pending = setTimeout(draw, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Paper is white whatever the screen is.
  addEventListener("beforeprint", () => { document.documentElement.classList.add("on-paper"); draw(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("on-paper"); draw(); });
})();
