/* Perfetto's trace processor, as the user interface of Perfetto has it: WebAssembly behind a message port.
 *
 *     node trace_processor.js FOLDER TRACE <queries      FOLDER: engine_bundle.js and trace_processor.wasm
 *
 * Standard input is a JSON array of SQL queries. Prints a JSON array of their results: arrays of rows, or {"error": text}.
 * The messages are protos/perfetto/trace_processor/trace_processor.proto of Perfetto. */
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, trace] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;  // of TraceProcessorMethod

/* ---- protobuf ---- */

function varint(n) {
  const out = [];
  for (n = BigInt(n); n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  return Buffer.from([...out, Number(n)]);
}
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint(field << 3 | 2), varint(b.length), b]);

/* A reader of varints in a buffer. */
function reader(buffer) {
  let at = 0;
  const next = () => {
    let n = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = buffer[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return n;
    }
  };
  return {next, more: () => at < buffer.length, take: (n) => buffer.subarray(at, at += n)};
}

function* fields(buffer) {
  const r = reader(buffer);
  while (r.more()) {
    const key = Number(r.next()), kind = key & 7;
    yield [key >> 3, kind === 0 ? r.next() : r.take(kind === 2 ? Number(r.next()) : kind === 1 ? 8 : 4)];
  }
}

function* varints(buffer) {
  for (const r = reader(buffer); r.more();) yield r.next();
}

/* Cells by kind: 1 null, 2 number, 3 double, 4 string. */
function cells(batch) {
  const of = {1: [], 2: [], 3: [], 4: Buffer.alloc(0), 5: Buffer.alloc(0)};
  for (const [field, value] of fields(batch)) of[field] = value;
  const numbers = [...varints(Buffer.from(of[2]))], doubles = Buffer.from(of[3]), strings = of[5].toString().split("\0");
  let number = 0, double = 0, string = 0;
  return [...varints(Buffer.from(of[1]))].map((kind) => kind === 2n ? Number(BigInt.asIntN(64, numbers[number++]))
    : kind === 3n ? doubles.readDoubleLE(8 * double++) : kind === 4n ? strings[string++] : null);
}

/* ---- the port ---- */

let waiting = null, rest = Buffer.alloc(0);
const port = {postMessage: (data) => {
  rest = Buffer.concat([rest, Buffer.from(data)]);
  for (const [, message] of fields(rest)) waiting(Object.fromEntries([...fields(message)]));
  rest = Buffer.alloc(0);
}};
let seq = 0;
function call(method, args, result) {
  const out = [];
  waiting = (message) => out.push(message);
  const message = Buffer.concat([number(1, seq++), number(2, method), args]);
  port.onmessage({data: new self.Uint8Array(bytes(1, message))});
  for (const m of out) if (m[5]) throw new Error(m[5].toString());
  return out.map((m) => m[result]).filter((r) => r !== undefined);
}

function query(sql) {
  const all = [];
  let columns = 0, error = null;
  for (const result of call(QUERY, bytes(103, bytes(1, Buffer.from(sql))), 203))
    for (const [field, value] of fields(result)) {
      if (field === 1) columns++;
      if (field === 2) error = value.toString();
      if (field === 3) all.push(...cells(value));
    }
  if (error !== null) return {error};
  const rows = [];
  while (columns > 0 && all.length > 0) rows.push(all.splice(0, columns));
  return rows;
}

/* ---- the engine ---- */

/* What a worker of a browser has, as far as the bundle uses it. It reads its module synchronously. */
class XMLHttpRequest {
  open(method, url) { this.file = path.join(folder, path.basename(String(url))); }
  send() {
    const file = fs.readFileSync(this.file);
    this.response = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
  }
}
const self = vm.createContext({console: {log() {}, warn() {}, error() {}}, XMLHttpRequest, setTimeout, clearTimeout,
  TextDecoder, TextEncoder, URL, performance, crypto: globalThis.crypto, location: {href: "https://trace/"},
  importScripts() {}, WorkerGlobalScope: class {}});
self.self = self;
vm.runInContext("self.Uint8Array = Uint8Array", self);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), self);

function main() {
  try {
    call(APPEND, bytes(101, fs.readFileSync(trace)), 201);
    call(FINALIZE, Buffer.alloc(0), 202);
    process.stdout.write(JSON.stringify(JSON.parse(fs.readFileSync(0, "utf8")).map(query)) + "\n");
  } catch (error) {
    process.stderr.write(`${error.stack}\n`);
    process.exitCode = 1;
  }
}

/* The module is ready once its memory takes requests. */
self.onmessage({data: port});
const ready = setInterval(() => {
  try {
    call(QUERY, bytes(103, bytes(1, Buffer.from("select 1"))), 203);
  } catch (error) {
    if (process.uptime() < 60) return;
    process.stderr.write(`${error.stack}\n`);
    process.exitCode = 1;
  }
  clearInterval(ready);
  main();
}, 20);
