// An episode as a conversation: what was said, each call with its arguments, what came back and how it went.
function conversation(episode) {
  const turns = new Map(
    episode.turns.filter((turn) => turn.message_index !== null).map((turn) => [turn.message_index, turn]),
  );
  const tools = new Map(episode.tools.filter((tool) => tool.id).map((tool) => [tool.id, tool]));
  return episode.messages.map((message, position) => shownMessage(message, position, turns.get(position), tools));
}

function shownMessage(message, position, turn, tools) {
  const role = ["system", "user", "assistant", "tool"].includes(message.role) ? message.role : "user";
  const tags = turn ? turnTags(turn) : role === "tool" ? toolTags(tools.get(message.tool_call_id)) : [];
  const header = make("header", {}, make("b", {}, role), make("span", { class: "soft" }, `#${position}`), ...tags);
  const block = make("div", { class: `message ${role}` }, header);
  const reasoning = message.reasoning_content;
  if (reasoning) block.append(make("details", {}, make("summary", {}, "reasoning"), longText(reasoning)));
  block.append(...contentParts(message.content));
  for (const call of message.tool_calls ?? []) block.append(shownCall(call));
  if (turn?.failures.length)
    block.append(
      make(
        "details",
        {},
        make("summary", {}, plural(turn.failures.length, "failed attempt") + " before"),
        longText(JSON.stringify(turn.failures, null, 1)),
      ),
    );
  return block;
}

function contentParts(content) {
  if (content === null || content === undefined || content === "") return [];
  if (!Array.isArray(content)) return [longText(content)];
  return content.map((part) =>
    part.type === "image_url" ? picture(part.image_url?.url) : longText(part.text ?? JSON.stringify(part)),
  );
}

function shownCall(call) {
  const { name, arguments: given } = call.function;
  return make("div", { class: "call" }, make("b", {}, name), ...argumentBlocks(given));
}

function argumentBlocks(given) {
  let values;
  try {
    values = JSON.parse(given);
  } catch {
    return [longText(given)];
  }
  if (values === null || typeof values !== "object") return [longText(given)];
  const names = Object.keys(values);
  if (names.length === 1 && typeof values[names[0]] === "string") return [longText(values[names[0]])];
  return names.length ? [longText(JSON.stringify(values, null, 1))] : [];
}

function turnTags(turn) {
  return [
    tag(seconds(turn.duration_s)),
    tag(`${count(turn.input_tokens)} in, ${count(turn.output_tokens)} out`),
    turn.cost_usd === null ? null : tag(dollars(turn.cost_usd)),
    turn.stop === "tool_calls" || turn.stop === "text" ? null : tag(turn.stop, true),
    turn.lost_s > 0 ? tag(`${seconds(turn.lost_s)} lost to the provider`, true) : null,
    turn.token_ids_count ? tag(`${count(turn.token_ids_count)} token ids`) : null,
    turn.logprobs_count ? tag(`${count(turn.logprobs_count)} log-probabilities`) : null,
  ];
}

function toolTags(tool) {
  if (!tool) return [];
  return [
    tool.exit_code === null || tool.exit_code === undefined
      ? null
      : tag(`exit code ${tool.exit_code}`, tool.exit_code !== 0),
    tool.duration_s === undefined ? null : tag(seconds(tool.duration_s)),
    tool.timed_out ? tag("timed out", true) : null,
    tool.truncated ? tag("output cut", true) : null,
  ];
}

function tag(text, bad = false) {
  return make("span", { class: bad ? "tag bad" : "tag" }, text);
}
