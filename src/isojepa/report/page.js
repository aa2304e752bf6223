"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
const darkMode = matchMedia("(prefers-color-scheme: dark)");

// ---- Panels: the same points three times, on canvas ----

const REACH = 16; // how near, in pixels, the pointer must come to a point
const NEIGHBOURHOOD = 0.13; // radius of what is highlighted with it, as a share of half the panel
const TURN_MILLISECONDS = 900;

class Panel {
  constructor(canvas, { symbol, dim, points, centre, half }) {
    Object.assign(this, { canvas, symbol, dim, points, centre, half });
  }

  fit() {
    const ratio = devicePixelRatio || 1;
    this.size = this.canvas.clientWidth;
    this.canvas.width = this.canvas.height = Math.round(this.size * ratio);
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(ratio, ratio);
  }

  place(index) {
    const scale = this.size / 2 / this.half;
    return [
      this.size / 2 + (this.points[2 * index] - this.centre[0]) * scale,
      this.size / 2 - (this.points[2 * index + 1] - this.centre[1]) * scale,
    ];
  }

  nearest(x, y) {
    let best = null, least = REACH ** 2;
    for (let index = 0; index < data.colors.length; index++) {
      const [px, py] = this.place(index);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [index, distance];
    }
    return best;
  }

  neighbours(index) {
    const radius = NEIGHBOURHOOD * this.half;
    const [x, y] = [this.points[2 * index], this.points[2 * index + 1]];
    return data.colors.map((_, i) => Math.hypot(this.points[2 * i] - x, this.points[2 * i + 1] - y) < radius);
  }

  draw(focus) {
    this.pen.clearRect(0, 0, this.size, this.size);
    const radius = Math.min(4, Math.max(1.2, this.size / 3.8 / Math.sqrt(data.colors.length)));
    for (let index = 0; index < data.colors.length; index++) {
      this.pen.globalAlpha = !focus ? 0.85 : focus.near[index] ? 1 : 0.13;
      this.dot(index, radius);
    }
    this.pen.globalAlpha = 1;
    if (!focus) return;
    this.dot(focus.index, 5);
    this.pen.lineWidth = 2;
    this.pen.strokeStyle = color("--ink");
    this.pen.stroke();
  }

  dot(index, radius) {
    const [x, y] = this.place(index);
    this.pen.beginPath();
    this.pen.arc(x, y, radius, 0, 2 * Math.PI);
    this.pen.fillStyle = data.colors[index];
    this.pen.fill();
  }
}

const panels = [...document.querySelectorAll(".panels canvas")].map((canvas, i) => new Panel(canvas, data.panels[i]));
const embedding = panels[panels.length - 1];
const readout = document.getElementById("readout");
let focus = null;

const drawPanels = () => panels.forEach((panel) => panel.draw(focus));

function point(panel, event) {
  const box = panel.canvas.getBoundingClientRect();
  const index = panel.nearest(event.clientX - box.left, event.clientY - box.top);
  if (index === (focus && focus.index)) return;
  focus = index === null ? null : { index, near: panel.neighbours(index) };
  showCoordinates();
  requestAnimationFrame(drawPanels);
}

function showCoordinates() {
  const row = ({ points, dim }) => points.slice(2 * focus.index, 2 * focus.index + dim);
  const told = (panel) => `${panel.symbol} = (${row(panel).map((value) => value.toFixed(2)).join(", ")})`;
  readout.textContent = focus ? panels.map(told).join("   ") : "";
}

function leave() {
  focus = null;
  readout.textContent = "";
  requestAnimationFrame(drawPanels);
}

for (const panel of panels) {
  panel.canvas.addEventListener("pointermove", (event) => point(panel, event));
  panel.canvas.addEventListener("pointerdown", (event) => point(panel, event));
  panel.canvas.addEventListener("pointerleave", leave);
  new ResizeObserver(() => { panel.fit(); panel.draw(focus); }).observe(panel.canvas);
}
darkMode.addEventListener("change", drawPanels);

// ---- The turn of the embedding onto the latents ----

const raw = embedding.points;
const button = document.getElementById("turn");
let turned = data.startTurned ? 1 : 0; // how much of the turn is done
if (turned) embedding.points = data.turned;

