// search.js - the field that finds nodes by name, op or type.

const MOST_RESULTS = 60;

/** Nodes that have every word, and the number of a word such as "#12"; those whose name begins with the text come first. */
function findNodes(graph, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const found = graph.nodes.filter((node) => {
    const all = `${node.op} ${labelOf(graph, node)} ${node.dtype}`.toLowerCase();
    return words.every((word) => word === `#${node.id}` || all.includes(word));
  });
  const rank = (node) => (node.name.toLowerCase() === words[0] ? 0 : node.name.toLowerCase().startsWith(words[0]) ? 1 : node.leaf ? 3 : 2);
  return found.sort((a, b) => rank(a) - rank(b) || a.i - b.i);
}

function startSearch(graph, onChoose) {
  const field = document.getElementById("search"), list = document.getElementById("results");
  let current = -1, found = [];

  const close = () => {
    list.hidden = true;
    current = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const choose = (node) => {
    close();
    onChoose(node);
  };
  const mark = (k) => {
    const options = list.querySelectorAll("[role=option]");
    if (options.length === 0) return;
    options[current]?.setAttribute("aria-selected", "false");
    current = (k + options.length) % options.length;
    options[current].setAttribute("aria-selected", "true");
    options[current].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", options[current].id);
  };
  const fill = () => {
    found = findNodes(graph, field.value);
    const options = found.slice(0, MOST_RESULTS).map((node, k) => {
      const option = element("li", node.status === "same" ? "" : node.status, element("span", "op", node.op),
        isolated("name", labelOf(graph, node)), element("span", "size", `${node.dtype}  ${formatShape(node.ne)}`));
      option.id = `result-${k}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.addEventListener("pointerdown", (event) => event.preventDefault());
      option.addEventListener("click", () => choose(node));
      return option;
    });
    if (field.value.trim() === "") {
      close();
      return;
    }
    const rest = found.length === 0 ? "No node has this" : found.length > MOST_RESULTS ? `and ${found.length - MOST_RESULTS} more` : "";
    if (rest) options.push(element("li", "rest", rest));
    options.at(-1).setAttribute("role", rest ? "presentation" : "option");
    list.replaceChildren(...options);
    list.hidden = false;
    current = -1;
    field.setAttribute("aria-expanded", "true");
    document.getElementById("status").textContent = `${found.length} nodes found`;
  };

  field.addEventListener("input", fill);
  field.addEventListener("focus", () => { if (field.value.trim() !== "") fill(); });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") mark(event.key === "ArrowDown" ? current + 1 : Math.max(current, 0) - 1);
    else if (event.key === "Enter" && found.length > 0 && !list.hidden) choose(found[Math.max(current, 0)]);
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
