"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const AXIS_NAMES = {steps: "environment steps", time: "minutes", episodes: "episodes"};
const PAD = {left: 58, right: 14, top: 10, bottom: 40};
const KEY = "tfbaselines-report:" + location.pathname;

// What the reader has chosen; a page that loads itself again keeps it.
const state = {axis: "steps", hidden: data.hidden, seeds: false, bands: true, zoom: {}, off: [], open: {}};
try { Object.assign(state, JSON.parse(sessionStorage.getItem(KEY) || "{}")); } catch (error) { /* no storage */ }
const hidden = new Set(state.hidden.map((name) => data.methods.findIndex((method) => method.name === name)));
function keep() {
  state.hidden = [...hidden].filter((color) => color in data.methods).map((color) => data.methods[color].name);
  try { sessionStorage.setItem(KEY, JSON.stringify(state)); } catch (error) { /* no storage */ }
}

function make(parent, name, attributes, text) {
  const svg = parent.namespaceURI === SVG || name === "svg";
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const key in attributes || {}) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return trim(value / 1e9) + "G";
  if (size >= 1e6) return trim(value / 1e6) + "M";
  if (size >= 1e4) return trim(value / 1e3) + "k";
  return trim(value);
}
function trim(value) { return String(Number(value.toPrecision(4))); }

