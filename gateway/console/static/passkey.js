// Ceremonies with a passkey: a form marked data-passkey asks this gateway for a
// challenge, the browser asks the person, the answer goes back. The form's own
// fields go along with both.
"use strict";

const bytes = text => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0));
const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

// send posts a form's fields, and an answer, to a path of ours.
async function send(path, form, answer) {
  const fields = new URLSearchParams(new FormData(form));
  if (answer) fields.set("answer", JSON.stringify(answer));
  const reply = await fetch(path, { method: "POST", body: fields, redirect: "error" });
  const said = await reply.json().catch(() => ({ text: "no answer that can be read" }));
  if (!reply.ok) throw new Error(said.text || said.word || reply.statusText);
  return said;
}

async function create(form) {
  const { publicKey } = await send(form.action, form);
  publicKey.challenge = bytes(publicKey.challenge);
  publicKey.user.id = bytes(publicKey.user.id);
  for (const c of publicKey.excludeCredentials || []) c.id = bytes(c.id);
  const made = await navigator.credentials.create({ publicKey });
  return { id: made.id, rawId: text(made.rawId), type: made.type, clientExtensionResults: {},
    response: { clientDataJSON: text(made.response.clientDataJSON), attestationObject: text(made.response.attestationObject) } };
}

async function get(form) {
  const { publicKey } = await send(form.action, form);
  publicKey.challenge = bytes(publicKey.challenge);
  for (const c of publicKey.allowCredentials || []) c.id = bytes(c.id);
  const said = await navigator.credentials.get({ publicKey });
  const r = said.response;
  return { id: said.id, rawId: text(said.rawId), type: said.type, clientExtensionResults: {},
    response: { clientDataJSON: text(r.clientDataJSON), authenticatorData: text(r.authenticatorData), signature: text(r.signature) } };
}

document.addEventListener("submit", async e => {
  const form = e.target, kind = form.dataset.passkey;
  if (!kind) return;
  e.preventDefault();
  const button = form.querySelector("button"), told = form.querySelector("[role=status]");
  button.disabled = true;
  told.textContent = "";
  form.dataset.pending = ""; // the page stays as it is until this has ended
  try {
    const answer = await (kind === "create" ? create : get)(form);
    const done = await send(form.dataset.to, form, answer);
    location.href = done.goto;
  } catch (why) {
    told.textContent = why.name === "NotAllowedError" ? "The browser or you ended it. Nothing was decided." : "Nothing was decided: " + why.message;
    button.disabled = false;
    delete form.dataset.pending;
  }
});
