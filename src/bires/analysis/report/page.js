// The sections of the page, top to bottom.

const drop = (section) => {
  document.getElementById(section).remove();
  document.querySelector(`nav a[href="#${section}"]`).remove();
};

// Tables. A cell is text, a node, or [text, number to sort by]. Names stay on one line; prose may wrap, and so may a number before its interval.
const together = (text) => text.replace(/ (?!\[)/g, "\u00a0");

function table(heads, rows, { text = [0], prose = [] } = {}) {
  const kind = (i) => (prose.includes(i) ? "text prose" : text.includes(i) ? "text" : null);
  const body = make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => {
    const [shown, key] = Array.isArray(cell) ? cell : [cell, null];
    return make("td", { class: kind(i), "data-key": key, title: i || shown instanceof Node ? null : shown }, shown instanceof Node ? shown : kind(i) ? String(shown ?? "–") : together(String(shown ?? "–")));
  }))));
  const sort = (i) => {
    const key = (row) => { const cell = row.cells[i], raw = cell.dataset.key ?? cell.textContent.replaceAll("−", "-").replaceAll(",", ""), value = parseFloat(raw); return Number.isNaN(value) ? raw : value; };
    const down = body.dataset.by === String(i) && body.dataset.down !== "yes";
    const order = [...body.rows].sort((a, b) => { const x = key(a), y = key(b); return (typeof x === typeof y ? (x > y ? 1 : x < y ? -1 : 0) : typeof x === "number" ? -1 : 1) * (down ? -1 : 1); });
    body.dataset.by = i; body.dataset.down = down ? "yes" : "no";
    body.append(...order);
  };
  const head = make("tr", {}, ...heads.map((name, i) => make("th", { class: kind(i) }, make("button", { title: "sort", onclick: () => sort(i) }, name))));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
}

function folded(names) {
  return names.length > 2 ? make("details", {}, make("summary", {}, `${names.length} tasks`), names.join(", ")) : names.join(", ") || "–";
}

function claims() {
  const body = document.querySelector("#claims .body");
  if (!data.claims.length) { drop("claims"); return; }
  const show = { share: percent, count: (x) => fixed(x, 0), number };
  body.append(table(["claim", "paper", "ours [95 % interval]", "intervals", "verdict"], data.claims.map((c) => [c.statement, c.paper || "–", spread(c.value, show[c.unit]), c.interval || "–", make("span", { class: c.answer.replace(" ", "-") }, c.answer)]), { text: [0, 3, 4], prose: [0] }));
  body.append(make("p", { class: "notes" }, "yes / no: the whole interval is on that side; open: it includes both; no data: the runs that would tell are missing."));
}

// Learning curves.

const visible = (kind) => !hidden.algorithm.has(kind.algorithm) && !(kind.eta != null && hidden.eta.has(kind.eta));

function smoothed(curve) {
  // The mean of each point with its neighbours, of fewer at both ends.
  const n = options.smoothing, before = Math.floor(n / 2);
  if (n < 2) return curve;
  return curve.map((_, i) => { const some = curve.slice(Math.max(0, i - before), Math.max(0, i - before + n)); return some.reduce((a, b) => a + b, 0) / some.length; });
}

function lines(panel) {
  const result = [];
  for (const kind of panel.kinds.filter(visible)) {
    const chosen = kind.returns.filter((_, i) => !hidden.seed.has(kind.seeds[i])).map(smoothed);
    if (!chosen.length) continue;
    if (options.seeds) for (const curve of chosen) result.push({ kind, thin: true, points: panel.steps.map((x, i) => [x, curve[i]]) });
    const points = panel.steps.map((x, i) => {
      const values = chosen.map((curve) => curve[i]), n = values.length, mean = values.reduce((a, b) => a + b, 0) / n;
      const error = n > 1 ? Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / (n - 1) / n) : null;
      return [x, mean, ...(error === null ? [null, null] : [mean - error, mean + error])];
    });
    result.push({ kind, points, error: true, count: chosen.length });
  }
  return result;
}

function marks(panel) {
  // Where members diverged.
  return panel.kinds.filter(visible).flatMap((kind) => kind.diverged.filter(([seed]) => !hidden.seed.has(seed)).map(([seed, x]) => ({ kind, x, text: `${kind.label}, seed ${seed}, diverged at step ${x.toLocaleString("en")}` })));
}

