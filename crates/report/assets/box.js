// The operations in a box on the heat map (time and latency) beside the others of the same phases. Differences prove no cause.
const boxes = (() => {
  "use strict";
  const { grouped, short, seconds, withUnit } = numbers;
  // Most series that are listed.
  const SERIES_MAX = 8;
  // Standard errors between two medians that chance seldom reaches, and the ratio of a median's to a mean's.
  const CHANCE = 3, OF_MEDIAN = 1.2533;
  // Smallest difference of two medians that is listed, as a share of the larger one.
  const SHARE_MIN = .05;

  const middle = ([from, to]) => (from + to) / 2;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const median = (values) => {
    const sorted = Float64Array.from(values).sort(), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  };
  // The standard deviation, from the median of the distances to the median; of a series that is mostly constant, from their mean.
  const spread = (values) => {
    const centre = median(values), distances = values.map((value) => Math.abs(value - centre));
    return 1.4826 * median(distances) || OF_MEDIAN * mean(distances);
  };

  // The box of whole cells around two corners; null where there are none. At an edge of the map it has no limit.
  const snapped = (map, times, latencies) => {
    const [t0, t1] = [Math.min(...times), Math.max(...times)], [y0, y1] = [Math.min(...latencies), Math.max(...latencies)];
    const columns = map.columns_s.filter(([from, to]) => to > t0 && from < t1);
    const edges = map.edges_s, last = edges.length - 2;
    const rows = edges.slice(0, -1).map((_, row) => row).filter((row) => edges[row + 1] > y0 && edges[row] < y1);
    if (!columns.length || !rows.length) return null;
    const [first, top] = [rows[0], rows[rows.length - 1]];
    return {
      from: Math.min(...columns.map(([from]) => from)), to: Math.max(...columns.map(([, to]) => to)),
      low: first === 0 ? 0 : edges[first], high: top === last ? Infinity : edges[top + 1],
    };
  };

  // The phases that the box is of: those that drive, or else the first.
  const phases = (data, map, box) => {
    const inside = map.columns_s.map(middle).filter((t) => t >= box.from && t < box.to);
    const touched = data.bands.filter((band) => inside.some((t) => t >= band.start_s && t < band.end_s));
    const driven = touched.filter((band) => band.kind === "drive");
    return driven.length ? driven : touched.filter((band) => band.phase === touched[0].phase);
  };
  // For each column of a map: true in the time of the box, false outside of it, null if it does not count.
  const sides = (map, bands, box) => map.columns_s.map((column) => {
    const t = middle(column), band = bands.find((one) => t >= one.start_s && t < one.end_s);
    if (!band) return null;
    if (t >= box.from && t < box.to) return true;
    return t < (band.warmup_end_s ?? -Infinity) ? null : false;
  });
  // Counts the operations of a map: in the box, above it, in its time, and in all columns that count.
  const counted = (map, side, box) => {
    const counts = { selected: 0, above: 0, beside: 0, all: 0, columns: new Set() };
    for (const [column, row, count] of map.cells) {
      if (side[column] == null) continue;
      counts.all += count;
      if (!side[column]) continue;
      counts.beside += count;
      const [foot, top] = [map.edges_s[row], map.edges_s[row + 1]];
      if (foot >= box.high * (1 - 1e-6)) counts.above += count;
      else if (foot >= box.low * (1 - 1e-6) && top <= box.high * (1 + 1e-6)) {
        counts.selected += count;
        counts.columns.add(column);
      }
    }
    return counts;
  };

  // The times that the points of a panel are of: a reading is of the slice before it.
  const timesOf = (panel) => {
    const times = panel.t_s;
    if (panel.steps) return times.map((t, at) => middle([t, times[at + 1] ?? t]));
    if (panel.lines.some((line) => line.high)) return times;
    const widths = times.slice(1).map((t, at) => t - times[at]);
    const half = widths.length ? median(widths) / 2 : 0;
    return times.map((t) => t - half);
  };
  // Compares the values of a line in the columns of the box and in the others; null if they do not differ.
  const differs = (line, times, sideAt) => {
    const inside = [], outside = [];
    line.values.forEach((value, at) => {
      const side = value == null ? null : sideAt(times[at]);
      if (side != null) (side ? inside : outside).push(value);
    });
    if (!inside.length || outside.length < 3) return null;
    const [here, there] = [median(inside), median(outside)], far = Math.abs(here - there);
    if (far === 0 || far < SHARE_MIN * Math.max(Math.abs(here), Math.abs(there))) return null;
    const effect = (here - there) / spread(outside);
    const chance = CHANCE * OF_MEDIAN * Math.sqrt(1 / inside.length + 1 / outside.length);
    if (Math.abs(effect) < Math.max(1, chance)) return null;
    return { inside: mean(inside), outside: mean(outside), effect, n: [inside.length, outside.length] };
  };
  const series = (data, map, side, isSecond) => {
    const columns = map.columns_s.map(([from, to], at) => [from, to, side[at] == null ? null : isSecond(at)]).sort((a, b) => a[0] - b[0]);
    const sideAt = (t) => {
      let [low, high] = [0, columns.length];
      while (low < high) {
        const half = (low + high) >> 1;
        if (columns[half][0] <= t) low = half + 1; else high = half;
      }
      const column = columns[low - 1];
      return column && t < column[1] ? column[2] : null;
    };
    const found = [];
    for (const panel of [data.throughput, ...data.store, ...data.host]) {
      const times = timesOf(panel);
      for (const line of panel.lines) {
        const one = differs(line, times, sideAt);
        if (one) found.push({ name: `${panel.name}: ${line.name}`, unit: panel.unit, ...one });
      }
    }
    return found.sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect));
  };

  // A time as an option takes it.
  const length = (value) => {
    const [unit, size] = value >= 1 ? ["s", 1] : value >= 1e-3 ? ["ms", 1e3] : value >= 1e-6 ? ["us", 1e6] : ["ns", 1e9];
    return `${Number((value * size).toPrecision(5))}${unit}`;
  };
  const quoted = (text) => (/^[\w.,:=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

  // Compares the box with the rest of its phases. `op` is a position in the list of operation types.
  const compare = (data, op, box, run) => {
    const map = data.heat[op], bands = phases(data, map, box), side = sides(map, bands, box);
    const counts = counted(map, side, box);
    // Without limits of latency every column in its time is of the box, also one without operations.
    const isSecond = (column) => side[column] && ((box.low === 0 && box.high === Infinity) || counts.columns.has(column));
    const types = op ? [] : data.ops.slice(1).map((name, at) => {
      const of = data.heat[at + 1], one = counted(of, sides(of, bands, box), box);
      return { name, inside: one.selected, outside: one.all - one.selected };
    }).filter((one) => one.inside + one.outside > 0);
    const sum = (field) => types.reduce((total, one) => total + one[field], 0) || 1;
    const [inside, outside] = [sum("inside"), sum("outside")];
    types.forEach((one) => { one.share = 100 * one.inside / inside; one.otherwise = 100 * one.outside / outside; });
    types.sort((a, b) => b.share - a.share);
    const [from, to] = [box.from, box.to].map((at) => `${Number(at.toFixed(4))}s`);
    const above = box.low > 0 ? ` --above ${length(box.low)}` : "";
    const phase = bands.length && bands[0].kind !== "drive" ? ` --phase ${quoted(bands[0].phase)}` : "";
    return {
      box, op: op ? data.ops[op] : null, ...counts, types, series: series(data, map, side, isSecond),
      places: [...new Set(bands.map((band) => `${band.phase} of ${band.trial_name}`))],
      command: `plimsoll explain ${run} --from ${from} --to ${to}${above}${phase}`,
    };
  };

  const percent = (part, all) => `${short(all ? 100 * part / all : 0)} %`;
  const many = (count, one, more) => `${grouped(String(count))} ${count === 1 ? one : more}`;
  // The box in a sentence.
  const sentence = ({ box, op, selected, beside, all, series: found, places }) => {
    const [from, to] = [box.from, box.to].map((at) => `${Number(at.toFixed(2))} s`);
    const limits = [box.low > 0 ? `of ${seconds(box.low)} or longer` : "", box.high < Infinity ? `shorter than ${seconds(box.high)}` : ""].filter(Boolean).join(" and ");
    const place = places.length === 1 ? places[0] : many(places.length, "phase", "phases");
    const what = op ? ` (${op})` : "";
    const first = found[0];
    const most = first ? `, most of all ${first.name} (mean ${withUnit(first.inside, first.unit)} of ${many(first.n[0], "value", "values")} in the box, ${withUnit(first.outside, first.unit)} of ${grouped(String(first.n[1]))} otherwise)` : "";
    return `From ${from} to ${to}: ${many(selected, "operation", "operations")}${what}${limits ? ` ${limits}` : ""}, ${percent(selected, all)} of ${grouped(String(all))} in ${place}, `
      + `and ${percent(selected, beside)} of those in this time. ${found.length ? `${many(found.length, "series differs", "series differ")}${most}` : "No series differs by more than its spread"}.`;
  };

  const element = (parent, kind, text = "", name = "") => {
    const made = document.createElement(kind);
    made.textContent = text;
    if (name) made.className = name;
    parent.append(made);
    return made;
  };
  // A table as the page has them: it scrolls sideways where the page is narrow.
  const table = (parent, label, heads, rows) => {
    const scroll = element(parent, "div", "", "scroll"), whole = element(scroll, "table");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", label);
    element(whole, "caption", label, "unseen");
    const head = element(element(whole, "thead"), "tr"), body = element(whole, "tbody");
    heads.forEach((text, at) => { element(head, "th", text, at ? "n" : "").scope = "col"; });
    for (const cells of rows) {
      const row = element(body, "tr");
      cells.forEach((text, at) => { const cell = element(row, at ? "td" : "th", text, at ? "n" : ""); if (!at) cell.scope = "row"; });
    }
  };
  const button = (parent, text, action) => {
    const made = element(parent, "button", text);
    made.type = "button";
    made.addEventListener("click", () => action(made));
    return made;
  };
  const copy = async (code, made) => {
    let isCopied = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      // Some browsers keep the clipboard from pages that are files: the selection is copied, or stands there to be.
      getSelection().selectAllChildren(code);
      isCopied = document.execCommand("copy");
    }
    made.textContent = isCopied ? "Copied" : "Selected: press Ctrl+C";
  };

  // The place of the comparison: a sentence that is read out, and the rest below it.
  const place = () => {
    const whole = document.createElement("section");
    whole.id = "boxed";
    whole.setAttribute("aria-label", "Box on the heat map");
    const said = element(whole, "p");
    said.setAttribute("role", "status");
    said.setAttribute("aria-live", "polite");
    const rest = element(whole, "div");
    const clear = () => {
      whole.classList.remove("shown");
      said.textContent = "";
      rest.replaceChildren();
    };
    const show = (found, actions) => {
      clear();
      whole.classList.add("shown");
      said.textContent = sentence(found);
      const line = element(rest, "p", "", "command"), code = element(line, "code", found.command);
      line.append(" ");
      button(line, "Copy", (made) => copy(code, made));
      for (const [text, action] of actions) { line.append(" "); button(line, text, action); }
      const notes = ["The command compares all of the recording: series, servers, outcomes, steps."];
      if (found.op) notes.push("It counts all operation types.");
      if (found.above) notes.push(`It also counts the ${many(found.above, "operation", "operations")} above the box.`);
      element(rest, "p", notes.join(" "), "note");
      if (found.types.length > 1) {
        table(rest, "Operation types in the box", ["operation type", "in the box", "share", "of the others"],
          found.types.map((one) => [one.name, grouped(String(one.inside)), `${short(one.share)} %`, `${short(one.otherwise)} %`]));
      }
      if (found.series.length) {
        table(rest, "Series that differ", ["series that differs", "in the box", "otherwise", "effect", "n"], found.series.slice(0, SERIES_MAX).map((one) => [
          one.name, withUnit(one.inside, one.unit), withUnit(one.outside, one.unit),
          Number.isFinite(one.effect) ? `${one.effect > 0 ? "+" : ""}${short(one.effect)}` : "constant otherwise", one.n.map((n) => grouped(String(n))).join(" and "),
        ]));
        const more = found.series.length - SERIES_MAX;
        element(rest, "p", `Means of the values in the columns with operations in the box, and in the others; n is their number. The effect is the difference of the medians, in robust standard deviations of the others. A difference proves no cause.${more > 0 ? ` ${many(more, "further series differs", "further series differ")}.` : ""}`, "note");
      }
    };
    return { whole, clear, show };
  };

  // Draws boxes with the mouse and the keyboard, and shows their comparison below the heat map. `page` has the data, the id
  // of the run, functions for the operation type and the times that are shown, and one that zooms.
  const tool = (page) => {
    const below = place();
    // The plot while there is one; the box; and of the keyboard, the columns between which the box lies and its lowest row.
    let plot = null, mark = null, box = null, held = null;
    const limited = (value, most) => Math.min(Math.max(value, 0), most);
    const frame = (shown = box) => {
      if (!plot) return;
      const [start, end] = page.shown();
      mark.hidden = !shown || shown.to < start || shown.from > end;
      if (mark.hidden) return;
      const { u } = plot, { clientWidth: width, clientHeight: height } = u.over;
      const [left, right] = [shown.from, shown.to].map((t) => limited(u.valToPos(t, "x"), width));
      const top = shown.high === Infinity ? 0 : limited(u.valToPos(shown.high, "y"), height);
      const foot = shown.low === 0 ? height : limited(u.valToPos(shown.low, "y"), height);
      const sizes = { left, top, width: Math.max(right - left, 3), height: Math.max(foot - top, 3) };
      for (const [name, size] of Object.entries(sizes)) mark.style[name] = `${size}px`;
    };
    const choose = (chosen) => {
      box = chosen;
      frame();
      if (!box) { held = null; below.clear(); return; }
      const { from, to } = box, margin = (to - from) / 10;
      below.show(compare(page.data, page.op(), box, page.run), [
        ["Zoom", () => page.zoom(from - margin, to + margin)],
        ["Clear", () => { choose(null); plot?.box.focus(); }],
      ]);
    };
    below.whole.addEventListener("keydown", (event) => { if (event.key === "Escape") { choose(null); plot?.box.focus(); } });

    // Returns true if the key was one of a box.
    const keys = (event) => {
      if (event.key === "Escape" && box) { choose(null); return true; }
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!event.shiftKey || !step) return false;
      const { columns_s: columns, edges_s: edges } = plot.heat, last = columns.length - 1;
      const inside = box ? columns.flatMap(([from, to], at) => (from >= box.from && to <= box.to ? [at] : [])) : [];
      if (!held && inside.length) held = { anchor: inside[0], focus: inside[inside.length - 1], row: Math.max(0, edges.findIndex((edge) => edge >= box.low * (1 - 1e-6))) };
      if (held) held.focus = limited(held.focus + step[0], last);
      else {
        const at = limited(plot.u.cursor.idx ?? columns.findIndex(([, to]) => to > page.shown()[0]), last);
        held = { anchor: at, focus: at, row: 0 };
      }
      held.row = limited(held.row + step[1], edges.length - 2);
      const [one, other] = [columns[held.anchor], columns[held.focus]];
      choose({ from: Math.min(one[0], other[0]), to: Math.max(one[1], other[1]), low: held.row ? edges[held.row] : 0, high: Infinity });
      return true;
    };

    // A drag draws a box around the cells that it touches; a click without one changes nothing.
    const drags = ({ u, heat, box: focused }) => {
      const { over } = u;
      let start = null, draft = null;
      const corner = (event) => {
        const { left, top, width, height } = over.getBoundingClientRect();
        return [limited(event.clientX - left, width), limited(event.clientY - top, height)];
      };
      over.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !event.isPrimary) return;
        start = corner(event);
        over.setPointerCapture(event.pointerId);
        focused.focus({ preventScroll: true });
      });
      over.addEventListener("pointermove", (event) => {
        if (!start) return;
        const now = corner(event);
        if (!draft && Math.hypot(now[0] - start[0], now[1] - start[1]) < 4) return;
        const [times, latencies] = ["x", "y"].map((scale, at) => [start[at], now[at]].map((at) => u.posToVal(at, scale)));
        draft = snapped(heat, times, latencies);
        frame(draft ?? box);
      });
      over.addEventListener("pointerup", () => {
        if (draft) { held = null; choose(draft); }
        start = draft = null;
      });
      over.addEventListener("pointercancel", () => { start = draft = null; frame(); });
    };

    return {
      keys, frame: () => frame(),
      // The heat map was drawn: its box is shown again.
      enter: (drawn) => {
        plot = drawn;
        held = null;
        mark = element(plot.u.over, "div", "", "frame");
        drags(plot);
        plot.box.after(below.whole);
        choose(box);
      },
      // The heat map is no longer drawn.
      leave: () => { plot = null; },
    };
  };

  return { snapped, compare, sentence, timesOf, tool };
})();
