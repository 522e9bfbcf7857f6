// layout.js - places cards in rows from top to bottom (the method of Sugiyama, Tagawa and Toda):
//
//     rank         a card stands below all of its sources, and below all cards of earlier blocks
//     points       a line that passes rows has a point in each of them; lines from one card share their points
//     order        medians of neighbours, down and up, keeping the order with the fewest crossings
//     x            least squares to the neighbours in the order of the row, down and up

const CARD_WIDTH = 276, COLUMN_GAP = 22, ROW_GAP = 34, HEADING = 46, FRAME = 16, LANE = 20;
const WIDE = 200; // rows of more items are not worth the time that counting their crossings takes

function rankCards(cards, edges, n_blocks) {
  const into = cards.map(() => []), out = cards.map(() => []);
  for (const edge of edges) {
    if (edge.loop) continue;
    into[edge.to].push(edge.from);
    out[edge.from].push(edge.to);
  }
  const rank = cards.map(() => -1), blocks = Array.from({ length: n_blocks }, () => []);
  for (const card of cards) blocks[card.block].push(card.index);
  let base = 0;
  for (const own of blocks) {
    const waits = new Map(own.map((c) => [c, into[c].filter((s) => s !== c && cards[s].block === cards[c].block).length]));
    const ready = own.filter((c) => waits.get(c) === 0);
    const take = (c) => {
      waits.delete(c);
      rank[c] = Math.max(base, ...into[c].map((s) => rank[s] + 1));
      for (const reader of out[c]) {
        if (!waits.has(reader)) continue;
        waits.set(reader, waits.get(reader) - 1);
        if (waits.get(reader) === 0) ready.push(reader);
      }
    };
    while (waits.size > 0) { // a difference can have circles: the first card is then taken as it is
      const c = ready.length > 0 ? ready.shift() : waits.keys().next().value;
      if (waits.has(c)) take(c);
    }
    const last = Math.max(base, ...own.map((c) => rank[c]));
    // What has no source here stands just above its reader.
    for (const c of own.slice().reverse()) {
      if (into[c].length > 0) continue;
      const readers = out[c].filter((r) => cards[r].block === cards[c].block && rank[r] > rank[c]).map((r) => rank[r]);
      if (readers.length > 0) rank[c] = Math.min(...readers) - 1;
    }
    base = last + 1;
  }
  return rank;
}

/** Items of the rows: cards and points. Sets edge.path, the items from the source to the reader. */
function makeRows(cards, edges, rank) {
  const rows = [], shared = new Map();
  const items = cards.map((card, i) => ({ card, rank: rank[i], width: CARD_WIDTH, above: [], below: [] }));
  const add = (item) => (rows[item.rank] ??= []).push(item);
  items.forEach(add);
  const link = (a, b) => {
    if (a.below.includes(b)) return;
    a.below.push(b);
    b.above.push(a);
  };
  for (const edge of edges) {
    if (edge.loop || rank[edge.from] >= rank[edge.to]) continue;
    edge.path = [items[edge.from]];
    for (let r = rank[edge.from] + 1; r < rank[edge.to]; r++) {
      const key = `${edge.from} ${r}`;
      if (!shared.has(key)) {
        shared.set(key, { rank: r, width: 8, above: [], below: [] });
        add(shared.get(key));
      }
      edge.path.push(shared.get(key));
    }
    edge.path.push(items[edge.to]);
    edge.path.slice(1).forEach((item, i) => link(edge.path[i], item));
  }
  return { rows, items };
}

function number(row) {
  row.forEach((item, i) => { item.at = i; });
}

function crossings(rows) {
  let n = 0;
  for (const row of rows) {
    if (row.length > WIDE) continue;
    const ends = row.flatMap((item) => item.below.map((b) => b.at).sort((x, y) => x - y));
    for (let i = 0; i < ends.length; i++) for (let k = 0; k < i; k++) if (ends[k] > ends[i]) n++;
  }
  return n;
}

function orderRows(rows) {
  rows.forEach(number);
  const mean = (item, side) => (item[side].length > 0 ? item[side].reduce((sum, x) => sum + x.at, 0) / item[side].length : item.at);
  let best = rows.map((row) => row.slice()), fewest = crossings(rows);
  for (let sweep = 0; sweep < 12 && fewest > 0; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : rows.slice().reverse()) {
      for (const item of row) item.wish = mean(item, down ? "above" : "below");
      row.sort((a, b) => a.wish - b.wish || a.at - b.at);
      number(row);
    }
    const now = crossings(rows);
    if (now >= fewest) continue;
    fewest = now;
    best = rows.map((row) => row.slice());
  }
  best.forEach(number);
  return best;
}

/** Moves the items of a row to where they wish to be, in least squares, without overlap: pools of adjacent violators. */
function settle(row) {
  const pools = [];
  let offset = 0;
  row.forEach((item, i) => {
    if (i > 0) offset += (row[i - 1].width + item.width) / 2 + COLUMN_GAP;
    item.offset = offset;
    pools.push({ sum: (item.wish - offset) * item.weight, weight: item.weight, items: [item] });
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (a.sum / a.weight <= b.sum / b.weight) break;
      pools.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, items: [...a.items, ...b.items] });
    }
  });
  for (const pool of pools) for (const item of pool.items) item.x = pool.sum / pool.weight + item.offset;
}

/** A line that passes rows should be straight, and a card stand below the card that it reads. */
function pull(item, other) {
  if (!item.card && !other.card) return 8;
  return item.card && other.card ? 4 : 0.5;
}

