//! How a command ends: its exit code, and what it says when it fails.

use std::{fmt, io::ErrorKind, process::ExitCode};

use clap::ValueEnum as _;
use wardroom_api::{Problem, client};
use wardroom_core::node::State;

use crate::{
    advice::{self, Subject},
    kind::{Kind, with_type},
    output, text, used,
    view::Resource as _,
};

/// Listed by `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failed, or something is wrong
  2  the command line cannot be read; what it says and the server refuses is 1
  3  there is no such resource
  4  the state of a resource does not allow it, or somebody else was first
  5  the token is missing, not valid or does not suffice
  6  the server did not answer in time
  7  the server cannot be reached, or cannot answer now
  8  some of several resources could not be changed; of all, the code of the first

Commands that talk to a server find it by --server or WARDROOM_SERVER_URL, and take their token from, in this
order: --token-file, WARDROOM_TOKEN, WARDROOM_TOKEN_FILE, and ./wardroom-data/admin.token if the server is on
this machine.";

/// The exit codes other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Conflict = 4,
    Denied = 5,
    Timeout = 6,
    Unreachable = 7,
    Partial = 8,
}

/// A failure that is not the server's, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    kind: Option<Kind>,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Nothing of a kind is called or selected like that.
pub(crate) fn not_found(kind: Kind, message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Failure { code: Code::NotFound, kind: Some(kind), message: message.into() })
}

fn missing(error: &anyhow::Error) -> Option<Kind> {
    error.downcast_ref::<Failure>()?.kind
}

/// Makes a failure.
pub(crate) fn failure(code: Code, message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Failure { code, kind: None, message: message.into() })
}

/// Says what went wrong and what to do next.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    for (number, line) in said(error).lines().enumerate() {
        let start = if number == 0 { "wardroom: " } else { "  " };
        output::note(&format!("{start}{}", text::clean(line)));
    }
    let own = || missing(error).map(list);
    if let Some(next) = error.downcast_ref().and_then(next_step).or_else(own) {
        output::note(&format!("  next: {next}"));
    }
    ExitCode::from(code(error) as u8)
}

/// Whoever reads may stop reading, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// What is said about an error, in one or more lines.
pub(crate) fn said(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(client::Error::Problem(problem)) => problem_text(problem),
        Some(_) | None => causes(error),
    }
}

/// Each cause, unless the one before tells it already.
fn causes(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.ends_with(&cause) {
            said.push_str(&format!(": {cause}"));
        }
    }
    said
}

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> Code {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    error.downcast_ref::<client::Error>().map_or(Code::Failed, of_client)
}

fn of_client(error: &client::Error) -> Code {
    match error {
        client::Error::Setup(_) => Code::Usage,
        client::Error::Timeout => Code::Timeout,
        client::Error::Unreachable(_) => Code::Unreachable,
        client::Error::Problem(_) | client::Error::Unexpected { .. } => {
            let code = of_status(error.status().unwrap_or_default());
            // Not the resource is missing, but all of the API.
            if code == Code::NotFound && !error.is_not_found() { Code::Failed } else { code }
        }
    }
}

/// The exit code that fits the status of an answer.
fn of_status(status: u16) -> Code {
    match status {
        401 | 403 => Code::Denied,
        404 => Code::NotFound,
        409 | 412 | 422 => Code::Conflict,
        408 | 504 => Code::Timeout,
        502 | 503 => Code::Unreachable,
        _ => Code::Failed,
    }
}

/// The detail, or the fields that are wrong; what is allowed instead; and the request when the server failed. All of it
/// in the words of the command line.
fn problem_text(problem: &Problem) -> String {
    let subject = Subject::of(&problem.asked);
    let spoken = |text: &str| advice::spoken(text, subject.as_ref());
    let mut said = if problem.errors.is_empty() { spoken(&problem.detail) } else { problem.title.clone() };
    for error in &problem.errors {
        said.push_str(&format!("\n{}: {}", used::argument(&error.field), spoken(&error.message)));
        said.extend(advice::make(&error.message).map(|how| format!(": {how}")));
    }
    let allowed = problem.allowed_actions.iter().flatten();
    // Only what the limit is for has to be forced.
    let forced = |call: &str| problem.code == "retry_limit" && call == State::Pending.as_str();
    for (number, call) in allowed.enumerate() {
        let start = if number == 0 { "allowed now: " } else { "             " };
        let force = if forced(call) { " --force" } else { "" };
        said.push_str(&format!("\n{start}{}{force}", advice::allowed(call, subject.as_ref())));
    }
    if problem.status >= 500 {
        said.push_str(&format!("\nrequest: {}", problem.request_id));
    }
    said
}

/// What helps whoever asked for something that is not there.
fn list(kind: Kind) -> String {
    format!("list what there is: `wardroom get {}s`", kind.as_str())
}

