"use strict";
// No library: everything below draws plain SVG from the JSON in this page.
const data = JSON.parse(document.getElementById("data").textContent);
const hidden = { algorithm: new Set(), eta: new Set(), seed: new Set() };
const options = { seeds: false, band: true, filter: "" };
const tip = document.getElementById("tip");
const WIDTH = 440, HEIGHT = 270, LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 34;

// Small helpers.

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "text", "rect", "g", "title", "pattern", "defs"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

const known = (x) => x != null && Number.isFinite(x);
const percent = (x) => (known(x) ? (x >= 0 ? "+" : "−") + Math.abs(100 * x).toFixed(Math.abs(x) < 0.0995 ? 1 : 0) + " %" : "–");
const fixed = (x, digits = 2) => (known(x) ? x.toFixed(digits).replace("-", "−") : "–");
const number = (x) => {
  if (!known(x)) return "–";
  const size = Math.abs(x);
  const text = size >= 1e5 || (size > 0 && size < 1e-3) ? x.toExponential(2) : x.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 0 : 2 });
  return text.replace("-", "−");
};
const steps = (x) => (x >= 1e6 ? +(x / 1e6).toPrecision(4) + "M" : x >= 1e3 ? +(x / 1e3).toPrecision(4) + "k" : String(x));
const range = (e, show) => (e && known(e.low) ? `[${show(e.low)}, ${show(e.high)}]` : "–");

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const result = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) result.push(Math.abs(t) < 1e-9 * step ? 0 : t);
  return result;
}

function colour(text) { return text === "#000000" ? "var(--ink)" : text; }

function swatch(kind) {
  return make("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" },
    make("path", { d: "M0 5H30", stroke: colour(kind.colour), "stroke-width": 2.5, "stroke-dasharray": kind.dash, fill: "none" }));
}

function table(heads, rows, textColumns = [0]) {
  const body = make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => {
    const node = make("td", { class: textColumns.includes(i) ? "text" : null });
    node.append(cell instanceof Node ? cell : String(cell ?? "–"));
    return node;
  }))));
  const sort = (i) => {
    const key = (row) => { const text = row.cells[i].textContent.replaceAll("−", "-").replaceAll(",", ""), value = parseFloat(text); return Number.isNaN(value) ? text : value; };
    const down = body.dataset.by === String(i) && body.dataset.down !== "yes";
    const order = [...body.rows].sort((a, b) => { const x = key(a), y = key(b); return (typeof x === typeof y ? (x > y ? 1 : x < y ? -1 : 0) : typeof x === "number" ? -1 : 1) * (down ? -1 : 1); });
    body.dataset.by = i; body.dataset.down = down ? "yes" : "no";
    body.append(...order);
  };
  const head = make("tr", {}, ...heads.map((name, i) => make("th", { class: textColumns.includes(i) ? "text" : null }, make("button", { title: "sort", onclick: () => sort(i) }, name))));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
}

// Charts: lines with bands over an x-axis, with hover, zoom by dragging, and keys.

