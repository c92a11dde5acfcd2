// Which episodes are shown. The state is plain data, so that a chart's bar and a form field set it the same way.
const STATES = ["scored", "misbehavior", "limit", "error", "interrupted"];
const NO_FILTER = { text: "", run: "", states: [], kind: "", low: null, high: null };

function filtered(rows, filter) {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(
    (row) =>
      (!filter.run || row.run === filter.run) &&
      (!filter.states.length || filter.states.includes(row.status)) &&
      (!filter.kind || row.kind === filter.kind) &&
      (filter.low === null || (row.reward !== null && row.reward >= filter.low)) &&
      (filter.high === null || (row.reward !== null && row.reward <= filter.high)) &&
      words.every((word) => row.words.includes(word)),
  );
}

function filterForm(overview, filter, change) {
  const search = make("input", {
    type: "search",
    value: filter.text,
    placeholder: "search task, model, reason …",
    "aria-label": "search",
    oninput: (event) => change({ text: event.target.value }),
  });
  const runs = choice(
    "all runs",
    overview.runs.map((run) => run.name),
    filter.run,
    (run) => change({ run }),
  );
  const kinds = [...new Set(overview.rows.map((row) => row.kind).filter(Boolean))].sort();
  const kind = choice("any reason", kinds, filter.kind, (value) => change({ kind: value }));
  const states = STATES.filter((state) => overview.rows.some((row) => row.status === state)).map((state) =>
    make(
      "button",
      {
        type: "button",
        class: `state ${state}`,
        "aria-pressed": String(filter.states.includes(state)),
        onclick: () => change({ states: toggled(filter.states, state) }),
      },
      state,
    ),
  );
  const clear = make("button", { type: "button", onclick: () => change({ ...NO_FILTER }) }, "clear");
  return make(
    "div",
    { class: "row filters", role: "search" },
    search,
    runs,
    kind,
    ...states,
    bound("from", "low", filter, change),
    bound("to", "high", filter, change),
    clear,
  );
}

function choice(all, values, chosen, change) {
  const options = [["", all], ...values.map((value) => [value, value])];
  const select = make("select", {
    "aria-label": all,
    onchange: (event) => change(options[event.target.selectedIndex][0]),
  });
  select.append(...options.map(([value, text]) => make("option", { selected: value === chosen }, text)));
  return select;
}

function bound(word, name, filter, change) {
  const set = (event) => change({ [name]: event.target.value === "" ? null : Number(event.target.value) });
  return make("input", {
    type: "number",
    min: 0,
    max: 1,
    step: 0.05,
    value: filter[name] ?? "",
    placeholder: `${word} reward`,
    "aria-label": `reward ${word}`,
    onchange: set,
  });
}

function toggled(list, value) {
  return list.includes(value) ? list.filter((each) => each !== value) : [...list, value];
}
