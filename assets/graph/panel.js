// panel.js - the details of a node, or the overview of the graph or of a difference.

function fact(name, ...value) {
  return value.every((v) => v === "" || v === null) ? [] : [element("dt", "", name), element("dd", "", ...value.filter((v) => v !== null))];
}

function facts(...pairs) {
  return element("dl", "facts", ...pairs.flat());
}

function part(title, ...content) {
  return element("section", "part", element("h3", "", title), ...content);
}

/** A link to a node. */
function nodeButton(graph, node, actions, role = "") {
  const button = element("button", `link ${node.status}`);
  if (role) button.append(isolated("role", role));
  button.append(element("span", "op", node.op), isolated("name", labelOf(graph, node)));
  button.type = "button";
  button.addEventListener("click", () => actions.select(node));
  return button;
}

function nodeList(graph, nodes, actions, roles = []) {
  const most = 40;
  const items = nodes.slice(0, most).map((node, i) => element("li", "", nodeButton(graph, node, actions, roles[i])));
  if (nodes.length > most) items.push(element("li", "muted", `and ${nodes.length - most} more`));
  return element("ul", "nodes", ...items);
}

function formatStrides(nb) {
  return nb.map(formatCount).join(", ");
}

function formatValue(value) {
  return visible(value !== null && typeof value === "object" ? JSON.stringify(value) : String(value)).replaceAll(",", ", ");
}

function place(graph, node) {
  const { step } = node;
  if (!step) return [];
  if (step.state) return fact("Place", `in a state, at ${formatCount(step.offset)}`);
  const end = step.offset + node.bytes;
  const box = element("span", "arena");
  const used = element("span");
  used.style.left = `${100 * step.offset / graph.plan.arena}%`;
  used.style.width = `${Math.max(0.5, 100 * node.bytes / graph.plan.arena)}%`;
  box.append(used);
  box.title = `The arena has ${formatBytes(graph.plan.arena)}`;
  const n = graph.plan.steps.length, from = step.first < 0 ? "the start" : `step ${step.first}`, to = step.last >= n ? "the end" : `step ${step.last}`;
  const use = `${step.inPlace ? "in place of a source; " : ""}the buffer is in use from ${from} to ${to}`;
  return fact("Arena", `${formatCount(step.offset)} – ${formatCount(end)}`, box, element("small", "", use));
}

/** Where the bytes of a weight are. */
function fileOf(node) {
  if (!node.file) return [];
  const { path, offset, bytes, hash } = node.file;
  const where = path === "" ? fact("File", "none: made when the model was opened") : [fact("File", isolated("mono", path)), fact("Offset", formatCount(offset))].flat();
  return [part("In the file", facts(where, bytes === node.bytes ? [] : fact("Bytes", formatCount(bytes)), hash ? fact("XXH64", isolated("mono", hash)) : []))];
}

/** The nodes of the model code whose work a node does, and the passes that made it of them. */
function originOf(node) {
  if (!node.origin) return [];
  const { built, passes, nodes } = node.origin;
  const items = nodes.map(({ op, name }) => element("li", "from", element("span", "op", op), isolated("name", name)));
  return [part("Made of", items.length > 0 ? element("ul", "nodes", ...items) : element("p", "muted small", "A pass added it."),
    facts(built !== node.op ? fact("Built as", built) : [], fact("Passes", passes || "none changed it")))];
}

function traffic(graph, node) {
  const { step } = node;
  if (!step) return [];
  return [fact("Reads", formatBytes(step.moved - step.written)), fact("Writes", formatBytes(step.written))].flat();
}

function timing(graph, node) {
  if (!(node.us > 0)) return [];
  const share = `${(100 * node.us / graph.us).toFixed(1)} % of all kernels`;
  const rate = node.step ? ` · ${(node.step.moved / node.us / 1e3).toFixed(1)} GB/s` : "";
  return fact("Time", `${formatTime(node.us)}${rate}`, element("small", "", share));
}

/** Bars of the times of a node in each of its layers. */
function timesByLayer(graph, node, actions) {
  const group = node.layer >= 0 ? graph.groupOf[node.layer] : null;
  const members = group ? group.layers.map((layer) => graph.layers[layer][node.index]) : [];
  if (members.length < 2 || !members.some((member) => member.us > 0)) return [];
  const most = Math.max(...members.map((member) => member.us));
  const bars = element("div", "bars");
  for (const member of members) {
    const bar = element("button", member === node ? "current" : "");
    const label = `layer ${member.layer}: ${formatTime(member.us)}`;
    bar.type = "button";
    bar.title = label;
    bar.tabIndex = member === node ? 0 : -1;
    bar.setAttribute("aria-label", label);
    bar.style.setProperty("--share", (member.us / most).toFixed(4));
    bar.addEventListener("click", () => actions.select(member));
    bars.append(bar);
  }
  const sorted = members.map((member) => member.us).sort((a, b) => a - b);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  return [part("Time by layer", bars, element("p", "muted small", `${formatTime(sorted[0])} to ${formatTime(most)}, median ${formatTime(middle)}`))];
}

