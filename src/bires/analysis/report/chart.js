"use strict";
// Numbers as text, parts of the page, and charts of lines. No library: plain SVG from the JSON in this page.
const ENDS = { Infinity: Infinity, "-Infinity": -Infinity };  // JSON has no infinity
const data = JSON.parse(document.getElementById("data").textContent, (key, value) => (["value", "low", "high"].includes(key) && typeof value === "string" ? ENDS[value] : value));
const hidden = { algorithm: new Set(), eta: new Set(), seed: new Set() };
const MANY = 4;  // with more lines than this, bands hide each other
const options = { seeds: false, smoothing: data.smoothing, error: data.panels.some((panel) => panel.kinds.length > MANY) ? "bars" : "band" };
const tip = document.getElementById("tip");
const RIGHT = 24, TOP = 10, BOTTOM = 38;

// The page is made of nodes and text, never of HTML in strings: a name cannot become markup.

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

// Numbers.

const known = (x) => x != null && Number.isFinite(x);
const minus = (text) => text.replaceAll("-", "−");
const unbounded = (x) => (x === Infinity ? "+∞" : x === -Infinity ? "−∞" : "–");
const decimals = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
function percent(x) {
  if (!known(x)) return unbounded(x);
  const size = Math.abs(x), sign = x >= 0 ? "+" : "−";
  return size >= 100 ? `${sign}${+size.toPrecision(3)}×` : `${sign}${(100 * size).toFixed(size < 0.0995 ? 1 : 0)} %`;
}
const fixed = (x, digits = 2) => (known(x) ? minus(x.toFixed(digits)) : unbounded(x));
function number(x) {
  if (!known(x)) return unbounded(x);
  const size = Math.abs(x);
  return minus(size >= 1e6 || (size > 0 && size < 1e-3) ? x.toExponential(2) : x.toLocaleString("en", size >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4, maximumFractionDigits: 4, roundingPriority: "lessPrecision" }));
}
function count(x) {
  return x >= 1e6 ? +(x / 1e6).toPrecision(4) + "M" : x >= 1e3 ? +(x / 1e3).toPrecision(4) + "k" : String(x);
}
const range = (e, show) => (e && e.low != null ? `[${show(e.low)}, ${show(e.high)}]` : "");
const spread = (e, show) => (e ? `${show(e.value)} ${range(e, show)}`.trim() : "–");
function signed(e) {
  // A difference with its interval, with as many decimals as its size needs: never −0.000.
  const size = Math.max(0, ...[e?.value, e?.low, e?.high].filter(known).map(Math.abs));
  const digits = size < 0.005 ? 4 : 3, tiny = size < 5e-4;
  const show = (x) => (!known(x) ? unbounded(x) : !x ? "0" : (x < 0 ? "−" : "+") + minus(tiny ? Math.abs(x).toExponential(0) : Math.abs(x).toFixed(digits)));
  return spread(e, show);
}

function ticks(low, high, wanted) {
  if (!(high > low)) return { values: [low], step: 1 };
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return { values: Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step), step };
}
function tickTexts({ values, step }) {
  // Labels that differ wherever ticks do.
  const size = Math.max(...values.map(Math.abs), step);
  if (size >= 1e6 || size < 1e-3) return values.map((t) => (t ? minus(t.toExponential(Math.max(0, Math.floor(Math.log10(Math.abs(t)) + 1e-9) - Math.floor(Math.log10(step) + 1e-9)))) : "0"));
  const digits = decimals(step);
  return values.map((t) => minus(t.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })));
}
function stepTexts({ values, step }) {
  const size = Math.max(...values.map(Math.abs)), [unit, letter] = size >= 1e6 ? [1e6, "M"] : size >= 1e3 ? [1e3, "k"] : [1, ""];
  return values.map((t) => (t ? (t / unit).toFixed(decimals(step / unit)) + letter : "0"));
}

// Looks.

const colour = (text) => (text === "#000000" ? "var(--ink)" : `color-mix(in srgb, ${text} var(--strength), white)`);

function swatch(kind) {
  return make("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" },
    make("path", { d: "M0 5H30", stroke: colour(kind.colour), "stroke-width": 2.5, "stroke-dasharray": kind.dash, fill: "none" }));
}

function legend(kinds) {
  const once = new Map(kinds.map((kind) => [kind.label, kind]));
  return make("div", { class: "legend" }, ...[...once.values()].map((kind) => make("span", {}, swatch(kind), kind.label)));
}

// Charts: lines with bands over an x-axis, with hover, zoom by dragging, and keys.

const resized = new ResizeObserver((entries) => { for (const { target } of entries) target.redraw?.(); });

