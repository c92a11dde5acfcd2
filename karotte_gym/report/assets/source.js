// Where the data is: in the page itself (a report), or with the server that sent the page (view).
const embedded = document.getElementById("overview");
const isServed = embedded === null;

async function loadOverview() {
  const overview = isServed ? await ask("overview") : JSON.parse(embedded.textContent);
  overview.rows.forEach((row, position) => {
    row.position = position;
    row.words = [row.run, row.task, row.agent, row.status, row.kind, row.reason, `seed ${row.seed}`]
      .join("\n")
      .toLowerCase();
  });
  return overview;
}

async function loadEpisode(row) {
  if (isServed) return ask(`episode?id=${encodeURIComponent(row.id)}`);
  const packed = document.getElementById(`episode-${row.position}`).textContent;
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function ask(what) {
  const answer = await fetch(what, { credentials: "omit" });
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 500));
  return answer.json();
}
