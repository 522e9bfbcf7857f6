// draw.js - cards, frames and lines as elements. No text is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const ROW_HEIGHT = 19;

/** An element with a class, or "" for none, and children: nodes and strings. */
function element(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/** A text of the graph, which keeps its own direction. */
function isolated(className, text) {
  return element("bdi", className, text);
}

function vector(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function icon(name) {
  return vector("svg", { "aria-hidden": "true" }, vector("use", { href: `#i-${name}` }));
}

function iconButton(name, label, onClick) {
  const button = element("button", "icon", icon(name));
  button.type = "button";
  button.title = label;
  button.setAttribute("aria-label", label);
  button.addEventListener("click", onClick);
  return button;
}

const MARKS = { added: "added", removed: "removed", changed: "changed" };

/** A source without a line. */
function drawRow(graph, { role, node, far }) {
  const name = far ? `↑ ${shortLabelOf(graph, node)}` : shortLabelOf(graph, node).replace(/\.weight$/, "");
  const row = element("span", `row ${far ? "far" : node.op}`, isolated("role", role || "x"), isolated("name", name),
    element("span", "size", far ? `layer ${node.layer}` : `${node.dtype}  ${formatShape(node.ne)}`));
  if (node.status !== "same") row.classList.add(node.status);
  return row;
}

function cardLabel(graph, card) {
  const { node } = card;
  const layers = membersOf(graph, node).map((member) => member.layer);
  const where = node.layer < 0 ? "" : `, ${formatLayers(layers)}`;
  const mark = node.status === "same" ? "" : `, ${node.status}`;
  const time = node.us > 0 ? `, ${formatTime(node.us)}` : "";
  return `${node.op} ${shortLabelOf(graph, node)}, ${node.dtype} ${formatShape(node.ne)}${where}${mark}${time}`;
}

/** The share of the whole that the bar of a card shows: of the time, or without times of the bytes. */
function shareOf(graph, node) {
  if (node.status === "removed") return 0;
  if (graph.us > 0) return node.us / graph.most.us;
  return node.step ? node.step.moved / graph.most.moved : 0;
}

function drawCard(graph, card) {
  const { node } = card;
  const head = element("span", "head", element("span", "op", node.op), isolated("name", node.name === "" ? "" : shortLabelOf(graph, node)));
  const result = element("span", "result", element("span", "", `${node.dtype}  ${formatShape(node.ne)}`));
  if (node.us > 0) result.append(element("span", "time", formatTime(node.us)));
  else if (node.step) result.append(element("span", "time", formatBytes(node.step.moved)));
  const button = element("button", `card ${MARKS[node.status] ?? ""}`, head, result);
  if (node.parts) button.append(isolated("parts", node.parts));
  for (const row of card.rows) button.append(drawRow(graph, row));
  if (node.status !== "same") button.append(element("span", "badge", MARKS[node.status]));
  const bar = element("span", "bar");
  bar.style.setProperty("--share", Math.sqrt(shareOf(graph, node)).toFixed(4));
  button.append(bar);
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.node = node.i;
  button.setAttribute("aria-label", cardLabel(graph, card));
  button.setAttribute("aria-pressed", "false");
  button.style.setProperty("--op", node.colour);
  card.button = button;
  return button;
}

/** Known before it is drawn, since every line of a card is one row high. */
function heightOf(card) {
  return 50 + (card.node.parts ? ROW_HEIGHT : 0) + card.rows.length * ROW_HEIGHT + (card.rows.length > 0 ? 5 : 0) + 7;
}

/** A line through points, with a curve between each two. */
function curve(points) {
  return points.map(([x, y], i) => {
    if (i === 0) return `M${x},${y}`;
    const [x0, y0] = points[i - 1], middle = (y0 + y) / 2;
    return x === x0 ? `L${x},${y}` : `C${x0},${middle} ${x},${middle} ${x},${y}`;
  }).join("");
}

/** A line of straight pieces with round corners. */
function bent(points) {
  const radius = 8;
  return points.map(([x, y], i) => {
    if (i === 0) return `M${x},${y}`;
    if (i === points.length - 1) return `L${x},${y}`;
    const to = (p) => {
      const dx = Math.sign(p[0] - x) * Math.min(radius, Math.abs(p[0] - x) / 2), dy = Math.sign(p[1] - y) * Math.min(radius, Math.abs(p[1] - y) / 2);
      return [x + dx, y + dy];
    };
    return `L${to(points[i - 1])}Q${x},${y} ${to(points[i + 1])}`;
  }).join("");
}

/** Where lines leave and enter cards: below and above where they go to and come from, side by side at the end. */
function spreadEnds(edges) {
  const reach = CARD_WIDTH / 2 - 22, within = (x) => Math.max(-reach, Math.min(reach, x));
  const into = new Map();
  for (const edge of edges) {
    if (!edge.path) continue;
    const [from, next] = edge.path;
    edge.leave = next.card ? 0 : within(next.x - from.x);
    into.set(edge.to, [...into.get(edge.to) ?? [], edge]);
  }
  for (const list of into.values()) {
    const ends = list.map((edge) => ({ edge, width: Math.min(24, 2 * reach / list.length - COLUMN_GAP), weight: 1,
      wish: edge.path.length === 2 ? within(edge.path[0].x - edge.path[1].x) : within(edge.path.at(-2).x - edge.path.at(-1).x) }));
    ends.sort((a, b) => a.wish - b.wish);
    settle(ends);
    const over = Math.max(0, ends.at(-1).x - reach - 8) || Math.min(0, ends[0].x + reach + 8);
    for (const end of ends) Object.assign(end.edge, { shift: end.x - over, named: list.length > 1 });
  }
}

function drawEdge(edge, cards) {
  const names = [...edge.names].join(", ");
  const from = cards[edge.from].node, to = cards[edge.to].node;
  const tip = vector("title", {}, `${names || "source"} of ${to.op} ${to.name}`);
  const kind = [from, to].some((node) => node.status === "removed") ? "removed" : [from, to].some((node) => node.status === "added") ? "added" : "";
  const data = { "data-from": from.i, "data-to": to.i };
  if (edge.loop) {
    return [vector("path", { class: `edge loop ${kind}`, d: bent(edge.points), "marker-end": "url(#arrow)", ...data }, tip)];
  }
  const points = edge.path.flatMap((item, i) => {
    if (i === 0) return [[item.x + edge.leave, item.card.y + item.card.height]];
    if (item.card) return [[item.x + edge.shift, item.card.y - 2]];
    return [[item.x, item.top], [item.x, item.top + item.height]];
  });
  const path = vector("path", { class: `edge ${kind}`, d: curve(points), "marker-end": "url(#arrow)", ...data }, tip);
  if (!edge.named || names === "") return [path];
  const [x, y] = points.at(-1);
  return [path, vector("text", { class: "edge-name", x: x + 5, y: y - 6 }, names)];
}

/** "next layer" beside each dashed line. */
function drawLoopNames(edges) {
  const names = new Map();
  for (const edge of edges) if (edge.loop && !names.has(edge.points[1][0])) names.set(edge.points[1][0], edge.points[2][1]);
  return [...names].map(([x, y]) => vector("text", { class: "edge-name", transform: `translate(${x - 4},${y + 84}) rotate(-90)` }, "next layer"));
}

function drawFrame(graph, frame, block, actions) {
  const { group } = block;
  const folded = !group.unfolded && group.layers.length > 1;
  const box = element("section", `frame ${folded ? "folded" : ""} g${group.number % 6}`);
  box.style.left = `${frame.left}px`;
  box.style.top = `${frame.top}px`;
  box.style.width = `${frame.right - frame.left}px`;
  box.style.height = `${frame.bottom - frame.top}px`;
  box.dataset.layer = block.layer;
  const heading = element("div", "heading", element("h2", "", formatLayers(folded ? group.layers : [block.layer])));
  if (folded) heading.append(element("span", "count", `×${group.layers.length}`));
  if (group.layers.length > 1) {
    const buttons = element("span", "buttons");
    if (folded) {
      const at = group.layers.indexOf(group.shown);
      const step = (by) => actions.show(group, group.layers[(at + by + group.layers.length) % group.layers.length]);
      buttons.append(iconButton("before", "Show the layer before", () => step(-1)),
        element("span", "shown", `${group.shown}`), iconButton("after", "Show the next layer", () => step(1)));
    }
    const fold = iconButton(folded ? "unfold" : "fold", folded ? `Unfold ${group.layers.length} layers` : "Fold equal layers",
      () => actions.fold(group, folded));
    fold.setAttribute("aria-expanded", String(!folded));
    fold.classList.add("fold");
    buttons.append(fold);
    heading.append(buttons);
  }
  box.setAttribute("aria-label", formatLayers(folded ? group.layers : [block.layer]));
  box.append(heading);
  return box;
}

/** Draws the graph into the scene. Returns the drawing: blocks, cards, edges, width and height. */
function drawGraph(graph, scene, actions) {
  const drawing = drawingOf(graph);
  for (const card of drawing.cards) card.height = heightOf(card);
  Object.assign(drawing, layOut(drawing));
  spreadEnds(drawing.edges);
  const lines = vector("svg", { class: "edges", width: drawing.width, height: drawing.height, "aria-hidden": "true" },
    vector("defs", {}, vector("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 10, markerHeight: 10, markerUnits: "userSpaceOnUse", orient: "auto" },
      vector("path", { d: "M0,0.5L7,4L0,7.5z" }))));
  for (const edge of drawing.edges) lines.append(...drawEdge(edge, drawing.cards));
  lines.append(...drawLoopNames(drawing.edges));
  const frames = drawing.frames.filter((frame) => drawing.blocks[frame.block].group)
    .map((frame) => drawFrame(graph, frame, drawing.blocks[frame.block], actions));
  const cards = drawing.cards.map((card) => {
    const button = drawCard(graph, card);
    button.style.left = `${card.x}px`;
    button.style.top = `${card.y}px`;
    button.style.height = `${card.height}px`;
    return button;
  });
  scene.replaceChildren(...frames, lines, ...cards);
  scene.style.width = `${drawing.width}px`;
  scene.style.height = `${drawing.height}px`;
  return drawing;
}
