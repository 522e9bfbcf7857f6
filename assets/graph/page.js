// page.js - the state of the page, and what the user does.

const byId = (id) => document.getElementById(id);
const LEAST_ZOOM = 0.3, MOST_ZOOM = 2, NARROW = 800;

const graph = readGraph(JSON.parse(byId("data").textContent));
let drawing = null;
let zoom = 1;
let selected = null; // a node, or null

// ---- drawing ----

function redraw() {
  drawing = drawGraph(graph, byId("scene"), actions);
  setZoom(zoom);
  showSelection();
  const unfolded = graph.groups.some((group) => group.unfolded);
  byId("fold-all").textContent = unfolded ? "Fold all" : "Unfold all";
  byId("fold-all").hidden = graph.groups.every((group) => group.layers.length < 2);
  const first = drawing.cards.find((card) => card.node === selected) ?? drawing.cards[0];
  if (first) first.button.tabIndex = 0;
}

function setZoom(value) {
  zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, value));
  byId("scene").style.transform = `scale(${zoom})`;
  byId("canvas").style.width = `${drawing.width * zoom}px`;
  byId("canvas").style.height = `${drawing.height * zoom}px`;
}

/** Keeps the point of the graph that is at x, y of the view. */
function zoomAt(factor, x, y) {
  const view = byId("view"), canvas = byId("canvas");
  const left = x + view.scrollLeft - canvas.offsetLeft, top = y + view.scrollTop - canvas.offsetTop, before = zoom;
  setZoom(zoom * factor);
  view.scrollLeft += left * (zoom / before - 1);
  view.scrollTop += top * (zoom / before - 1);
}

function zoomMiddle(factor) {
  zoomAt(factor, byId("view").clientWidth / 2, byId("view").clientHeight / 2);
}

function fitWidth() {
  setZoom(Math.min(1, (byId("view").clientWidth - 24) / drawing.width));
}

/** The card that stands for a node: its own, or that of its first reader that is drawn. */
function cardFor(node) {
  const at = (n) => drawing.cards[drawing.cardOf.get(drawnFor(graph, n).i)];
  if (at(node)) return at(node);
  const seen = new Set();
  for (const queue = [...node.readers]; queue.length > 0;) {
    const reader = graph.nodes[queue.shift()];
    if (seen.has(reader.i)) continue;
    seen.add(reader.i);
    if (at(reader)) return at(reader);
    queue.push(...reader.readers);
  }
  return null;
}

function reveal(card, smooth) {
  const view = byId("view"), canvas = byId("canvas");
  const x = card.x * zoom + canvas.offsetLeft, y = card.y * zoom + canvas.offsetTop;
  const width = CARD_WIDTH * zoom, height = card.height * zoom, margin = 24;
  const hidden = innerWidth < NARROW && !byId("panel").hidden ? byId("panel").offsetHeight : 0;
  const seen = view.clientHeight - hidden;
  let { scrollLeft: left, scrollTop: top } = view;
  if (y - margin < top || y + height + margin > top + seen) top = y - Math.max(margin, (seen - height) / 2);
  if (x < left || x + width > left + view.clientWidth) left = x - Math.max(0, (view.clientWidth - width) / 2);
  view.scrollTo({ left, top, behavior: smooth && !matchMedia("(prefers-reduced-motion: reduce)").matches ? "smooth" : "instant" });
}

// ---- selection ----

function related(node) {
  return new Set([node.i, ...membersOf(graph, drawnFor(graph, node)).map((member) => member.i)]);
}

function showSelection() {
  const nodes = selected ? related(selected) : new Set();
  const readers = new Set();
  if (selected && (selected.leaf || selected.view)) for (const r of selected.readers) readers.add(drawnFor(graph, graph.nodes[r]).i);
  for (const card of drawing.cards) {
    card.button.setAttribute("aria-pressed", String(nodes.has(card.node.i)));
    card.button.classList.toggle("reads", readers.has(card.node.i));
  }
  for (const path of byId("scene").querySelectorAll(".edge")) {
    path.classList.toggle("near", nodes.has(Number(path.dataset.from)) || nodes.has(Number(path.dataset.to)));
  }
}

