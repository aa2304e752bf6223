// ---- Charts: lines, dots with error bars, and stems, in SVG ----

const MARGIN = { top: 12, right: 16, bottom: 42, left: 62 };
const LEAST_GAP = 16; // pixels between two ticks
const LETTER = 7; // pixels that a letter of a tick is wide
const CLOUD = 100; // places from which none is named

function svg(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

class Chart {
  constructor(host, { x, across, scale, unit, zero, labels, acrossScale, references, series }) {
    Object.assign(this, { host, across, zero, labels, references, series, cursor: null, places: x });
    this.scale = scales[scale];
    this.acrossScale = scales[acrossScale];
    this.tell = units[unit];
    this.legend();
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

  legend() {
    if (this.series.length < 2) return;
    const place = this.host.parentElement.querySelector(".legend");
    this.series.forEach(({ name, dashed, dotted }, k) => {
      const key = document.createElement("span");
      key.style.setProperty("--color", this.ink(k));
      key.classList.toggle("dashed", dashed);
      key.classList.toggle("dotted", dotted);
      key.textContent = name;
      place.append(key);
    });
  }

  ink(k) {
    const { color } = this.series[k];
    return color === 0 ? "var(--quiet)" : `var(--line-${(color - 1) % 6 + 1})`;
  }

  draw() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    if (!this.width) return; // inside something that is still closed
    this.range();
    this.ticks = this.across_ticks();
    this.foot = this.ticks.length || this.across ? MARGIN.bottom : 14;
    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}` });
    this.axes(picture);
    this.refer(picture);
    this.series.forEach((one, k) => this[one.kind](picture, one, this.ink(k)));
    this.marks = svg("g", {});
    picture.append(this.marks);
    this.host.replaceChildren(picture, this.tip);
    this.read(this.cursor);
  }

  // Lowest and highest place on the scale, intervals included.
  range() {
    const all = this.series.flatMap(({ values, ends, kind }) => [
      ...values, ...(ends ? ends.flat() : []), ...(this.zero || (kind === "stems" && this.scale === linear) ? [0] : []),
    ]).concat(this.references.map(({ value }) => value)).filter((value) => value !== null);
    const heights = all.map(this.scale.forward).filter(Number.isFinite);
    let [low, high] = [Math.min(...heights), Math.max(...heights)];
    if (this.scale === nines) {
      [low, high] = [Math.floor(low), Math.ceil(high)];
      [this.low, this.high] = high < NINES_END ? [low, Math.max(high, low + 1)] : [Math.min(low, high - 1), high];
      return;
    }
    [low, high] = widened(low, high);
    const margin = 0.04 * (high - low);
    [this.low, this.high] = [low - margin, high + margin];
  }

  axes(picture) {
    let last = Infinity;
    const [left, right] = [MARGIN.left, this.width - MARGIN.right];
    for (const [at, label] of this.scale.ticks(this.low, this.high)) {
      const y = this.y(at);
      if (at < this.low || at > this.high || last - y < LEAST_GAP) continue;
      last = y;
      picture.append(svg("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }));
      picture.append(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, label));
    }
    let end = -Infinity;
    for (const [at, label] of this.ticks) {
      const [x, half] = [this.x(at), LETTER * label.length / 2];
      if (x - half < end + LETTER) continue;
      end = x + half;
      picture.append(svg("text", { x, y: this.height - 24, "text-anchor": "middle" }, label));
    }
    picture.append(svg("text", { x: right, y: this.height - 5, "text-anchor": "end" }, this.across));
  }

  // Numbers below the chart; places that are sorted by value have none, since their order is not theirs.
  across_ticks() {
    const [first, last] = [this.places[0], this.places[this.places.length - 1]];
    if (this.acrossScale === log && this.places.length >= CLOUD) {
      const powers = log.ticks(Math.log10(first), Math.log10(last)).map(([at, label]) => [10 ** at, label]);
      return powers.filter(([at]) => at >= first && at <= last);
    }
    if (this.acrossScale === log) return this.places.map((place) => [place, brief(place)]);
    if (!this.labels) return first < last ? linear.ticks(first, last) : [[first, brief(first)]];
    const numbers = this.labels.map((label) => (label.match(/\d+$/) || [""])[0]);
    const inOrder = numbers.every((number, k) => number !== "" && (k === 0 || +number > +numbers[k - 1]));
    return inOrder ? this.places.map((place, k) => [place, numbers[k]]) : [];
  }

  // Lines across, at values that others are to be held against.
  refer(picture) {
    const [left, right] = [MARGIN.left, this.width - MARGIN.right];
    for (const { value, name } of this.references) {
      const y = this.height_of(value);
      picture.append(svg("line", { class: "reference", x1: left, x2: right, y1: y, y2: y }));
      if (name) picture.append(svg("text", { x: right, y: y - 5, "text-anchor": "end" }, name));
    }
  }

  line(picture, { values, ends, dashed, dotted, bridged }, ink) {
    let path = "";
    if (ends) picture.append(this.band(ends, ink));
    values.forEach((value, i) => {
      if (value === null) return;
      const joined = bridged ? path !== "" : i > 0 && values[i - 1] !== null; // a missing value leaves a gap
      path += `${joined ? "L" : "M"}${this.x(this.places[i]).toFixed(1)} ${this.height_of(value).toFixed(1)}`;
      const alone = !joined && (values[i + 1] ?? null) === null;
      if (bridged ? !dotted : alone) picture.append(this.dot(i, value, ink, bridged ? 3 : 4));
    });
    const kind = dotted ? "dotted" : dashed ? "dashed" : "";
    picture.append(svg("path", { d: path, style: `stroke: ${ink}`, class: kind }));
  }

  // Between the low and the high ends, where both are known.
  band([low, high], ink) {
    const known = this.places.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null);
    const point = (end) => (i) => `${this.x(this.places[i]).toFixed(1)} ${this.height_of(end[i]).toFixed(1)}`;
    const around = [...known.map(point(high)), ...known.reverse().map(point(low))];
    return svg("path", { class: "band", d: around.length ? `M${around.join("L")}Z` : "", style: `fill: ${ink}` });
  }

  dots(picture, { values, ends }, ink) {
    const radius = values.length > 200 ? 2 : values.length > 60 ? 3 : 4;
    values.forEach((value, i) => {
      if (value === null) return;
      if (ends && ends[0][i] !== null && ends[1][i] !== null) picture.append(this.error(i, ends[0][i], ends[1][i], ink));
      picture.append(this.dot(i, value, ink, radius));
    });
  }

  stems(picture, { values }, ink) {
    values.forEach((value, i) => {
      if (value === null) return;
      const [x, y] = [this.x(this.places[i]), this.height_of(value)];
      const foot = this.scale === linear ? this.y(0) : this.y(this.low);
      picture.append(svg("line", { class: "stem", x1: x, x2: x, y1: foot, y2: y, style: `stroke: ${ink}` }));
      picture.append(this.dot(i, value, ink));
    });
  }

  error(index, low, high, ink) {
    const [x, top, bottom] = [this.x(this.places[index]), this.height_of(high), this.height_of(low)];
    const shape = `M${x - 4} ${top}h8M${x} ${top}V${bottom}M${x - 4} ${bottom}h8`;
    return svg("path", { class: "error", d: shape, style: `stroke: ${ink}` });
  }

  dot(index, value, ink, radius = 4) {
    return svg("circle", { cx: this.x(this.places[index]), cy: this.height_of(value), r: radius, style: `fill: ${ink}` });
  }

  x(place) {
    const { forward } = this.acrossScale;
    const [first, last] = [forward(this.places[0]), forward(this.places[this.places.length - 1])];
    const inset = this.labels || this.acrossScale === log ? 14 : 0; // dots do not sit on the axis
    const share = last > first ? (forward(place) - first) / (last - first) : 0.5;
    return MARGIN.left + inset + share * (this.width - MARGIN.left - MARGIN.right - 2 * inset);
  }

  y(height) {
    const share = Math.min(1, Math.max(0, (height - this.low) / (this.high - this.low)));
    return this.height - this.foot - share * (this.height - MARGIN.top - this.foot);
  }

  height_of(value) {
    return this.y(this.scale.forward(value));
  }

  nearest(event) {
    const x = event.clientX - this.host.getBoundingClientRect().left;
    const distances = this.places.map((place) => Math.abs(this.x(place) - x));
    return distances.indexOf(Math.min(...distances));
  }

  move(event) {
    const stride = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!stride) return;
    event.preventDefault();
    const start = this.cursor === null ? (stride > 0 ? -1 : this.places.length) : this.cursor;
    this.read(Math.min(this.places.length - 1, Math.max(0, start + stride)));
  }

  // Show the values at one place, or none.
  read(index) {
    this.cursor = index;
    this.tip.hidden = index === null;
    this.marks.replaceChildren();
    if (index === null) return;
    const x = this.x(this.places[index]);
    this.marks.append(svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: this.height - this.foot }));
    const heading = this.labels ? [this.labels[index], ""] : [this.across, brief(this.places[index])];
    const rows = [[...heading, "var(--quiet)"]];
    this.series.forEach(({ name, values, ends }, k) => {
      if (values[index] === null) return;
      this.marks.append(this.dot(index, values[index], this.ink(k), 5));
      const known = ends && ends[0][index] !== null && ends[1][index] !== null && ends[0][index] < ends[1][index];
      const span = known ? ` [${this.tell(ends[0][index])}, ${this.tell(ends[1][index])}]` : "";
      rows.push([name, this.tell(values[index]) + span, this.ink(k)]);
    });
    this.tip.replaceChildren(...rows.map(([name, value, ink]) => {
      const row = document.createElement("div");
      const label = document.createElement("span");
      label.style.setProperty("--color", ink);
      label.textContent = name;
      row.append(label, value);
      return row;
    }));
    const wide = this.tip.offsetWidth;
    const beside = x > this.width / 2 ? x - 12 - wide : x + 12;
    this.tip.style.left = `${Math.min(Math.max(beside, 0), Math.max(0, this.width - wide))}px`;
  }
}

// ---- Heat maps: a number and a color for each row and column ----

class HeatMap {
  constructor(host, spec) {
    Object.assign(this, { host, ...spec });
    new ResizeObserver(() => this.draw()).observe(host);
  }

  draw() {
    const [width, height] = [this.host.clientWidth, this.host.clientHeight];
    if (!width) return; // inside something that is still closed
    const [left, foot] = [LETTER * Math.max(...this.rows.map((name) => name.length)) + 14, MARGIN.bottom];
    const [wide, high] = [(width - left) / this.columns.length, (height - foot - 18) / this.rows.length];
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}` });
    const middle = (x, y, text, style = "") => svg("text", { x, y, "text-anchor": "middle", style }, text);
    picture.append(svg("text", { x: 0, y: 12 }, this.up));
    this.rows.forEach((name, r) => {
      const y = height - foot - (r + 1) * high;
      picture.append(svg("text", { x: left - 8, y: y + high / 2 + 4, "text-anchor": "end" }, name));
      this.heat[r].forEach((value, c) => {
        const x = left + c * wide;
        const share = value === null ? 0 : Math.min(1, Math.max(0, (value - this.low) / (this.high - this.low)));
        const fill = `fill: color-mix(in srgb, var(--line-${this.color}) ${(100 * share).toFixed(1)}%, var(--paper))`;
        const ink = `fill: var(${share > 0.72 ? "--paper" : "--ink"})`;
        picture.append(svg("rect", { x, y, width: Math.max(0, wide - 1), height: Math.max(0, high - 1), style: fill }));
        const text = value === null ? "\u2013" : minus(value.toFixed(this.digits));
        if (LETTER * text.length <= wide) picture.append(middle(x + wide / 2, y + high / 2 + 4, text, ink));
      });
    });
    let end = -Infinity;
    this.columns.forEach((name, c) => {
      const [x, half] = [left + (c + 0.5) * wide, LETTER * name.length / 2];
      if (x - half < end + LETTER) return; // it would touch the one before
      end = x + half;
      picture.append(middle(x, height - foot + 18, name));
    });
    picture.append(svg("text", { x: width, y: height - 5, "text-anchor": "end" }, this.across));
    this.host.replaceChildren(picture);
  }
}

const drawn = (name, spec) => new (spec.heat ? HeatMap : Chart)(document.getElementById(name), spec);
