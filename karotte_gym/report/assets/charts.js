// Charts of the episodes that are shown, drawn as SVG. A bar that can be clicked narrows the filter to what it counts.
const WIDTH = 320,
  HEIGHT = 150,
  LEFT = 8,
  BASE = 126,
  LABEL_CHARS = 40;

function charts(rows, change) {
  return make(
    "div",
    { class: "charts" },
    chart("Rewards", scoreBars(rows, change)),
    chart("Why not scored", reasonBars(rows, change)),
    chart("Duration of an episode", durationBars(rows)),
    chart("Where the time went", timeBars(rows)),
  );
}

function chart(title, svg) {
  return make("div", { class: "card" }, make("h2", {}, title), svg);
}

function scoreBars(rows, change) {
  const bins = Array.from({ length: 10 }, (_, bin) => ({ low: bin / 10, high: (bin + 1) / 10, count: 0 }));
  for (const row of rows)
    if (row.reward !== null) bins[Math.max(0, Math.min(9, Math.floor(row.reward * 10 + 1e-9)))].count += 1;
  return columns(
    bins.map((bin, position) => ({
      label: position % 2 ? "" : bin.low.toFixed(1),
      count: bin.count,
      title: `${bin.count} with a reward from ${bin.low.toFixed(1)} to ${bin.high.toFixed(1)}`,
      click: () => change({ low: bin.low, high: position === 9 ? 1 : +(bin.high - 1e-6).toFixed(6) }),
    })),
  );
}

function durationBars(rows) {
  const times = rows.map((row) => row.duration).sort((a, b) => a - b);
  if (!times.length) return empty();
  const top = times[Math.min(times.length - 1, Math.floor(times.length * 0.99))] || 1; // one hung episode hides no shape
  const bins = Array.from({ length: 12 }, () => 0);
  for (const time of times) bins[Math.min(11, Math.floor((time / top) * 12))] += 1;
  return columns(
    bins.map((value, bin) => ({
      label: bin % 3 ? "" : seconds((bin * top) / 12),
      count: value,
      title: `${value} from ${seconds((bin * top) / 12)}${bin === 11 ? " on" : ` to ${seconds(((bin + 1) * top) / 12)}`}`,
    })),
  );
}

function reasonBars(rows, change) {
  const counts = new Map();
  for (const row of rows)
    if (row.kind) counts.set(row.kind, { status: row.status, count: (counts.get(row.kind)?.count ?? 0) + 1 });
  const found = [...counts].sort((a, b) => b[1].count - a[1].count).slice(0, 6);
  return found.length
    ? lines(
        found.map(([kind, { status, count: value }]) => ({
          label: kind,
          value,
          text: count(value),
          style: status,
          click: () => change({ kind }),
        })),
      )
    : empty("every episode was scored");
}

function timeBars(rows) {
  const sum = (name) => rows.reduce((total, row) => total + Math.max(0, row[name]), 0);
  const [all, agent, machine, lost] = ["duration", "agent_s", "machine_s", "lost_s"].map(sum);
  if (!rows.length) return empty();
  return lines([
    { label: "model", value: agent, text: seconds(agent), style: "" },
    { label: "machine", value: machine, text: seconds(machine), style: "machine" },
    { label: "provider failing, waiting", value: lost, text: seconds(lost), style: "lost" },
    {
      label: "starting and the rest",
      value: Math.max(0, all - agent - machine - lost),
      text: seconds(Math.max(0, all - agent - machine - lost)),
      style: "interrupted",
    },
  ]);
}

function columns(bars) {
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  const wide = (WIDTH - 2 * LEFT) / bars.length;
  const svg = surface();
  bars.forEach((bar, position) => {
    const high = bar.count ? Math.max(2, (bar.count / most) * 100) : 0;
    const x = LEFT + position * wide;
    svg.append(
      clickable(
        draw(
          "rect",
          { class: "bar", x: x + 2, y: BASE - high, width: wide - 4, height: high, rx: 2 },
          draw("title", {}, bar.title),
        ),
        bar,
      ),
    );
    if (bar.count)
      svg.append(
        draw(
          "text",
          { class: "value", x: x + wide / 2, y: BASE - high - 4, "text-anchor": "middle" },
          count(bar.count),
        ),
      );
    if (bar.label) svg.append(draw("text", { x: x + 2, y: BASE + 15 }, bar.label));
  });
  svg.append(draw("line", { class: "axis", x1: LEFT, x2: WIDTH - LEFT, y1: BASE + 1, y2: BASE + 1 }));
  return svg;
}

function lines(bars) {
  const most = Math.max(1e-9, ...bars.map((bar) => bar.value));
  const high = Math.min(32, (HEIGHT - 8) / bars.length);
  const svg = surface();
  bars.forEach((bar, position) => {
    const y = 4 + position * high;
    const long = Math.max(bar.value ? 2 : 0, (bar.value / most) * (WIDTH - 2 * LEFT));
    svg.append(
      draw("text", { x: LEFT, y: y + high * 0.42 }, short(bar.label)),
      draw("text", { class: "value", x: WIDTH - LEFT, y: y + high * 0.42, "text-anchor": "end" }, bar.text),
      clickable(
        draw(
          "rect",
          { class: `bar ${bar.style}`, x: LEFT, y: y + high * 0.52, width: long, height: high * 0.34, rx: 2 },
          draw("title", {}, `${bar.label}: ${bar.text}`),
        ),
        bar,
      ),
    );
  });
  return svg;
}

function clickable(shape, bar) {
  if (!bar.click) return shape;
  shape.setAttribute("tabindex", "0");
  shape.addEventListener("click", bar.click);
  shape.addEventListener("keydown", (event) => {
    if (event.key === "Enter") bar.click();
  });
  return shape;
}

function surface() {
  return draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "xMidYMid meet" });
}

function empty(text = "no episode is shown") {
  const svg = surface();
  svg.append(draw("text", { x: LEFT, y: HEIGHT / 2 }, text));
  return svg;
}

// A label is one line of a small drawing; the whole of it is in the bar's title.
function short(text) {
  return text.length > LABEL_CHARS ? `${text.slice(0, LABEL_CHARS - 1)}…` : text;
}
