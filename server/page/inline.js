// The text inside a block of Markdown: emphasis, code, links. Text of the model only becomes text nodes and addresses
// of links, which are http, https or mailto, so it cannot run. The work is linear in the text, and nesting is bounded.

import { element } from "./dom.js";

const MAX_DEPTH = 12; // of nested emphasis
const MAX_URL = 2000;

/** The address of a link, or null if its scheme is not one of http, https and mailto. */
export function safeUrl(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
}

function link(url, ...children) {
  const node = element("a", "", ...children);
  node.href = url;
  node.rel = "noopener noreferrer";
  node.target = "_blank";
  return node;
}

const SPECIAL = /[\\`*_~[\]!]|<br ?\/?>|<(?=https?:|mailto:)|https?:\/\/|&(?:lt|gt|amp|quot|nbsp|#39);/g;
const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&nbsp;": "\u00a0", "&#39;": "'" };
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}\p{S}]/u;

/** Where each run of backticks begins, by length. Places before the cursor are dropped as they are asked for. */
class Backticks {
  constructor(text) {
    this.byLength = new Map();
    for (const run of text.matchAll(/`+/g)) {
      const n = run[0].length;
      if (!this.byLength.has(n)) this.byLength.set(n, { places: [], next: 0 });
      this.byLength.get(n).places.push(run.index);
    }
  }

  /** The first run of n backticks at or after a place, or -1. */
  find(n, from) {
    const runs = this.byLength.get(n);
    while (runs && runs.next < runs.places.length && runs.places[runs.next] < from) runs.next++;
    return runs && runs.next < runs.places.length ? runs.places[runs.next] : -1;
  }
}

/** A run of emphasis marks: whether it may open and close is decided by its neighbours, as CommonMark does. */
function delimiter(text, at, count) {
  const before = at > 0 ? text[at - 1] : " ";
  const after = at + count < text.length ? text[at + count] : " ";
  const char = text[at];
  const opens = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
  const closes = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
  const usable = count <= 3 && (char !== "~" || count === 2);
  return {
    char, count,
    canOpen: usable && opens && (char !== "_" || !closes || PUNCTUATION.test(before)),
    canClose: usable && closes && (char !== "_" || !opens || PUNCTUATION.test(after)),
  };
}

/** Appends a node or a string, which is joined to a string before it: a text node each would make layout slow. */
function push(nodes, node) {
  if (typeof node === "string" && typeof nodes.at(-1) === "string") nodes[nodes.length - 1] += node;
  else nodes.push(node);
}

/** Nodes of a list of tokens: strings, nodes and delimiters. */
function emphasise(tokens) {
  const stack = [{ mark: null, nodes: [] }];
  const open = { "*": 0, _: 0, "~": 0 }; // how many of each are on the stack: a search never fails
  const flatten = (from) => {
    const below = stack[from - 1].nodes;
    for (const { mark, nodes } of stack.splice(from)) {
      open[mark.char]--;
      push(below, mark.char.repeat(mark.count));
      for (const node of nodes) push(below, node);
    }
  };
  const close = (mark) => {
    while (mark.count > 0 && open[mark.char] > 0) {
      let at = stack.length - 1;
      while (stack[at].mark.char !== mark.char) at--;
      if (at + 1 < stack.length) flatten(at + 1);
      const opener = stack[at].mark;
      const n = Math.min(2, opener.count, mark.count);
      const node = element(mark.char === "~" ? "del" : n === 2 ? "strong" : "em", "", ...stack[at].nodes.splice(0));
      opener.count -= n;
      mark.count -= n;
      if (opener.count > 0) {
        push(stack[at].nodes, node);
      } else {
        stack.pop();
        open[mark.char]--;
        push(stack[at - 1].nodes, node);
      }
    }
  };
  for (const token of tokens) {
    if (typeof token === "string" || token instanceof Node) {
      push(stack[stack.length - 1].nodes, token);
      continue;
    }
    const mark = { ...token };
    if (mark.canClose) close(mark);
    if (mark.count > 0 && mark.canOpen && stack.length <= MAX_DEPTH) {
      stack.push({ mark, nodes: [] });
      open[mark.char]++;
    } else if (mark.count > 0) {
      push(stack[stack.length - 1].nodes, mark.char.repeat(mark.count));
    }
  }
  if (stack.length > 1) flatten(1);
  return stack[0].nodes;
}

