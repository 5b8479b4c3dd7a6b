"use strict";
// Opens the details that should be printed, for browsers in which the style sheet cannot do this.
const folded = new Set();
window.addEventListener("beforeprint", () => document.querySelectorAll("details.bp-prints:not([open])").forEach((part) => {
  part.open = true;
  folded.add(part);
}));
window.addEventListener("afterprint", () => {
  folded.forEach((part) => { part.open = false; });
  folded.clear();
});
