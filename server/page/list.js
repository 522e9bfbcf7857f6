// The list of conversations, the menu that it becomes on a narrow screen, and the switch of the theme.

import { element, iconButton } from "./dom.js";

const byId = (id) => document.getElementById(id);

function row(conversation, current, running, actions) {
  const open = element("button", "open", element("span", "", conversation.title));
  open.type = "button";
  open.title = conversation.title;
  if (running) open.append(element("span", "pulse"));
  if (current) open.setAttribute("aria-current", "true");
  open.addEventListener("click", () => actions.open(conversation));
  const button = (name, verb, action) => (
    iconButton(name, `${verb} “${conversation.title}”`, () => action(conversation)));
  const item = element("li", current ? "current" : "", open, element("div", "tools",
    button("edit", "Rename", actions.rename), button("export", "Export", actions.exportJson),
    button("delete", "Delete", actions.remove)));
  item.dataset.id = conversation.id;
  return item;
}

/** Shows conversations, the latest first. The focus stays on the button that has it. */
export function showList(conversations, currentId, runs, actions) {
  const list = byId("list");
  const focused = document.activeElement;
  const id = focused.closest("#list li")?.dataset.id;
  const place = id ? [...focused.closest("li").querySelectorAll("button")].indexOf(focused) : 0;
  const sorted = [...conversations].sort((a, b) => b.updated - a.updated);
  list.replaceChildren(...sorted.map((one) => row(one, one.id === currentId, runs.has(one.id), actions)));
  const item = id && [...list.children].find((one) => one.dataset.id === id);
  if (item) item.querySelectorAll("button")[place].focus();
}

/** Lets the browser save a conversation as a file. */
export function download(conversation) {
  const blob = new Blob([JSON.stringify(conversation, null, 2)], { type: "application/json" });
  const anchor = element("a");
  const name = conversation.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = `${name || "conversation"}.json`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10000);
}

export function closeMenu() {
  if (!document.body.classList.contains("menu")) return false;
  document.body.classList.remove("menu");
  byId("shade").hidden = true;
  byId("open-menu").setAttribute("aria-expanded", "false");
  byId("open-menu").focus();
  return true;
}

export function startMenu() {
  byId("open-menu").addEventListener("click", () => {
    document.body.classList.add("menu");
    byId("shade").hidden = false;
    byId("open-menu").setAttribute("aria-expanded", "true");
    byId("close-menu").focus();
  });
  byId("close-menu").addEventListener("click", closeMenu);
  byId("shade").addEventListener("click", closeMenu);
}

export function startTheme() {
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  const show = (name) => {
    root.dataset.theme = name;
    byId("theme").querySelector("span").textContent = `Theme: ${name}`;
  };
  show(themes.includes(root.dataset.theme) ? root.dataset.theme : "system");
  byId("theme").addEventListener("click", () => {
    show(themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length]);
    localStorage.setItem("reprise.theme", root.dataset.theme);
  });
}
