// Small helpers for DOM nodes. None of them parses text as HTML.

/** An element with a class, or "" for none, and children: nodes and strings. */
export function element(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const child of children) node.append(child);
  return node;
}

/** The icon of that name in page.html. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/** A button with an icon. The label is its accessible name and its tooltip. */
export function iconButton(name, label, onClick) {
  const button = element("button", "icon", icon(name));
  button.type = "button";
  button.title = label;
  button.setAttribute("aria-label", label);
  button.addEventListener("click", onClick);
  return button;
}

export function textButton(text, className, onClick) {
  const button = element("button", className, text);
  button.type = "button";
  button.addEventListener("click", onClick);
  return button;
}

/** Says something to screen readers. */
export function announce(text) {
  document.getElementById("status").textContent = text;
}

/** Makes the box around a text area as high as its text. */
export function fit(area) {
  area.parentNode.dataset.text = `${area.value}\n`;
}

/** Puts a text on the clipboard. A page that comes from another machine without HTTPS has no clipboard API: there a
 * selection is copied. */
export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = element("textarea", "hidden-text");
  const focused = document.activeElement;
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused.focus();
  if (!copied) throw new Error("The browser does not allow copying.");
}

/** Copies a text and shows in the button that it was copied. */
export async function copyFrom(button, text) {
  const before = [...button.childNodes];
  const word = button.classList.contains("icon") ? icon : (name) => (name === "done" ? "Copied" : "Not copied");
  try {
    await copyText(text);
    button.replaceChildren(word("done"));
    announce("Copied");
  } catch (error) {
    button.replaceChildren(word("close"));
    announce(error.message);
  }
  setTimeout(() => button.replaceChildren(...before), 1500);
}
