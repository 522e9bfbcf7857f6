// OpenAI's chat completions: a request, and its answer as a stream of server-sent events.

/** What went wrong, as a sentence. `status` is that of HTTP, or 0 if there is none. */
export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export const LOST = "The connection was lost before the answer was complete.";
const UNREACHABLE = "The server does not answer.";

function headers(key) {
  return { "Content-Type": "application/json", ...key ? { Authorization: `Bearer ${key}` } : {} };
}

async function failure(response) {
  const text = await response.text().catch(() => "");
  let message;
  try {
    const { error } = JSON.parse(text);
    message = typeof error === "string" ? error : error.message;
  } catch {
    message = text.trim().startsWith("<") ? "" : text.trim().slice(0, 500);
  }
  return new ApiError(message || `The server answers with status ${response.status}.`, response.status);
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(UNREACHABLE);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

/** The names of the models of the server. */
export async function listModels(key) {
  const response = await ask("v1/models", { headers: headers(key) });
  const { data } = await response.json();
  return data.map((model) => model.id);
}

/** The data of each server-sent event of a body. Comments and other fields are left out. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let begun = []; // pieces of a line whose end has not come
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = value.split(/\r?\n|\r/);
      begun.push(lines[0]);
      for (const next of lines.slice(1)) {
        const line = begun.join("");
        begun = [next];
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        if (line !== "" || data.length === 0) continue;
        yield data.join("\n");
        data = [];
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have failed already
  }
}

/** Adds the pieces of tool calls to the calls so far. */
function addCalls(calls, pieces) {
  for (const piece of pieces) {
    const index = piece.index ?? 0;
    let call = calls.find((known) => known.index === index);
    if (!call) calls.push(call = { index, id: "", name: "", arguments: "" });
    if (piece.id) call.id = piece.id;
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
  }
}

/** What the page shows under an answer. The rate is that of the server, if it sends one. Else it is measured here, without
 * the time of the first token, which is that of the prompt. */
function statistics(usage, timings, times) {
  const seconds = (times.last - times.first) / 1000;
  const generated = usage.completion_tokens;
  return {
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    generated,
    rate: timings?.predicted_per_second ?? (generated > 1 && seconds > 0 ? (generated - 1) / seconds : null),
    first: (times.first - times.begin) / 1000,
  };
}

function addDelta(answer, delta) {
  if (delta.reasoning_content) {
    answer.reasoning += delta.reasoning_content;
    answer.reasoningBegin ??= Date.now();
    answer.reasoningMs = Date.now() - answer.reasoningBegin;
  }
  if (delta.content) answer.content += delta.content;
  if (delta.tool_calls) addCalls(answer.calls, delta.tool_calls);
  return Boolean(delta.reasoning_content || delta.content || delta.tool_calls);
}

/** Asks for an answer and adds what comes to `answer`, which newAnswer() made. `onChange` is called after each event.
 * Throws an ApiError, or an AbortError after signal.abort(); what came before stays in the answer. */
export async function streamAnswer(request, key, signal, answer, onChange) {
  const times = { begin: performance.now(), first: 0, last: 0 };
  let timings = null;
  const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
  const response = await ask("v1/chat/completions", { method: "POST", headers: headers(key), body, signal });
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") {
        if (answer.finish) return;
        break;
      }
      const event = JSON.parse(data);
      if (event.error) throw new ApiError(event.error.message ?? String(event.error));
      const choice = event.choices?.[0];
      if (choice?.delta && addDelta(answer, choice.delta)) {
        times.last = performance.now();
        times.first ||= times.last;
      }
      if (choice?.finish_reason) answer.finish = choice.finish_reason;
      if (event.model) answer.model = event.model;
      timings = event.timings ?? timings;
      if (event.usage) answer.statistics = statistics(event.usage, timings, times);
      onChange();
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError(error instanceof SyntaxError ? "The server sent an event that is not JSON." : LOST);
  }
  if (!answer.finish) throw new ApiError(LOST);
}

/** An answer that nothing has come of. */
export function newAnswer() {
  return { role: "assistant", content: "", reasoning: "", calls: [], finish: "" };
}
