// The console works without this file. With it: pages stay as they are in the
// gateway, and keys do what the foot of the page says. No key alone says yes or
// no: it moves to the button, and a second key presses it.
"use strict";

// live: when something was written, the page asks for itself again.
let seq = document.body.dataset.seq;
let stream = null;
let asked = 0;

async function refresh() {
  const turn = ++asked;
  const answer = await fetch(location.href, { headers: { "Accept": "text/html" }, redirect: "error" }).catch(() => null);
  if (!answer || turn !== asked) return;
  if (answer.status === 401) { location.reload(); return; }
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (turn !== asked || busy()) return;
  swap(fresh, "main");
  swap(fresh, "header");
  document.title = fresh.title;
  seq = fresh.body.dataset.seq;
}

// busy says whether a person is in the middle of something that a change would take away.
function busy() {
  const at = document.activeElement;
  return document.querySelector("[data-pending]") !== null || !!at && (/^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || at.closest("[data-busy]") !== null);
}

// swap puts the fresh part in place of the old one; what was opened stays open,
// what was typed stays, what had the focus keeps it.
function swap(fresh, name) {
  const old = document.querySelector(name), next = fresh.querySelector(name);
  if (!old || !next || old.innerHTML === next.innerHTML) return;
  const open = [...old.querySelectorAll("details[open]")].map(d => d.id);
  const at = old.contains(document.activeElement) ? document.activeElement.id : "";
  const typed = new Map(fields(old).map(i => [place(i), i.value]));
  old.replaceWith(document.importNode(next, true));
  for (const id of open) { const d = document.getElementById(id); if (d) d.open = true; }
  for (const i of fields(document)) { if (typed.has(place(i))) i.value = typed.get(place(i)); }
  if (at) document.getElementById(at)?.focus({ preventScroll: true });
  mark(marked);
}

const fields = within => [...within.querySelectorAll("input:not([type=hidden])[name], textarea[name]")];
const place = i => (i.form ? i.form.getAttribute("action") : "") + " " + i.name;

function listen() {
  if (stream || !seq || seq === "0" || document.hidden) return;
  stream = new EventSource("/events?after=" + seq);
  stream.addEventListener("moved", later);
  stream.addEventListener("quiet", later); // times on the page go on
  stream.onopen = () => document.getElementById("live")?.classList.remove("lost");
  stream.onerror = () => {
    document.getElementById("live")?.classList.add("lost");
    stop();
    setTimeout(() => { refresh(); listen(); }, 3000);
  };
}

// A browser has six connections for one host: a page that nobody sees keeps none.
function stop() { if (stream) { stream.close(); stream = null; } }

// later asks soon, and at most once a second however much is written.
let waiting = 0, last = 0;
function later() {
  if (waiting) return;
  waiting = setTimeout(() => { waiting = 0; last = Date.now(); refresh(); }, Math.max(100, last + 1000 - Date.now()));
}

document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else { refresh(); listen(); } });
window.addEventListener("pagehide", stop);
listen();

// keys
let marked = "";
function mark(id) {
  marked = id;
  for (const m of document.querySelectorAll(".marked")) m.classList.remove("marked");
  const it = id && document.getElementById(id);
  if (it) { it.classList.add("marked"); it.scrollIntoView({ block: "nearest" }); }
}
function step(by) {
  const all = [...document.querySelectorAll("[data-open]")];
  if (!all.length) return;
  const i = all.findIndex(x => x.id === marked);
  mark(all[Math.max(0, Math.min(all.length - 1, i < 0 ? 0 : i + by))].id);
}
const opened = () => document.getElementById(marked)?.dataset.open;

document.addEventListener("keydown", e => {
  if (e.repeat || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
  const help = document.getElementById("help");
  if (help?.open) return;
  switch (e.key) {
  case "j": step(1); break;
  case "k": step(-1); break;
  case "w": location.href = "/"; break;
  case "?": help?.showModal(); break;
  case "v":
    if (opened()) location.href = opened();
    else for (const d of document.querySelectorAll("main details")) d.open = !d.open;
    break;
  case "Enter": if (opened() && (e.target === document.body)) location.href = opened(); else return; break;
  case "d": go("deny"); break;
  case "a": go("to-allow"); break;
  case "c": {
    const terms = document.getElementById("counter");
    if (!terms) return;
    terms.open = true;
    terms.querySelector("input:not([type=hidden])")?.focus();
    break;
  }
  default: return;
  }
  e.preventDefault();
});
// go moves to a button of this question, or to the marked question first.
function go(id) {
  const button = document.getElementById(id);
  if (button) { button.focus(); button.scrollIntoView({ block: "center" }); }
  else if (opened()) location.href = opened() + "#" + id;
}
if (location.hash === "#deny" || location.hash === "#to-allow") document.getElementById(location.hash.slice(1))?.focus();
