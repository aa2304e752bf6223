// ---- Panels: the same points three times, on canvas ----

const REACH = 16; // how near, in pixels, the pointer must come to a point
const NEIGHBOURHOOD = 0.13; // radius of what is highlighted with it, as a share of half the panel
const TURN_MILLISECONDS = 900;

class Panel {
  constructor(canvas, { symbol, dim, points, center, half, joined }) {
    Object.assign(this, { canvas, symbol, dim, points, center, half, joined });
  }

  fit() {
    const ratio = devicePixelRatio || 1;
    this.size = this.canvas.clientWidth;
    this.canvas.width = this.canvas.height = Math.round(this.size * ratio);
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(ratio, ratio);
  }

  place(index) {
    return this.at(this.points[2 * index], this.points[2 * index + 1]);
  }

  at(x, y) {
    const scale = this.size / 2 / this.half;
    return [this.size / 2 + (x - this.center[0]) * scale, this.size / 2 - (y - this.center[1]) * scale];
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

  neighbors(index) {
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
    if (!focus) return this.join();
    this.dot(focus.index, 5);
    this.pen.lineWidth = 2;
    this.pen.strokeStyle = color("--ink");
    this.pen.stroke();
  }

  // Lines from where something is elsewhere, a ring, to where it is here.
  join() {
    [this.pen.lineWidth, this.pen.strokeStyle] = [1, color("--ink")];
    for (let k = 0; k < this.joined.length; k += 4) {
      const [[x, y], [u, v]] = [this.at(this.joined[k], this.joined[k + 1]), this.at(this.joined[k + 2], this.joined[k + 3])];
      this.pen.beginPath();
      this.pen.arc(x, y, 3, 0, 2 * Math.PI);
      this.pen.moveTo(x, y);
      this.pen.lineTo(u, v);
      this.pen.stroke();
    }
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
  focus = index === null ? null : { index, near: panel.neighbors(index) };
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

const raw = embedding ? embedding.points : [];
const button = document.getElementById("turn");
let turned = data.startTurned ? 1 : 0; // how much of the turn is done
if (turned) embedding.points = data.turned;

// The points when a share t of the turn is done. Two dimensions turn rigidly: a rotation by its angle, a
// reflection by flipping over the mirror's axis, as a card does. More dimensions move on straight lines.
function partlyTurned(t) {
  if (t === 0) return raw;
  if (t === 1) return data.turned;
  if (!data.rotation) return raw.map((value, i) => (1 - t) * value + t * data.turned[i]);
  const { matrix: [[a, b], [c, d]], center, offset } = data.rotation;
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
    const [x, y] = [raw[i] - center[0], raw[i + 1] - center[1]];
    points[i] = x * part[0] + y * part[2] + (1 - t) * center[0] + t * offset[0];
    points[i + 1] = x * part[1] + y * part[3] + (1 - t) * center[1] + t * offset[1];
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