function chart(container, name, view, draw) {
  // `view` remembers the zoom; `draw()` gives { lines: [{kind, points: [[x, y, low, high]]}], x, xName, yName }, and in
  // `scale` the lines that the y-axis must hold, if they are more than those.
  const svg = make("svg", { class: "chart", tabindex: 0, role: "img", "aria-label": name });
  container.append(svg);
  let shown = null, from = null, width = 0;
  const toX = (clientX) => { const box = svg.getBoundingClientRect(); return shown.x0 + ((clientX - box.left) / box.width * width - shown.left) / (width - shown.left - RIGHT) * (shown.x1 - shown.x0); };

  function render() {
    width = Math.max(240, Math.round(container.clientWidth || 400));
    const height = Math.round(Math.min(400, Math.max(220, 0.6 * width)));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const full = draw();
    const [x0, x1] = view.zoom ?? full.x;
    const within = (line) => ({ ...line, points: line.points.filter((p) => known(p[1]) && p[0] >= x0 - 1e-9 && p[0] <= x1 + 1e-9) });
    const lines = full.lines.map(within);
    let low = Infinity, high = -Infinity;
    const error = full.error ?? options.error;
    for (const line of full.scale?.map(within) ?? lines) for (const p of line.points) for (const y of error === "none" ? [p[1]] : [p[1], p[2], p[3]]) if (known(y)) { low = Math.min(low, y); high = Math.max(high, y); }
    if (full.y) [low, high] = full.y;
    if (!(high > low)) { const middle = known(low) ? low : 0; low = middle - (Math.abs(middle) || 1); high = middle + (Math.abs(middle) || 1); }
    const margin = full.y ? 0 : 0.04 * (high - low); low -= margin; high += margin;
    const across = ticks(x0, x1, Math.max(2, Math.floor(width / 75))), up = ticks(low, high, 5), labels = tickTexts(up);
    const left = 26 + 6.5 * Math.max(...labels.map((text) => text.length));
    const px = (x) => left + (x - x0) / (x1 - x0 || 1) * (width - left - RIGHT), py = (y) => height - BOTTOM - (y - low) / (high - low) * (height - TOP - BOTTOM);
    shown = { x0, x1, lines, px, py, full, left, height };
    up.values.forEach((t, i) => svg.append(make("line", { class: "axis", x1: left, x2: width - RIGHT, y1: py(t), y2: py(t) }), make("text", { x: left - 6, y: py(t) + 4, "text-anchor": "end" }, labels[i])));
    const below = full.xName === "environment steps" ? stepTexts(across) : tickTexts(across);
    across.values.forEach((t, i) => svg.append(make("line", { class: "axis", x1: px(t), x2: px(t), y1: height - BOTTOM, y2: height - BOTTOM + 4 }), make("text", { class: "x", x: px(t), y: height - BOTTOM + 16, "text-anchor": "middle" }, below[i])));
    svg.append(make("text", { x: (left + width - RIGHT) / 2, y: height - 5, "text-anchor": "middle" }, full.xName));
    svg.append(make("text", { transform: `translate(11 ${(TOP + height - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, full.yName));
    const note = lines.length ? full.note : "nothing is switched on";
    if (note) svg.append(make("text", { x: (left + width - RIGHT) / 2, y: lines.length ? TOP + 8 : height / 2, "text-anchor": "middle" }, note));
    paint(lines, error);
    for (const mark of full.marks ?? []) if (mark.x >= x0 && mark.x <= x1) svg.append(make("path", { class: "mark", d: `M${px(mark.x) - 4} ${height - BOTTOM - 4}l8 8m0 -8l-8 8`, stroke: colour(mark.kind.colour), "stroke-width": 1.8, fill: "none" }, make("title", {}, mark.text)));
  }

  function paint(lines, error) {
    const { px, py } = shown, at = (p, i) => `${px(p[0]).toFixed(1)} ${py(p[i]).toFixed(1)}`;
    const means = lines.filter((line) => !line.thin), heavy = means.length > MANY ? 1.4 : 1.9;
    for (const { kind, points, thin } of lines) {
      if (!points.length) continue;
      const bounded = points.filter((p) => known(p[2]) && known(p[3]));
      if (!thin && error === "band" && bounded.length > 1) {
        const area = "M" + bounded.map((p) => at(p, 3)).join("L") + "L" + [...bounded].reverse().map((p) => at(p, 2)).join("L") + "Z";
        svg.append(make("path", { class: "band", d: area, fill: colour(kind.colour), opacity: 0.16, stroke: "none" }));
      }
      if (!thin && error === "bars") {
        // A few bars for each line, beside those of the others.
        const place = means.findIndex((line) => line.kind === kind), every = Math.max(1, Math.round(points.length / 7));
        const d = bounded.filter((p) => (points.indexOf(p) - Math.round(place * every / means.length)) % every === 0).map((p) => `M${at(p, 2)}L${at(p, 3)}`).join("");
        if (d) svg.append(make("path", { class: "bars", d, fill: "none", stroke: colour(kind.colour), "stroke-width": 1.2, opacity: 0.75 }));
      }
      const d = "M" + points.map((p) => at(p, 1)).join("L") + (points.length === 1 ? "h0.1" : "");
      svg.append(make("path", { class: thin ? "seed" : "curve", "data-label": kind.label, d, fill: "none", stroke: colour(kind.colour), "stroke-width": thin ? 0.8 : points.length === 1 ? 6 : heavy, "stroke-linecap": points.length === 1 ? "round" : "butt", opacity: thin ? 0.55 : 1, "stroke-dasharray": points.length === 1 ? null : kind.dash }));
    }
  }

  const grid = () => [...new Set(shown.lines.flatMap((line) => line.points.map((p) => p[0])))].sort((a, b) => a - b);

  function point(x, place) {
    // The nearest step that has a point; its values in the tip.
    const places = grid();
    if (!places.length) return;
    const near = places.reduce((a, b) => (Math.abs(b - x) < Math.abs(a - x) ? b : a));
    view.at = places.indexOf(near);
    svg.querySelector(".cross")?.remove();
    svg.append(make("line", { class: "cross", x1: shown.px(near), x2: shown.px(near), y1: TOP, y2: shown.height - BOTTOM }));
    const rows = shown.lines.filter((line) => !line.thin).map((line) => [line, line.points.find((p) => p[0] === near)]).filter(([, p]) => p).sort((a, b) => b[1][1] - a[1][1]);
    const error = (line, p) => (line.error ? `${known(p[3]) ? ` ± ${number(p[3] - p[1])}` : ""}  (n = ${line.count})` : known(p[2]) ? `  [${number(p[2])}, ${number(p[3])}]` : "");
    tip.replaceChildren(make("strong", {}, shown.full.xName === "environment steps" ? `step ${near.toLocaleString("en")}` : `${shown.full.xName} ${fixed(near)}`),
      ...rows.map(([line, p]) => make("div", {}, swatch(line.kind), `${line.kind.label}  ${number(p[1])}${error(line, p)}`)));
    tip.hidden = false;
    const box = svg.getBoundingClientRect();
    const left = place?.clientX ?? box.left + shown.px(near) / width * box.width, top = place?.clientY ?? box.top + 20;
    tip.style.left = Math.max(4, Math.min(left + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(top + 14, innerHeight - tip.offsetHeight - 8)) + "px";
  }
  function leave() { tip.hidden = true; svg.querySelector(".cross")?.remove(); }
  function reset() { view.zoom = null; render(); button.hidden = true; }

  svg.addEventListener("pointermove", (event) => {
    point(toX(event.clientX), event);
    if (from === null) return;
    svg.querySelector(".brush")?.remove();
    const a = Math.max(shown.px(shown.x0), shown.px(Math.min(from, toX(event.clientX)))), b = Math.min(shown.px(shown.x1), shown.px(Math.max(from, toX(event.clientX))));
    svg.append(make("rect", { class: "brush", x: a, width: Math.max(0, b - a), y: TOP, height: shown.height - TOP - BOTTOM }));
  });
  svg.addEventListener("pointerdown", (event) => { from = toX(event.clientX); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const to = toX(event.clientX), [a, b] = [Math.max(shown.x0, Math.min(from, to)), Math.min(shown.x1, Math.max(from, to))];
    from = null;
    if (b - a > 0.02 * (shown.x1 - shown.x0)) { view.zoom = [a, b]; render(); button.hidden = false; } else svg.querySelector(".brush")?.remove();
  });
  svg.addEventListener("pointercancel", () => { from = null; svg.querySelector(".brush")?.remove(); });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("dblclick", reset);
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") reset();
    const places = grid();
    if (!move || !places.length) return;
    event.preventDefault();
    point(places[Math.max(0, Math.min(places.length - 1, (view.at ?? -1) + move))]);
  });
  const button = make("button", { onclick: reset, hidden: true, title: "show all steps" }, "reset zoom");
  container.append(button);
  render();
  container.redraw = () => { if (container.clientWidth && Math.abs(container.clientWidth - width) > 1) render(); };
  resized.observe(container);
  return render;
}
