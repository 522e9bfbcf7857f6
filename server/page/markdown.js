// Markdown as DOM nodes. The grammar is that of CommonMark and GitHub without HTML, reference links and indented code.
// Images become links. Each block is read in time linear in its text, lists and quotes nest up to MAX_DEPTH, and a
// block other than code ends after MAX_BLOCK.

import { element } from "./dom.js";
import { appendInline } from "./inline.js";

const MAX_DEPTH = 12;
const MAX_BLOCK = 1 << 16; // characters, so that an update of a growing answer stays small
const MAX_COLUMNS = 64;

const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;

const isBlank = (line) => line.trim() === "";

/** The columns of the white space that a line begins with. Tabs stop at every fourth column. */
function indentOf(line) {
  let columns = 0;
  for (const char of line) {
    if (char === " ") columns++;
    else if (char === "\t") columns += 4 - columns % 4;
    else break;
  }
  return columns;
}

/** A line without its first columns, as far as they are white space. */
function dedent(line, columns) {
  let column = 0;
  let at = 0;
  for (; column < columns && (line[at] === " " || line[at] === "\t"); at++) {
    column += line[at] === " " ? 1 : 4 - column % 4;
  }
  return " ".repeat(Math.max(0, column - columns)) + line.slice(at);
}

function fence(line) {
  const match = FENCE.exec(line);
  return match && !(match[2][0] === "`" && match[3].includes("`")) ? match : null;
}

