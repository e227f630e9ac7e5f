//! The explanation in ten lines, as a terminal shows it. The server words it; here actions become commands.

use wardroom_api::client::{Brief, Step};
use wardroom_core::tone::{self, Tone};

use crate::{
    colour::{self, Paint},
    suggest, text,
};

/// The widest command that others are aligned with.
const WIDEST: usize = 60;

/// Returns the lines of an explanation; the state has the tone of its kind.
pub(crate) fn lines(brief: &Brief, kind: &str, paint: Paint) -> Vec<String> {
    let state = paint.toned(tone::of(kind, &brief.state), &brief.state);
    let sentence = text::clean(&brief.sentence);
    // The name may contain the state: each is painted in its own part of the sentence.
    let (name, rest) = sentence.split_at(text::clean(&brief.name).len().min(sentence.len()));
    let rest = rest.replacen(&brief.state, &state, 1);
    let mut lines =
        vec![format!("{}{}", paint.bold(name), overdue(&rest, paint)), text::clean(&brief.meaning)];
    if !(brief.blockers.is_empty() && brief.fine.is_empty()) {
        lines.push(String::new());
    }
    let marked = |tone: Tone, said: &str| {
        format!("  {} {}", paint.toned(tone, &tone.mark().to_string()), text::clean(said))
    };
    lines.extend(brief.blockers.iter().map(|blocker| marked(Tone::Bad, blocker)));
    if brief.more_blockers > 0 {
        lines.push(format!("    and {} more: --all", brief.more_blockers));
    }
    lines.extend(brief.fine.iter().map(|fine| marked(Tone::Good, fine)));
    lines.push(String::new());
    lines.extend(steps(brief, paint));
    lines
}

/// Paints the part of a sentence that says that patience has run out.
fn overdue(rest: &str, paint: Paint) -> String {
    match rest.rsplit_once(", ").filter(|(_, last)| last.ends_with(" past its patience.")) {
        Some((start, last)) => format!("{start}, {}.", paint.toned(Tone::Warn, last.trim_end_matches('.'))),
        None => rest.to_owned(),
    }
}

/// Returns the advised step and the others, their commands in one column.
fn steps(brief: &Brief, paint: Paint) -> Vec<String> {
    let steps: Vec<_> = [&brief.next].into_iter().chain(&brief.others).collect();
    let commands: Vec<_> = steps.iter().map(|step| command(step)).collect();
    let width =
        commands.iter().flatten().map(String::len).filter(|width| *width <= WIDEST).max().unwrap_or_default();
    let mut lines = Vec::new();
    for (at, (step, command)) in steps.iter().zip(&commands).enumerate() {
        let head = paint.bold(["Next", "Or  "].get(at).copied().unwrap_or("    "));
        let what = text::clean(&step.what);
        lines.push(match command {
            Some(command) if what.is_empty() => format!("{head}   {command}"),
            Some(command) => format!("{head}   {command:<width$}   {}", paint.toned(Tone::Over, &what)),
            None => format!("{head}   {what}"),
        });
    }
    let shown = brief.others.len() + usize::from(brief.next.action.is_some());
    if brief.ways > shown {
        lines.push(format!(
            "       {}",
            paint.toned(Tone::Over, &format!("all {} ways out: --all", brief.ways))
        ));
    }
    lines
}

fn command(step: &Step) -> Option<String> {
    step.action.as_ref().map(|action| text::clean(&suggest::command(action)))
}

/// Writes an explanation to standard output.
pub(crate) fn print(brief: &Brief, kind: &str) -> anyhow::Result<()> {
    let paint = colour::of_output();
    lines(brief, kind, paint).iter().try_for_each(|line| crate::output::line(line))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wardroom_api::client::Brief;

    use super::lines;
    use crate::colour::Paint;

    fn brief(changes: Value) -> Brief {
        let action = |verb: &str| {
            json!({"action": verb, "kind": "run", "id": "gpu-07", "method": "POST", "path": "/", "body": null,
                   "needs": [], "role": "operator", "precondition": null, "possible": true, "reason": null})
        };
        let mut whole = json!({
            "name": "gpu-07", "state": "enrolling",
            "sentence": "gpu-07 has been enrolling for 10h14m, 2h14m past its patience.",
            "meaning": "MAAS installs its machine.",
            "blockers": ["deploy failed\u{1b}[2J 3 times"], "more_blockers": 0, "fine": ["a repeat is safe"],
            "next": {"action": action("retry_stage"), "what": "repeats the failed stage"},
            "others": [{"action": action("rerun"), "what": "starts again"}, {"action": action("cancel"), "what": "stops"}],
            "ways": 7,
        });
        whole.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn ten_lines_say_it_all() {
        let expected = "\
gpu-07 has been enrolling for 10h14m, 2h14m past its patience.
MAAS installs its machine.

  ✗ deploy failed[2J 3 times
  ✓ a repeat is safe

Next   wardroom run retry-stage gpu-07   repeats the failed stage
Or     wardroom run rerun gpu-07         starts again
       wardroom run cancel gpu-07        stops
       all 7 ways out: --all";
        assert_eq!(lines(&brief(json!({})), "gpu-node", Paint::Plain).join("\n"), expected);
        let calm = json!({
            "blockers": [], "fine": [], "others": [], "ways": 0,
            "sentence": "gpu-07 is enrolling.", "next": {"action": null, "what": "nothing has to be done"},
        });
        let expected = "gpu-07 is enrolling.\nMAAS installs its machine.\n\nNext   nothing has to be done";
        assert_eq!(lines(&brief(calm), "gpu-node", Paint::Plain).join("\n"), expected);
    }

    #[test]
    fn name_state_and_patience_are_painted() {
        let lines = lines(&brief(json!({})), "gpu-node", Paint::Coloured);
        let expected = "\u{1b}[1mgpu-07\u{1b}[0m has been \u{1b}[34menrolling\u{1b}[0m for 10h14m, \
                        \u{1b}[33m2h14m past its patience\u{1b}[0m.";
        assert_eq!(lines[0], expected);
        assert!(lines[3].contains("\u{1b}[31m✗\u{1b}[0m"), "{}", lines[3]);
    }
}
