//! `dry-run`: works on one event with recorded answers, changes nothing, and shows every step.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::ValueEnum;
use serde_json::{Value as Json, json};

use super::check;
use crate::{
    clock,
    flow::{self, Trace},
    world::{Recorded, World, read_document},
};

/// What the dry run reads.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The event: a CloudEvent or its data, with `id`, `kind`, `href` and `generation`. A `cluster` in it is used
    /// when no response is recorded for `href`.
    #[arg(long, value_name = "FILE")]
    event: PathBuf,
    /// The objects of Kubernetes: names, each with its object.
    #[arg(long, value_name = "FILE")]
    discovery: Option<PathBuf>,
    /// Responses of the API, addresses (`dns`) and variables (`environment`).
    #[arg(long, value_name = "FILE")]
    responses: Option<PathBuf>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One object with every step and the payload.
    Json,
    /// Lines for people.
    Table,
}

/// Works on an event. Fails when the adapter would report an error.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Some(config) = check::read(&options.config) else { return Ok(ExitCode::FAILURE) };
    let document = read_document(&options.event)?;
    let event = document.get("data").filter(|data| data.is_object()).unwrap_or(&document).clone();
    anyhow::ensure!(event["id"].is_string(), "{}: `id` is missing", options.event.display());
    let recorded = Recorded::open(options.discovery.as_deref(), options.responses.as_deref())?;
    let mut world = World::Recorded(recorded);
    let cluster = cluster(&event, &mut world).await?;
    let outcome = flow::process(&config, &event, &cluster, &mut world, clock::now()).await;
    let text = match options.output {
        Output::Json => serde_json::to_string_pretty(&outcome.trace)?,
        Output::Table => table(&outcome.trace, &outcome.messages),
    };
    writeln!(std::io::stdout(), "{text}")?;
    Ok(if outcome.error.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the cluster of an event: as recorded, as the event has it, or the little that the event says.
async fn cluster(event: &Json, world: &mut World) -> anyhow::Result<Json> {
    let href = event["href"].as_str().unwrap_or_default();
    let is_recorded =
        matches!(&*world, World::Recorded(recorded) if !href.is_empty() && recorded.knows(href));
    if is_recorded {
        return world.read(href).await.map_err(|trouble| anyhow::anyhow!(trouble.message));
    }
    Ok(event.get("cluster").filter(|cluster| cluster.is_object()).cloned().unwrap_or_else(|| {
        json!({"id": event["id"], "kind": event["kind"], "href": event["href"], "generation": event["generation"]})
    }))
}

/// Returns the steps in lines.
fn table(trace: &Trace, messages: &[String]) -> String {
    let mut lines = vec![format!("{:<14}{}", "STATUS", trace.status)];
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for (name, value) in &trace.params {
        lines.push(format!("{:<14}{name} = {}", "PARAM", text(value)));
    }
    for request in &trace.api_requests {
        let outcome = request.get("outcome").map(text).unwrap_or_default();
        lines.push(format!(
            "{:<14}{} {} {outcome}",
            "REQUEST",
            text(&request["method"]),
            text(&request["path"])
        ));
    }
    for step in &trace.preconditions {
        let met = if step["met"] == true { "holds" } else { "does not hold" };
        lines.push(format!("{:<14}{} {met}", "PRECONDITION", text(&step["name"])));
    }
    for step in &trace.resources {
        let (name, action, outcome) = (text(&step["name"]), text(&step["action"]), text(&step["outcome"]));
        lines.push(format!("{:<14}{name} {action}: {outcome}", "RESOURCE"));
    }
    for (name, object) in &trace.discovered_resources {
        lines.push(format!(
            "{:<14}{name} {}",
            "FOUND",
            if object.is_null() { "is not there" } else { "is there" }
        ));
    }
    for error in &trace.errors {
        let (phase, step, message) = (text(&error["phase"]), text(&error["step"]), text(&error["message"]));
        lines.push(format!("{:<14}{phase} {step}: {message}", "ERROR"));
    }
    let conditions = trace.payload.as_ref().and_then(|payload| payload["conditions"].as_array());
    for condition in conditions.into_iter().flatten() {
        let part = |name: &str| condition.get(name).map(text).unwrap_or_default();
        let (kind, status, reason, message) = (part("type"), part("status"), part("reason"), part("message"));
        lines.push(format!("{:<14}{kind}={status} {reason}: {message}", "CONDITION"));
    }
    lines.extend(messages.iter().map(|message| format!("{:<14}{message}", "LOG")));
    if trace.payload.is_none() {
        lines.push(format!("{:<14}nothing is reported", "PAYLOAD"));
    }
    lines.join("\n")
}