function closesFence(line, marks) {
  const text = line.trim();
  return text.length >= marks.length && indentOf(line) < 4 && /^(`+|~+)$/.test(text) && text[0] === marks[0];
}

function item(line) {
  const match = ITEM.exec(line);
  if (!match || RULE.test(line)) return null;
  const spaces = match[3].length >= 1 && match[3].length <= 4 ? match[3].length : 1;
  return {
    indent: match[1].length, width: match[1].length + match[2].length + spaces, kind: match[2].slice(-1),
    number: parseInt(match[2], 10), empty: isBlank(line.slice(match[0].length)),
  };
}

/** Whether a line ends the paragraph before it. */
function interrupts(line) {
  const marker = item(line);
  return Boolean((marker && !marker.empty && !(marker.number > 1)) || QUOTE.test(line) || HEADING.test(line) ||
    RULE.test(line) || fence(line));
}

function cells(line) {
  const text = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return text.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** The alignments of a table whose header is at a line, or null. */
function tableColumns(header, rule) {
  if (!header.includes("|") || rule === undefined || !/^[ \t|:-]+$/.test(rule) || !rule.includes("-")) return null;
  const columns = cells(rule);
  if (columns.length > MAX_COLUMNS || columns.length !== cells(header).length) return null;
  if (!columns.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return columns.map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "middle" : "right") : ""));
}

class BlockParser {
  constructor(lines, depth) {
    this.lines = lines;
    this.depth = depth;
    this.at = 0;
    this.size = 0; // of the lines of the present block so far
    this.cut = -1; // the line whose beginning longLine took
  }

  /** Every block with the line that it begins at, and how much of that line it has if it does not have all of it. */
  parse() {
    const blocks = [];
    for (;;) {
      while (this.at < this.lines.length && isBlank(this.lines[this.at])) this.at++;
      if (this.at >= this.lines.length) return blocks;
      const line = this.at;
      this.size = 0;
      const rest = this.cut === line ? this.lines[line].length : -1;
      blocks.push({ line, rest, node: this.block(this.lines[line]) });
    }
  }

  block(line) {
    const code = fence(line);
    if (code) return this.code(code);
    if (line.length >= MAX_BLOCK) return this.longLine(line);
    if (HEADING.test(line)) return this.heading();
    if (RULE.test(line)) return this.at++, element("hr");
    if (this.depth < MAX_DEPTH && QUOTE.test(line)) return this.quote();
    if (this.depth < MAX_DEPTH && item(line)) return this.list();
    const columns = tableColumns(line, this.lines[this.at + 1]);
    return columns ? this.table(columns) : this.paragraph();
  }

  /** Whether there is another line, and the block may have it. */
  more() {
    return this.at < this.lines.length && (this.size += this.lines[this.at].length + 1) <= MAX_BLOCK;
  }

  longLine(line) {
    this.lines[this.at] = line.slice(MAX_BLOCK);
    this.cut = this.at;
    return appendInline(element("p"), line.slice(0, MAX_BLOCK));
  }

  heading() {
    const [, marks, text = ""] = HEADING.exec(this.lines[this.at++]);
    return appendInline(element(`h${Math.min(6, marks.length + 1)}`), text.trim().replace(/(^|\s)#+$/, "").trim());
  }

  code([, indent, marks, info]) {
    const text = [];
    for (this.at++; this.at < this.lines.length; this.at++) {
      const line = this.lines[this.at];
      if (closesFence(line, marks)) {
        this.at++;
        break;
      }
      text.push(dedent(line, indent.length));
    }
    const language = info.trim().split(/\s/)[0].slice(0, 40) || "text";
    const button = element("button", "copy-code", "Copy");
    button.type = "button";
    button.setAttribute("aria-label", `Copy code (${language})`);
    const pre = element("pre", "", element("code", "", text.join("\n")));
    pre.tabIndex = 0; // it scrolls
    return element("figure", "code", element("figcaption", "", element("span", "", language), button), pre);
  }

  quote() {
    const lines = [];
    for (; this.more(); this.at++) {
      const line = this.lines[this.at];
      if (QUOTE.test(line)) lines.push(line.replace(QUOTE, ""));
      else if (isBlank(line) || isBlank(lines[lines.length - 1]) || interrupts(line)) break;
      else lines.push(line);
    }
    return element("blockquote", "", ...this.inner(lines));
  }

  inner(lines) {
    return new BlockParser(lines, this.depth + 1).parse().map((block) => block.node);
  }

  list() {
    const first = item(this.lines[this.at]);
    const list = element(Number.isNaN(first.number) ? "ul" : "ol", "tight");
    if (first.number !== 1 && list.tagName === "OL") list.start = first.number;
    while (this.more()) {
      const marker = item(this.lines[this.at]);
      if (!marker || marker.kind !== first.kind) break;
      const { lines, blank } = this.itemLines(marker);
      list.append(element("li", "", ...this.inner(lines)));
      const next = this.at < this.lines.length && item(this.lines[this.at]);
      if (blank && next && next.kind === first.kind) list.className = "loose";
    }
    return list;
  }

  /** The lines of an item without their indentation, and whether blank lines follow. Two more columns are enough. */
  itemLines({ indent, width }) {
    const lines = [this.lines[this.at++].slice(width)];
    let blank = 0;
    for (; this.more(); this.at++) {
      const line = this.lines[this.at];
      if (isBlank(line)) {
        blank++;
        continue;
      }
      const inside = indentOf(line) >= Math.min(width, indent + 2);
      if (!inside && (blank || item(line) || interrupts(line))) break;
      for (; blank > 0; blank--) lines.push("");
      lines.push(dedent(line, width));
    }
    return { lines, blank };
  }

  table(columns) {
    const row = (tag, line) => {
      const texts = cells(line);
      return element("tr", "", ...columns.map((side, i) => appendInline(element(tag, side), texts[i] ?? "")));
    };
    const head = element("thead", "", row("th", this.lines[this.at]));
    const body = element("tbody", "");
    for (this.at += 2; this.more(); this.at++) {
      const line = this.lines[this.at];
      if (isBlank(line) || interrupts(line)) break;
      body.append(row("td", line));
    }
    const scroller = element("div", "table", element("table", "", head, body));
    scroller.tabIndex = 0;
    scroller.setAttribute("role", "region");
    scroller.setAttribute("aria-label", "Table");
    return scroller;
  }

  paragraph() {
    const lines = [];
    for (; this.more(); this.at++) {
      const line = this.lines[this.at];
      if (lines.length && (isBlank(line) || interrupts(line) || tableColumns(line, this.lines[this.at + 1]))) break;
      lines.push(line.trim());
    }
    return appendInline(element("p"), lines.join("\n"));
  }
}

/** Shows a text that grows. Only its last blocks are rendered again: those before a block of two complete lines are
 * final, as nothing behind these lines decides where that block begins. */
export class MarkdownView {
  constructor(root) {
    this.root = root;
    this.scanned = 0; // characters that were parsed, for tests of the cost
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.text = "";
    this.done = 0; // where the blocks begin that are not final
    this.tail = []; // their nodes
  }

  update(given) {
    const text = given.replaceAll("\r\n", "\n");
    if (text === this.text) return;
    if (!text.startsWith(this.text)) this.clear();
    this.text = text;
    const rest = text.slice(this.done);
    this.scanned += rest.length;
    const lines = rest.split("\n");
    const blocks = new BlockParser(lines, 0).parse();
    for (const node of this.tail) node.remove();
    const nodes = document.createDocumentFragment();
    for (const block of blocks) nodes.append(block.node);
    this.root.append(nodes);
    let last = blocks.length - 1;
    while (last > 0 && blocks[last].rest < 0 && blocks[last].line + 2 >= lines.length) last--;
    this.tail = blocks.slice(Math.max(0, last)).map((block) => block.node);
    if (last > 0) this.done = this.begin(blocks[last]);
  }

  /** Where a block begins in the text. */
  begin({ line, rest }) {
    let at = this.done;
    for (; line > 0; line--) at = this.text.indexOf("\n", at) + 1;
    if (rest < 0) return at;
    const end = this.text.indexOf("\n", at);
    return (end < 0 ? this.text.length : end) - rest;
  }
}
