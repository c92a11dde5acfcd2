// The table of episodes: sorted on demand, and only as many rows in the page as were scrolled to.
const PAGE_ROWS = 200;
const COLUMNS = [
  { name: "run", value: (row) => row.run },
  { name: "episode", value: (row) => row.index, right: true },
  { name: "task", value: (row) => row.task },
  { name: "model", value: (row) => row.agent.replace(/^LLMAgent\('(.*)'\)$/, "$1") },
  { name: "seed", value: (row) => row.seed, right: true },
  { name: "state", value: (row) => row.status },
  { name: "reward", value: (row) => row.reward, text: number, right: true },
  { name: "turns", value: (row) => row.turns, right: true },
  { name: "tokens", value: (row) => row.tokens, text: count, right: true },
  { name: "cost", value: (row) => row.cost, text: dollars, right: true },
  { name: "time", value: (row) => row.duration, text: seconds, right: true },
  { name: "reason", value: (row) => row.reason },
];

function episodeTable(rows, sort, resort, open) {
  const sorted = sort.column === null ? rows : ordered(rows, COLUMNS[sort.column], sort.down);
  const head = make("tr", {}, ...COLUMNS.map((column, position) => heading(column, position, sort, resort)));
  const body = make("tbody");
  const more = make("button", { type: "button", class: "more" });
  let shown = 0;
  const extend = () => {
    body.append(...sorted.slice(shown, shown + PAGE_ROWS).map((row) => line(row, open)));
    shown = Math.min(sorted.length, shown + PAGE_ROWS);
    more.hidden = shown >= sorted.length;
    more.textContent = `show more (${count(sorted.length - shown)} left)`;
  };
  more.addEventListener("click", extend);
  new IntersectionObserver((seen) => {
    if (seen[0].isIntersecting && !more.hidden) extend();
  }).observe(more);
  extend();
  if (!sorted.length)
    body.append(
      make("tr", {}, make("td", { colspan: COLUMNS.length, class: "soft" }, "no episode fits these filters")),
    );
  return make(
    "div",
    {},
    make("div", { class: "wrap" }, make("table", { id: "episodes" }, make("thead", {}, head), body)),
    more,
  );
}

function heading(column, position, sort, resort) {
  const here = sort.column === position;
  const mark = here ? (sort.down ? " ↓" : " ↑") : "";
  const label = here ? (sort.down ? "descending" : "ascending") : undefined;
  return make(
    "th",
    { class: column.right && "n", "aria-sort": label },
    make("button", { type: "button", onclick: () => resort(position) }, column.name + mark),
  );
}

function line(row, open) {
  const cells = COLUMNS.map((column) => {
    const value = column.value(row);
    if (column.name === "state") return make("td", { class: `state ${row.status}` }, value);
    if (column.name === "episode")
      return make(
        "td",
        { class: "n" },
        make("button", { type: "button", "aria-label": `open episode ${value}`, onclick: () => open(row) }, value),
      );
    const kind = column.right ? "n" : column.name === "reason" ? "reason" : undefined;
    return make("td", { class: kind }, column.text ? column.text(value) : (value ?? "–"));
  });
  const found = make("tr", { class: "link" }, ...cells);
  found.addEventListener("click", (event) => {
    if (!event.target.closest("button")) open(row);
  });
  return found;
}

function ordered(rows, column, down) {
  const sign = down ? -1 : 1;
  const missing = (value) => value === null || value === undefined || value === "";
  return rows.slice().sort((one, two) => {
    const [a, b] = [column.value(one), column.value(two)];
    if (missing(a) || missing(b)) return missing(a) - missing(b); // last, whichever way
    return sign * (a < b ? -1 : a > b ? 1 : 0) || one.position - two.position;
  });
}
