// The page: which conversation is shown, what is sent, and what runs.

import { askName, askSettings, confirmed } from "./dialogs.js";
import { announce, copyFrom, element, fit, textButton } from "./dom.js";
import { closeMenu, download, showList, startMenu, startTheme } from "./list.js";
import { AnswerView, UserView } from "./message.js";
import * as store from "./store.js";
import { listModels, newAnswer, streamAnswer } from "./stream.js";

const byId = (id) => document.getElementById(id);
const SAVE_MS = 1000; // how often a growing answer is saved

const conversations = store.loadConversations();
const runs = new Map(); // id of a conversation: {controller, message} of the answer that comes
let settings = store.loadSettings();
let models = [];
let current = store.newConversation(); // the one that is shown; it is in `conversations` once it has a message
let views = [];

// ---- what is shown ----

function notice(text, label, action) {
  byId("notice").replaceChildren();
  if (text) byId("notice").append(element("span", "", text), textButton(label, "", action));
}

/** Writes to the storage of the browser, which may be full. */
function keep(write) {
  try {
    write();
  } catch {
    notice("The storage of the browser is full. Export and delete a conversation.", "Close", () => notice(""));
  }
}

function save(conversation) {
  keep(() => store.saveConversation(conversation));
}

const isRunning = () => runs.has(current.id);

function updateView(view) {
  const running = runs.get(current.id)?.message === view.message;
  view.update({ running, busy: isRunning(), last: view === views[views.length - 1] });
}

function showControls() {
  const running = isRunning();
  const focused = document.activeElement;
  byId("send").hidden = running;
  byId("stop").hidden = !running;
  if (focused === byId("send") || focused === byId("stop")) byId(running ? "stop" : "send").focus();
  byId("title").textContent = current.title;
  document.title = current.messages.length > 0 ? `${current.title} – Reprise` : "Reprise";
  byId("model-name").textContent = settings.model || models[0] || "No model";
  byId("empty").hidden = current.messages.length > 0;
  document.body.classList.toggle("running", running);
  showList(conversations.values(), current.id, runs, { open: openConversation, rename, exportJson: download, remove });
}

function makeView(message) {
  return message.role === "user" ? new UserView(message, actions) : new AnswerView(message, actions);
}

/** Makes the views agree with the messages; those of unchanged messages stay. */
function showMessages() {
  let same = 0;
  while (same < views.length && views[same].message === current.messages[same]) same++;
  for (const view of views.splice(same)) view.element.remove();
  for (const message of current.messages.slice(same)) {
    views.push(makeView(message));
    byId("messages").append(views[views.length - 1].element);
  }
  views.forEach(updateView);
  showControls();
}

function openConversation(conversation) {
  current = conversation;
  views = [];
  byId("messages").replaceChildren();
  const hash = conversations.has(current.id) ? `#${current.id}` : "#";
  if (location.hash !== hash && (location.hash || hash !== "#")) history.pushState(null, "", hash);
  showMessages();
  toEnd();
  if (!closeMenu()) byId("input").focus();
}

/** Shows the conversation of the address, or a new one. */
function openAddress() {
  openConversation(conversations.get(location.hash.slice(1)) ?? store.newConversation());
}

// ---- scrolling: the page follows a growing answer while its end is in sight ----

let follows = true;

function atEnd() {
  const scroll = byId("scroll");
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
}

function toEnd() {
  follows = true;
  byId("scroll").scrollTop = byId("scroll").scrollHeight;
  byId("down").hidden = true;
}

function onScroll() {
  follows = atEnd();
  byId("down").hidden = follows;
}

// ---- answers ----

/** Calls `draw` in a frame after request(), but at most a fifth of the time, so that the page stays usable. */
class Frames {
  constructor(draw) {
    this.draw = draw;
    this.pending = false;
    this.next = 0; // the earliest time
  }

  request() {
    if (this.pending) return;
    this.pending = true;
    setTimeout(() => requestAnimationFrame(() => this.run()), Math.max(0, this.next - performance.now()));
  }

  run() {
    this.pending = false;
    const begin = performance.now();
    this.draw();
    const end = performance.now();
    this.next = end + 4 * (end - begin);
  }
}

function drawRun(conversation, message) {
  const view = views[views.length - 1];
  if (conversation !== current || view?.message !== message) return;
  updateView(view);
  if (follows) toEnd();
  else byId("down").hidden = false;
}

/** Records how an answer ended, other than well. */
function recordEnd(message, error) {
  if (error?.name === "AbortError") message.stopped = true;
  else if (error) message.error = error.message;
  if (error?.status === 401) notice("The server asks for an API key.", "Settings", openSettings);
  announce(error ? (message.stopped ? "Stopped" : error.message) : "The answer is complete");
}

/** Asks for the next answer of a conversation, whose last message is a question or the results of calls; or for more of
 * `answer`, its last message. */
