// How messages are shown: those of the user with copy and edit; answers with reasoning, text, calls, counts and errors.

import { copyFrom, element, fit, iconButton, textButton } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { canGoOn } from "./store.js";

const LONG = 200; // blocks: of a longer answer only those in sight are laid out

/** A text area that grows with its text. */
function growing(label, text, className) {
  const area = element("textarea", className);
  area.rows = 1;
  area.value = text;
  area.setAttribute("aria-label", label);
  const box = element("div", "grow", area);
  area.addEventListener("input", () => fit(area));
  fit(area);
  return { area, box };
}

/** A message of the user. `actions.edit(message, text)` continues from another text. */
export class UserView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.element = element("article", "message user");
    this.element.setAttribute("aria-label", "You");
    this.show();
  }

  show() {
    const { message } = this;
    const copy = iconButton("copy", "Copy message", () => copyFrom(copy, message.content));
    this.editButton = iconButton("edit", "Edit message", () => this.edit());
    this.element.replaceChildren(element("div", "bubble", message.content),
      element("div", "actions", copy, this.editButton));
  }

  edit() {
    const { area, box } = growing("Edited message", this.message.content, "");
    const cancel = () => {
      this.show();
      this.editButton.focus();
    };
    const send = () => {
      if (area.value.trim() !== "") this.actions.edit(this.message, area.value.trim());
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") cancel();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.element.replaceChildren(element("div", "box editing", box, element("div", "buttons",
      textButton("Cancel", "", cancel), textButton("Send", "primary", send))));
    area.focus();
  }

  /** `busy`: an answer of the conversation comes. */
  update({ busy }) {
    this.editButton.disabled = busy;
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // the arguments are not complete
  }
}

/** A tool call of an answer: its name, its arguments, and a field for its result. */
class CallView {
  constructor(call, actions) {
    this.call = call;
    this.name = element("code");
    this.state = element("span", "muted");
    this.text = element("code");
    const pre = element("pre", "", this.text);
    pre.tabIndex = 0;
    this.details = element("details", "call fold",
      element("summary", "", "Tool call ", this.name, this.state), pre);
    const { area, box } = growing("Result of the tool", call.result ?? "", "mono");
    area.placeholder = "Result of the tool";
    area.addEventListener("input", () => actions.result(call, area.value));
    this.result = element("div", "result", box);
    this.result.hidden = true;
    this.element = element("div", "", this.details, this.result);
  }

  update(running, wanted) {
    this.name.textContent = this.call.name;
    this.text.textContent = pretty(this.call.arguments);
    this.state.textContent = running ? "…" : "";
    this.result.hidden = !wanted && !this.call.result;
    this.result.querySelector("textarea").readOnly = !wanted;
  }
}

function seconds(value) {
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}

function countsOf({ statistics, finish, stopped }) {
  const parts = [];
  if (statistics) {
    const { generated, rate, prompt, cached, first } = statistics;
    parts.push(`${generated} ${generated === 1 ? "token" : "tokens"}`);
    if (rate) parts.push(`${rate.toFixed(1)} tok/s`);
    parts.push(`prompt ${prompt}${cached ? ` (${cached} cached)` : ""}`, `first token after ${first.toFixed(2)} s`);
  }
  if (finish === "length") parts.push("ended at the token limit");
  if (stopped) parts.push("stopped");
  return parts.join(" · ");
}

/** An answer. `actions` has regenerate(message), goOn(message), retry(message), result(call, text) and sendResults(message). */
export class AnswerView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.calls = [];
    this.makeReasoning();
    this.text = element("div", "text");
    this.text.setAttribute("aria-live", "polite");
    this.markdown = new MarkdownView(this.text);
    this.waiting = element("p", "waiting muted", element("span", "pulse"), "Waiting for the first token");
    this.callList = element("div", "calls");
    this.sendResults = textButton("Send results", "primary", () => actions.sendResults(message));
    this.problem = element("div", "problem");
    this.problem.setAttribute("role", "alert");
    this.counts = element("span", "counts");
    const copy = iconButton("copy", "Copy answer", () => copyFrom(copy, message.content));
    this.copy = copy;
    this.again = iconButton("again", "Answer again", () => actions.regenerate(message));
    this.more = textButton("Continue", "go-on", () => actions.goOn(message));
    this.foot = element("div", "actions", this.copy, this.again, this.more, this.counts);
    this.element = element("article", "message answer", this.reasoning, this.waiting, this.text, this.callList,
      this.sendResults, this.problem, this.foot);
    this.element.setAttribute("aria-label", "Answer");
  }

  makeReasoning() {
    this.reasoningState = element("span");
    this.reasoningText = element("div", "text");
    this.reasoningMarkdown = new MarkdownView(this.reasoningText);
    const summary = element("summary", "", this.reasoningState);
    this.reasoning = element("details", "reasoning fold", summary, this.reasoningText);
    this.reasoning.addEventListener("toggle", () => this.updateReasoning());
  }

  /** Text of closed reasoning is not rendered. */
  updateReasoning() {
    if (this.reasoning.open) this.reasoningMarkdown.update(this.message.reasoning);
  }

  /** Shows what the message has now. `running`: more comes. `last`: it is the last message of the conversation. */
  update({ running, last }) {
    const { message } = this;
    const thinking = running && !message.content && !message.calls.length;
    this.reasoning.hidden = message.reasoning === "";
    this.reasoning.classList.toggle("running", thinking);
    const time = seconds((message.reasoningMs ?? 0) / 1000);
    this.reasoningState.textContent = `${thinking ? "Thinking" : "Thought"} for ${time}`;
    this.updateReasoning();
    this.waiting.hidden = !(thinking && message.reasoning === "");
    this.text.setAttribute("aria-busy", String(running));
    this.text.classList.toggle("running", running);
    this.markdown.update(message.content);
    this.text.classList.toggle("long", this.text.childElementCount > LONG);
    this.updateCalls(running, last);
    this.updateProblem(running, last);
    this.counts.textContent = countsOf(message);
    this.foot.hidden = running;
    this.copy.hidden = message.content === "";
    this.again.hidden = !last;
    this.more.hidden = !last || !canGoOn(message);
  }

  updateCalls(running, last) {
    const { calls } = this.message;
    const wanted = !running && last && !this.message.error && !this.message.stopped;
    for (const call of calls.slice(this.calls.length)) {
      this.calls.push(new CallView(call, this.actions));
      this.callList.append(this.calls[this.calls.length - 1].element);
    }
    for (const view of this.calls) view.update(running, wanted);
    this.sendResults.hidden = !wanted || calls.length === 0;
  }

  updateProblem(running, last) {
    const text = running ? "" : this.message.error ?? "";
    this.problem.hidden = text === "";
    if (text === "" || this.problem.firstChild?.textContent === text) {
      if (this.problem.lastChild) this.problem.lastChild.hidden = !last;
      return;
    }
    const retry = textButton("Retry", "", () => this.actions.retry(this.message));
    retry.hidden = !last;
    this.problem.replaceChildren(element("span", "", text), retry);
  }
}