/// What a refusal says is not there, where its path does not tell.
fn named(detail: &str) -> Option<Subject> {
    let (kind, id) = detail.strip_prefix("there is no ")?.strip_suffix('"')?.split_once(" \"")?;
    Some(Subject { kind: Kind::from_str(&kind.replace(' ', "-"), false).ok()?, id: id.to_owned() })
}

/// What somebody can do about it.
fn next_step(error: &client::Error) -> Option<String> {
    let step = match error {
        client::Error::Setup(_) => return None,
        client::Error::Timeout => "look whether it happened before you repeat it",
        client::Error::Unreachable(why) if why.contains("certificate") => {
            "trust the certificate of its authority: --ca-file FILE or WARDROOM_CA_FILE"
        }
        client::Error::Unreachable(why) if why.contains("InvalidContentType") => {
            "it speaks plain HTTP there: try http:// in --server or WARDROOM_SERVER_URL"
        }
        client::Error::Unreachable(why) if why.contains("invalid HTTP version") => {
            "it speaks TLS there: try https:// in --server or WARDROOM_SERVER_URL"
        }
        client::Error::Unreachable(_) => {
            "start it with `wardroom serve`, or say where it is: --server or WARDROOM_SERVER_URL"
        }
        client::Error::Unexpected { .. } => "check --server and WARDROOM_SERVER_URL",
        client::Error::Problem(problem) => return after(problem),
    };
    Some(step.to_owned())
}

/// What somebody can do about a refusal.
fn after(problem: &Problem) -> Option<String> {
    let subject = Subject::of(&problem.asked);
    match problem.status {
        401 => {
            Some("give a valid token: --token-file FILE, WARDROOM_TOKEN or WARDROOM_TOKEN_FILE".to_owned())
        }
        403 => Some("ask an admin for such a token: `wardroom token create NAME --role ROLE`".to_owned()),
        404 if problem.code == client::NO_ROUTE => Some(
            "check --server and WARDROOM_SERVER_URL: machines boot elsewhere than people connect".to_owned(),
        ),
        404 => subject.or_else(|| named(&problem.detail)).map(|subject| list(subject.kind) + &past(subject)),
        409 if problem.code == "in_use" => subject.and_then(users),
        409 => {
            let Subject { kind, id } = subject.filter(|subject| is_explained(subject.kind))?;
            Some(format!("`wardroom why {} {id}` says what can be done", kind.as_str()))
        }
        500 => Some("look into the log of the server for this request".to_owned()),
        _ => None,
    }
}

/// What tells of one that may have been deleted.
fn past(subject: Subject) -> String {
    let Subject { kind, id } = subject;
    let history = format!("`wardroom history {} {id}`", kind.as_str());
    match kind {
        Kind::Run | Kind::Incident | Kind::Token => String::new(),
        Kind::GpuNode => format!("; of a deleted one: {history}, `wardroom describe run {id}`"),
        Kind::Node
        | Kind::Workflow
        | Kind::Group
        | Kind::Site
        | Kind::Satellite
        | Kind::SatelliteGroup
        | Kind::SatelliteConfig => format!("; of a deleted one: {history}"),
    }
}

/// What lists who uses something, where it can be selected by.
fn users(Subject { kind, id }: Subject) -> Option<String> {
    let list = match kind {
        Kind::Site => format!("gpu-nodes --field-selector site={id}"),
        Kind::SatelliteConfig => format!("satellites --field-selector config_name={id}"),
        Kind::Workflow => format!("nodes --field-selector workflow_id={id}"),
        Kind::Node
        | Kind::Group
        | Kind::GpuNode
        | Kind::Run
        | Kind::Satellite
        | Kind::SatelliteGroup
        | Kind::Incident
        | Kind::Token => return None,
    };
    Some(format!("`wardroom get {list}` lists who uses it"))
}

fn is_explained(kind: Kind) -> bool {
    with_type!(kind, T => T::EXPLAINED)
}

#[cfg(test)]
mod tests {
    use wardroom_api::client;

    use super::{Code, next_step, of_client, of_status};

    #[test]
    fn another_listener_is_not_a_missing_resource() {
        let problem = serde_json::json!({
            "type": "t", "title": "t", "status": 404, "detail": "d", "code": "no_route", "request_id": "r",
        });
        let error = client::Error::Problem(Box::new(serde_json::from_value(problem).unwrap()));
        let proxy = client::Error::Unexpected { status: 404, detail: "404".to_owned() };
        for error in [error, proxy] {
            assert_eq!(of_client(&error), Code::Failed);
            assert!(next_step(&error).unwrap().contains("--server"));
        }
    }

    #[test]
    fn every_class_of_answer_has_its_code() {
        let cases = [
            (400, Code::Failed),
            (401, Code::Denied),
            (403, Code::Denied),
            (404, Code::NotFound),
            (409, Code::Conflict),
            (412, Code::Conflict),
            (429, Code::Failed),
            (500, Code::Failed),
            (503, Code::Unreachable),
            (504, Code::Timeout),
        ];
        for (status, code) in cases {
            assert_eq!(of_status(status), code, "{status}");
        }
    }
}
