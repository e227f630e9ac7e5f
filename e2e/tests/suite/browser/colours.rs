//! Without colours: in grey, and in the colours that a person's system dictates, every state is told apart.

use serde_json::json;

use super::fleet;
use crate::support::{Backend, Site, browser::Browser};

/// Every state has a word, and every tone a shape of its own. Returns what is not so.
const SHAPES: &str = "
    const wrong = [], shapes = {};
    for (const one of document.querySelectorAll('.badge, .legend a, .chips a, .need')) {
      const drawn = one.querySelector('svg');
      if (!drawn) continue;
      const tone = [...one.classList, ...drawn.classList].find((name) => name.startsWith('t-'));
      const shape = drawn.querySelector('use').getAttribute('href');
      if (!one.innerText.trim() || !tone) wrong.push(one.outerHTML);
      if ((shapes[tone] ??= shape) !== shape) wrong.push(tone + ' is drawn as ' + shape + ' and ' + shapes[tone]);
    }
    const all = Object.values(shapes);
    if (new Set(all).size !== all.length) wrong.push(JSON.stringify(shapes));
    return { wrong, tones: all.length };";

/// What still differs in the colours of the system.
const FORCED: &str = "
    const of = (css) => getComputedStyle(document.querySelector(css));
    const current = of('.diagram .state.current'), other = of('.diagram .state:not(.current)');
    return {
      active: matchMedia('(forced-colors: active)').matches,
      fill: current.fill !== other.fill,
      stroke: parseFloat(current.strokeWidth) > parseFloat(other.strokeWidth),
      text: of('.diagram text.current').fill !== current.fill,
      legal: of('.diagram .edge.legal').stroke !== of('.diagram .edge:not(.legal)').stroke,
      badge: parseFloat(of('.badge').borderTopWidth) >= 1,
      place: of('.side a[aria-current]').outlineStyle === 'solid',
    };";

#[test]
fn states_are_told_apart_without_colours() {
    let site = Site::alone(Backend::Sqlite, &[]);
    fleet::set_up(&site);
    let browser = Browser::start(site.servers[0].address);
    browser.log_in(&site.token);
    let mut tones = 0;
    for path in ["/console", "/console/nodes", "/console/satellites", "/console/gpu-nodes"] {
        browser.open(path);
        let found = browser.run(SHAPES, &[]);
        assert_eq!(found["wrong"], json!([]), "{path}");
        tones = tones.max(found["tones"].as_u64().unwrap());
    }
    assert!(tones >= 5, "{tones}");
    browser.prefer("forced-colors", "active");
    browser.open("/console/gpu-nodes/gpu-b07");
    let differs = browser.run(FORCED, &[]);
    let same: Vec<_> =
        differs.as_object().unwrap().iter().filter(|(_, differs)| **differs != json!(true)).collect();
    assert!(same.is_empty(), "{same:?}");
}
