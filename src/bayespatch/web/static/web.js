"use strict";
// Live what-if: the answer is updated while the form is edited. Without this script, the buttons do the same.
(() => {
  document.querySelectorAll(".script-only").forEach((part) => { part.hidden = false; });
  document.querySelectorAll("[data-print]").forEach((button) => button.addEventListener("click", () => window.print()));
  const asks = (one) => one.name.startsWith("v:") || one.name === "patient";
  const form = document.getElementById("patient"), answer = document.getElementById("answer");
  if (!form || !answer || !("live" in answer.dataset)) return;
  const status = document.getElementById("status"), undo = document.getElementById("undo");
  const glance = document.getElementById("glance"), notice = document.getElementById("outdated");
  const fields = [...form.elements].filter(asks);
  const names = [...new Set(fields.map((one) => one.name))];
  const first = (name) => form.elements.namedItem(`f:${name.slice(2)}`);
  const state = () => Object.fromEntries(names.map((name) => [name, String(new FormData(form).get(name) ?? "")]));
  const past = [];
  let now = state(), timer = 0, later = 0, running = null;

  function mark() {
    names.forEach((name) => {
      const field = fields.find((one) => one.name === name).closest(".field");
      field.classList.toggle("moved", Boolean(first(name)) && first(name).value !== now[name]);
    });
    undo.disabled = past.length === 0;
  }

  function put(values) {
    fields.forEach((one) => {
      if (one.type === "radio") one.checked = one.value === values[one.name];
      else one.value = values[one.name];
    });
  }

  function complain(problems) {
    names.forEach((name) => {
      const one = fields.find((field) => field.name === name), text = problems[name] || "";
      const place = one.closest(".field").querySelector(".problem");
      place.textContent = text;
      place.hidden = !text;
      if (one.type !== "radio") one.toggleAttribute("aria-invalid", Boolean(text));
      if (text && one.type !== "radio") one.setAttribute("aria-invalid", "true");
    });
    const count = Object.keys(problems).length;
    if (count) outdate(count === 1 ? notice.dataset.one : notice.dataset.many);
  }

  // An answer for values other than those in the form is dimmed, and cannot be used, saved or printed.
  function outdate(reason) {
    notice.textContent = reason ? `${notice.dataset.notice} ${reason}` : "";
    notice.hidden = !reason;
    answer.inert = Boolean(reason);
    answer.classList.toggle("outdated", Boolean(reason));
    document.querySelectorAll('[data-print], [value="save"]').forEach((button) => { button.disabled = Boolean(reason); });
    if (reason) glance.textContent = notice.dataset.short;
  }

  // Details that were open in the answer stay open in the next one.
  function replace(html) {
    const open = [...answer.querySelectorAll("details[open] > summary")].map((one) => one.textContent.slice(0, 12));
    answer.innerHTML = html;
    answer.querySelectorAll("details > summary").forEach((one) => {
      one.parentElement.open = open.includes(one.textContent.slice(0, 12));
    });
  }

  async function ask() {
    clearTimeout(later);
    running?.abort();
    const mine = running = new AbortController();
    answer.setAttribute("aria-busy", "true");
    const body = new URLSearchParams(new FormData(form));
    try {
      const response = await fetch("/consult/answer", { method: "POST", body, signal: mine.signal });
      if (response.status === 401) return window.location.assign("/sign-in?next=/consult");
      const said = await response.json();
      complain(said.problems || {});
      if (said.html) {
        replace(said.html);
        outdate("");
        status.textContent = said.status;
        glance.textContent = said.status;
      } else if (said.detail) {
        outdate(said.detail);
        later = setTimeout(ask, 2500);
      }
    } catch (error) {
      if (error.name !== "AbortError") outdate(notice.dataset.silent);
    } finally {
      if (running === mine) answer.removeAttribute("aria-busy");
    }
  }

  form.addEventListener("input", (event) => {
    if (!asks(event.target)) return;
    clearTimeout(timer);
    clearTimeout(later);
    timer = setTimeout(() => {
      const next = state();
      if (JSON.stringify(next) === JSON.stringify(now)) return;
      past.push(now);
      now = next;
      mark();
      ask(false);
    }, event.target.type === "radio" || event.target.tagName === "SELECT" ? 0 : 350);
  });
  undo.addEventListener("click", () => {
    if (!past.length) return;
    now = past.pop();
    put(now);
    mark();
    ask(false);
    if (!past.length) form.querySelector(".main").focus();
  });
  mark();
})();
