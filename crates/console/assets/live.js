// Live: follows the changes of what this page shows, and brings them into the page in place.
//
// The server says which members changed; the page is fetched once more and compared with this one, cell by cell. Rows
// keep their order: one that is gone from the view is marked, new ones wait. Nothing is touched that a person works on.
const mark = document.getElementById("live");
const view = location.pathname + location.search;
const PACE = 500, SILENCE = 5000, ANNOUNCE = 10000;

let source = null, cursor = mark?.dataset.place ?? "", offset = 0, heard = 0, newest = 0, tries = 0, retry = 0;
let paused = false, busy = false, timer = 0, pace = PACE, announced = 0, over = false;
const waiting = new Set();
// Of a mouse: to a browser, a finger that is gone hovers on.
let hovers = false;
document.addEventListener("pointerover", (event) => { hovers = event.pointerType === "mouse" && Boolean(event.target.closest?.("tbody")); });
document.documentElement.addEventListener("pointerleave", () => { hovers = false; });
const arrived = new Set();

const button = document.createElement("button");
const dot = document.createElement("span"), words = document.createElement("span"), said = document.createElement("span");
button.type = "button";
button.className = "live";
dot.className = "dot";
said.className = "unseen";
said.setAttribute("role", "status");
button.append(dot, words);
mark?.append(button, said);
button.addEventListener("click", () => pause(!paused));

function pause(on) {
  paused = on;
  show();
  if (!on) soon(0);
}
document.addEventListener("wardroom:pause", () => pause(!paused));

function clock(time) {
  return new Date(time).toLocaleTimeString([], { hour12: false });
}

function show() {
  const last = newest ? ` · last change seen ${clock(newest - offset)}` : "";
  let tone = "good", text = "Live";
  if (over) [tone, text] = ["bad", "Logged out"];
  else if (!navigator.onLine) [tone, text] = ["over", `Offline${last}`];
  else if (!source || source.readyState !== 1 || Date.now() - heard > SILENCE) [tone, text] = ["warn", `Reconnecting${last}`];
  else if (paused) [tone, text] = ["wait", `Paused · ${waiting.size} waiting`];
  else if (waiting.size) [tone, text] = ["good", `Live · ${waiting.size} waiting`];
  dot.className = `dot t-${tone}`;
  if (words.textContent !== text) words.textContent = text;
  button.setAttribute("aria-pressed", String(paused));
  button.title = paused ? "Go on with updates (p)" : "Pause updates (p)";
  const state = text.split(" ")[0];
  if (button.dataset.state !== state) {
    if (button.dataset.state) announce(`${state}.`, true);
    button.dataset.state = state;
  }
}

function announce(sentence, now) {
  if (!now && Date.now() - announced < ANNOUNCE) return;
  announced = Date.now();
  said.textContent = sentence;
}

// A hidden page holds no stream: browsers allow six to a server.
function open() {
  close();
  if (document.hidden || over) return show();
  const query = new URLSearchParams({ view });
  if (cursor) query.set("after", cursor);
  const mine = new EventSource(`/console/live?${query}`);
  source = mine;
  mine.onmessage = (event) => take(event);
  mine.onerror = () => {
    show();
    // The browser tries again by itself unless it was answered with something else.
    if (mine.readyState !== EventSource.CLOSED || source !== mine) return;
    clearTimeout(retry);
    retry = setTimeout(open, Math.min(500 * 2 ** tries++, 10000));
    if (navigator.onLine && tries > 1) refresh();
  };
}

function close() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

function take(event) {
  const message = JSON.parse(event.data), resumed = tries > 0;
  heard = Date.now();
  tries = 0;
  offset = Date.parse(message.now) - heard;
  cursor = event.lastEventId || cursor;
  document.documentElement.dataset.offset = offset;
  if (message.at) newest = Date.parse(message.at);
  for (const id of message.ids) waiting.add(id);
  if (message.many || resumed) waiting.add("many");
  if (waiting.size) soon(ours() ? 0 : 2000);
  show();
}

// Whether one of the changes is of a member that is seen.
function ours() {
  return waiting.has("many") || !document.querySelector("tr[id^=row-]") || [...waiting].some((id) => document.getElementById(`row-${id}`));
}

// What a person works on is not moved: updates wait.
function held() {
  const chosen = getSelection();
  return paused || document.hidden || document.querySelector("dialog[open], main .dialog")
    || hovers
    || (chosen && !chosen.isCollapsed && document.querySelector("main")?.contains(chosen.anchorNode));
}

function soon(after) {
  if (timer || busy) return;
  timer = setTimeout(async () => {
    timer = 0;
    if (held()) return;
    await refresh();
    if (waiting.size) soon(pace);
  }, Math.max(after, pace - (Date.now() - (refresh.last ?? 0)), 0));
}
setInterval(() => {
  show();
  if (waiting.size && !held()) soon(0);
}, 1000);