/** The fields that differ, old and new. */
function changesOf(graph, node) {
  if (!node.old) return [];
  const name = (g, n) => (n.leaf || n.name === "" ? labelOf(g, n) : `${n.op} ${n.name}`);
  const names = (g, n) => n.src.map((s) => (s < 0 ? "none" : name(g, g.nodes[s]))).join(", ");
  const params = (n) => Object.entries(n.params).map(([key, value]) => `${visible(key)} ${formatValue(value)}`);
  const values = [
    (n) => n.op, (n) => n.dtype, (n) => formatShape(n.ne), (n) => formatStrides(n.nb), (n) => names(n === node ? graph : graph.before, n), null,
    (n) => (n.output ? "yes" : "no"), (n) => (n.layer < 0 ? "none" : String(n.layer)),
  ];
  const table = element("table", "changes", element("thead", "", element("tr", "", ...["", "A", "B"].map((t) => element("th", "", t)))));
  const body = element("tbody");
  const add = (name, a, b) => body.append(element("tr", "", element("th", "", name), element("td", "", isolated("old", a)), element("td", "", isolated("new", b))));
  DIFF_FIELDS.forEach((name, bit) => {
    if (!(node.changes >> bit & 1)) return;
    if (values[bit]) {
      add(name, values[bit](node.old), values[bit](node));
      return;
    }
    const [a, b] = [params(node.old), params(node)];
    add(name, a.filter((x) => !b.includes(x)).join(", ") || "–", b.filter((x) => !a.includes(x)).join(", ") || "–");
  });
  table.append(body);
  return [part("Changed", element("div", "scroll-x", table))];
}

function timeBefore(node) {
  if (!(node.us > 0 && node.usBefore > 0)) return [];
  const percent = 100 * (node.us / node.usBefore - 1);
  return fact("Time of A", formatTime(node.usBefore), element("small", "", `B takes ${Math.abs(percent).toFixed(1)} % ${percent < 0 ? "less" : "more"}`));
}

function layerStepper(graph, node, actions) {
  const group = node.layer >= 0 ? graph.groupOf[node.layer] : null;
  if (!group || group.layers.length < 2) return [];
  const at = group.layers.indexOf(node.layer);
  const to = (by) => graph.layers[group.layers[(at + by + group.layers.length) % group.layers.length]][node.index];
  return [element("span", "stepper", iconButton("before", "The same node of the layer before", () => actions.select(to(-1))),
    iconButton("after", "The same node of the next layer", () => actions.select(to(1))))];
}

function showNode(graph, node, panel, actions) {
  const views = node.src.map((s) => (s < 0 ? null : graph.nodes[s]));
  const present = views.filter(Boolean), roles = node.roles.filter((_, i) => views[i]);
  const params = Object.entries(node.params);
  const title = element("div", "title", element("h2", "", element("span", "op", node.op), " ", isolated("name", labelOf(graph, node))),
    iconButton("close", "Close the details", () => actions.select(null)));
  const layer = node.layer < 0 ? [] : fact("Layer", element("span", "", String(node.layer)), ...layerStepper(graph, node, actions));
  panel.replaceChildren(title,
    ...node.status === "same" ? [] : [element("p", `status ${node.status}`, `${node.status[0].toUpperCase()}${node.status.slice(1)}`)],
    facts(
      fact("Node", `#${node.id}`), node.step ? fact("Step", `${node.step.index} of ${graph.plan.steps.length}`) : [], layer,
      fact("Type", node.dtype), fact("Shape", formatShape(node.ne)), fact("Strides", `${formatStrides(node.nb)} B`),
      fact("Bytes", formatCount(node.bytes), node.bytes >= 1e4 ? element("small", "", formatBytes(node.bytes)) : null),
      node.parts ? fact("Fused", isolated("", node.parts)) : [], node.output ? fact("Output", "of the graph") : [],
      place(graph, node), traffic(graph, node), timing(graph, node), timeBefore(node), node.note ? fact("Launch", isolated("mono", node.note)) : [],
    ),
    ...changesOf(graph, node), ...fileOf(node), ...originOf(node), ...timesByLayer(graph, node, actions),
    ...params.length > 0 ? [part("Parameters", facts(params.map(([key, value]) => fact(visible(key), formatValue(value))).flat()))] : [],
    ...present.length > 0 ? [part("Sources", nodeList(graph, present, actions, roles))] : [],
    ...node.readers.length > 0 ? [part("Readers", nodeList(graph, node.readers.map((r) => graph.nodes[r]), actions))] : []);
}

