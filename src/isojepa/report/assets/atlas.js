// ---- The map of all pictures: thumbnails where there is room, dots elsewhere ----

const OVERLAP = 0.92; // of a thumbnail's side: centers nearer than this in both directions are too near
const REACH = 14; // how near, in pixels, the pointer must come to a dot
const CLOSEST = 24; // zoom at most
const MOVE_MILLISECONDS = 800;
const MARGIN = 40; // pixels around the outermost pictures
const LISTED = 24; // classes in the legend

const canvas = document.getElementById("atlas");
const sprite = document.getElementById("sprite");
const told = document.getElementById("told");
const near = document.getElementById("near");
const big = document.getElementById("big").getContext("2d");
const count = data.names.length;
const layouts = data.places;
const view = { zoom: 1, x: 0, y: 0 }; // the middle of what is seen, in thousandths
let places = layouts.neighbors.slice(), layout = "neighbors", measure = [1, 1];
let pen, width, height, focus = null, chosen = null, placed = [], waiting = false;

const thumb = () => Math.min(110, Math.max(26, Math.min(width, height) / 14) * view.zoom ** 0.4);

// Pixels of a thousandth, across and down: the whole canvas, or one measure for both axes.
function units(layout) {
  const [across, down] = [width, height].map((side) => Math.max(20, side / 2 - MARGIN) / 1000);
  const aspect = data.aspect[layout];
  if (aspect === null) return [across, down];
  const one = Math.min(across, down / aspect);
  return [one, one * aspect];
}

const unit = () => measure.map((value) => value * view.zoom);
function place(index) {
  const [across, down] = unit();
  return [
    width / 2 + (places[2 * index] - view.x) * across,
    height / 2 - (places[2 * index + 1] - view.y) * down,
  ];
}
const tone = (index) => (data.colors.length ? data.colors[data.labels[index]] : color("--line-1"));
const dimmed = (index) => chosen !== null && data.labels[index] !== chosen;
const words = (index) => (data.classes.length ? `${data.classes[data.labels[index]]}, ` : "") + data.names[index];

function picture(target, index, x, y, side) {
  const [column, row] = [index % data.columns, Math.floor(index / data.columns)];
  target.imageSmoothingEnabled = side < 1.5 * data.side || data.side >= 48;
  target.drawImage(sprite, column * data.side, row * data.side, data.side, data.side, x, y, side, side);
}

// Those whose thumbnails have room, in the order that spreads them over the map.
function roomy() {
  const side = thumb(), gap = side * OVERLAP, cells = new Map(), found = [];
  const taken = (column, row) => cells.get(`${column},${row}`) || [];
  const order = chosen === null ? data.order : [...data.order].sort((a, b) => dimmed(a) - dimmed(b));
  for (const index of order) {
    if (dimmed(index)) break;
    const [x, y] = place(index);
    if (x < -side || y < -side || x > width + side || y > height + side) continue;
    const [column, row] = [Math.floor(x / gap), Math.floor(y / gap)];
    let free = true;
    for (let c = column - 1; c <= column + 1 && free; c++) {
      for (let r = row - 1; r <= row + 1 && free; r++) {
        free = taken(c, r).every(([px, py]) => Math.abs(px - x) >= gap || Math.abs(py - y) >= gap);
      }
    }
    if (!free) continue;
    cells.set(`${column},${row}`, [...taken(column, row), [x, y]]);
    found.push(index);
  }
  return found;
}

function framed(index, side, line) {
  const [x, y] = place(index);
  pen.fillStyle = color("--raised");
  pen.fillRect(x - side / 2, y - side / 2, side, side);
  picture(pen, index, x - side / 2, y - side / 2, side);
  pen.lineWidth = line;
  pen.strokeStyle = tone(index);
  pen.strokeRect(x - side / 2, y - side / 2, side, side);
}