async function refresh() {
  if (busy) return;
  busy = true;
  const began = performance.now(), taken = [...waiting];
  try {
    const answer = await fetch(location.href, { redirect: "manual", cache: "no-store" });
    if (answer.type === "opaqueredirect") return end();
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (held()) return;
    for (const id of taken) waiting.delete(id);
    apply(next);
    announce(taken.length === 1 && taken[0] !== "many" ? "One change." : `${taken.length} changes.`);
  } catch {
    // The server is away: the stream notices, and comes back here.
  } finally {
    busy = false;
    refresh.last = Date.now();
    // At most a tenth of the time goes into updates.
    pace = Math.max(PACE, 10 * (performance.now() - began));
    show();
  }
}

// The session is over: what was typed stays on the page.
function end() {
  over = true;
  close();
  const dialog = document.createElement("dialog"), lead = document.createElement("p"), link = document.createElement("a");
  dialog.setAttribute("aria-label", "Session over");
  lead.textContent = "Your session is over. Log in again in another tab; what you typed here stays.";
  link.href = "/console/login";
  link.target = "_blank";
  link.className = "button first";
  link.textContent = "Log in";
  dialog.append(lead, link);
  dialog.className = "over";
  document.body.append(dialog);
  dialog.addEventListener("close", () => { over = false; open(); dialog.remove(); });
  dialog.showModal();
  show();
}

function apply(next) {
  document.title = next.title;
  for (const part of ["#nav", "main"]) {
    const [from, to] = [document.querySelector(part), next.querySelector(part)];
    if (from && to) morph(from, to);
  }
  waits();
  document.dispatchEvent(new Event("wardroom:updated"));
}

const KEPT = new Set(["INPUT", "TEXTAREA", "SELECT", "DIALOG"]);

// Makes one element like another; returns whether something changed that is seen.
function morph(from, to) {
  if (from.nodeType === 3 || from.nodeType === 8) {
    if (from.data === to.data) return false;
    from.data = to.data;
    return true;
  }
  if (KEPT.has(from.nodeName) || from.isEqualNode(to)) return false;
  if (from.nodeName === "TIME" && from.dateTime === to.dateTime) return false;
  let changed = false;
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) === value || name === "open") continue;
    from.setAttribute(name, value);
    changed = true;
  }
  for (const name of from.getAttributeNames()) {
    if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
  }
  if (from.nodeName === "TBODY" && from.querySelector(":scope > tr[id]")) return rows(from, to) || changed;
  const [mine, theirs] = [[...from.childNodes], [...to.childNodes]];
  const alike = (node, other) => node.nodeType === other.nodeType && node.nodeName === other.nodeName && (node.id ?? "") === (other.id ?? "");
  if (mine.length === theirs.length && mine.every((node, at) => alike(node, theirs[at]))) {
    for (const [at, node] of mine.entries()) changed = morph(node, theirs[at]) || changed;
  } else if (!from.contains(document.activeElement) || from === document.activeElement) {
    from.replaceChildren(...theirs.map((node) => document.importNode(node, true)));
    changed = true;
  }
  if (changed && /^(TD|TH|DD|LI)$/.test(from.nodeName)) flash(from);
  return changed;
}

function flash(cell) {
  cell.classList.add("flash");
  cell.addEventListener("animationend", () => cell.classList.remove("flash"), { once: true });
}

function rows(from, to) {
  const theirs = new Map([...to.rows].map((row) => [row.id, row]));
  for (const row of from.rows) {
    const other = theirs.get(row.id);
    theirs.delete(row.id);
    if (other) {
      row.querySelector(".gone")?.remove();
      morph(row, other);
    } else if (!row.querySelector(".gone")) {
      const gone = document.createElement("span");
      gone.className = "gone hint";
      gone.textContent = " left this view";
      row.querySelector("th").append(gone);
      row.classList.add("left");
    }
  }
  arrived.clear();
  for (const id of theirs.keys()) arrived.add(id);
  return false;
}

// New rows wait: the list does not move by itself.
function waits() {
  let bar = document.getElementById("arrived");
  const left = document.querySelectorAll("tr.left").length, count = arrived.size + left;
  if (!count) return bar?.remove();
  if (!bar) {
    const table = document.querySelector("tbody > tr[id]")?.closest(".card");
    if (!table) return;
    bar = document.createElement("p");
    bar.id = "arrived";
    bar.append(document.createElement("a"));
    bar.firstChild.href = location.href;
    table.before(bar);
  }
  bar.firstChild.textContent = `${count} ${count === 1 ? "change" : "changes"} waiting`;
}

if (mark && document.getElementById("main")) {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  addEventListener("online", open);
  addEventListener("offline", show);
  open();
}
