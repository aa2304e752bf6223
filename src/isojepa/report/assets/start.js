"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
const darkMode = matchMedia("(prefers-color-scheme: dark)");

