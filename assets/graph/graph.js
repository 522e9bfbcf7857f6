"use strict";
// graph.js - the data of the page (cli/page/page.h) as objects, and how they are written out.
//
// A node is {i, id, op, name, layer, dtype, ne, nb, params, kernel, output, bytes, parts, roles, note, colour, us, src,
// step, readers, leaf, view, status}. i is its index in `nodes`; `src` and `readers` are such indices. With a difference
// `nodes` are those of B, then those that only A has: `status` is "added", "removed", "changed" or "same", and a changed
// node has {old, changes}.

const DIFF_FIELDS = ["op", "type", "shape", "strides", "sources", "parameters", "output", "layer"]; // bit 0, 1, ...

/** Characters without a shape of their own, among them those that turn text around, by their number. */
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

function formatCount(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function formatBytes(n) {
  const unit = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([size]) => n >= size);
  if (!unit) return `${n} B`;
  const value = n / unit[0];
  return `${value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2)} ${unit[1]}`;
}

function formatTime(us) {
  return us >= 1e4 ? `${(us / 1e3).toFixed(1)} ms` : `${us.toFixed(us >= 100 ? 0 : us >= 10 ? 1 : 2)} µs`;
}

/** "576 × 32", without the ones at the end. */
function formatShape(ne) {
  let n = 4;
  while (n > 1 && ne[n - 1] === 1) n--;
  return ne.slice(0, n).join(" × ");
}

/** "layers 0–2, 4–6" */
function formatLayers(layers) {
  const ranges = [];
  for (const layer of layers) {
    const last = ranges.at(-1);
    if (last && last[1] === layer - 1) last[1] = layer;
    else ranges.push([layer, layer]);
  }
  const text = ranges.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`));
  const shown = text.length > 6 ? [...text.slice(0, 5), "…"] : text;
  return `${layers.length > 1 ? "layers" : "layer"} ${shown.join(", ")}`;
}

/** Parameters by name. In a saved dump they can be anything. */
function decodeParams(text) {
  const params = text === "" ? {} : JSON.parse(text);
  return params !== null && typeof params === "object" ? params : { value: params };
}

function decodeNode(row, strings) {
  const [id, op, name, layer, dtype, ne, nb, params, flags, bytes, parts, roles, note, colour, us, src] = row;
  const text = (index) => visible(strings[index]);
  const node = {
    id, op: text(op), name: text(name), layer, dtype: text(dtype), ne: JSON.parse(strings[ne]), nb: JSON.parse(strings[nb]),
    params: decodeParams(strings[params]), key: strings[params], kernel: (flags & 1) !== 0,
    output: (flags & 2) !== 0, bytes, parts: text(parts), roles: text(roles).split(","), note: text(note),
    colour: /^#[0-9a-f]{6}$/.test(strings[colour]) ? strings[colour] : "#bbbbbb", us, src, step: null, status: "same",
  };
  node.leaf = ["weight", "input", "state"].includes(strings[op]);
  node.view = !node.leaf && !node.kernel;
  return node;
}

/** Adds step, origin and file to nodes: where values lie, and where nodes and weights come from. */
function decodePlan(nodes, { steps, origins, files }, strings) {
  const text = (index) => visible(strings[index]);
  steps.forEach(([node, state, offset, written, moved, first, last, inPlace], index) => {
    nodes[node].step = { index, state: state === 1, offset, written, moved, first, last, inPlace: inPlace === 1 };
  });
  for (const [node, built, passes, ...from] of origins) {
    const nodesOfModel = [];
    for (let i = 0; i < from.length; i += 2) nodesOfModel.push({ op: text(from[i]), name: text(from[i + 1]) });
    nodes[node].origin = { built: text(built), passes: text(passes), nodes: nodesOfModel };
  }
  for (const [node, path, offset, bytes, hash] of files) {
    nodes[node].file = { path: path < 0 ? "" : text(path), offset, bytes, hash: hash < 0 ? "" : text(hash) };
  }
}

function decodeGraph({ label, title, nodes, plan }, strings) {
  const graph = { label: visible(label), title: visible(title), nodes: nodes.map((row) => decodeNode(row, strings)), plan };
  if (plan) decodePlan(graph.nodes, plan, strings);
  return graph;
}

/** B with the nodes that only A has, whose sources become those of B where B has them. */
function unite(a, b, { partner, changes }) {
  const place = new Map(); // of a node of A
  const removed = [];
  partner.forEach((from, k) => {
    const node = b.nodes[k];
    if (from < 0) node.status = "added";
    else place.set(from, k);
    if (from >= 0 && changes[k] !== 0) Object.assign(node, { status: "changed", old: a.nodes[from], changes: changes[k] });
    if (from >= 0) node.usBefore = a.nodes[from].us;
  });
  a.nodes.forEach((node, i) => {
    if (place.has(i)) return;
    place.set(i, b.nodes.length + removed.length);
    removed.push(node);
  });
  for (const node of a.nodes) node.of = a;
  const united = removed.map((node) => ({ ...node, status: "removed", src: node.src.map((s) => (s < 0 ? -1 : place.get(s))) }));
  return { ...b, nodes: [...b.nodes, ...united] };
}

/** The graph of the page. */
function readGraph(data) {
  const graphs = data.graphs.map((graph) => decodeGraph(graph, data.strings));
  const graph = data.diff ? unite(graphs[0], graphs[1], data.diff) : graphs[0];
  graph.nodes.forEach((node, i) => Object.assign(node, { i, readers: [] }));
  for (const node of graph.nodes) {
    for (const s of new Set(node.src)) if (s >= 0) graph.nodes[s].readers.push(node.i);
  }
  graph.before = data.diff ? graphs[0] : null;
  graph.program = visible(data.program);
  graph.times = visible(data.times);
  graph.us = graph.nodes.reduce((sum, node) => sum + (node.status === "removed" ? 0 : node.us), 0);
  return graph;
}

/** The node whose memory a view shows, or the node itself. */
function throughViews(graph, node) {
  let n = node;
  while (n.view && n.src[0] >= 0) n = graph.nodes[n.src[0]];
  return n;
}

/** Its name, or what it is made of: "view of blk.0.k". */
function labelOf(graph, node) {
  if (node.name !== "") return node.name;
  const source = graph.nodes[node.src[0]];
  return source ? `${node.op} of ${labelOf(graph, source)}` : node.op;
}

/** The label without "blk.3." of its own layer. */
function shortLabelOf(graph, node) {
  return labelOf(graph, node).replace(`blk.${node.layer}.`, "");
}