// The points when a share t of the turn is done. Two dimensions turn rigidly: a rotation by its angle, a
// reflection by flipping over the mirror's axis, as a card does. More dimensions move on straight lines.
function partlyTurned(t) {
  if (t === 0) return raw;
  if (t === 1) return data.turned;
  if (!data.rotation) return raw.map((value, i) => (1 - t) * value + t * data.turned[i]);
  const { matrix: [[a, b], [c, d]], centre, offset } = data.rotation;
  let part;
  if (a * d - b * c > 0) {
    const angle = t * Math.atan2(b, a);
    part = [Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle)];
  } else {
    const normal = Math.atan2(b, a) / 2 + Math.PI / 2;
    const [x, y, flip] = [Math.cos(normal), Math.sin(normal), 1 - Math.cos(Math.PI * t)];
    part = [1 - flip * x * x, -flip * x * y, -flip * x * y, 1 - flip * y * y];
  }
  const points = new Array(raw.length);
  for (let i = 0; i < raw.length; i += 2) {
    const [x, y] = [raw[i] - centre[0], raw[i + 1] - centre[1]];
    points[i] = x * part[0] + y * part[2] + (1 - t) * centre[0] + t * offset[0];
    points[i + 1] = x * part[1] + y * part[3] + (1 - t) * centre[1] + t * offset[1];
  }
  return points;
}

