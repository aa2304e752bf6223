const charts = Object.entries(data.charts).map(([name, spec]) => drawn(name, spec));

// ---- Paper: what is closed is opened for printing, and closed again after it ----

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((node) => { node.open = true; });
  charts.forEach((chart) => chart.draw());
});
addEventListener("afterprint", () => opened.forEach((node) => { node.open = false; }));