/** The target of a link whose "(" is at a place: its url and where it ends, or null. */
function linkTarget(text, at) {
  const match = /^\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/
    .exec(text.slice(at, at + MAX_URL));
  return match && { url: (match[1] ?? match[2]).replace(/\\([!-/:-@[-`{-~])/g, "$1"), end: at + match[0].length };
}

/** An address in running text ends before its closing punctuation. */
function bareUrl(text, at) {
  let url = /^[^\s<>"`*|]+/.exec(text.slice(at, at + MAX_URL))[0].replace(/[.,:;!?'_~\]]+$/, "");
  if (url.endsWith(")") && !url.includes("(")) url = url.replace(/\)+[.,:;!?]*$/, "");
  return url;
}

class InlineParser {
  constructor(text) {
    this.text = text;
    this.tokens = [];
    this.brackets = []; // places of "[" in tokens
    this.backticks = null;
  }

  put(token, end) {
    this.tokens.push(token);
    return end;
  }

  /** Reads what begins at a special character, and returns where it ends. */
  special(at, found) {
    const { text, tokens } = this;
    switch (found[0]) {
    case "\\":
      if (text[at + 1] === "\n") return this.put(element("br"), at + 2);
      if (!/[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) return this.put("\\", at + 1);
      return this.put(text[at + 1], at + 2);
    case "`": return this.code(at);
    case "*": case "_": case "~": {
      let end = at + 1;
      while (text[end] === text[at]) end++;
      tokens.push(delimiter(text, at, end - at));
      return end;
    }
    case "[":
      this.brackets.push({ at: tokens.length });
      return this.put("[", at + 1);
    case "!":
      if (text[at + 1] !== "[") return this.put("!", at + 1);
      this.brackets.push({ at: tokens.length });
      return this.put("![", at + 2);
    case "]": return this.bracket(at);
    case "<":
      if (found.startsWith("<br")) return this.put(element("br"), at + found.length);
      return this.angle(at);
    case "&": return this.put(ENTITIES[found], at + found.length);
    default: return this.address(at, found);
    }
  }

  code(at) {
    const { text, tokens } = this;
    this.backticks ??= new Backticks(text);
    let begin = at;
    while (text[begin] === "`") begin++;
    const end = this.backticks.find(begin - at, begin);
    if (end < 0) return this.put(text.slice(at, begin), begin);
    let code = text.slice(begin, end).replaceAll("\n", " ");
    if (/^ .*[^ ].* $/.test(code)) code = code.slice(1, -1);
    tokens.push(element("code", "", code));
    return end + begin - at;
  }

  bracket(at) {
    const { text, tokens, brackets } = this;
    const opener = brackets.pop();
    const target = opener && text[at + 1] === "(" && linkTarget(text, at + 1);
    if (!target) return this.put("]", at + 1);
    const url = safeUrl(target.url);
    const label = emphasise(tokens.splice(opener.at).slice(1));
    if (url) {
      tokens.push(link(url, ...label.length ? label : [url]));
      brackets.length = 0; // links do not nest
    } else {
      tokens.push(element("span", "", ...label));
    }
    return target.end;
  }

  angle(at) {
    const end = this.text.slice(at, at + MAX_URL).search(/[>\s]/);
    const url = end > 0 && this.text[at + end] === ">" && safeUrl(this.text.slice(at + 1, at + end));
    if (!url) return this.put("<", at + 1);
    this.tokens.push(link(url, this.text.slice(at + 1, at + end)));
    return at + end + 1;
  }

  address(at, found) {
    const shown = bareUrl(this.text, at);
    const url = !/\w/.test(this.text[at - 1] ?? " ") && !this.brackets.length && safeUrl(shown);
    if (!url) return this.put(found, at + found.length);
    this.tokens.push(link(url, shown));
    return at + shown.length;
  }

  nodes() {
    const { text, tokens } = this;
    let at = 0;
    while (at < text.length) {
      SPECIAL.lastIndex = at;
      const match = SPECIAL.exec(text);
      if (!match) break;
      if (match.index > at) tokens.push(text.slice(at, match.index));
      at = this.special(match.index, match[0]);
    }
    if (at < text.length) tokens.push(text.slice(at));
    return emphasise(tokens);
  }
}

/** Appends the nodes of a text to a node, and returns it. */
export function appendInline(node, text) {
  for (const child of new InlineParser(text).nodes()) node.append(child);
  return node;
}