function placeRows(rows) {
  for (const row of rows) {
    for (const item of row) Object.assign(item, { wish: 0, weight: 1 });
    settle(row);
    const middle = (row[0].x + row.at(-1).x) / 2;
    for (const item of row) item.x -= middle;
  }
  for (let sweep = 0; sweep < 16; sweep++) {
    for (const row of sweep % 2 === 0 ? rows : rows.slice().reverse()) {
      for (const item of row) {
        const near = [...item.above, ...item.below].map((x) => ({ x: x.x, weight: pull(item, x) }));
        const all = near.reduce((sum, n) => sum + n.weight, 0);
        item.wish = all > 0 ? near.reduce((sum, n) => sum + n.x * n.weight, 0) / all : item.x;
        item.weight = all + 0.1;
      }
      settle(row);
    }
  }
}

/** Puts the points of one line, as far as there is room, below each other: where the line has to be moved least. */
function straighten(rows) {
  const room = (item) => {
    const row = rows[item.rank], before = row[item.at - 1], after = row[item.at + 1];
    const gap = (other) => (other.width + item.width) / 2 + COLUMN_GAP;
    return [before ? before.x + gap(before) : -Infinity, after ? after.x - gap(after) : Infinity];
  };
  for (const first of rows.flat()) {
    if (first.card || !first.above[0].card) continue;
    const line = [first];
    for (let next = first.below.find((item) => !item.card); next; next = next.below.find((item) => !item.card)) line.push(next);
    const least = Math.max(...line.map((item) => room(item)[0])), most = Math.min(...line.map((item) => room(item)[1]));
    if (least > most) continue;
    const sorted = line.map((item) => item.x).sort((a, b) => a - b);
    const x = Math.min(most, Math.max(least, sorted[sorted.length >> 1]));
    for (const item of line) item.x = x;
  }
}

/** Sets x and y of the rows' items, and returns frames of blocks and the size of the whole. */
function placeColumns(rows, blocks) {
  const frames = blocks.map(() => null);
  const blockOf = [];
  let y = 8;
  rows.forEach((row, r) => {
    blockOf[r] = row.find((item) => item.card)?.card.block ?? blockOf[r - 1];
    const b = blockOf[r], framed = blocks[b].group !== null, first = b !== blockOf[r - 1];
    if (r > 0) y += first ? ROW_GAP + (framed ? HEADING : 0) + (blocks[b - 1].group ? FRAME : 0) : ROW_GAP;
    else if (framed) y += HEADING;
    const height = Math.max(...row.map((item) => item.card?.height ?? 0));
    const frame = frames[b] ??= { block: b, top: y - (framed ? HEADING : 0), bottom: 0, left: Infinity, right: -Infinity };
    for (const item of row) {
      Object.assign(item, { top: y, height });
      frame.left = Math.min(frame.left, item.x - item.width / 2);
      frame.right = Math.max(frame.right, item.x + item.width / 2);
      if (item.card) Object.assign(item.card, { x: item.x - item.width / 2, y });
    }
    y += height;
    frame.bottom = y;
  });
  for (const frame of frames) {
    frame.bottom += FRAME;
    frame.left -= FRAME;
    frame.right += FRAME;
  }
  return { frames, height: y + FRAME + 8 };
}

/** Dashed lines at the left, from a layer to the next one that is drawn as the same card or above. */
function placeLoops(edges, cards, frames) {
  const lanes = new Map(); // one for each source
  for (const edge of edges) if (edge.loop && !lanes.has(edge.from)) lanes.set(edge.from, lanes.size);
  const left = Math.min(...frames.map((frame) => frame.left));
  for (const edge of edges) {
    if (!edge.loop) continue;
    const from = cards[edge.from], to = cards[edge.to], x = left - 8 - LANE * lanes.get(edge.from);
    edge.points = [[from.x, from.y + from.height - 14], [x, from.y + from.height - 14], [x, to.y + 15], [to.x - 2, to.y + 15]];
  }
  return lanes.size;
}

/** Places cards with a height. Returns {width, height, frames}; sets x and y of cards, path and points of edges. */
function layOut({ blocks, cards, edges }) {
  if (cards.length === 0) return { width: CARD_WIDTH, height: ROW_GAP, frames: [] };
  const rank = rankCards(cards, edges, blocks.length);
  for (const edge of edges) if (!edge.loop && rank[edge.from] >= rank[edge.to]) edge.loop = true;
  const made = makeRows(cards, edges, rank);
  const rows = orderRows(Array.from(made.rows, (row) => row ?? []).filter((row) => row.length > 0));
  rows.forEach((row, r) => row.forEach((item) => { item.rank = r; }));
  placeRows(rows);
  straighten(rows);
  straighten(rows);
  const { frames, height } = placeColumns(rows, blocks);
  const lanes = placeLoops(edges, cards, frames);
  const left = Math.min(...frames.map((frame) => frame.left)) - (lanes > 0 ? LANE * lanes + 6 : 0) - 4;
  const right = Math.max(...frames.map((frame) => frame.right)) + 4;
  for (const item of rows.flat()) item.x -= left;
  for (const card of cards) card.x -= left;
  for (const frame of frames) Object.assign(frame, { left: frame.left - left, right: frame.right - left });
  for (const edge of edges) edge.points = edge.points?.map(([x, y]) => [x - left, y]);
  return { width: right - left, height, frames };
}