function curves() {
  const area = document.querySelector("#curves .panels"), controls = document.querySelector("#curves .controls");
  area.classList.toggle("few", data.panels.length < 3);
  const boxes = data.panels.map((panel) => make("div", { class: "panel", "data-task": panel.title }, make("h3", {}, panel.title)));
  area.append(...boxes);
  const renders = data.panels.map((panel, i) => chart(boxes[i], `learning curves of ${panel.title}`, {}, () => ({
    lines: lines(panel), scale: data.panels.filter((other) => other.task === panel.task).flatMap(lines), marks: marks(panel), x: [panel.steps[0] ?? 0, panel.end], xName: "environment steps", yName: options.smoothing > 1 ? `return, mean of ${options.smoothing} evaluations` : "return", note: panel.note,
  })));
  const redraw = () => renders.forEach((render) => render());
  const kinds = data.panels.flatMap((panel) => panel.kinds);
  const groups = { algorithm: [...new Set(kinds.map((k) => k.algorithm))], eta: [...new Set(kinds.map((k) => k.eta).filter((e) => e != null))].sort((a, b) => a - b), seed: [...new Set(kinds.flatMap((k) => k.seeds))].sort((a, b) => a - b) };
  let told = false;  // whether the switches say what every line is
  for (const [group, values] of Object.entries(groups)) {
    if (values.length < 2) continue;
    const looks = values.map((value) => [...new Map(kinds.filter((k) => k[group] === value).map((k) => [k.colour + k.dash, k])).values()]);
    told ||= looks.every((found) => found.length === 1) && kinds.every((k) => k[group] != null);
    controls.append(group === "seed" && values.length > 12 ? make("details", {}, make("summary", {}, `${values.length} seeds`), switches(group, values, looks, redraw)) : switches(group, values, looks, redraw));
  }
  const pick = make("select", { name: "error", onchange: () => { options.error = pick.value; redraw(); } }, ...["band", "bars", "none"].map((name) => make("option", { value: name, selected: options.error === name }, name)));
  const flag = make("input", { type: "checkbox", name: "seeds", onchange: (event) => { options.seeds = event.target.checked; redraw(); } });
  const longest = Math.max(1, ...data.panels.map((panel) => panel.steps.length));
  const smooth = make("input", { type: "number", name: "smoothing", min: 1, max: longest, value: options.smoothing, oninput: () => { options.smoothing = Math.max(1, Math.min(longest, Math.round(smooth.valueAsNumber) || 1)); redraw(); } });
  controls.append(make("fieldset", {}, make("label", {}, flag, "each seed"), make("label", {}, "standard error", pick), make("label", { title: "of how many evaluations in a row each point is the mean" }, "smoothing", smooth)));
  if (data.panels.length > 6) controls.append(make("input", { type: "search", placeholder: "find a task", "aria-label": "find a task", oninput: (event) => { for (const box of area.children) box.hidden = !box.dataset.task.includes(event.target.value.trim()); } }));
  controls.append(make("button", { onclick: download }, "raw curves (CSV)"), make("span", { class: "notes" }, "drag: zoom · double click: back"));
  if (!told) controls.after(legend(kinds));
  if (kinds.some((kind) => kind.diverged.length)) area.after(make("p", { class: "notes" }, "×: a member diverged there."));
}

function switches(group, values, looks, redraw) {
  const boxes = values.map((value, i) => make("label", {}, make("input", { type: "checkbox", checked: true, name: group, value, onchange: (event) => { hidden[group][event.target.checked ? "delete" : "add"](value); redraw(); } }), looks[i].length === 1 ? swatch(looks[i][0]) : null, String(value)));
  const all = make("button", { title: "all or none", onclick: () => { const on = boxes.some((b) => !b.firstChild.checked); boxes.forEach((b, i) => { b.firstChild.checked = on; hidden[group][on ? "delete" : "add"](values[i]); }); redraw(); } }, "all");
  return make("fieldset", {}, make("legend", {}, group === "eta" ? "η" : group), ...boxes, values.length > 2 ? all : null);
}

function download() {
  const rows = [["task", "kind", "seed", "step", "return"]];
  for (const panel of data.panels) for (const kind of panel.kinds) kind.returns.forEach((curve, m) => curve.forEach((value, i) => rows.push([panel.title, kind.label, kind.seeds[m], panel.steps[i], value])));
  const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const text = rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "curves.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
}