// ---- overview ----

/** Kernels by op: the number, bytes or time, and the share. */
function opTable(graph) {
  const timed = graph.us > 0, ops = new Map();
  for (const node of graph.nodes) {
    if (!node.kernel || node.status === "removed") continue;
    const row = ops.get(node.op) ?? { op: node.op, colour: node.colour, n: 0, value: 0 };
    row.n++;
    row.value += timed ? node.us : node.step?.moved ?? node.bytes;
    ops.set(node.op, row);
  }
  const rows = [...ops.values()].sort((a, b) => b.value - a.value), all = rows.reduce((sum, row) => sum + row.value, 0) || 1;
  const table = element("table", "ops", element("thead", "", element("tr", "", ...["Op", "Kernels", timed ? "Time" : "Bytes", "Share"].map((t) => element("th", "", t)))));
  table.append(element("tbody", "", ...rows.map((row) => {
    const share = element("span", "meter");
    share.style.setProperty("--share", (row.value / all).toFixed(4));
    share.style.setProperty("--op", row.colour);
    return element("tr", "", element("td", "", row.op), element("td", "number", formatCount(row.n)),
      element("td", "number", timed ? formatTime(row.value) : formatBytes(row.value)), element("td", "", share, element("span", "percent", `${(100 * row.value / all).toFixed(1)} %`)));
  })));
  return table;
}

/** What differs: nodes that differ in the same way in several layers are one entry. */
function diffLists(graph, actions) {
  const lists = [];
  for (const status of ["changed", "added", "removed"]) {
    const seen = new Map();
    for (const node of graph.nodes) {
      if (node.status !== status) continue;
      const group = node.layer >= 0 ? graph.groupOf[node.layer] : null;
      const key = group ? `${group.number} ${node.index}` : `node ${node.i}`;
      const entry = seen.get(key) ?? { node, n: 0 };
      entry.n++;
      seen.set(key, entry);
    }
    const entries = [...seen.values()].sort((a, b) => b.node.kernel - a.node.kernel), total = entries.reduce((sum, entry) => sum + entry.n, 0);
    if (total === 0) continue;
    const items = entries.slice(0, 200).map(({ node, n }) => {
      const button = nodeButton(graph, node, actions);
      if (n > 1) button.append(element("span", "count", `×${n}`));
      return element("li", "", button);
    });
    lists.push(part(`${status[0].toUpperCase()}${status.slice(1)}: ${total}`, element("ul", "nodes", ...items)));
  }
  return lists.length > 0 ? lists : [element("p", "muted", "There are no differences.")];
}

function keyHelp() {
  const keys = [["↑ ↓", "the next card"], ["← →", "the card beside it"], ["Enter", "its details"], ["/", "search"], ["u", "unfold or fold all layers"],
    ["+ − 0", "zoom"], ["Esc", "close the details"]];
  return part("Keys", element("dl", "facts keys", ...keys.flatMap(([key, what]) => [element("dt", "", element("kbd", "", key)), element("dd", "", what)])));
}

function showOverview(graph, panel, actions) {
  const { plan } = graph, kernels = graph.nodes.filter((node) => node.kernel && node.status !== "removed").length;
  const title = element("div", "title", element("h2", "", graph.before ? "Differences" : "Overview"), iconButton("close", "Close the overview", () => actions.close()));
  const content = [title];
  if (graph.before) {
    content.push(facts(fact("A", isolated("", graph.before.label), element("small", "", isolated("", graph.before.title))),
      fact("B", isolated("", graph.label), element("small", "", isolated("", graph.title))),
      graph.us > 0 && graph.before.nodes.some((n) => n.us > 0) ? fact("Time", `${formatTime(graph.before.nodes.reduce((s, n) => s + n.us, 0))} → ${formatTime(graph.us)}`) : []),
    ...diffLists(graph, actions));
  } else {
    content.push(facts(
      fact("Kernels", formatCount(kernels)), fact("Nodes", formatCount(graph.nodes.length)),
      graph.layers.length > 0 ? fact("Layers", `${graph.layers.filter(Boolean).length}, ${graph.groups.length > 1 ? `${graph.groups.length} kinds` : "all equal"}`) : [],
      plan ? [fact("Weights", formatBytes(plan.weights)), fact("States", formatBytes(plan.state)),
        fact("Arena", formatBytes(plan.arena), element("small", "", `${formatBytes(plan.unshared)} without reuse`)),
        fact("Moved", formatBytes(plan.traffic), element("small", "", "by a step over the whole context"))].flat() : [],
      graph.times ? fact("Measured", graph.times) : []),
    part(graph.us > 0 ? "Time by op" : "Bytes moved by op", opTable(graph)));
  }
  panel.replaceChildren(...content, keyHelp(), element("p", "muted small", `Reprise ${graph.program}`));
}
