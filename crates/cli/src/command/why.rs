//! `wardroom why`.

use clap::Args;
use wardroom_api::client::{Call, Next, Why as Explanation};
use wardroom_server::clock::Clock;

use crate::{
    connection::Connection,
    kind::Kind,
    output::{self, Format},
    text::{self, age, duration, time},
    view::node,
};

/// Explains why a resource is where it is.
#[derive(Args)]
pub(crate) struct Why {
    /// The kind of the resource.
    #[arg(value_enum)]
    kind: Kind,
    /// Its id; of a node also its MAC, of a satellite its name.
    id: String,
    /// How the result is written.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

impl Why {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        let id = if self.kind == Kind::Node { node::id(&client, &self.id).await? } else { self.id };
        let why = client.why(self.kind.as_str(), &id).await?;
        match self.output {
            Format::Json => output::json(&why),
            Format::Yaml => output::yaml(&why),
            Format::Table | Format::Wide | Format::Name => print(self.kind.as_str(), &id, &why),
        }
    }
}

/// Writes explanations for people.
pub(crate) fn print(kind: &str, id: &str, explanations: &[Explanation]) -> anyhow::Result<()> {
    explanations
        .iter()
        .flat_map(|why| lines(kind, id, why))
        .try_for_each(|line| output::line(&text::clean(&line)))
}

fn lines(kind: &str, id: &str, why: &Explanation) -> Vec<String> {
    let now = Clock.now();
    let since = why.since.map_or_else(String::new, |since| format!(" for {}", age(since, now)));
    let subject = if why.about == "state" { String::new() } else { format!(" {}", why.about) };
    let mut lines = vec![format!("{kind}/{id}{subject} is {}{since}: {}", why.state, why.meaning)];
    match why.patience_ends {
        Some(end) if why.overdue => lines.push(format!("It is overdue since {}.", time(end))),
        Some(end) => lines.push(format!("It may take another {}.", duration(end.duration_since(now)))),
        None => {}
    }
    if !why.blockers.is_empty() {
        lines.push("In the way:".to_owned());
    }
    for blocker in &why.blockers {
        lines.push(format!("  - {}", blocker.what));
        lines.extend(blocker.fix.as_ref().map(|call| format!("    {}", command(call, id))));
    }
    if !why.exits.is_empty() {
        lines.push("Ways out:".to_owned());
    }
    for exit in &why.exits {
        lines.push(format!("  - to {}, by {}: {}", exit.to, exit.by, exit.when));
        lines.extend(exit.call.as_ref().map(|call| format!("    {}", command(call, id))));
    }
    lines.push(format!("Next: {}", next(&why.next, id)));
    lines
}

fn next(next: &Next, id: &str) -> String {
    match next {
        Next::Nothing => "nothing has to be done.".to_owned(),
        Next::Wait { by, until } => format!("wait for {by}: {until}"),
        Next::Mend { what } => format!("look at what is in the way: {what}"),
        Next::Call(call) => match &call.precondition {
            Some(precondition) => format!("{} ({})", command(call, id), precondition.replace("{id}", id)),
            None => command(call, id),
        },
    }
}

/// The command that makes a call, or the call where no command does.
fn command(call: &Call, id: &str) -> String {
    let request = call.request.replace("{id}", id).replace("{name}", id);
    if let Some(verb) = call.request.strip_prefix("POST /api/satellites/{name}/") {
        let (verb, body) = verb.split_once(' ').unwrap_or((verb, ""));
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let mode = body["mode"].as_str().map_or_else(String::new, |mode| format!(" --mode {mode}"));
        return format!("wardroom satellite {verb} {id}{mode}");
    }
    let Some(body) = call.request.strip_prefix("PATCH /api/v1/nodes/{id}") else { return request };
    let (path, body) = body.split_once(' ').unwrap_or((body, ""));
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    match (path, body["state"].as_str(), body["workflow_id"].as_str()) {
        ("/state", Some(state), _) => {
            let force = if body["force"] == true { " --force" } else { "" };
            format!("wardroom node move {id} --to {state}{force}")
        }
        ("", _, Some(_)) => format!("wardroom node assign {id} --workflow NAME"),
        _ => request,
    }
}

#[cfg(test)]
mod tests {
    use wardroom_api::client::Call;

    use super::command;

    #[test]
    fn calls_on_nodes_become_commands() {
        let check = |request: &str, expected: &str| {
            let call = Call { request: request.to_owned(), role: String::new(), precondition: None };
            assert_eq!(command(&call, "n1"), expected);
        };
        check(r#"PATCH /api/v1/nodes/{id}/state {"state":"active"}"#, "wardroom node move n1 --to active");
        check(
            r#"PATCH /api/v1/nodes/{id}/state {"state":"pending","force":true}"#,
            "wardroom node move n1 --to pending --force",
        );
        check(r#"PATCH /api/v1/nodes/{id} {"workflow_id":"…"}"#, "wardroom node assign n1 --workflow NAME");
        check("POST /api/satellites/{name}/revoke", "wardroom satellite revoke n1");
        check(
            r#"POST /api/satellites/{name}/reenable {"mode":"reissue"}"#,
            "wardroom satellite reenable n1 --mode reissue",
        );
        check("POST /api/v1/runs/{id}/actions/retry", "POST /api/v1/runs/n1/actions/retry");
    }
}