function draw() {
  waiting = false;
  pen.clearRect(0, 0, width, height);
  placed = roomy();
  const shown = new Set(placed), radius = Math.min(6, 3.2 * view.zoom ** 0.3);
  for (let index = 0; index < count; index++) {
    if (shown.has(index)) continue;
    pen.globalAlpha = dimmed(index) ? 0.15 : 0.8;
    dot(index, radius);
  }
  pen.globalAlpha = focus === null ? 1 : 0.55;
  for (const index of [...placed].reverse()) framed(index, thumb(), 2.5);
  pen.globalAlpha = 1;
  if (focus === null) return;
  const [x, y] = place(focus);
  for (const other of data.nearest[focus]) {
    const [ox, oy] = place(other);
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(ox, oy);
    pen.lineWidth = 1.6;
    pen.strokeStyle = color("--ink");
    pen.stroke();
  }
  for (const other of data.nearest[focus]) framed(other, thumb(), 2.5);
  framed(focus, Math.min(140, 2.4 * thumb()), 4);
}

function dot(index, radius) {
  const [x, y] = place(index);
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = tone(index);
  pen.fill();
}

function redraw() {
  if (waiting || !pen) return;
  waiting = true;
  requestAnimationFrame(draw);
}

function look(index) {
  if (index === focus) return;
  focus = index;
  canvas.classList.toggle("over", index !== null);
  big.clearRect(0, 0, 160, 160);
  if (index === null) {
    [told.textContent, near.textContent] = ["Point at a picture.", ""];
  } else {
    picture(big, index, 0, 0, 160);
    told.textContent = words(index);
    const others = data.nearest[index].map(words);
    near.textContent = others.length ? `Nearest:\n${others.join("\n")}` : "";
  }
  redraw();
}

// The picture at a place of the canvas: the upper thumbnail, else the nearest dot.
function at(x, y) {
  const half = thumb() / 2;
  for (const index of placed) {
    const [px, py] = place(index);
    if (Math.abs(px - x) <= half && Math.abs(py - y) <= half) return index;
  }
  let best = null, least = REACH ** 2;
  for (let index = 0; index < count; index++) {
    const [px, py] = place(index);
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least && !dimmed(index)) [best, least] = [index, distance];
  }
  return best;
}

// ---- Zoom and pan ----

function zoomed(factor, x = width / 2, y = height / 2) {
  const before = view.zoom, [across, down] = measure;
  view.zoom = Math.min(CLOSEST, Math.max(1, view.zoom * factor));
  const nearer = 1 / before - 1 / view.zoom;
  view.x += (x - width / 2) / across * nearer;
  view.y -= (y - height / 2) / down * nearer;
  bounded();
}

function bounded() {
  const edge = 1000 * (1 - 1 / view.zoom);
  view.x = Math.min(edge, Math.max(-edge, view.x));
  view.y = Math.min(edge, Math.max(-edge, view.y));
  canvas.style.touchAction = view.zoom > 1 ? "none" : "pan-y"; // a page must scroll past a map that shows all
  redraw();
}

function moved(dx, dy) {
  const [across, down] = unit();
  view.x -= dx / across;
  view.y += dy / down;
  bounded();
}

const pointers = new Map();
const spot = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
canvas.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, spot(event));
  if (view.zoom > 1) canvas.setPointerCapture(event.pointerId);
  if (pointers.size === 1) look(at(...spot(event)));
});
canvas.addEventListener("pointermove", (event) => {
  const [x, y] = spot(event), before = pointers.get(event.pointerId);
  if (!before) return look(at(x, y));
  if (pointers.size === 2) {
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, value]) => value);
    const apart = (point) => Math.max(10, Math.hypot(point[0] - other[0], point[1] - other[1]));
    zoomed(apart([x, y]) / apart(before), (x + other[0]) / 2, (y + other[1]) / 2);
  } else {
    canvas.classList.add("moving");
    moved(x - before[0], y - before[1]);
  }
  pointers.set(event.pointerId, [x, y]);
});
for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
  canvas.addEventListener(kind, (event) => {
    pointers.delete(event.pointerId);
    canvas.classList.remove("moving");
    if (kind === "pointerleave" && event.pointerType === "mouse" && document.activeElement !== canvas) look(null);
  });
}
canvas.addEventListener("wheel", (event) => {
  if (document.activeElement !== canvas && !event.ctrlKey) return; // the page scrolls
  event.preventDefault();
  zoomed(Math.exp(-event.deltaY / 300), ...spot(event));
}, { passive: false });
canvas.addEventListener("dblclick", (event) => zoomed(2, ...spot(event)));

