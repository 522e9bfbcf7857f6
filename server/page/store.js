// Conversations and settings in the storage of the browser.
//
// A conversation is {id, title, named, updated, messages}. A message is {role: "user", content}, or newAnswer() of
// stream.js, with {error} if it failed and {stopped} if the user stopped it. A call of an answer may have a {result}.

import { LOST } from "./stream.js";

const PREFIX = "reprise.conversation.";
const SETTINGS = "reprise.settings";
const KEY = "reprise.key";
const DEFAULTS = { model: "", system: "", temperature: "", max_tokens: "", seed: "", tools: "" };

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** A conversation as it was stored, or null if the text is not one. */
function readConversation(text) {
  const value = parse(text);
  return value && typeof value.id === "string" && Array.isArray(value.messages) ? value : null;
}

/** All conversations by id. */
export function loadConversations() {
  const conversations = new Map();
  for (let i = 0; i < localStorage.length; i++) {
    const name = localStorage.key(i);
    const conversation = name.startsWith(PREFIX) ? readConversation(localStorage.getItem(name)) : null;
    if (!conversation) continue;
    const last = conversation.messages.at(-1);
    if (last?.role === "assistant" && !last.finish && !last.stopped) last.error ??= LOST; // with the page
    conversations.set(conversation.id, conversation);
  }
  return conversations;
}

export function newConversation() {
  const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
  return { id, title: "New conversation", named: false, updated: Date.now(), messages: [] };
}

/** Throws if the storage is full. */
export function saveConversation(conversation) {
  localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
}

export function removeConversation(conversation) {
  localStorage.removeItem(PREFIX + conversation.id);
}

/** Calls back with the id of a conversation that another tab changes, and the conversation, or null if it is gone. */
export function onOtherTabs(callback) {
  addEventListener("storage", ({ key, newValue }) => {
    if (key?.startsWith(PREFIX)) callback(key.slice(PREFIX.length), readConversation(newValue));
  });
}

/** The title of a conversation is the beginning of its first message, until the user gives it a name. */
export function titleOf(text) {
  const line = text.trim().split("\n")[0];
  return line.length <= 60 ? line : `${line.slice(0, 60).replace(/\s+\S*$/, "")}…`;
}

export function loadSettings() {
  return { ...DEFAULTS, ...parse(localStorage.getItem(SETTINGS)), key: sessionStorage.getItem(KEY) ?? "" };
}

/** The key is kept until the tab is closed, all else for good. Throws if the storage is full. */
export function saveSettings({ key, ...settings }) {
  localStorage.setItem(SETTINGS, JSON.stringify(settings));
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

/** What is wrong with settings, as a sentence, or "". */
export function problemOf(settings) {
  const { temperature, max_tokens, seed } = settings;
  const is = (text, rule, valid) => text === "" || (rule.test(text) && valid(Number(text)));
  if (!is(temperature, /^\d*\.?\d+$/, (x) => x <= 10)) return "The temperature is a number from 0 to 10.";
  if (!is(max_tokens, /^\d+$/, (x) => x >= 1 && x < 2 ** 31)) return "Maximum tokens is a whole number from 1.";
  if (!is(seed, /^\d+$/, Number.isSafeInteger)) return "The seed is a whole number from 0.";
  if (settings.tools !== "" && !Array.isArray(parse(settings.tools))) return "The tools are not a JSON array.";
  return "";
}

/** An answer that broke off, and to which the model can add. */
export function canGoOn({ role, content, calls, finish, stopped, error }) {
  return role === "assistant" && content !== "" && calls.length === 0 && (finish === "length" || Boolean(stopped ?? error));
}

/** The messages of an answer in a request. Each call is followed by its result. */
function answerMessages(answer) {
  const calls = answer.calls.map(({ id, name, arguments: text }) => (
    { id, type: "function", function: { name, arguments: text } }));
  const results = answer.calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result ?? "" }));
  return [{ role: "assistant", content: answer.content, ...calls.length ? { tool_calls: calls } : {} }, ...results];
}

/** The body of the request for the next answer of a conversation; if its last message is an answer without calls that
 * broke off, for more of that one. */
export function requestOf(messages, settings) {
  const request = { ...settings.model ? { model: settings.model } : {}, messages: [] };
  if (settings.system !== "") request.messages.push({ role: "system", content: settings.system });
  for (const message of messages) {
    if (message.role === "user") request.messages.push({ role: "user", content: message.content });
    else if (message.content !== "" || message.calls.length > 0) request.messages.push(...answerMessages(message));
  }
  const last = messages[messages.length - 1];
  if (canGoOn(last)) {
    request.continue_final_message = true;
    if (last.reasoning !== "") request.messages[request.messages.length - 1].reasoning_content = last.reasoning;
  }
  for (const name of ["temperature", "max_tokens", "seed"]) {
    if (settings[name] !== "") request[name] = Number(settings[name]);
  }
  if (settings.tools !== "") request.tools = JSON.parse(settings.tools);
  return request;
}
