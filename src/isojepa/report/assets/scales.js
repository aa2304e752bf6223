// ---- Scales: where a value stands, and which values get a line ----

const NINES_END = 6; // R2 of 0.999999 and above is drawn there; pointing at it tells the value
const NINES_START = -3; // and R2 of -999 and below there

const nines = {
  forward: (r2) => -Math.log10(Math.min(Math.max(1 - r2, 10 ** -NINES_END), 10 ** -NINES_START)),
  ticks(low, high) {
    const ticks = [];
    for (let k = Math.floor(low); k <= Math.ceil(high); k++) ticks.push(k);
    return ticks.map((k) => [k, k >= NINES_END ? "\u2248 1" : k < 0 ? brief(1 - 10 ** -k) : (1 - 10 ** -k).toFixed(k)]);
  },
};
const log = {
  forward: (value) => Math.log10(value),
  ticks(low, high) {
    const factors = high - low > 4 ? [1] : high - low > 1.5 ? [1, 3] : [1, 2, 5];
    const stride = Math.max(1, Math.ceil((high - low) / 8));
    const ticks = [];
    for (let k = Math.floor(low); k <= Math.ceil(high); k += stride) {
      for (const factor of factors) ticks.push([k + Math.log10(factor), brief(factor * 10 ** k)]);
    }
    return ticks.filter(([at]) => at < 308); // beyond are no numbers
  },
};
const linear = {
  forward: (value) => value,
  ticks(low, high, most = 5) {
    const rough = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k <= Math.floor(high / step + 1e-9); k++) ticks.push([k * step, brief(k * step)]);
    return ticks;
  },
};
const scales = { nines, log, linear };

// The range, widened where all values are one, or so close that their difference is rounding.
function widened(low, high) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low > 1e-9 * size) return [low, high];
  const reach = size > 0 ? 0.1 * size : 1;
  return [low - reach, high + reach];
}

function brief(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return minus(Number(value.toPrecision(2)).toExponential().replace("e+", "e"));
  return minus(String(Number(value.toPrecision(5))));
}

const minus = (text) => text.replaceAll("-", "\u2212");

// How values of a chart are told in words.
const units = {
  r2: (value) => minus(value.toFixed(6)),
  number(value) {
    const size = Math.abs(value);
    if (size > 0 && (size < 1e-3 || size >= 1e6)) return minus(value.toExponential(2));
    return minus(String(Number(value.toPrecision(4))));
  },
};

