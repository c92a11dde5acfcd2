// What is known about an episode beside its conversation: verdict, limits, the completion record and its evidence.
function facts(pairs) {
  const list = make("dl", { class: "facts" });
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(make("dt", {}, name), make("dd", {}, value));
  }
  return list;
}

function verdictCard(episode) {
  const failures = episode.error?.failures ?? [];
  const card = make(
    "section",
    { class: "card" },
    make("h2", {}, "Verdict"),
    facts([
      ["state", make("span", { class: `state ${episode.status}` }, episode.status)],
      ["reward", episode.reward === null ? "none: this episode has no verdict" : number(episode.reward, 6)],
      ["score", episode.score === null ? "" : number(episode.score, 6)],
      ["misbehaviour", episode.misbehavior && `${episode.misbehavior_kind ?? "unnamed"}: ${episode.misbehavior}`],
      ["limit hit", episode.limit],
      ["error", episode.error && `${episode.error.kind}: ${episode.error.message}`],
      ["model", episode.agent],
      ["runtime", episode.runtime],
      ["seed", episode.seed],
      ["started", episode.started_at],
      [
        "time",
        `${seconds(episode.duration_s)}: model ${seconds(episode.agent_s - episode.lost_s)}, machine ${seconds(episode.environment_s)}, lost to the provider ${seconds(episode.lost_s)}`,
      ],
      [
        "tokens",
        `${count(episode.tokens.input_tokens)} in (${count(episode.tokens.cached_tokens)} cached), ${count(episode.tokens.output_tokens)} out (${count(episode.tokens.reasoning_tokens)} reasoning)`,
      ],
      ["cost", dollars(episode.tokens.cost_usd)],
    ]),
  );
  if (failures.length)
    card.append(
      make(
        "details",
        {},
        make("summary", {}, plural(failures.length, "failed attempt")),
        longText(JSON.stringify(failures, null, 1)),
      ),
    );
  return card;
}

function contractsCard(episode) {
  if (!episode.contracts.length) return null;
  const body = make(
    "tbody",
    {},
    ...episode.contracts.map((contract) =>
      make(
        "tr",
        {},
        make("td", {}, contract.resource),
        make("td", {}, contract.enforcement),
        make("td", { class: "n" }, contract.limit === null ? "–" : count(contract.limit)),
        make("td", { class: "reason" }, contract.evidence),
      ),
    ),
  );
  const head = make(
    "thead",
    {},
    make("tr", {}, ...["limit", "how it is held", "value", "what a probe saw"].map((name) => make("th", {}, name))),
  );
  return make("section", { class: "card" }, make("h2", {}, "Limits of the machine"), make("table", {}, head, body));
}

function recordCard(episode) {
  const record = episode.record;
  if (!record)
    return make(
      "section",
      { class: "card" },
      make("h2", {}, "Completion record"),
      make("p", { class: "soft" }, "none: the episode was not graded"),
    );
  const card = make(
    "section",
    { class: "card" },
    make("h2", {}, "Completion record"),
    facts([
      ["claimed", record.claimed || "nothing"],
      ["what limits the trust in it", (record.exceptions ?? []).join("; ")],
      ["task config", record.task_config],
      [
        "versions",
        Object.entries(record.versions ?? {})
          .map((pair) => pair.join(" "))
          .join(", "),
      ],
    ]),
  );
  for (const step of record.steps ?? []) card.append(...stepParts(step));
  card.append(
    make("details", {}, make("summary", {}, "the record as it is"), longText(JSON.stringify(record, null, 1))),
  );
  return card;
}

function stepParts(step) {
  const entries = step.submission ?? [];
  const rows = entries
    .slice(0, 500)
    .map((entry) =>
      make(
        "tr",
        {},
        make("td", {}, entry.path),
        make("td", { class: "n" }, entry.is_dir ? "folder" : count(entry.size)),
        make("td", { class: "digest" }, entry.sha256),
      ),
    );
  const table = make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...["submitted", "bytes", "SHA-256"].map((name) => make("th", {}, name)))),
    make("tbody", {}, ...rows),
  );
  return [
    make("h2", {}, `Step ${step.step}`),
    facts([
      ["score", step.score === null ? "not graded" : number(step.score, 6)],
      [
        "criterion",
        Object.entries(step.criterion ?? {})
          .map((pair) => pair.join(" "))
          .join(", "),
      ],
      ["drawn data", step.episode_data_sha256 ?? ""],
      ["evidence", step.submission_sha256],
      ["missing", (step.missing ?? []).join(", ")],
      ["judge's notes", Object.keys(step.metadata ?? {}).length ? JSON.stringify(step.metadata) : ""],
    ]),
    ...(entries.length ? [table] : []),
  ];
}