document.getElementById("closer").addEventListener("click", () => zoomed(1.6));
document.getElementById("farther").addEventListener("click", () => zoomed(1 / 1.6));
document.getElementById("whole").addEventListener("click", showAll);

function showAll() {
  Object.assign(view, { zoom: 1, x: 0, y: 0 });
  bounded();
}

// ---- Keys ----

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// The nearest picture in a direction; what lies aside counts double.
function beyond([dx, dy]) {
  const [x, y] = focus === null ? [width / 2, height / 2] : place(focus);
  let best = null, least = Infinity;
  for (let index = 0; index < count; index++) {
    if (index === focus || dimmed(index)) continue;
    const [px, py] = place(index);
    const ahead = (px - x) * dx + (py - y) * dy, aside = Math.abs((px - x) * dy - (py - y) * dx);
    const cost = focus === null ? Math.hypot(px - x, py - y) : ahead > 0.5 ? ahead + 2 * aside : Infinity;
    if (cost < least) [best, least] = [index, cost];
  }
  return best === null ? focus : best;
}

function visit(index) {
  look(index);
  if (index === null) return;
  const [x, y] = place(index), edge = MARGIN;
  const [right, down] = [Math.max(0, x - width + edge) + Math.min(0, x - edge), Math.max(0, y - height + edge) + Math.min(0, y - edge)];
  if (right || down) moved(-right, -down);
}

canvas.addEventListener("keydown", (event) => {
  const center = focus === null ? [] : place(focus);
  if (event.key in STEPS) visit(beyond(STEPS[event.key]));
  else if (event.key === "+" || event.key === "=") zoomed(1.6, ...center);
  else if (event.key === "-") zoomed(1 / 1.6, ...center);
  else if (event.key === "0") showAll();
  else if (event.key === "Escape") look(null);
  else return;
  event.preventDefault();
});
canvas.addEventListener("blur", () => look(null));

// ---- Classes and layouts ----

const classes = document.getElementById("classes");
if (classes) {
  const sizes = data.classes.map(() => 0);
  data.labels.forEach((label) => { sizes[label] += 1; });
  const ranked = sizes.map((size, label) => [size, label]).filter(([size]) => size).sort((a, b) => b[0] - a[0]);
  const listed = ranked.slice(0, LISTED).map(([, label]) => label).sort((a, b) => a - b);
  for (const label of listed) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: data.classes[label] });
    button.style.setProperty("--color", data.colors[label]);
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      chosen = chosen === label ? null : label;
      for (const other of classes.querySelectorAll("button")) {
        other.setAttribute("aria-pressed", String(other === button && chosen !== null));
      }
      redraw();
    });
    classes.append(button);
  }
  if (ranked.length > listed.length) {
    const rest = document.createElement("span");
    rest.textContent = `and ${ranked.length - listed.length} more`;
    classes.append(rest);
  }
}

let moving = 0;
for (const input of document.querySelectorAll('input[name="layout"]')) {
  input.addEventListener("change", () => {
    layout = input.value;
    const [from, to, turn, started] = [places.slice(), layouts[layout], ++moving, performance.now()];
    const [old, wanted] = [measure, units(layout)];
    const duration = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : MOVE_MILLISECONDS;
    const frame = (now) => {
      if (turn !== moving) return; // another was chosen meanwhile
      const share = duration ? Math.min(1, Math.max(0, (now - started) / duration)) : 1;
      const eased = share * share * (3 - 2 * share);
      const between = (a, b) => a.map((value, k) => value + (b[k] - value) * eased);
      [places, measure] = share === 1 ? [to.slice(), wanted] : [between(from, to), between(old, wanted)];
      draw();
      if (share < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}

function fit() {
  const ratio = devicePixelRatio || 1;
  [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  measure = units(layout);
  draw();
}

sprite.decode().then(() => new ResizeObserver(fit).observe(canvas));
darkMode.addEventListener("change", redraw);