// Bars.

function bars() {
  const body = document.querySelector("#auc .body");
  const labels = [...new Set(data.rows.filter((row) => row.improvement).map((row) => row.kind))];
  if (!labels.length) { drop("auc"); return; }
  const area = make("div", { class: "bars" });
  const pick = make("select", { "aria-label": "algorithm", onchange: () => show() }, ...labels.map((label) => make("option", { value: label }, label)));
  if (labels.length > 1) body.append(pick);
  body.append(make("p", { class: "notes" }, "(AUC − AUC of the baseline) / |AUC of the baseline|, of mean curves; the line across a bar is its 95 % interval, an arrow where that has no bound."), area);
  const show = () => drawBars(area, pick.value);
  show();
  let width = area.clientWidth;
  area.redraw = () => { if (area.clientWidth !== width) { width = area.clientWidth; show(); } };
  resized.observe(area);
}

function drawBars(area, label) {
  const mine = data.rows.filter((row) => row.kind === label && row.improvement);
  const all = mine.filter((row) => known(row.improvement.value)).sort((a, b) => b.improvement.value - a.improvement.value);
  const without = mine.filter((row) => !known(row.improvement.value)).map((row) => row.task);
  const note = make("p", { class: "notes" }, without.length ? `Left out, as no algorithm learned them or the baseline’s area is zero: ${without.join(", ")}.` : "");
  if (!all.length) { area.replaceChildren(note); return; }
  const width = Math.min(960, area.clientWidth || 900), line = 22, height = all.length * line + 44, letter = 7.2;
  const texts = all.map((row) => (width > 640 ? spread(row.improvement, percent) : percent(row.improvement.value)));
  const room = Math.floor(0.38 * width / letter), left = Math.min(room, Math.max(...all.map((row) => row.task.length))) * letter + 16;
  const right = 6.4 * Math.max(...texts.map((text) => text.length)) + 14, edge = width - right;
  const bend = (x) => (Math.abs(x) <= 1 ? x : Math.sign(x) * (1 + Math.log10(Math.abs(x))));  // linear to ±100 %, then logarithmic
  const ends = all.flatMap((row) => [row.improvement.value, row.improvement.low, row.improvement.high]).filter(known);
  const low = bend(Math.min(-0.1, ...ends)), high = bend(Math.max(0.1, ...ends)), bent = low < -1 || high > 1;
  const px = (x) => Math.max(left, Math.min(edge, left + (bend(x) - low) / (high - low) * (edge - left)));
  const svg = make("svg", { class: "chart bars", viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": `AUC improvement of ${label} by task` });
  svg.append(make("defs", {}, make("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, make("rect", { width: 2.5, height: 6, fill: "#D55E00" }))));
  const wanted = bent ? [0, 1, -1, 10, 100, 1000, -10, 0.5, -0.5] : [0, ...ticks(low, high, Math.max(4, (edge - left) / 90)).values.map((t) => +t.toPrecision(6))];
  const taken = [];
  for (const t of wanted.filter((t) => bend(t) >= low && bend(t) <= high)) {
    if (taken.some((other) => Math.abs(px(other) - px(t)) < 52)) continue;
    taken.push(t);
    svg.append(make("line", { class: t ? "axis" : "zero", x1: px(t), x2: px(t), y1: 0, y2: height - 40 }), make("text", { x: px(t), y: height - 26, "text-anchor": "middle" }, t ? percent(t) : "0"));
  }
  svg.append(make("text", { class: "axis-name", x: width < 640 ? width / 2 : (left + edge) / 2, y: height - 6, "text-anchor": "middle" }, `improvement of the AUC${bent ? ` (${low < -1 && high > 1 ? "outside ±100 %" : high > 1 ? "above +100 %" : "below −100 %"}: logarithmic)` : ""}`));
  all.forEach((row, i) => {
    const y = i * line, middle = y + line / 2 - 0.5, { value, low: a, high: b } = row.improvement;
    const title = `${row.task}: ${spread(row.improvement, percent)}`, name = row.task.length > room ? "…" + row.task.slice(1 - room) : row.task;
    svg.append(make("rect", { class: "bar", x: Math.min(px(0), px(value)), width: Math.max(1, Math.abs(px(value) - px(0))), y: y + 4, height: line - 9, fill: value >= 0 ? "var(--bar)" : "url(#hatch)", stroke: value >= 0 ? "none" : "#D55E00" }, make("title", {}, title)));
    if (a != null) svg.append(make("line", { class: "whisker", x1: px(a), x2: px(b), y1: middle, y2: middle }));
    if (a === -Infinity) svg.append(make("path", { class: "whisker", d: `M${left + 6} ${middle - 4}l-6 4l6 4`, fill: "none" }));
    if (b === Infinity) svg.append(make("path", { class: "whisker", d: `M${edge - 6} ${middle - 4}l6 4l-6 4`, fill: "none" }));
    svg.append(make("text", { class: "name", x: left - 10, y: y + line / 2 + 4, "text-anchor": "end" }, name, make("title", {}, row.task)), make("text", { x: width - 4, y: y + line / 2 + 4, "text-anchor": "end" }, texts[i]));
  });
  area.replaceChildren(svg, note);
}

// Over tasks, task by task, member by member.

function totals() {
  const body = document.querySelector("#totals .body");
  if (!data.totals.some((t) => t.interval)) { drop("totals"); return; }
  const compared = data.totals.filter((t) => t.interval), several = compared.some((t) => t.count > 1), kinds = [...new Set(compared.map((t) => t.interval))], share = (x) => (known(x) ? (100 * x).toFixed(0) + " %" : "–");
  const columns = [
    ["tasks", (t) => `${t.tasks} (${t.count})`], ["algorithm", (t) => t.kind], ["P(better)", (t) => spread(t.probability, fixed)],
    ["mean difference", (t) => signed(t.mean_difference)], several && ["median", (t) => signed(t.median_difference)], several && ["IQM", (t) => signed(t.iqm_difference)],
    ["of the final return", (t) => signed(t.final_difference)], data.diverged.length && ["diverged", (t) => spread(t.divergence, share)], kinds.length > 1 && ["intervals", (t) => t.interval],
  ].filter(Boolean);
  if (!several) document.querySelector("#totals h2").textContent = document.querySelector("nav a[href='#totals']").textContent = "against the baseline";
  body.append(table(columns.map(([name]) => name), compared.map((t) => columns.map(([, cell]) => cell(t))), { text: kinds.length > 1 ? [0, 1, columns.length - 1] : [0, 1] }));
  body.append(make("p", { class: "notes" }, `Each algorithm against its baseline. P(better): the probability that a run has a larger score than one of the baseline. Differences are of normalised scores: a score is the mean of a curve divided by the task’s scale (DMControl 1000; see the table below). 95 % intervals: bootstrap over runs, stratified by task, widened for few runs; paired where both algorithms have the same seeds${kinds.length === 1 ? ` (here: ${kinds[0]})` : ""}; Wilson’s for divergence. IQM: the mean of the middle half of the tasks.`));
  body.append(make("h3", {}, "The ratio of AUCs, over the tasks that some algorithm learned, and what Q believes"));
  body.append(table(["tasks", "algorithm", "learned", "median improvement of the AUC", "mean improvement", "left out: not learned", "Q − return"],
    compared.map((t) => [t.tasks, t.kind, `${t.learned} of ${t.count}`, spread(t.median_improvement, percent), spread(t.mean_improvement, percent), folded(t.left_out ? t.left_out.split("; ") : []), known(t.overestimation) ? signed({ value: t.overestimation }) : "–"]), { text: [0, 1, 5], prose: [5] }));
  body.append(make("p", { class: "notes" }, "Learned: some algorithm’s mean curve, or its last tenth, is 5 % of the scale above the level before training (where the scale is measured, with an interval above zero, which few runs may not show). Q − return: median over tasks of mean Q(s, μ(s)) in the last evaluations minus the discounted return that evenly spread rewards would give, in units of the value of a return of the scale."));
  const { lines: drawn, levels } = data.profiles;
  if (!drawn.length) return;
  const box = make("div", { class: "panel profile" }, make("h3", {}, "Performance profile"));
  body.append(box);
  chart(box, "performance profile", {}, () => ({ x: [levels[0], levels.at(-1)], y: [0, 1], error: drawn.length > MANY ? "none" : "band", xName: "normalised score", yName: "share of runs above it", lines: drawn.map((kind) => ({ kind, points: levels.map((x, i) => [x, kind.value[i], kind.low[i], kind.high[i]]) })) }));
  box.append(legend(drawn));
}

function numbers() {
  const rows = data.rows, some = (name) => rows.some((row) => row[name]), kinds = [...new Set(rows.map((row) => row.interval).filter(Boolean))];
  const columns = [
    ["task", (r) => r.task], ["algorithm", (r) => r.kind], ["members", (r) => r.members],
    some("diverged") && ["diverged", (r) => r.diverged], some("stopped") && ["stopped", (r) => r.stopped], some("failed") && ["failed", (r) => r.failed], some("missing") && ["missing", (r) => r.missing],
    ["last step", (r) => [count(r.last_step), r.last_step]],
    ["final return ± s.e.", (r) => [known(r.final_error) ? `${number(r.final_return)} ± ${number(r.final_error)}` : number(r.final_return), r.final_return]],
    ["AUC", (r) => [number(r.auc), r.auc]],
    ...(some("difference") ? [["difference of scores", (r) => signed(r.difference)], ["of the final return", (r) => signed(r.final_difference)], ["AUC improvement", (r) => [spread(r.improvement, percent), r.improvement && r.improvement.value]], kinds.length > 1 && ["intervals", (r) => r.interval || "–"]] : []),
  ].filter(Boolean);
  const names = columns.map(([name]) => name), body = document.querySelector("#table .body");
  body.append(table(names, rows.map((row) => columns.map(([, cell]) => cell(row))), { text: [0, 1, names.indexOf("intervals")] }));
  body.append(make("p", { class: "notes" }, `Final return: the mean of the last tenth of the curve. ${some("difference") ? `Differences and improvement are to the baseline, with 95 % intervals${kinds.length === 1 ? ` (${kinds[0]})` : ""}. ` : ""}`));
  const beliefs = table(["task", "algorithm", "scale", "", "Q", "Q if right"], rows.map((r) => [r.task, r.kind, [number(r.scale), r.scale], r.scale_source, [number(r.q), r.q], [number(r.q_expected), r.q_expected]]), { text: [0, 1, 3] });
  body.append(make("details", {}, make("summary", {}, "scales of the tasks, and what Q believes"), beliefs, make("p", { class: "notes" }, "Scale: what scores are divided by; measured: the range of the mean curves here. Q if right: what Q would be if it were right and rewards even.")));
}

function diverged() {
  const body = document.querySelector("#diverged .body");
  if (!data.diverged.length) { drop("diverged"); return; }
  body.append(make("p", { class: "notes" }, "A diverged member is frozen; its last evaluation stands for the rest of its curve."), table(["task", "algorithm", "seed", "at step"], data.diverged.map((d) => [d.task, d.kind, d.seed, [d.step.toLocaleString("en"), d.step]]), { text: [0, 1] }));
}

function how() {
  const body = document.querySelector("#how .body"), when = (text) => (text ? text.slice(0, 16).replace("T", " ") : null);
  if (data.command) body.append(make("pre", {}, data.command));
  const again = new Set(data.runs.map((run) => run.task)).size < data.runs.length; // then a task does not say which run
  const first = again ? ["run", "task"] : ["task"], place = first.length;
  body.append(table([...first, "members", "steps", "protocol", "begun (UTC)", "ended", "raw files", "hardware"], data.runs.map((run) => [...first.map((name) => run[name]), run.members, [count(run.steps), run.steps], run.protocol, when(run.start) ?? "–", when(run.end) ?? "not finished", make("span", {}, ...run.files.flatMap((file) => [make("a", { href: file.href }, file.name), " "])), run.hardware]), { text: [0, place - 1, ...[2, 3, 4, 5].map((i) => place + i)], prose: [place + 6] }));
  for (const group of data.versions) body.append(make("details", {}, make("summary", {}, `versions and settings of ${group.runs.length > 3 ? `${group.runs.length} runs` : group.runs.join(", ")}`), make("p", {}, group.tasks.join(", ")), make("pre", {}, group.commands), make("pre", {}, group.text)));
}

document.getElementById("title").textContent = data.title;
document.getElementById("summary").textContent = data.summary;
document.getElementById("notes").append(...data.notes.flatMap((note) => [note, make("br")]));
claims(); curves(); bars(); totals(); numbers(); diverged(); how();
document.body.dataset.ready = "yes";
