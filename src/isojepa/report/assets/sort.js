"use strict";
// A click on a column's name sorts by it, a second one the other way; what has no value stays last.

const number = (cell) => (cell.dataset.value === undefined ? NaN : Number(cell.dataset.value));

function compare(column, numeric, sign) {
  return (one, other) => {
    const [a, b] = [one.cells[column], other.cells[column]];
    if (!numeric) {
      const [s, t] = [a.textContent.trim(), b.textContent.trim()];
      return !s || !t ? Number(!s) - Number(!t) : sign * s.localeCompare(t, "en", { numeric: true });
    }
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
    return sign * (x < y ? -1 : Number(x > y));
  };
}

for (const table of document.querySelectorAll("table.numbers")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort(compare(column, head.classList.contains("number"), down ? -1 : 1));
    table.tBodies[0].append(...rows);
  }));
}

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((node) => { node.open = true; });
});
addEventListener("afterprint", () => opened.forEach((node) => { node.open = false; }));