/** Shows the layer of a node in its group, if it is folded. */
function bringUp(node) {
  const group = node.layer >= 0 ? graph.groupOf[node.layer] : null;
  if (!group || group.unfolded || group.shown === node.layer) return;
  group.shown = node.layer;
  redraw();
}

function showPanel() {
  const panel = byId("panel");
  if (selected) showNode(graph, selected, panel, actions);
  else showOverview(graph, panel, actions);
  panel.hidden = false;
  panel.scrollTop = 0;
}

function select(node, { move = true } = {}) {
  selected = node;
  if (!node) {
    showSelection();
    if (innerWidth < NARROW) byId("panel").hidden = true;
    else showPanel();
    return;
  }
  bringUp(node);
  showPanel();
  showSelection();
  markLayer();
  const card = cardFor(node);
  if (card && move) reveal(card, true);
  byId("status").textContent = `${node.op} ${labelOf(graph, node)}`;
}

function setFold(group, unfolded) {
  group.unfolded = unfolded;
  redraw();
  markLayer();
  const frame = byId("scene").querySelector(`.frame[data-layer="${unfolded ? group.layers[0] : group.shown}"]`);
  frame?.querySelector(".fold").focus({ preventScroll: true });
  if (frame) byId("view").scrollTo({ top: frame.offsetTop * zoom - 12 });
}

function show(group, layer) {
  const focused = document.activeElement?.getAttribute("aria-label");
  group.shown = layer;
  if (selected && selected.layer >= 0 && graph.groupOf[selected.layer] === group) selected = graph.layers[layer][selected.index];
  redraw();
  markLayer();
  showPanel();
  const frame = byId("scene").querySelector(`.frame[data-layer="${layer}"]`);
  [...frame.querySelectorAll("button")].find((button) => button.getAttribute("aria-label") === focused)?.focus({ preventScroll: true });
}

const actions = {
  select,
  fold: setFold,
  show,
  close: () => { byId("panel").hidden = true; },
};

function foldAll() {
  const unfold = !graph.groups.some((group) => group.unfolded);
  for (const group of graph.groups) group.unfolded = unfold && group.layers.length > 1;
  redraw();
  markLayer();
  byId("status").textContent = unfold ? "All layers are unfolded" : "Equal layers are folded";
}

// ---- the strip of layers ----

function makeStrip() {
  const strip = byId("strip");
  graph.layers.forEach((_, layer) => {
    const group = graph.groupOf[layer];
    const cell = element("button", `g${group.number % 6}`);
    cell.type = "button";
    cell.tabIndex = layer === 0 ? 0 : -1;
    cell.dataset.layer = layer;
    cell.title = `layer ${layer}`;
    cell.setAttribute("aria-label", `Layer ${layer}, kind ${group.number + 1} of ${graph.groups.length}`);
    if (graph.layers[layer].some((node) => node.status !== "same")) cell.classList.add("differs");
    cell.addEventListener("click", () => goToLayer(layer));
    strip.append(cell);
  });
  strip.hidden = graph.layers.length < 2;
  strip.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const cells = [...strip.children], at = cells.indexOf(document.activeElement);
    cells[(at + by + cells.length) % cells.length].focus();
    event.preventDefault();
    event.stopPropagation();
  });
}

function goToLayer(layer) {
  const group = graph.groupOf[layer];
  if (!group.unfolded) show(group, layer);
  const frame = byId("scene").querySelector(`.frame[data-layer="${layer}"]`);
  if (frame) byId("view").scrollTo({ top: frame.offsetTop * zoom - 12 });
  byId("strip").querySelector(`[data-layer="${layer}"]`).focus();
}

function markLayer() {
  for (const cell of byId("strip").children) {
    const layer = Number(cell.dataset.layer), group = graph.groupOf[layer];
    cell.setAttribute("aria-current", String(group.unfolded || group.shown === layer));
  }
}

// ---- keyboard ----