function ticks(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-6; tick += step) {
    found.push(Math.abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return found;
}

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

// Points of a line; those of a step function keep each value up to the next place.
function points(line, key, steps) {
  const found = [];
  line.x.forEach((x, place) => {
    if (steps && place) found.push([x, line[key][place - 1]]);
    found.push([x, line[key][place]]);
  });
  return found;
}

function path(line, sx, sy, steps) {
  let text = "", pen = false;
  for (const [x, y] of points(line, "y", steps)) {
    if (y !== null) text += (pen ? "L" : "M") + sx(x).toFixed(1) + "," + sy(y).toFixed(1);
    pen = y !== null;
  }
  return text;
}

function area(line, sx, sy, steps) {
  const put = ([x, y]) => sx(x).toFixed(1) + "," + sy(y).toFixed(1);
  const side = (key) => points(line, key, steps).filter(([, y]) => y !== null).map(put);
  const up = side("high"), down = side("low").reverse();
  return up.length ? "M" + up.join("L") + "L" + down.join("L") + "z" : "";
}

class Plot {
  constructor(place, panel) {
    this.panel = panel;
    this.id = place.id;
    this.place = place;
    place.textContent = "";
    this.svg = make(place, "svg", {role: "img", tabindex: "0", "aria-label": panel.title + ": " + panel.y +
      ". Arrow keys move the cursor, the table below has the numbers."});
    this.tip = make(place, "div", {class: "tip", "aria-live": "polite"});
    this.back = make(place, "button", {class: "back", type: "button"}, "whole range");
    this.back.addEventListener("click", () => this.zoom(null));
    this.cursor = null;
    this.svg.addEventListener("pointermove", (event) => this.move(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("pointerdown", (event) => { this.start = this.inside(event); });
    window.addEventListener("pointerup", (event) => this.release(event));
    this.svg.addEventListener("dblclick", () => this.zoom(null));
    this.svg.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(place);
  }

  get axis() { return state.axis in this.panel.axes ? state.axis : Object.keys(this.panel.axes)[0]; }
  get shown() {
    const own = this.panel.axes[this.axis], visible = (line) => !hidden.has(line.color);
    return {lines: own.lines.filter(visible), runs: state.seeds ? own.runs.filter(visible) : []};
  }

  zoom(range) {
    const key = this.id + this.axis;
    if (range) state.zoom[key] = range; else delete state.zoom[key];
    keep();
    this.draw();
  }

  // Both ranges fit the visible lines.
  ranges(shown) {
    const own = this.panel.axes[this.axis], all = shown.lines.length ? [...shown.lines, ...shown.runs] : own.lines;
    let x = [Math.min(...all.map((line) => line.x[0])), Math.max(...all.map((line) => line.x[line.x.length - 1]))];
    const chosen = state.zoom[this.id + this.axis];
    if (chosen) x = chosen;
    if (x[0] === x[1]) x = [x[0] - 0.5, x[1] + 0.5];
    if (this.panel.range) return {x, y: this.panel.range};
    let low = Infinity, high = -Infinity;
    const keys = (line) => line.low ? (state.bands ? ["y", "low", "high"] : ["y"]) : ["y"];
    for (const line of [...shown.lines, ...shown.runs]) {
      line.x.forEach((place, index) => {
        if (place < x[0] || place > x[1]) return;
        for (const key of keys(line)) {
          const value = line[key][index];
          if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
        }
      });
    }
    if (low > high) [low, high] = [0, 1];
    const margin = (high - low) * 0.05 || Math.abs(high) * 0.05 || 0.5;
    return {x, y: [low - margin, high + margin]};
  }

  draw() {
    const width = this.place.clientWidth, height = Math.max(220, Math.min(width > 800 ? 400 : 340, width * 0.6));
    if (!width) return;
    const shown = this.shown, {x, y} = this.ranges(shown);
    const inner = {width: width - PAD.left - PAD.right, height: height - PAD.top - PAD.bottom};
    this.sx = (value) => PAD.left + (value - x[0]) / (x[1] - x[0]) * inner.width;
    this.sy = (value) => PAD.top + (1 - (value - y[0]) / (y[1] - y[0])) * inner.height;
    this.unx = (pixel) => x[0] + (pixel - PAD.left) / inner.width * (x[1] - x[0]);
    Object.assign(this, {width, height, x, y});
    this.svg.textContent = "";
    for (const [name, value] of [["width", width], ["height", height], ["viewBox", `0 0 ${width} ${height}`]]) {
      this.svg.setAttribute(name, value);
    }
    this.frame(inner);
    const clip = make(make(this.svg, "clipPath", {id: "clip-" + this.id}), "rect", {
      x: PAD.left, y: PAD.top - 4, width: inner.width + 8, height: inner.height + 8});
    const group = make(this.svg, "g", {"clip-path": `url(#clip-${this.id})`});
    if (state.bands) for (const line of shown.lines) {
      make(group, "path", {d: area(line, this.sx, this.sy, this.panel.steps), class: "band " + tone(line.color)});
    }
    for (const run of shown.runs) {
      make(group, "path", {d: path(run, this.sx, this.sy), class: "run " + tone(run.color)});
    }
    for (const line of shown.lines) this.line(group, line);
    this.cross = make(this.svg, "path", {class: "cross"});
    this.span = make(this.svg, "rect", {class: "span", y: PAD.top, height: inner.height, width: 0});
    this.back.hidden = !state.zoom[this.id + this.axis];
    this.place.setAttribute("data-drawn", shown.lines.length);
  }

  frame(inner) {
    const bottom = PAD.top + inner.height;
    for (const tick of ticks(this.y[0], this.y[1], inner.height / 42)) {
      const place = this.sy(tick).toFixed(1);
      make(this.svg, "path", {d: `M${PAD.left},${place}h${inner.width}`, class: "grid"});
      make(this.svg, "text", {x: PAD.left - 7, y: place, dy: "0.32em", class: "tick end"}, short(tick));
    }
    for (const tick of ticks(this.x[0], this.x[1], inner.width / 80)) {
      const place = this.sx(tick).toFixed(1);
      make(this.svg, "path", {d: `M${place},${bottom}v5`, class: "rule"});
      make(this.svg, "text", {x: place, y: bottom + 18, class: "tick middle"}, short(tick));
    }
    make(this.svg, "path", {d: `M${PAD.left},${PAD.top}V${bottom}h${inner.width}`, class: "rule"});
    const name = AXIS_NAMES[this.axis] || this.axis;
    make(this.svg, "text", {x: PAD.left + inner.width / 2, y: bottom + 35, class: "name middle"}, name);
    make(this.svg, "text", {transform: `translate(12 ${PAD.top + inner.height / 2}) rotate(-90)`,
      class: "name middle"}, this.panel.y);
  }

  line(group, line) {
    const style = data.methods[line.color];
    const drawn = make(group, "path", {d: path(line, this.sx, this.sy, this.panel.steps),
      class: "line " + tone(line.color)});
    if (style.dash) drawn.setAttribute("stroke-dasharray", style.dash);
    // Markers at a few places, shifted from method to method.
    const count = 4, length = line.x.length;
    for (let number = 0; number < count; number += 1) {
      const place = Math.min(length - 1, Math.round((number + 0.5 + line.color % 5 / 10) / count * length));
      if (line.y[place] === null || line.x[place] < this.x[0] || line.x[place] > this.x[1]) continue;
      const [x, y] = [this.sx(line.x[place]).toFixed(1), this.sy(line.y[place]).toFixed(1)];
      make(group, "path", {d: style.marker, transform: `translate(${x} ${y})`, class: "marker " + tone(line.color)});
      if (length === 1) break;
    }
  }

  inside(event) {
    const box = this.svg.getBoundingClientRect();
    return Math.max(PAD.left, Math.min(this.width - PAD.right, event.clientX - box.left));
  }

  move(event) {
    const pixel = this.inside(event);
    if (this.start !== undefined && event.pointerType !== "touch") {
      const left = Math.min(pixel, this.start);
      this.span.setAttribute("x", left);
      this.span.setAttribute("width", Math.abs(pixel - this.start));
    }
    const box = this.svg.getBoundingClientRect();
    this.show(pixel, event.clientY - box.top);
  }

  release(event) {
    if (this.start === undefined) return;
    const from = this.start, to = this.inside(event);
    this.start = undefined;
    this.span.setAttribute("width", 0);
    if (event.pointerType !== "touch" && Math.abs(to - from) > 8) {
      this.zoom([this.unx(Math.min(from, to)), this.unx(Math.max(from, to))]);
    }
  }

  press(event) {
    const steps = {ArrowLeft: -1, ArrowRight: 1};
    if (event.key === "Escape") { this.zoom(null); this.leave(); }
    if (!(event.key in steps)) return;
    event.preventDefault();
    const from = this.cursor === null ? PAD.left : this.cursor;
    const pixel = from + steps[event.key] * (this.width - PAD.left - PAD.right) / 40;
    this.show(Math.max(PAD.left, Math.min(this.width - PAD.right, pixel)), this.height / 2);
  }

  show(pixel, height) {
    this.cursor = pixel;
    const x = this.unx(pixel), shown = this.shown;
    this.cross.setAttribute("d", `M${pixel.toFixed(1)},${PAD.top}V${this.height - PAD.bottom}`);
    this.tip.textContent = "";
    make(this.tip, "div", {class: "at"}, `${AXIS_NAMES[this.axis] || this.axis} ${short(x)}`);
    const rows = shown.lines.map((line) => [line, nearest(line.x, x)]).filter(([line, at]) => line.y[at] !== null);
    rows.sort(([one, a], [two, b]) => two.y[b] - one.y[a]);
    for (const [line, at] of rows.slice(0, 12)) {
      const row = make(this.tip, "div", {class: tone(line.color)});
      make(row, "span", {class: "dot"}, "\u25cf ");
      make(row, "b", {}, short(line.y[at]));
      const band = state.bands && line.low[at] !== null ? ` (${short(line.low[at])} to ${short(line.high[at])})` : "";
      const ended = line.n.length && line.n[at] < Math.max(...line.n) ? `, ${line.n[at]} run(s) go on` : "";
      make(row, "span", {class: "plain"}, `${band} ${data.methods[line.color].name}${ended}`);
    }
    if (shown.runs.length) this.run(shown.runs, x, height);
    this.tip.classList.add("on");
    this.tip.style.left = pixel > this.width / 2 ? "auto" : `${pixel + 14}px`;
    this.tip.style.right = pixel > this.width / 2 ? `${this.width - pixel + 14}px` : "auto";
  }

  run(runs, x, height) {
    const far = (run) => { const y = run.y[nearest(run.x, x)]; return y === null ? Infinity : Math.abs(this.sy(y) - height); };
    const closest = runs.reduce((best, run) => far(run) < far(best) ? run : best);
    const value = closest.y[nearest(closest.x, x)];
    const row = make(this.tip, "div", {class: "seed " + tone(closest.color)});
    make(row, "b", {}, value === null ? "-" : short(value));
    make(row, "span", {class: "plain"}, ` nearest run: ${data.methods[closest.color].name}, ${closest.name}`);
  }

  leave() {
    this.cursor = null;
    this.tip.classList.remove("on");
    if (this.cross) this.cross.setAttribute("d", "");
  }
}

function tone(color) { return "k" + color % data.colors; }

const plots = data.panels.map((panel, number) => {
  const place = document.getElementById("plot-" + number);
  return place && new Plot(place, panel);
}).filter(Boolean);
const redraw = () => { keep(); plots.forEach((plot) => plot.draw()); };

for (const button of document.querySelectorAll("[data-axis]")) {
  const set = () => button.setAttribute("aria-pressed", String(button.dataset.axis === state.axis));
  set();
  button.addEventListener("click", () => {
    state.axis = button.dataset.axis;
    document.querySelectorAll("[data-axis]").forEach((other) =>
      other.setAttribute("aria-pressed", String(other.dataset.axis === state.axis)));
    redraw();
  });
}
for (const button of document.querySelectorAll("[data-switch]")) {
  const name = button.dataset.switch;
  button.setAttribute("aria-pressed", String(state[name]));
  button.addEventListener("click", () => {
    state[name] = !state[name];
    button.setAttribute("aria-pressed", String(state[name]));
    redraw();
  });
}
const entries = [...document.querySelectorAll("[data-method]")];
const press = () => entries.forEach((button) =>
  button.setAttribute("aria-pressed", String(!hidden.has(Number(button.dataset.method)))));
press();
for (const button of entries) {
  const color = Number(button.dataset.method);
  button.addEventListener("click", () => {
    if (hidden.has(color)) hidden.delete(color); else hidden.add(color);
    press();
    redraw();
  });
}
for (const button of document.querySelectorAll("[data-all]")) {
  button.addEventListener("click", () => {
    hidden.clear();
    if (button.dataset.all === "none") data.methods.forEach((method, color) => hidden.add(color));
    press();
    redraw();
  });
}
for (const box of document.querySelectorAll("[data-task]")) {
  const key = box.dataset.task, title = data.panels[key].title;
  const put = () => document.querySelectorAll(`[data-of="${key}"]`).forEach((part) => { part.hidden = !box.checked; });
  box.checked = !state.off.includes(title);
  box.addEventListener("change", () => {
    state.off = state.off.filter((other) => other !== title);
    if (!box.checked) state.off.push(title);
    put();
    redraw();
  });
  put();
}
for (const part of document.querySelectorAll("details")) {
  const place = part.closest("section[id]");
  const title = part.querySelector("summary").textContent.replace(/\d+/g, "");
  const above = part.parentElement.querySelector("h3");
  const key = [place && place.id, above && above.textContent, title].join("|");
  if (key in state.open) part.open = state.open[key];
  part.addEventListener("toggle", () => { state.open[key] = part.open; keep(); });
}
plots.forEach((plot) => plot.draw());
if (data.refresh) setTimeout(() => { keep(); location.reload(); }, data.refresh * 1000);
})();