function turn() {
  const from = turned;
  const to = button.getAttribute("aria-checked") === "true" ? 0 : 1;
  const duration = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : TURN_MILLISECONDS;
  const started = performance.now();
  button.setAttribute("aria-checked", String(to === 1));
  document.getElementById("when-turned").hidden = to === 0;
  const frame = (now) => {
    if (button.getAttribute("aria-checked") !== String(to === 1)) return; // pressed again meanwhile
    const share = duration ? Math.min(1, Math.max(0, (now - started) / duration)) : 1;
    const eased = share * share * (3 - 2 * share);
    turned = share === 1 ? to : from + (to - from) * eased;
    embedding.points = partlyTurned(turned);
    embedding.draw(focus);
    showCoordinates();
    if (share < 1) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
if (button) button.addEventListener("click", turn);

// ---- Training curves, in SVG ----

const MARGIN = { top: 12, right: 14, bottom: 40, left: 64 };
const NINES_END = 6; // R2 of 0.999999 and above is drawn there; pointing at it tells the value

const nines = {
  forward: (r2) => -Math.log10(Math.max(1 - r2, 10 ** -NINES_END)),
  ticks(low, high) {
    const ticks = [];
    for (let k = Math.floor(low); k <= Math.ceil(high); k++) ticks.push(k);
    return ticks.map((k) => [k, k < 0 ? String(1 - 10 ** -k) : (1 - 10 ** -k).toFixed(k)]);
  },
};
const logarithm = {
  forward: (value) => Math.log10(value),
  ticks(low, high) {
    const factors = high - low > 4 ? [1] : high - low > 1.5 ? [1, 3] : [1, 2, 5];
    const ticks = [];
    for (let k = Math.floor(low); k <= Math.ceil(high); k++) {
      for (const factor of factors) ticks.push([k + Math.log10(factor), brief(factor * 10 ** k)]);
    }
    return ticks;
  },
};
const linear = {
  forward: (value) => value,
  ticks(low, high) {
    const rough = (high - low) / 5 || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const ticks = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push([k * step, brief(k * step)]);
    return ticks;
  },
};

function brief(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return value.toExponential(0).replace("e+", "e");
  return String(Number(value.toPrecision(6)));
}

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

class Chart {
  constructor(host, series, scale, format) {
    Object.assign(this, { host, series, scale, format, cursor: null });
    const legend = host.parentElement.querySelector(".legend");
    series.forEach(({ name }, k) => {
      const key = document.createElement("span");
      key.style.setProperty("--color", this.ink(k));
      key.textContent = name;
      if (series.length > 1) legend.append(key);
    });
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.setAttribute("aria-live", "polite");
    host.addEventListener("pointermove", (event) => this.read(this.nearest(event)));
    host.addEventListener("pointerdown", (event) => this.read(this.nearest(event)));
    host.addEventListener("pointerleave", () => this.read(null));
    host.addEventListener("blur", () => this.read(null));
    host.addEventListener("keydown", (event) => this.move(event));
    new ResizeObserver(() => this.draw()).observe(host);
  }

  ink(k) {
    return `var(--line-${(k % 6) + 1})`;
  }

  draw() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    const heights = this.series.flatMap(({ values }) => values.filter((v) => v !== null).map(this.scale.forward));
    let [low, high] = [Math.min(...heights), Math.max(...heights)];
    const ticks = this.scale.ticks(low, high);
    if (this.scale === nines) [low, high] = [ticks[0][0], ticks[ticks.length - 1][0]];
    const margin = 0.04 * (high - low) || 0.5;
    [this.low, this.high] = this.scale === nines ? [low, Math.max(high, low + 1)] : [low - margin, high + margin];

    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}` });
    for (const [at, label] of ticks.filter(([at]) => at >= this.low && at <= this.high)) {
      const y = this.y(at);
      picture.append(svg("line", { class: "grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }));
      picture.append(svg("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, label));
    }
    const last = data.steps[data.steps.length - 1];
    for (const [at, label] of linear.ticks(data.steps[0], last)) {
      picture.append(svg("text", { x: this.x(at), y: this.height - 22, "text-anchor": "middle" }, label));
    }
    picture.append(svg("text", { x: this.width - MARGIN.right, y: this.height - 4, "text-anchor": "end" }, "step"));
    this.series.forEach(({ values }, k) => this.line(picture, values, this.ink(k)));
    this.marks = svg("g", {});
    picture.append(this.marks);
    this.host.replaceChildren(picture, this.tip);
    this.read(this.cursor);
  }

  line(picture, values, ink) {
    let path = "";
    values.forEach((value, i) => {
      if (value === null) return;
      const joined = i > 0 && values[i - 1] !== null; // a missing value leaves a gap
      path += `${joined ? "L" : "M"}${this.x(data.steps[i]).toFixed(1)} ${this.y(this.scale.forward(value)).toFixed(1)}`;
      const alone = !joined && (values[i + 1] ?? null) === null;
      if (alone) picture.append(this.dot(i, value, ink));
    });
    picture.append(svg("path", { d: path, style: `stroke: ${ink}` }));
  }

  dot(index, value, ink) {
    const [cx, cy] = [this.x(data.steps[index]), this.y(this.scale.forward(value))];
    return svg("circle", { cx, cy, r: 4, style: `fill: ${ink}` });
  }

  x(step) {
    const [first, last] = [data.steps[0], data.steps[data.steps.length - 1]];
    const share = last > first ? (step - first) / (last - first) : 0.5;
    return MARGIN.left + share * (this.width - MARGIN.left - MARGIN.right);
  }

  y(height) {
    const share = (height - this.low) / (this.high - this.low);
    return this.height - MARGIN.bottom - share * (this.height - MARGIN.top - MARGIN.bottom);
  }

  nearest(event) {
    const x = event.clientX - this.host.getBoundingClientRect().left;
    const distances = data.steps.map((step) => Math.abs(this.x(step) - x));
    return distances.indexOf(Math.min(...distances));
  }

  move(event) {
    const stride = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!stride) return;
    event.preventDefault();
    const start = this.cursor === null ? (stride > 0 ? -1 : data.steps.length) : this.cursor;
    this.read(Math.min(data.steps.length - 1, Math.max(0, start + stride)));
  }

  // Show the values at one evaluation, or none.
  read(index) {
    this.cursor = index;
    this.tip.hidden = index === null;
    this.marks.replaceChildren();
    if (index === null) return;
    const x = this.x(data.steps[index]);
    this.marks.append(svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom }));
    const rows = [["step", brief(data.steps[index]), "var(--quiet)"]];
    this.series.forEach(({ name, values }, k) => {
      if (values[index] === null) return;
      this.marks.append(this.dot(index, values[index], this.ink(k)));
      rows.push([name, this.format(values[index]), this.ink(k)]);
    });
    this.tip.replaceChildren(...rows.map(([name, value, ink]) => {
      const row = document.createElement("div");
      const label = document.createElement("span");
      label.style.setProperty("--color", ink);
      label.textContent = name;
      row.append(label, value);
      return row;
    }));
    const onLeft = x > this.width / 2;
    this.tip.style.left = onLeft ? "auto" : `${x + 12}px`;
    this.tip.style.right = onLeft ? `${this.width - x + 12}px` : "auto";
  }
}

function drawCurves() {
  const r2 = document.getElementById("r2");
  const losses = document.getElementById("losses");
  if (r2) new Chart(r2, [{ name: "R²", values: data.r2 }], nines, (value) => value.toFixed(6));
  if (!losses) return;
  const series = Object.entries(data.losses).map(([name, values]) => ({ name, values }));
  const positive = series.every(({ values }) => values.every((value) => value === null || value > 0));
  new Chart(losses, series, positive ? logarithm : linear, (value) => value.toPrecision(4));
}

drawCurves();
