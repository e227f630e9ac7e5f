// Keys: every page by keyboard. They do nothing inside fields, and can be switched off in the help.
const GO = { o: "", d: "devices", g: "gpu-nodes", n: "nodes", c: "clusters", s: "satellites", r: "runs", f: "fleets", h: "history", l: "lifecycles" };
const HELP = [
  ["Ctrl K or /", "find members, pages and actions of this page"], ["g then o d g n c s r f h l", "overview, devices, GPU nodes, nodes, clusters, satellites, runs, fleets, history, lifecycles"],
  ["j k", "next and previous row"], ["Enter", "open the row"], ["x, Shift x", "tick the row, or all rows up to it"], ["f", "filter"], ["a", "actions of this page"],
  [".", "next step of this page"], ["y", "copy the command"], ["p", "pause updates, go on with them"], ["Esc", "close"], ["?", "this help"],
];
const OFF = "wardroom-keys-off";
let went = 0, ticked = null;

const $ = (css) => document.querySelector(css);
const all = (css) => [...document.querySelectorAll(css)];

function element(name, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

// A dialog that gives the focus back to where it was.
function dialog(label, ...children) {
  const before = document.activeElement;
  const made = element("dialog", { className: "over" }, ...children);
  made.setAttribute("aria-label", label);
  made.addEventListener("close", () => { made.remove(); before?.focus?.(); });
  made.addEventListener("click", (event) => { if (event.target === made) made.close(); });
  document.body.append(made);
  made.showModal();
  return made;
}

function help() {
  const list = element("dl", { className: "keys" });
  for (const [keys, what] of HELP) list.append(element("dt", {}, element("kbd", {}, keys)), element("dd", {}, what));
  const off = element("input", { type: "checkbox", checked: localStorage.getItem(OFF) === "1" });
  off.addEventListener("change", () => localStorage.setItem(OFF, off.checked ? "1" : "0"));
  const close = element("button", { type: "button", autofocus: true }, "Close");
  close.addEventListener("click", () => close.closest("dialog").close());
  dialog("Keyboard", element("h2", {}, "Keyboard"), list, element("label", { className: "off-keys" }, off, " Switch these keys off"), close);
}

// What can be found without the server: pages, states of this list, actions of this page.
function places() {
  // Without the counts, which are elements of their own; names of members are in one.
  const name = (link) => (link.querySelector("bdi") ?? { textContent: [...link.childNodes].map((node) => (node.nodeType === 3 ? node.data : "")).join(" ") }).textContent.trim();
  const of = (css, kind) => all(css).map((link) => ({ words: name(link), kind, go: () => link.click() })).filter((one) => one.words);
  return [...of("main a.button, main .offers button", "action"), ...of("#nav a", "page"), ...of("main .chips a", "state"), ...of("main .tabs a", "tab"), ...of("main tbody th a", "member")];
}

function find(text = "") {
  const input = element("input", { type: "search", value: text, autocomplete: "off", placeholder: "Find a member, a page, an action" });
  const list = element("ul", { id: "found" });
  input.setAttribute("aria-label", "Find");
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-controls", "found");
  input.setAttribute("aria-expanded", "true");
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Found");
  const known = places(), open = dialog("Find", input, list);
  let shown = [], at = 0;
  const choose = (to) => {
    at = Math.max(0, Math.min(to, shown.length - 1));
    [...list.children].forEach((one, index) => one.setAttribute("aria-selected", String(index === at)));
    input.setAttribute("aria-activedescendant", `found-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const look = () => {
    const words = input.value.trim(), lower = words.toLowerCase();
    shown = known.filter((one) => one.words.toLowerCase().includes(lower)).slice(0, 12);
    const member = { words: `Find the member “${words}”`, kind: "all kinds", go: () => { location.href = `/console/find?name=${encodeURIComponent(words)}`; } };
    if (words) shown.push(member);
    list.replaceChildren(...shown.map((one, index) => {
      const item = element("li", { id: `found-${index}` }, element("span", {}, one.words), element("span", { className: "hint" }, one.kind));
      item.setAttribute("role", "option");
      item.addEventListener("click", () => { open.close(); one.go(); });
      return item;
    }));
    choose(0);
  };
  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(at + 1);
    else if (event.key === "ArrowUp") choose(at - 1);
    else if (event.key === "Enter" && shown[at]) { open.close(); shown[at].go(); }
    else return;
    event.preventDefault();
  });
  look();
  input.focus();
}

function row(step) {
  const links = all("main tbody th a");
  const here = links.findIndex((link) => link.closest("tr") === document.activeElement?.closest("tr"));
  links[Math.max(0, Math.min(here + step, links.length - 1))]?.focus();
}

function tick(range) {
  const boxes = all("main tbody input[type=checkbox]"), mine = document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]");
  if (!mine) return;
  const [here, there] = [boxes.indexOf(mine), boxes.indexOf(ticked)];
  const some = range && there >= 0 ? boxes.slice(Math.min(here, there), Math.max(here, there) + 1) : [mine];
  for (const box of some) if (!range || !box.checked) box.click();
  ticked = mine;
}

const ACTIONS = {
  "/": () => find(), "?": help, j: () => row(1), k: () => row(-1), x: () => tick(false), X: () => tick(true),
  f: () => $("main .filter input")?.focus(), a: () => $("main .offers a, main .offers button, main a.button")?.focus(),
  ".": () => $("main .first")?.click(), y: () => $("main [data-copy]")?.click(),
  p: () => document.dispatchEvent(new Event("wardroom:pause")),
};

document.addEventListener("keydown", (event) => {
  const found = (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k";
  if (found && document.getElementById("main")) {
    event.preventDefault();
    return $("dialog[open]") ? undefined : find();
  }
  const inField = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || inField || event.isComposing || $("dialog[open]") || !document.getElementById("main")) return;
  if (localStorage.getItem(OFF) === "1" && event.key !== "?") return;
  if (Date.now() - went < 1500 && event.key in GO) {
    const to = GO[event.key], path = to ? `/console/${to}` : "/console";
    went = 0;
    if (!to || $(`#nav a[href="${path}"]`)) location.href = path;
  } else if (event.key === "g") {
    went = Date.now();
  } else if (ACTIONS[event.key]) {
    ACTIONS[event.key]();
  } else return;
  event.preventDefault();
});
