// fold.js - layers of the same structure as one group, and what of the graph is drawn.
//
// A group is {layers, shown, unfolded}: equal layers, one of which is drawn for all, or each by itself. The rule is that of
// `reprise graph --dot --fold`: nodes agree pairwise in op, type, shape, parameters and sources; with a difference also in
// what changed.

function groupLayers(graph) {
  const layers = []; // the nodes of each layer, in order
  for (const node of graph.nodes) {
    if (node.layer < 0) continue;
    (layers[node.layer] ??= []).push(node);
    node.index = layers[node.layer].length - 1;
  }
  const groups = [];
  layers.forEach((nodes, layer) => {
    const group = groups.find((g) => sameLayer(graph, layers[g.layers[0]], nodes));
    if (group) group.layers.push(layer);
    else groups.push({ number: groups.length, layers: [layer], shown: layer, unfolded: false });
  });
  const groupOf = [];
  for (const group of groups) for (const layer of group.layers) groupOf[layer] = group;
  Object.assign(graph, { layers, groups, groupOf });
}

function sameLayer(graph, a, b) {
  return a.length === b.length && a.every((node, i) => sameNode(graph, node, b[i]));
}

function sameShape(a, b) {
  return a.op === b.op && a.dtype === b.dtype && a.key === b.key && a.leaf === b.leaf && a.ne.every((n, i) => n === b.ne[i]);
}

function sameNode(graph, a, b) {
  if (!sameShape(a, b) || a.status !== b.status || a.changes !== b.changes || a.src.length !== b.src.length) return false;
  if (a.old && !sameShape(a.old, b.old)) return false;
  return a.src.every((s, i) => sameSource(graph.nodes[s], graph.nodes[b.src[i]], a.layer, b.layer));
}

/** Sources in other layers need only agree in index or type: layer 6 reads the result of layer 5 as layer 5 that of 4. */
function sameSource(x, y, layerOfA, layerOfB) {
  if (!x || !y) return x === y;
  if (x.layer === layerOfA && y.layer === layerOfB) return x.index === y.index;
  if (x.layer === y.layer) return x === y;
  if (x.layer < 0 || y.layer < 0) return true;
  return x.index === y.index || x.dtype === y.dtype;
}

/** The node that is drawn for a node: that of the shown layer, unless its group is unfolded. */
function drawnFor(graph, node) {
  const group = node.layer >= 0 ? graph.groupOf[node.layer] : null;
  if (!group || group.unfolded || node.layer === group.shown) return node;
  return graph.layers[group.shown][node.index];
}

/** All nodes that a drawn node stands for. */
function membersOf(graph, node) {
  const group = node.layer >= 0 ? graph.groupOf[node.layer] : null;
  if (!group || group.unfolded) return [node];
  return group.layers.map((layer) => graph.layers[layer][node.index]);
}

/** Nodes outside of all layers that depend on one. */
function markTail(graph) {
  for (const node of graph.nodes) {
    node.tail = node.layer < 0 && node.src.some((s) => s >= 0 && (graph.nodes[s].layer >= 0 || graph.nodes[s].tail));
  }
}

/** What is drawn one below the other: {layer, group, cards}. Outside of the layers group is null. */
function blocksOf(graph) {
  const blocks = [];
  const add = (layer, group, nodes) => {
    const cards = nodes.filter((node) => node.kernel);
    if (cards.length > 0) blocks.push({ layer, group, nodes: cards });
  };
  const outside = graph.nodes.filter((node) => node.layer < 0);
  add(-1, null, outside.filter((node) => !node.tail));
  const drawn = graph.groups.flatMap((group) => (group.unfolded ? group.layers : [group.layers[0]]));
  for (const layer of drawn.sort((x, y) => x - y)) {
    const group = graph.groupOf[layer];
    const shown = group.unfolded ? layer : group.shown;
    add(shown, group, graph.layers[shown]);
  }
  add(-1, null, outside.filter((node) => node.tail));
  return blocks;
}

/** Cards, and the edges between them: {from, to, names, loop, writes}, by the index of a card. A card is {node, block, rows}. Rows are
 * sources that have no line: weights, inputs, states, and results from far above. */
function drawingOf(graph) {
  const blocks = blocksOf(graph);
  const cards = [], cardOf = new Map(), edges = new Map();
  blocks.forEach((block, b) => {
    for (const node of block.nodes) {
      cardOf.set(node.i, cards.length);
      cards.push({ node, block: b, rows: [], index: cards.length });
    }
  });
  const connect = (card, member, source, role) => {
    const from = cards[cardOf.get(drawnFor(graph, source).i)];
    if (!from) return;
    const far = blocks.length > 12 && from.block < card.block - 1;
    const own = source.layer === member.layer && source.layer >= 0;
    if (far) {
      if (!card.rows.some((row) => row.node === source)) card.rows.push({ role, node: source, far });
      return;
    }
    const loop = !own && from.block >= card.block && (from.node.layer >= 0 || from.block > card.block);
    const key = `${from.index} ${card.index} ${loop}`;
    if (!edges.has(key)) edges.set(key, { from: from.index, to: card.index, names: new Set(), loop });
    if (role) edges.get(key).names.add(role);
  };
  for (const card of cards) {
    for (const member of membersOf(graph, card.node)) {
      member.src.forEach((s, i) => {
        if (s < 0) return;
        const source = throughViews(graph, graph.nodes[s]);
        const role = member.roles[i] ?? "";
        if (source.leaf) {
          if (member === card.node) card.rows.push({ role, node: source });
        } else if (member === card.node || source.layer !== member.layer) {
          connect(card, member, source, role);
        }
      });
    }
  }
  return { blocks, cards, cardOf, edges: [...edges.values()] };
}