function chart(container, name, view, draw) {
  // `view` remembers the zoom; `draw(x0, x1)` gives { lines: [{label, kind, points: [[x, y, low, high]]}], x, y }.
  const svg = make("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, tabindex: 0, role: "img", "aria-label": name });
  container.append(svg);
  let shown = null, from = null;
  const toX = (clientX) => { const box = svg.getBoundingClientRect(); return shown.x0 + ((clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * (shown.x1 - shown.x0); };

  function render() {
    svg.replaceChildren();
    const full = draw();
    const [x0, x1] = view.zoom ?? full.x;
    const lines = full.lines.map((line) => ({ ...line, points: line.points.filter((p) => p[0] >= x0 - 1e-9 && p[0] <= x1 + 1e-9) }));
    let low = Infinity, high = -Infinity;
    for (const line of lines) for (const p of line.points) { low = Math.min(low, p[2] ?? p[1]); high = Math.max(high, p[3] ?? p[1]); }
    if (full.y) [low, high] = full.y;
    if (!(high > low)) { const middle = known(low) ? low : 0; low = middle - 1; high = middle + 1; }
    const margin = full.y ? 0 : 0.04 * (high - low); low -= margin; high += margin;
    const px = (x) => LEFT + (x - x0) / (x1 - x0 || 1) * (WIDTH - LEFT - RIGHT), py = (y) => HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    shown = { x0, x1, lines, px, py, full };
    for (const t of ticks(low, high, 5)) svg.append(make("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: py(t), y2: py(t) }), make("text", { x: LEFT - 6, y: py(t) + 4, "text-anchor": "end" }, number(t)));
    for (const t of ticks(x0, x1, 5)) svg.append(make("text", { x: px(t), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, full.xLabel ? fixed(t, 1) : steps(t)));
    svg.append(make("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, full.xLabel ?? "environment steps"));
    if (!lines.length) svg.append(make("text", { x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "nothing is switched on"));
    for (const { kind, points, thin } of lines) {
      if (!points.length) continue;
      const at = (p, i) => `${px(p[0]).toFixed(1)} ${py(p[i]).toFixed(1)}`;
      if (!thin && options.band && points.length > 1 && known(points[0][2])) {
        const area = "M" + points.map((p) => at(p, 3)).join("L") + "L" + [...points].reverse().map((p) => at(p, 2)).join("L") + "Z";
        svg.append(make("path", { d: area, fill: colour(kind.colour), opacity: 0.16, stroke: "none" }));
      }
      const d = "M" + points.map((p) => at(p, 1)).join("L") + (points.length === 1 ? "h0.1" : "");
      svg.append(make("path", { class: thin ? "seed" : "curve", "data-label": kind.label, d, fill: "none", stroke: colour(kind.colour), "stroke-width": thin ? 0.8 : points.length === 1 ? 6 : 1.9, "stroke-linecap": points.length === 1 ? "round" : "butt", opacity: thin ? 0.55 : 1, "stroke-dasharray": kind.dash }));
    }
  }

  function point(x, place) {
    // The nearest step that has a point; its values in the tip.
    const grid = [...new Set(shown.lines.flatMap((line) => line.points.map((p) => p[0])))].sort((a, b) => a - b);
    if (!grid.length) return;
    const near = grid.reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a));
    view.at = grid.indexOf(near);
    svg.querySelector(".cross")?.remove();
    svg.append(make("line", { class: "cross", x1: shown.px(near), x2: shown.px(near), y1: TOP, y2: HEIGHT - BOTTOM }));
    const rows = shown.lines.filter((line) => !line.thin).map((line) => [line, line.points.find((p) => p[0] === near)]).filter(([, p]) => p).sort((a, b) => b[1][1] - a[1][1]);
    tip.replaceChildren(make("strong", {}, shown.full.xLabel ? `${shown.full.xLabel} ${fixed(near)}` : `step ${near.toLocaleString("en")}`),
      ...rows.map(([line, p]) => make("div", {}, swatch(line.kind), `${line.kind.label}  ${number(p[1])}${line.error ? ` ± ${number(p[3] - p[1])}  (n = ${line.count})` : known(p[2]) ? `  [${number(p[2])}, ${number(p[3])}]` : ""}`)));
    tip.hidden = false;
    const box = svg.getBoundingClientRect();
    const left = place?.clientX ?? box.left + shown.px(near) / WIDTH * box.width, top = place?.clientY ?? box.top + 20;
    tip.style.left = Math.min(left + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(top + 14, innerHeight - tip.offsetHeight - 8) + "px";
  }
  function leave() { tip.hidden = true; svg.querySelector(".cross")?.remove(); }
  function reset() { view.zoom = null; render(); button.hidden = true; }

  svg.addEventListener("pointermove", (event) => {
    point(toX(event.clientX), event);
    if (from === null) return;
    svg.querySelector(".brush")?.remove();
    const a = Math.max(shown.px(shown.x0), shown.px(Math.min(from, toX(event.clientX)))), b = Math.min(shown.px(shown.x1), shown.px(Math.max(from, toX(event.clientX))));
    svg.append(make("rect", { class: "brush", x: a, width: Math.max(0, b - a), y: TOP, height: HEIGHT - TOP - BOTTOM }));
  });
  svg.addEventListener("pointerdown", (event) => { from = toX(event.clientX); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", (event) => {
    const to = toX(event.clientX), [a, b] = [Math.max(shown.x0, Math.min(from, to)), Math.min(shown.x1, Math.max(from, to))];
    from = null;
    if (b - a > 0.02 * (shown.x1 - shown.x0)) { view.zoom = [a, b]; render(); button.hidden = false; } else svg.querySelector(".brush")?.remove();
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("dblclick", reset);
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") reset();
    if (!move) return;
    event.preventDefault();
    const grid = [...new Set(shown.lines.flatMap((line) => line.points.map((p) => p[0])))].sort((a, b) => a - b);
    point(grid[Math.max(0, Math.min(grid.length - 1, (view.at ?? -1) + move))]);
  });
  const button = make("button", { onclick: reset, hidden: true, title: "show all steps" }, "reset zoom");
  container.append(button);
  render();
  return render;
}

// Learning curves.

const visible = (kind) => !hidden.algorithm.has(kind.algorithm) && !(kind.eta != null && hidden.eta.has(kind.eta));

function lines(panel) {
  const result = [];
  for (const kind of panel.kinds.filter(visible)) {
    const chosen = kind.returns.filter((_, i) => !hidden.seed.has(kind.seeds[i]));
    if (!chosen.length) continue;
    if (options.seeds) for (const curve of chosen) result.push({ kind, thin: true, points: panel.steps.map((x, i) => [x, curve[i]]) });
    const points = panel.steps.map((x, i) => {
      const values = chosen.map((curve) => curve[i]), n = values.length, mean = values.reduce((a, b) => a + b, 0) / n;
      const error = n > 1 ? Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / (n - 1) / n) : 0;
      return [x, mean, mean - error, mean + error];
    });
    result.push({ kind, points, error: true, count: chosen.length });
  }
  return result;
}

function curves() {
  const area = document.querySelector("#curves .panels"), controls = document.querySelector("#curves .controls");
  const renders = [];
  for (const panel of data.panels) {
    const box = make("div", { class: "panel", "data-task": panel.title }, make("h3", {}, panel.title));
    area.append(box);
    const x = [panel.steps[0] ?? 0, panel.steps.at(-1) ?? 1];
    renders.push(chart(box, `learning curves of ${panel.title}`, {}, () => ({ lines: lines(panel), x })));
  }
  const redraw = () => renders.forEach((render) => render());
  const kinds = data.panels.flatMap((panel) => panel.kinds);
  const groups = { algorithm: [...new Set(kinds.map((k) => k.algorithm))], eta: [...new Set(kinds.map((k) => k.eta).filter((e) => e != null))].sort((a, b) => a - b), seed: [...new Set(kinds.flatMap((k) => k.seeds))].sort((a, b) => a - b) };
  for (const [group, values] of Object.entries(groups)) {
    if (values.length < 2) continue;
    const boxes = values.map((value) => {
      const looks = new Map(kinds.filter((k) => k[group] === value).map((k) => [k.colour + k.dash, k]));
      return make("label", {}, make("input", { type: "checkbox", checked: true, name: group, value, onchange: (event) => { hidden[group][event.target.checked ? "delete" : "add"](value); redraw(); } }), looks.size === 1 ? swatch([...looks.values()][0]) : null, String(value));
    });
    const all = make("button", { title: "all or none", onclick: () => { const on = boxes.some((b) => !b.firstChild.checked); boxes.forEach((b, i) => { b.firstChild.checked = on; hidden[group][on ? "delete" : "add"](values[i]); }); redraw(); } }, "all");
    controls.append(make("fieldset", {}, make("legend", {}, group === "eta" ? "η" : group), ...boxes, values.length > 2 ? all : null));
  }
  const flag = (name, text) => make("label", {}, make("input", { type: "checkbox", name, checked: options[name], onchange: (event) => { options[name] = event.target.checked; redraw(); } }), text);
  controls.append(make("fieldset", {}, flag("seeds", "each seed"), flag("band", "standard error")));
  if (data.panels.length > 6) controls.append(make("input", { type: "search", placeholder: "find a task", "aria-label": "find a task", oninput: (event) => { for (const box of area.children) box.hidden = !box.dataset.task.includes(event.target.value.trim()); } }));
  controls.append(make("button", { onclick: download }, "raw curves (CSV)"), make("span", { class: "notes" }, "drag: zoom · double click: back"));
}

function download() {
  const rows = [["task", "kind", "seed", "step", "return"]];
  for (const panel of data.panels) for (const kind of panel.kinds) kind.returns.forEach((curve, m) => curve.forEach((value, i) => rows.push([panel.title, kind.label, kind.seeds[m], panel.steps[i], value])));
  const text = rows.map((row) => row.map((cell) => (/[",]/.test(cell) ? JSON.stringify(cell) : cell)).join(",")).join("\n") + "\n";
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "curves.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
}

// Bars.

function bars() {
  const body = document.querySelector("#auc .body");
  const labels = [...new Set(data.rows.filter((row) => row.improvement).map((row) => row.kind))];
  if (!labels.length) { body.append(make("p", {}, "No algorithm was run beside a baseline.")); return; }
  const area = make("div");
  const pick = make("select", { "aria-label": "algorithm", onchange: () => show(pick.value) }, ...labels.map((label) => make("option", { value: label }, label)));
  if (labels.length > 1) body.append(pick);
  body.append(make("p", { class: "notes" }, "(AUC − AUC of the baseline) / |AUC of the baseline|, of mean curves; the whisker is the 95 % interval of a bootstrap over runs."), area);
  function show(label) {
    const all = data.rows.filter((row) => row.kind === label && row.improvement && known(row.improvement.value)).sort((a, b) => b.improvement.value - a.improvement.value);
    const bend = (x) => (Math.abs(x) <= 1 ? x : Math.sign(x) * (1 + Math.log10(Math.abs(x))));  // linear to ±100 %, then logarithmic
    const left = 190, width = 900, line = 22, height = all.length * line + 34;
    const ends = all.flatMap((row) => [row.improvement.value, row.improvement.low, row.improvement.high]).filter(known).map(bend);
    const low = Math.min(-0.1, ...ends), high = Math.max(0.1, ...ends), px = (x) => left + (bend(x) - low) / (high - low) * (width - left - 80);
    const svg = make("svg", { class: "chart bars", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `AUC improvement of ${label} by task`, style: "max-width: 900px; cursor: default" });
    svg.append(make("defs", {}, make("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, make("rect", { width: 2.5, height: 6, fill: "#D55E00" }))));
    for (const t of [-10, -1, -0.5, 0, 0.5, 1, 10, 100].filter((t) => bend(t) >= low && bend(t) <= high)) svg.append(make("line", { class: t ? "axis" : "zero", x1: px(t), x2: px(t), y1: 0, y2: height - 26 }), make("text", { x: px(t), y: height - 10, "text-anchor": "middle" }, t ? percent(t) : "0"));
    all.forEach((row, i) => {
      const y = i * line, { value, low: a, high: b } = row.improvement;
      svg.append(make("rect", { class: "bar", x: Math.min(px(0), px(value)), width: Math.max(1, Math.abs(px(value) - px(0))), y: y + 4, height: line - 9, fill: value >= 0 ? "#0072B2" : "url(#hatch)", stroke: value >= 0 ? "none" : "#D55E00" }, make("title", {}, `${row.task}: ${percent(value)} ${range(row.improvement, percent)}`)));
      if (known(a)) svg.append(make("line", { x1: px(a), x2: px(b), y1: y + line / 2 - 0.5, y2: y + line / 2 - 0.5, stroke: "var(--ink)", "stroke-width": 1.4 }));
      svg.append(make("text", { class: "name", x: left - 12, y: y + line / 2 + 4, "text-anchor": "end" }, row.task), make("text", { x: width - 4, y: y + line / 2 + 4, "text-anchor": "end" }, percent(value)));
    });
    const without = data.rows.filter((row) => row.kind === label && row.improvement && !known(row.improvement.value)).map((row) => row.task);
    area.replaceChildren(svg, make("p", { class: "notes" }, without.length ? `Left out, as nobody learned them or the baseline’s area is zero: ${without.join(", ")}.` : ""));
  }
  show(labels[0]);
}

// Tables.

function drop(section) {
  document.getElementById(section).remove();
  document.querySelector(`nav a[href="#${section}"]`).remove();
}

function claims() {
  const body = document.querySelector("#claims .body");
  if (!data.claims.length) { drop("claims"); return; }
  const show = { share: percent, count: (x) => fixed(x, 0), number: (x) => fixed(x, 2) };
  body.append(table(["claim", "paper", "ours", "95 % interval", "", "verdict"], data.claims.map((c) => [c.statement, c.paper || "–", c.value ? show[c.unit](c.value.value) : "–", range(c.value, show[c.unit]), c.interval, make("span", { class: c.answer }, c.answer)])));
  body.append(make("p", { class: "notes" }, "yes / no: the whole interval is on that side; open: it holds both; no data: the runs that would tell are missing."));
}

function totals() {
  const body = document.querySelector("#totals .body");
  if (!data.totals.length) { body.append(make("p", {}, "Nothing to compare.")); return; }
  const pair = (e, show) => (e ? `${show(e.value)} ${range(e, show)}` : "baseline");
  const sign = (x) => (known(x) ? (x >= 0 ? "+" : "") + fixed(x, 3) : "–");
  body.append(table(["tasks", "algorithm", "number", "P(better than baseline)", "mean difference", "median", "IQM", "of the final return", "intervals", "diverged"],
    data.totals.map((t) => [t.tasks, t.kind, t.count, pair(t.probability, fixed), pair(t.mean_difference, sign), pair(t.median_difference, sign), pair(t.iqm_difference, sign), pair(t.final_difference, sign), t.interval || "–", pair(t.divergence, (x) => (known(x) ? (100 * x).toFixed(1) + " %" : "–"))]), [0, 1, 8]));
  body.append(make("p", { class: "notes" }, "Differences of normalised scores to the baseline: a score is the mean of a curve divided by the task’s scale (DMControl 1000; see the table below). 95 % intervals: bootstrap over runs, stratified by task, widened for few runs; paired where both algorithms have the same seeds (Wilson’s for divergence). IQM: the mean of the middle half of the tasks."));
  const compared = data.totals.filter((t) => t.interval);
  if (compared.length) {
    body.append(make("h3", {}, "The paper’s ratio, over the tasks that somebody learned, and what Q believes"));
    body.append(table(["tasks", "algorithm", "learned", "median improvement of the AUC", "mean improvement", "left out: nobody learned them", "Q − return"],
      compared.map((t) => [t.tasks, t.kind, `${t.learned} of ${t.count}`, t.median_improvement ? pair(t.median_improvement, percent) : "–", t.mean_improvement ? pair(t.mean_improvement, percent) : "–", t.left_out || "–", sign(t.overestimation)]), [0, 1, 5]));
    body.append(make("p", { class: "notes" }, "Learned: some algorithm’s mean curve, or its last tenth, is 5 % of the scale above the level before training. Q − return: median over tasks of mean Q(s, μ(s)) in the last evaluations minus the discounted return that evenly spread rewards would give, in units of the value of a return of the scale."));
  }
  if (data.profiles.lines.length) {
    const box = make("div", { class: "panel", style: "max-width: 560px" }, make("h3", {}, "Performance profile: share of runs above a score"));
    body.append(box);
    chart(box, "performance profile", {}, () => ({ x: [data.profiles.levels[0], data.profiles.levels.at(-1)], y: [0, 1], xLabel: "normalised score", lines: data.profiles.lines.map((l) => ({ kind: l, points: data.profiles.levels.map((x, i) => [x, l.value[i], l.low[i], l.high[i]]) })) }));
  }
}

function numbers() {
  document.querySelector("#table .body").append(table(["task", "algorithm", "members", "diverged", "missing", "last step", "final return", "± s.e.", "AUC", "difference of scores", "95 % interval", "of the final return", "95 % interval", "intervals", "improvement of the AUC", "95 % interval", "scale", "Q", "Q if right"],
    data.rows.map((r) => [r.task, r.kind, r.members, r.diverged, r.missing, steps(r.last_step), number(r.final_return), number(r.final_error), number(r.auc), r.difference ? fixed(r.difference.value, 3) : "–", range(r.difference, (x) => fixed(x, 3)), r.final_difference ? fixed(r.final_difference.value, 3) : "–", range(r.final_difference, (x) => fixed(x, 3)), r.interval || "–", r.improvement ? percent(r.improvement.value) : "–", range(r.improvement, percent), number(r.scale) + (r.scale_source === "given" ? "" : " (measured)"), number(r.q), number(r.q_expected)]), [0, 1, 13]));
}

function diverged() {
  const body = document.querySelector("#diverged .body");
  if (!data.diverged.length) { body.append(make("p", {}, "None.")); return; }
  body.append(make("p", { class: "notes" }, "A diverged member is frozen; its last evaluation stands for the rest of its curve."), table(["task", "algorithm", "seed", "at step"], data.diverged.map((d) => [d.task, d.kind, d.seed, d.step.toLocaleString("en")]), [0, 1]));
}

function how() {
  const body = document.querySelector("#how .body");
  if (data.command) body.append(make("pre", {}, data.command));
  body.append(table(["task", "members", "steps", "protocol", "hardware", "begun", "ended", "raw files"], data.runs.map((run) => [run.task, run.members, steps(run.steps), run.protocol, run.hardware, run.start ?? "–", run.end ?? "not finished", make("span", {}, ...run.files.flatMap((file) => [make("a", { href: file.href }, file.name), " "]))]), [0, 3, 4, 7]));
  for (const group of data.versions) body.append(make("details", {}, make("summary", {}, `versions and settings of ${group.tasks.length} run${group.tasks.length > 1 ? "s" : ""}`), make("p", {}, group.tasks.join(", ")), make("pre", {}, group.text)));
}

document.getElementById("title").textContent = data.title;
document.getElementById("summary").textContent = data.summary;
document.getElementById("notes").append(...data.notes.flatMap((note) => [note, make("br")]));
claims(); curves(); bars(); totals(); numbers(); diverged(); how();
document.body.dataset.ready = "yes";
