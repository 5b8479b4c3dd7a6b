"use strict";
// Makes a part of a page that shows a patchwork easier to read.
function arrange(root) {
// Orders the rows of the patchwork; without this script they stand in the order of the table.
root.querySelectorAll(".sorting").forEach((bar) => {
  const body = root.querySelector(".patchwork tbody");
  const buttons = bar.querySelectorAll("button");
  bar.hidden = false;
  buttons.forEach((button) => button.addEventListener("click", () => {
    const key = button.dataset.sort, sign = key === "place" ? 1 : -1;
    const value = (row) => sign * Number(row.dataset[key]);
    [...body.rows].sort((a, b) => value(a) - value(b)).forEach((row) => body.append(row));
    buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
  }));
});
// Shows a column of the patchwork while the pointer is over it, or while its exemplar is open.
root.querySelectorAll(".patchwork").forEach((table) => {
  const show = (k) => table.querySelectorAll("tr").forEach((row) =>
    [...row.cells].forEach((cell, j) => cell.classList.toggle("looked-at", j === k)));
  table.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("td.cell, thead th");
    show(cell && cell.cellIndex > 3 ? cell.cellIndex : -1);
  });
  table.addEventListener("mouseleave", () => show(-1));
  root.querySelectorAll(".exemplars details").forEach((part, k) =>
    part.addEventListener("toggle", () => show(part.open ? k + 4 : -1)));
});
}
arrange(document);
