"use strict";
// Unfolds the details that belong on paper, for browsers whose style sheets cannot.
const folded = new Set();
window.addEventListener("beforeprint", () => document.querySelectorAll("details.bp-prints:not([open])").forEach((part) => {
  part.open = true;
  folded.add(part);
}));
window.addEventListener("afterprint", () => {
  folded.forEach((part) => { part.open = false; });
  folded.clear();
});
