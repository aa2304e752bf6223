// ---- Attention: which head's mask is shown, and a clip that runs ----

for (const input of document.querySelectorAll('input[name="head"]')) {
  input.addEventListener("change", () => {
    for (const mask of document.querySelectorAll("[data-head]")) mask.hidden = mask.dataset.head !== input.value;
  });
}

const FRAME_MILLISECONDS = 250;
const play = document.getElementById("play");
let running = null;
if (play) {
  const clip = document.querySelector(".clip");
  const frames = [...clip.children];
  const show = (index) => frames.forEach((frame, k) => frame.classList.toggle("now", k === index));
  play.addEventListener("click", () => {
    const on = running === null;
    play.setAttribute("aria-pressed", String(on));
    play.textContent = on ? "Stop" : "Play";
    clip.classList.toggle("playing", on);
    clearInterval(running);
    running = null;
    if (!on) return;
    let index = 0;
    show(0);
    running = setInterval(() => { index = (index + 1) % frames.length; show(index); }, FRAME_MILLISECONDS);
  });
}

