// The page: an overview of all runs, or one episode. The address after # says which, so that both can be linked to.
const app = document.getElementById("app");
let overview = null;
let filter = { ...NO_FILTER };
let sort = { column: null, down: false };
let area = null; // what changes with the filter, apart from the form that is being typed into

async function begin() {
  try {
    overview = await loadOverview();
    await show();
  } catch (error) {
    app.replaceChildren(make("h1", {}, "The runs can't be shown"), make("p", {}, error.message));
  }
}

async function show() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  const row = wanted && overview.rows.find((each) => each.id === wanted);
  if (row) await showEpisode(row);
  else showOverview();
}

function showOverview() {
  const reload = isServed ? make("button", { type: "button", onclick: begin }, "reload") : null;
  const title = make(
    "div",
    { class: "row top" },
    make(
      "div",
      {},
      make("h1", {}, "karotte-gym"),
      make(
        "span",
        { class: "soft" },
        `${plural(overview.runs.length, "run")}, ${plural(overview.rows.length, "episode")}`,
      ),
    ),
    reload,
  );
  const form = make("div", {});
  area = make("div", {});
  app.replaceChildren(
    title,
    ...overview.notes.map((note) => make("p", { class: "note" }, note)),
    runsTable(),
    form,
    area,
  );
  const change = (part) => {
    filter = { ...filter, ...part };
    if (!("text" in part && Object.keys(part).length === 1)) form.replaceChildren(filterForm(overview, filter, change));
    showRows(change);
  };
  form.append(filterForm(overview, filter, change));
  showRows(change);
}

function showRows(change) {
  const rows = filtered(overview.rows, filter);
  const resort = (column) => {
    sort = { column, down: sort.column === column ? !sort.down : false };
    showRows(change);
  };
  area.replaceChildren(
    numbers(rows),
    charts(rows, change),
    episodeTable(rows, sort, resort, (row) => {
      location.hash = encodeURIComponent(row.id);
    }),
  );
}

function numbers(rows) {
  const judged = rows.filter((row) => row.reward !== null);
  const mean = judged.length ? judged.reduce((total, row) => total + row.reward, 0) / judged.length : null;
  const spread =
    judged.length > 1
      ? Math.sqrt(judged.reduce((total, row) => total + (row.reward - mean) ** 2, 0) / (judged.length - 1))
      : null;
  const of = (status) => count(rows.filter((row) => row.status === status).length);
  const known = rows.every((row) => row.cost !== null);
  const cards = [
    ["episodes shown", count(rows.length)],
    ["with a verdict", count(judged.length)],
    ["mean reward", number(mean), spread === null ? "" : `± ${number(spread, 2)}`],
    [
      "passed",
      judged.length ? `${number((100 * judged.filter((row) => row.reward >= 1).length) / judged.length)} %` : "–",
    ],
    ["misbehaviour", of("misbehavior")],
    ["limits", of("limit")],
    ["errors", of("error")],
    ["cost", known ? dollars(rows.reduce((total, row) => total + row.cost, 0)) : "?"],
  ];
  return make(
    "div",
    { class: "cards" },
    ...cards.map(([name, value, more]) =>
      make(
        "div",
        { class: "card" },
        make("div", { class: "soft" }, name),
        make("div", { class: "number" }, value),
        more ? make("div", { class: "soft" }, more) : null,
      ),
    ),
  );
}

function runsTable() {
  const names = ["run", "task", "model", "begun", "episodes", "mean reward", "pass@k", "misbehaviour", "errors"];
  const rows = overview.runs.map((run) =>
    make(
      "tr",
      {},
      make("td", {}, run.name),
      make("td", {}, run.config.task),
      make("td", {}, run.config.model),
      make("td", {}, run.started_at),
      make("td", { class: "n" }, `${run.summary.verdicts} of ${run.config.episodes}`),
      make("td", { class: "n" }, number(run.summary.mean)),
      make(
        "td",
        {},
        Object.entries(run.summary.pass_at_k)
          .map(([k, value]) => `${k}: ${number(value)}`)
          .join(", "),
      ),
      make("td", {}, counts(run.summary.misbehavior)),
      make("td", {}, counts(run.summary.errors)),
    ),
  );
  const head = make("thead", {}, make("tr", {}, ...names.map((name) => make("th", {}, name))));
  return make(
    "details",
    { class: "runs" },
    make("summary", {}, "runs and their summaries"),
    make("div", { class: "wrap" }, make("table", { id: "runs" }, head, make("tbody", {}, ...rows))),
  );
}

function counts(found) {
  return (
    Object.entries(found)
      .map(([kind, value]) => `${kind} ${value}`)
      .join(", ") || "–"
  );
}

async function showEpisode(row) {
  const rows = filtered(overview.rows, filter);
  const place = rows.findIndex((each) => each.id === row.id);
  const go = (to, word) =>
    make(
      "button",
      {
        type: "button",
        onclick: () => {
          location.hash = encodeURIComponent(to.id);
        },
      },
      word,
    );
  const bar = make(
    "div",
    { class: "row top" },
    make("div", {}, make("h1", {}, `${row.task}, episode ${row.index}`), make("span", { class: "soft" }, row.run)),
    make(
      "div",
      { class: "row" },
      place > 0 ? go(rows[place - 1], "← previous") : null,
      place >= 0 && place < rows.length - 1 ? go(rows[place + 1], "next →") : null,
      make(
        "button",
        {
          type: "button",
          id: "back",
          onclick: () => {
            location.hash = "";
          },
        },
        "all episodes",
      ),
    ),
  );
  app.replaceChildren(bar, make("p", { class: "soft" }, "loading …"));
  const episode = await loadEpisode(row);
  app.replaceChildren(
    bar,
    verdictCard(episode),
    make("section", { class: "card", id: "conversation" }, make("h2", {}, "Conversation"), ...conversation(episode)),
    recordCard(episode),
    contractsCard(episode) ?? "",
  );
  scrollTo(0, 0);
}

addEventListener("hashchange", () =>
  show().catch((error) => app.replaceChildren(make("p", { class: "note" }, error.message))),
);
begin();
