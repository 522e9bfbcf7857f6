// The dialogs of the page: settings, and questions with a name or yes and no.

import { problemOf } from "./store.js";

/** Opens a dialog. Resolves with its form when the user accepts, or null. `check` gives what is wrong, or "". */
function open(dialog, check) {
  const form = dialog.querySelector("form");
  const cancel = form.querySelector("[value=cancel]");
  const problem = form.querySelector(".problem");
  if (problem) problem.textContent = "";
  return new Promise((resolve) => {
    const finish = (result) => {
      form.onsubmit = cancel.onclick = dialog.onclose = null;
      dialog.close();
      resolve(result);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      const wrong = check(form);
      if (wrong) problem.textContent = wrong;
      else finish(form);
    };
    cancel.onclick = () => finish(null);
    dialog.onclose = () => finish(null);
    dialog.showModal();
  });
}

/** Asks for the settings. Resolves with the new ones, or null. */
export async function askSettings(settings, models) {
  const dialog = document.getElementById("settings");
  const { elements } = dialog.querySelector("form");
  const names = models.includes(settings.model) || !settings.model ? models : [settings.model, ...models];
  elements.model.replaceChildren(...names.map((name) => new Option(name, name)));
  const read = () => Object.fromEntries(Object.keys(settings).map((name) => {
    const value = elements[name].value;
    return [name, name === "system" ? value : value.trim()];
  }));
  for (const [name, value] of Object.entries(settings)) {
    if (name !== "model" || value) elements[name].value = value;
  }
  dialog.querySelector("details").open = settings.tools !== "";
  return await open(dialog, () => problemOf(read())) ? read() : null;
}

function ask(title, text, accept, name) {
  const dialog = document.getElementById("ask");
  const [body] = dialog.getElementsByTagName("p");
  const [label] = dialog.getElementsByTagName("label");
  const { elements } = dialog.querySelector("form");
  dialog.querySelector("h2").textContent = title;
  body.textContent = text;
  body.hidden = text === "";
  label.hidden = name === null;
  elements.name.value = name ?? "";
  dialog.querySelector("[type=submit]").textContent = accept;
  const result = open(dialog, () => "");
  if (name !== null) elements.name.select();
  return result;
}

/** Whether the user agrees. */
export async function confirmed(title, text, accept) {
  return await ask(title, text, accept, null) !== null;
}

/** A new name, or null. */
export async function askName(title, name) {
  const form = await ask(title, "", "Rename", name);
  return form ? form.elements.name.value.trim() || null : null;
}