async function run(conversation, answer) {
  const controller = new AbortController();
  const message = answer ?? newAnswer();
  const request = store.requestOf(conversation.messages, { ...settings, model: settings.model || models[0] || "" });
  if (answer) Object.assign(answer, { finish: "", stopped: undefined, error: undefined, statistics: undefined });
  else conversation.messages.push(message);
  conversation.updated = Date.now();
  runs.set(conversation.id, { controller, message });
  const frames = new Frames(() => drawRun(conversation, message));
  let saved = performance.now();
  const onChange = () => {
    frames.request();
    if (performance.now() - saved < SAVE_MS) return;
    save(conversation);
    saved = performance.now();
  };
  save(conversation);
  if (conversation === current) {
    showMessages();
    toEnd();
  }
  announce("Waiting for the answer");
  let failure = null;
  try {
    await streamAnswer(request, settings.key, controller.signal, message, onChange);
  } catch (error) {
    failure = error;
  }
  recordEnd(message, failure);
  runs.delete(conversation.id);
  if (conversations.get(conversation.id) === conversation) save(conversation);
  drawRun(conversation, message);
  if (conversation === current) showMessages();
  else showControls();
}

function stop() {
  runs.get(current.id)?.controller.abort();
}

function send(text) {
  if (isRunning() || text === "") return;
  if (current.messages.length === 0) {
    if (!current.named) current.title = store.titleOf(text);
    conversations.set(current.id, current);
    history.replaceState(null, "", `#${current.id}`);
  }
  current.messages.push({ role: "user", content: text });
  run(current);
}

/** Removes a message and those after it, and goes on from there. */
function goOnFrom(message, ...instead) {
  if (isRunning()) return;
  current.messages.splice(current.messages.indexOf(message), Infinity, ...instead);
  run(current);
}

const actions = {
  edit: (message, text) => {
    if (isRunning()) return;
    if (message === current.messages[0] && !current.named) current.title = store.titleOf(text);
    goOnFrom(message, { role: "user", content: text });
    byId("input").focus();
  },
  regenerate: (message) => goOnFrom(message),
  goOn: (message) => {
    if (!isRunning()) run(current, message);
  },
  retry: (message) => goOnFrom(message),
  result: (call, text) => {
    call.result = text;
    save(current);
  },
  sendResults: () => {
    if (!isRunning()) run(current);
  },
};

// ---- conversations, settings, models ----

async function rename(conversation) {
  const name = await askName("Rename the conversation", conversation.title);
  if (!name) return;
  conversation.title = name;
  conversation.named = true;
  save(conversation);
  showControls();
}

async function remove(conversation) {
  const question = `“${conversation.title}” is removed from this browser.`;
  if (!await confirmed("Delete the conversation?", question, "Delete")) return;
  runs.get(conversation.id)?.controller.abort();
  conversations.delete(conversation.id);
  store.removeConversation(conversation);
  if (conversation === current) openConversation(store.newConversation());
  else showControls();
}

async function openSettings() {
  const changed = await askSettings({ ...settings, model: settings.model || models[0] || "" }, models);
  if (!changed) return;
  const newKey = changed.key !== settings.key;
  settings = changed;
  keep(() => store.saveSettings(settings));
  showControls();
  if (newKey) loadModels();
}

async function loadModels() {
  try {
    models = await listModels(settings.key);
    notice("");
  } catch (error) {
    if (error.status === 401) notice("The server asks for an API key.", "Settings", openSettings);
    else notice(error.message, "Retry", loadModels);
  }
  showControls();
}

function onOtherTab(id, conversation) {
  if (runs.has(id)) return;
  if (conversation) conversations.set(id, conversation);
  else conversations.delete(id);
  if (id !== current.id) showControls();
  else openConversation(conversation ?? store.newConversation());
}

function onCopyCode(event) {
  const button = event.target.closest(".copy-code");
  if (button) copyFrom(button, button.closest("figure").querySelector("pre").textContent);
}

function onKey(event) {
  if (event.key !== "Escape" || document.querySelector("dialog[open]") || closeMenu()) return;
  stop();
}

function start() {
  const input = byId("input");
  startMenu();
  startTheme();
  input.addEventListener("input", () => fit(input));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer").requestSubmit();
  });
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    if (isRunning()) return;
    const text = input.value.trim();
    input.value = "";
    fit(input);
    send(text);
  });
  byId("stop").addEventListener("click", stop);
  byId("new").addEventListener("click", () => openConversation(store.newConversation()));
  byId("open-settings").addEventListener("click", openSettings);
  byId("model-name").addEventListener("click", openSettings);
  byId("down").addEventListener("click", toEnd);
  byId("scroll").addEventListener("scroll", onScroll, { passive: true });
  byId("messages").addEventListener("click", onCopyCode);
  addEventListener("keydown", onKey);
  addEventListener("popstate", openAddress);
  addEventListener("pagehide", () => runs.forEach((_, id) => save(conversations.get(id))));
  store.onOtherTabs(onOtherTab);
  openAddress();
  loadModels();
}

start();
