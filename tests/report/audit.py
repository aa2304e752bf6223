"""What a careful eye finds wrong with a page: text that is too small, too pale, cut off or overprinted."""

from tests.report.browser import Page

LEAST_SIZE = 12  # pixels
LEAST_CONTRAST = 4.5  # WCAG 2, level AA

# every piece of text with its size, its box, its color and the color behind it
_TEXTS = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(node).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, holder = node.parentElement;
    if (!node.data.trim() || !holder.checkVisibility({ contentVisibilityAuto: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
    if (!boxes.length) continue;
    const style = getComputedStyle(holder);
    found.push({
      text: node.data.trim().slice(0, 40),
      size: parseFloat(style.fontSize),
      left: Math.min(...boxes.map((box) => box.left)),
      right: Math.max(...boxes.map((box) => box.right)),
      ink: parse(holder.namespaceURI.endsWith("svg") ? style.fill : style.color).slice(0, 3),
      paper: behind(holder),
      math: holder.namespaceURI.endsWith("MathML"),
    });
  }
  return found;
})()"""
# elements that hide a part of themselves, and letters of charts and axes that touch
_HIDDEN = """[...document.querySelectorAll("main *")].filter((node) => {
  const style = getComputedStyle(node);
  return style.overflowX !== "visible" && node.checkVisibility() && node.scrollWidth > node.clientWidth + 1;
}).map((node) => node.className + ": " + node.textContent.slice(0, 40))"""
_TOUCHING = """[...document.querySelectorAll(".chart svg, .axis")].flatMap((host) => {
  const boxes = [...host.querySelectorAll("text, span span")].filter((node) => node.checkVisibility())
    .map((node) => [node.textContent, node.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
  return boxes.flatMap(([text, a], k) => boxes.slice(k + 1).filter(([, b]) =>
    a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom
  ).map(([other]) => `${text} touches ${other}`));
})"""
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def audit(page: Page) -> list[str]:
    """Everything that is wrong, in words; an empty list for a page that can be read."""
    width = page.value("innerWidth")
    found = []
    if page.value(_OVERFLOW) > 0:
        found.append(f"the page is {page.value(_OVERFLOW)} pixels wider than the window")
    for text in page.value(_TEXTS):
        name = repr(text["text"])
        if text["size"] < LEAST_SIZE and not text["math"]:  # indices of formulas are smaller, as they should
            found.append(f"{name} is {text['size']:.1f} pixels tall")
        if text["left"] < -1 or text["right"] > width + 1:
            found.append(f"{name} leaves the window: {text['left']:.0f} to {text['right']:.0f}")
        if contrast(text["ink"], text["paper"]) < LEAST_CONTRAST:
            found.append(f"{name} is too pale: {text['ink']} on {text['paper']}")
    found += [f"cut off: {text}" for text in page.value(_HIDDEN)]
    return found + page.value(_TOUCHING) + page.errors


def contrast(ink: list[float], paper: list[float]) -> float:
    """Ratio of luminances, from 1 to 21."""
    bright, dark = sorted((_luminance(ink), _luminance(paper)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(rgb: list[float]) -> float:
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
