//! `wardroom why`.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::{
    action::Action,
    client::{Client, Next, Why as Explanation},
};
use wardroom_server::platform::clock::Clock;

use crate::{
    connection::Connection,
    exit::{Code, failure},
    kind::{Kind, with_type},
    locate::Among,
    output::{self, Format},
    suggest,
    text::{self, age, duration, time},
    view::{Resource, find},
};

/// Explains the state of a resource.
#[derive(Args)]
pub(crate) struct Why {
    /// The kind of the resource.
    #[arg(value_enum)]
    kind: Kind,
    /// Its name, its id or the start of its id; of a node also its MAC, of a run the name of its node.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

impl Why {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        with_type!(self.kind, T => self.explain::<T>(&client).await)
    }

    async fn explain<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        let kind = T::KIND.as_str();
        if !T::EXPLAINED {
            let message =
                format!("{kind}s have no lifecycle: `wardroom describe {kind} {}` shows it", self.name);
            return Err(failure(Code::Usage, message));
        }
        let item: T = find(client, &self.name, Among::All).await?;
        let explanations = client.why(kind, item.id()).await?;
        match self.output {
            Format::Json => output::json(&explanations),
            Format::Yaml => output::yaml(&explanations),
            Format::Table | Format::Wide | Format::Name => print(&item, &explanations),
        }
    }
}

/// Writes the explanation of one resource, after its other output.
pub(crate) async fn explain<T: Resource>(client: &Client, item: &T) -> anyhow::Result<()> {
    let explanations = client.why(T::KIND.as_str(), item.id()).await?;
    output::line("")?;
    print(item, &explanations)
}

fn print<T: Resource>(item: &T, explanations: &[Explanation]) -> anyhow::Result<()> {
    if let Some(run) = item.run() {
        suggest::remember(run, &suggest::typed(item.id()));
    }
    let kind = T::KIND.as_str();
    let lines = explanations.iter().flat_map(|why| match (why.about.as_str(), item.run()) {
        ("run", Some(run)) => lines(&format!("run/{run}"), why),
        _ => lines(&format!("{kind}/{}", item.title()), why),
    });
    lines.into_iter().try_for_each(|line| output::line(&text::clean(&line)))
}

fn lines(subject: &str, why: &Explanation) -> Vec<String> {
    let now = Clock.now();
    let since = why.since.map_or_else(String::new, |since| format!(" for {}", age(since, now)));
    let about =
        if matches!(&*why.about, "state" | "run") { String::new() } else { format!(" {}", why.about) };
    let is = if why.since.is_some() { "has been" } else { "is" };
    let mut lines = vec![format!("{subject}{about} {is} {}{since}: {}", why.state, why.meaning)];
    match why.patience_ends {
        Some(end) if why.overdue => lines.push(format!("It has been overdue since {}.", time(end))),
        Some(end) => lines.push(format!("It may take another {}.", duration(end.duration_since(now)))),
        None => {}
    }
    if !why.blockers.is_empty() {
        lines.push("In the way:".to_owned());
    }
    for blocker in &why.blockers {
        lines.push(format!("  - {}", blocker.what));
        lines.extend(blocker.fix.as_ref().map(|action| format!("    {}", shown(action))));
    }
    if !why.exits.is_empty() {
        lines.push("Ways out:".to_owned());
    }
    for exit in &why.exits {
        lines.push(format!("  - to {}, by {}: {}", exit.to, exit.by, exit.when));
        lines.extend(exit.call.as_ref().map(|action| format!("    {}", shown(action))));
    }
    lines.push(format!("Next: {}", next(why)));
    lines
}

fn next(why: &Explanation) -> String {
    match &why.next {
        Next::Nothing => "nothing; no action is needed.".to_owned(),
        Next::Wait { until, .. } => format!("wait until {}.", clause(until)),
        Next::Mend { what } if why.blockers.iter().any(|blocker| blocker.what == *what) => {
            "look at what is in the way.".to_owned()
        }
        Next::Mend { what } => format!("look at what is in the way: {}.", clause(what)),
        Next::Call(action) => match &action.precondition {
            Some(precondition) => format!("{} ({precondition})", shown(action)),
            None => shown(action),
        },
    }
}

/// Turns a sentence into a clause; names such as MAAS keep their capitals.
fn clause(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    let mut letters = sentence.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(' ' | 'a'..='z')) => {
            format!("{}{}", first.to_lowercase(), &sentence[first.len_utf8()..])
        }
        (_, _) => sentence.to_owned(),
    }
}

/// The command for an action, and why it is of no use now.
fn shown(action: &Action) -> String {
    let command = suggest::command(action);
    match action.reason.as_ref().filter(|_| !action.possible) {
        Some(reason) => format!("{command} (not now: {reason})"),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::{Explanation, clause, next};

    /// A reader of the next step alone learns what is in the way, unless it is listed above.
    #[test]
    fn what_is_in_the_way_is_said() {
        let why = |blockers: &str| -> Explanation {
            let text = r#"{"about": "run", "state": "running", "meaning": "It runs.", "since": null, "patience_ends": null, "overdue": false,
                           "blockers": BLOCKERS, "exits": [], "next": {"do": "mend", "what": "No agent is heard."}}"#;
            serde_json::from_str(&text.replace("BLOCKERS", blockers)).unwrap()
        };
        assert_eq!(next(&why("[]")), "look at what is in the way: no agent is heard.");
        let listed = r#"[{"what": "No agent is heard.", "fix": null}]"#;
        assert_eq!(next(&why(listed)), "look at what is in the way.");
    }

    #[test]
    fn a_sentence_becomes_a_clause() {
        assert_eq!(clause("The node reports `started`."), "the node reports `started`");
        assert_eq!(clause("A person approves the node."), "a person approves the node");
        assert_eq!(clause("MAAS says so."), "MAAS says so");
        assert_eq!(clause(""), "");
    }
}