function focusCard(card) {
  for (const other of drawing.cards) other.button.tabIndex = -1;
  card.button.tabIndex = 0;
  card.button.focus({ preventScroll: true });
  reveal(card, false);
}

/** The card beside another one, or null. */
function beside(card, by) {
  const row = drawing.cards.filter((other) => Math.abs(other.y - card.y) < 1).sort((a, b) => a.x - b.x);
  return row[row.indexOf(card) + by] ?? null;
}

function moveFocus(card, key) {
  const at = drawing.cards.indexOf(card);
  const next = {
    ArrowDown: () => drawing.cards[at + 1], ArrowUp: () => drawing.cards[at - 1], ArrowLeft: () => beside(card, -1), ArrowRight: () => beside(card, 1),
    Home: () => drawing.cards[0], End: () => drawing.cards.at(-1),
  }[key]?.();
  if (next) focusCard(next);
  return next !== undefined;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input");
  const card = drawing.cards.find((c) => c.button === event.target);
  if (card && moveFocus(card, event.key)) event.preventDefault();
  else if (event.key === "Escape") select(null);
  else if (typing) return;
  else if (event.key === "/") {
    byId("search").focus();
    event.preventDefault();
  } else if (event.key === "u") foldAll();
  else if (event.key === "+" || event.key === "=") zoomMiddle(1.2);
  else if (event.key === "-") zoomMiddle(1 / 1.2);
  else if (event.key === "0") fitWidth();
}

// ---- mouse ----

function startDragging() {
  const view = byId("view");
  let from = null;
  view.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0 || event.target.closest("button")) return;
    from = { x: event.clientX + view.scrollLeft, y: event.clientY + view.scrollTop };
    view.setPointerCapture(event.pointerId);
    view.classList.add("dragged");
  });
  view.addEventListener("pointermove", (event) => {
    if (from) view.scrollTo(from.x - event.clientX, from.y - event.clientY);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    view.addEventListener(end, () => {
      from = null;
      view.classList.remove("dragged");
    });
  }
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = view.getBoundingClientRect();
    zoomAt(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
}

// ---- theme ----

function startTheme() {
  const button = byId("theme"), names = ["system", "light", "dark"];
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const name = names[(names.indexOf(root.dataset.theme) + 1) % names.length];
    root.dataset.theme = name;
    button.setAttribute("aria-label", `Theme: ${name}`);
    button.title = `Theme: ${name}`;
  });
}

function start() {
  groupLayers(graph);
  markTail(graph);
  const kernels = graph.nodes.filter((node) => node.kernel);
  graph.most = { us: Math.max(...kernels.map((node) => node.us), 1e-9), moved: Math.max(...kernels.map((node) => node.step?.moved ?? 0), 1) };
  const [name, ...rest] = graph.title.split(": ");
  byId("title").textContent = graph.before ? `${graph.before.label} → ${graph.label}` : name;
  byId("subtitle").textContent = graph.before ? graph.title : rest.join(": ");
  document.title = `${byId("title").textContent} · Reprise`;
  if (graph.before) document.body.classList.add("diff");
  makeStrip();
  redraw();
  markLayer();
  fitWidth();
  byId("view").scrollLeft = (byId("canvas").offsetWidth - byId("view").clientWidth) / 2;
  if (innerWidth >= NARROW) showPanel();
  else byId("panel").hidden = true;
  startSearch(graph, (node) => {
    select(node);
    const card = cardFor(node);
    if (card) focusCard(card);
  });
  byId("scene").addEventListener("click", (event) => {
    const button = event.target.closest(".card");
    if (button) select(drawing.cards.find((card) => card.button === button).node, { move: innerWidth < NARROW });
  });
  byId("fold-all").addEventListener("click", foldAll);
  byId("zoom-in").addEventListener("click", () => zoomMiddle(1.2));
  byId("zoom-out").addEventListener("click", () => zoomMiddle(1 / 1.2));
  byId("zoom-fit").addEventListener("click", fitWidth);
  byId("overview").addEventListener("click", () => {
    selected = null;
    showSelection();
    showPanel();
  });
  startDragging();
  startTheme();
  addEventListener("keydown", onKey);
}

start();
