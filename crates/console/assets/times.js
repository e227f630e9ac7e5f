// Times: ages count on, from the clock of the server, all by one timer.
const UNITS = [[86400, "d", 3600, "h", 24], [3600, "h", 60, "m", 60], [60, "m", 1, "s", 60]];

// The two largest units, as the server writes them: 10h14m; seconds up to ten minutes.
function length(seconds) {
  if (seconds < 60) return `${seconds}s`;
  const [size, unit, small, smaller, most] = UNITS.find(([size]) => seconds >= size);
  const rest = Math.floor(seconds / small) % most;
  return Math.floor(seconds / size) + unit + (rest && (small > 1 || seconds < 600) ? rest + smaller : "");
}

function count() {
  if (document.hidden) return;
  const now = Date.now() + Number(document.documentElement.dataset.offset ?? 0);
  for (const time of document.querySelectorAll("time[data-age]")) {
    const seconds = Math.floor((now - Date.parse(time.dateTime)) / 1000), written = length(Math.abs(seconds));
    const words = time.dataset.age === "since" ? length(Math.max(seconds, 0)) : seconds >= 0 ? `${written} ago` : `in ${written}`;
    if (time.textContent !== words) time.textContent = words;
  }
}
setInterval(count, 1000);
document.addEventListener("visibilitychange", count);
document.addEventListener("wardroom:updated", count);
