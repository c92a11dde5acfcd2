// Everything shown goes through here: text becomes text nodes, never markup. No other file touches innerHTML, and none
// sets an attribute whose value is code or an address, but for pictures that are plain data (see picture()).
const SVG = "http://www.w3.org/2000/svg";

// What would be obeyed or would turn text around is shown: C0 but tab and newline, DEL, C1, bidirectional controls,
// line separators, lone surrogates.
const OBEYED =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function visible(text) {
  return String(text).replace(OBEYED, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
  });
}

function make(name, options = {}, ...children) {
  return fill(document.createElement(name), options, children);
}

function draw(name, options = {}, ...children) {
  return fill(document.createElementNS(SVG, name), options, children);
}

const ATTRIBUTES = new Set([
  "class",
  "title",
  "type",
  "value",
  "placeholder",
  "min",
  "max",
  "step",
  "colspan",
  "role",
  "tabindex",
  "selected",
  "aria-label",
  "aria-pressed",
  "aria-sort",
  "x",
  "y",
  "width",
  "height",
  "rx",
  "x1",
  "x2",
  "y1",
  "y2",
  "viewBox",
  "text-anchor",
  "preserveAspectRatio",
  "id",
]);

function fill(element, options, children) {
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (ATTRIBUTES.has(key)) element.setAttribute(key, value === true ? "" : visible(value));
    else throw new Error(`attribute ${key} is not one that this page sets`);
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return element;
}

const FIRST_CHARS = 4000; // of a long text; the rest when it is asked for
const PART_CHARS = 65536; // a part of a very long text: the browser lays out only those in sight

function longText(text) {
  const whole = String(text ?? "");
  if (whole.length <= FIRST_CHARS) return make("pre", {}, whole);
  const holder = make("div", { class: "long" }, make("pre", {}, whole.slice(0, FIRST_CHARS)));
  const button = make(
    "button",
    { class: "more", type: "button" },
    `show all ${whole.length.toLocaleString("en")} characters`,
  );
  button.addEventListener("click", () => holder.replaceChildren(...parts(whole)));
  holder.append(button);
  return holder;
}

function parts(text) {
  const found = [];
  for (let start = 0; start < text.length;) {
    let end = Math.min(start + PART_CHARS, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end += 1; // keep a pair of surrogates together
    found.push(make("pre", { class: "part" }, text.slice(start, end)));
    start = end;
  }
  return found;
}

const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*$/;

function picture(url) {
  if (typeof url !== "string" || !PICTURE.test(url))
    return make("p", { class: "soft" }, "[a picture that is not shown]");
  const image = make("img", { class: "shown" });
  image.alt = "picture from a tool";
  image.src = url;
  return image;
}

const number = (value, digits = 3) =>
  value === null || value === undefined ? "–" : String(+Number(value).toPrecision(digits));
const count = (value) => Number(value).toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
const dollars = (value) => (value === null || value === undefined ? "?" : `$${Number(value).toFixed(4)}`);
const seconds = (value) =>
  value >= 120 ? `${(value / 60).toFixed(1)} min` : `${Number(value).toFixed(value < 10 ? 2 : 1)} s`;
