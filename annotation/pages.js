// What the pages do in the browser: keys of the verification page, choosing and enlarging photos, drafts while typing.
// Every rule is checked again by the server.
(() => {
  "use strict";
  const find = (selector) => document.querySelector(selector);
  const shown = (element) => Boolean(element && element.offsetParent !== null);
  const typing = (element) => element && (element.tagName === "TEXTAREA" ||
    (element.tagName === "INPUT" && !["radio", "checkbox", "button"].includes(element.type)));

  function fill(id, value) {
    const field = find(`#${id} textarea, #${id} input`);
    if (!field) return;
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  // ---- photos: choose, enlarge

  function pick(button) {
    const page = button.closest("[id$='-page']");
    if (!page) return;
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "true" ? "false" : "true");
    const ids = [...page.querySelectorAll(".pick[aria-pressed='true']")].map((one) => one.dataset.id);
    fill(page.id.replace("-page", "-picked"), ids.join(","));
    const count = page.querySelector(".picked-count");
    if (count) count.textContent = String(ids.length);
  }

  function zoom(image) {
    const dialog = document.createElement("dialog");
    dialog.id = "zoom";
    const large = document.createElement("img");
    large.src = image.dataset.full;
    large.alt = image.alt;
    dialog.append(large);
    dialog.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal(); // Escape closes it
  }

  document.addEventListener("click", (event) => {
    const target = event.target;
    if (!(target instanceof Element)) return;
    const button = target.closest(".pick");
    if (button) return pick(button);
    const option = target.closest("#verify-card .option");
    if (option) return choose("verify-choice", "ABCD".indexOf(option.dataset.letter));
    const letter = target.closest("#verify-card .letter");
    if (letter) return choose("verify-choice", "ABCD".indexOf(letter.textContent));
    if (target.matches(".picture img[data-full]")) return zoom(target);
    if (target.closest("#verify-save, #verify-back, #verify-ahead")) wait();
  });

  // ---- drafts: a pause in typing counts as leaving the field

  let pause = 0;
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!typing(field) || field.closest("[id$='-picked'], [id$='-token'], [id$='-current']")) return;
    clearTimeout(pause);
    pause = setTimeout(() => field.dispatchEvent(new FocusEvent("blur")), 1500);
  });

  // ---- verification by keyboard

  let busy = false; // from sending a form until the server has shown the next one: no key may hit the old one
  let opened = 0;
  const token = () => (find("#verify-token textarea, #verify-token input") || {}).value;

  function wait() {
    if (busy) return;
    busy = true;
    const before = token(), mine = ++opened, start = Date.now();
    const look = setInterval(() => {
      if (token() !== before || Date.now() - start > 8000 || mine !== opened) {
        clearInterval(look);
        busy = false;
      }
    }, 30);
  }

  function choose(id, place) {
    const input = document.querySelectorAll(`#${id} input`)[place];
    if (input && !busy) { input.click(); input.blur(); }
  }

  function press(id) {
    const button = find(`#${id}`);
    if (!shown(button) || busy) return;
    wait();
    button.click();
  }

  function focus(id) {
    const field = find(`#${id} textarea, #${id} input`);
    if (field) { field.focus(); field.scrollIntoView({ block: "nearest" }); }
  }

  document.addEventListener("keydown", (event) => {
    const form = find("#verify-form");
    // isComposing: Enter and letters belong to the input method while Chinese is typed
    if (!shown(form) || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || find("#zoom")) return;
    const field = event.target, key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (typing(field)) {
      if (!field.closest("#verify-form") || field.closest("#verify-jump")) return;
      if (key === "Escape") return field.blur();
      if (key === "Enter" && !event.shiftKey) { event.preventDefault(); event.stopPropagation(); field.blur(); press("verify-save"); }
      return;
    }
    // Enter presses what it is on, except the tab of this page, which keeps the focus after a click
    if (key === "Enter" && field instanceof Element && field.closest("a, button:not([role='tab'][aria-selected='true'])")) return;
    const taken = () => { event.preventDefault(); event.stopPropagation(); };
    if ("abcd".includes(key) && key.length === 1) { taken(); choose("verify-choice", "abcd".indexOf(key)); }
    else if (key === "0" || key === "?") { taken(); choose("verify-choice", 4); }
    else if ("1234".includes(key) && key.length === 1) { taken(); if (shown(find("#verify-guess"))) choose("verify-guess", Number(key) - 1); }
    else if (key === "s") { taken(); choose("verify-hops", 0); }
    else if (key === "m") { taken(); choose("verify-hops", 1); }
    else if (key === "r") { taken(); if (!busy) focus("verify-rationale"); }
    else if (key === "f") {
      taken();
      choose("verify-bad", 0);
      setTimeout(() => { if (shown(find("#verify-why"))) focus("verify-why"); }, 60);
    }
    else if (key === "Enter") { taken(); press("verify-save"); }
    else if (key === "ArrowLeft") { taken(); press("verify-back"); }
    else if (key === "ArrowRight") { taken(); press("verify-ahead"); }
  }, true);

  // The chosen option is marked on its photo or text too.
  setInterval(() => {
    const card = find("#verify-card");
    if (!shown(card)) return;
    const inputs = [...document.querySelectorAll("#verify-choice input")];
    const place = inputs.findIndex((input) => input.checked);
    for (const one of card.querySelectorAll("[data-letter]")) {
      one.classList.toggle("chosen", place >= 0 && place < 4 && one.dataset.letter === "ABCD"[place]);
    }
  }, 120);
})();
