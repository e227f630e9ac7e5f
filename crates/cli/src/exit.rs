//! How a command ends: its exit code and its error message.

use std::{fmt, io::ErrorKind, process::ExitCode};

use clap::ValueEnum as _;
use wardroom_api::{Problem, client};

use crate::{
    kind::{Kind, with_type},
    output,
    subject::Subject,
    suggest::{self, typed},
    text, used,
    view::Resource as _,
};

/// Listed by `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  the command line is wrong (a value that the server refuses: 1)
  3  there is no such resource
  4  the state of the resource does not allow it, or another change came first
  5  the token is missing, invalid or not permitted to do this
  6  the server did not answer in time
  7  the server cannot be reached, or is unavailable
  8  some of several resources could not be changed (if none could: the code of the first)
  130  Ctrl-C ended the waiting; the work goes on at the server

A verb may come before its kind: `wardroom approve node NAME` is `wardroom node approve NAME`. A verb alone says which
kinds have it.

Commands that talk to a server find it by, in this order: --server or --context, WARDROOM_SERVER_URL, WARDROOM_CONTEXT,
the context that `wardroom login` or `wardroom context use` chose, and http://127.0.0.1:8440. They take their token
from: --token-file, --context, WARDROOM_TOKEN, WARDROOM_TOKEN_FILE, the context that names the server, and
./wardroom-data/admin.token if the server is on this machine. `wardroom whoami` says which it was.";

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
    Interrupted = 130,
}

/// A failure of the command line itself, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    next: Option<String>,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A failure: no resource of a kind matches a selection.
pub(crate) fn not_found(kind: Kind, message: impl Into<String>) -> anyhow::Error {
    let next = Some(list(kind));
    anyhow::Error::new(Failure { code: Code::NotFound, next, message: message.into() })
}

/// A failure: no resource of a kind is called so.
pub(crate) fn missing(kind: Kind, called: &str) -> anyhow::Error {
    let message = format!("there is no {} {called:?}", kind.as_str());
    let next = Some(list(kind) + &past(kind, called));
    anyhow::Error::new(Failure { code: Code::NotFound, next, message })
}

/// Makes a failure.
pub(crate) fn failure(code: Code, message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Failure { code, next: None, message: message.into() })
}

/// Writes the error and the next step.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    for (number, line) in said(error).lines().enumerate() {
        let start = if number == 0 { "wardroom: " } else { "  " };
        output::note(&format!("{start}{}", text::clean(line)));
    }
    let own = || error.downcast_ref::<Failure>()?.next.clone();
    if let Some(next) = error.downcast_ref().and_then(next_step).or_else(own) {
        output::note(&format!("  next: {next}"));
    }
    ExitCode::from(code(error) as u8)
}

/// Returns whether the reader closed the pipe, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Returns the message for an error, in one or more lines.
pub(crate) fn said(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(client::Error::Problem(problem)) => problem_text(problem),
        Some(_) | None => causes(error),
    }
}

/// Joins the causes, without those that the one before already ends with.
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
        client::Error::Unsent(_) => Code::Failed,
        client::Error::Timeout => Code::Timeout,
        client::Error::Unreachable(_) => Code::Unreachable,
        client::Error::Problem(_) | client::Error::Unexpected { .. } => {
            let code = of_status(error.status().unwrap_or_default());
            // This is no missing resource: the API itself is not there.
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
/// as commands and options.
fn problem_text(problem: &Problem) -> String {
    let mut said = if problem.errors.is_empty() { problem.detail.clone() } else { problem.title.clone() };
    for error in &problem.errors {
        said.push_str(&format!("\n{}: {}", used::argument(&error.field), error.message));
        said.extend(error.fix.as_ref().map(|fix| format!(": `{}`", suggest::command(fix))));
    }
    let allowed = problem.allowed_actions.iter().flatten();
    for (number, action) in allowed.enumerate() {
        let start = if number == 0 { "allowed now: " } else { "             " };
        said.push_str(&format!("\n{start}{}", suggest::command(action)));
    }
    if problem.status >= 500 {
        said.push_str(&format!("\nrequest: {}", problem.request_id));
    }
    said
}

/// Returns the next step after a resource was not found.
fn list(kind: Kind) -> String {
    format!("list them: `wardroom get {}s`", kind.as_str())
}

/// Returns the missing resource that a refusal names.
fn named(problem: &Problem) -> Option<Subject> {
    let missing = problem.resource.as_ref()?;
    Some(Subject { kind: Kind::from_str(&missing.kind, false).ok()?, id: missing.id.clone() })
}

/// Returns the next step after an error.
fn next_step(error: &client::Error) -> Option<String> {
    let step = match error {
        client::Error::Setup(_) | client::Error::Unsent(_) => return None,
        client::Error::Timeout => "check whether it was done before you repeat it",
        client::Error::Unreachable(why) if why.contains("certificate") => {
            "trust its certificate authority: --ca-file FILE or WARDROOM_CA_FILE"
        }
        client::Error::Unreachable(why) if why.contains("InvalidContentType") => {
            "the server speaks plain HTTP there: try http:// in --server or WARDROOM_SERVER_URL"
        }
        client::Error::Unreachable(why) if why.contains("invalid HTTP version") => {
            "the server speaks TLS there: try https:// in --server or WARDROOM_SERVER_URL"
        }
        client::Error::Unreachable(_) => {
            "start the server with `wardroom serve`, or give its address: --server or WARDROOM_SERVER_URL"
        }
        client::Error::Unexpected { .. } => "check --server and WARDROOM_SERVER_URL",
        client::Error::Problem(problem) => return after(problem),
    };
    Some(step.to_owned())
}

/// Returns the next step after a refusal.
fn after(problem: &Problem) -> Option<String> {
    let subject = Subject::of(&problem.asked);
    match problem.status {
        401 => {
            Some("give a valid token: `wardroom login URL`, --token-file FILE, WARDROOM_TOKEN or WARDROOM_TOKEN_FILE".to_owned())
        }
        403 => Some(
            "ask an admin for a token with that role: `wardroom token create NAME --role ROLE`".to_owned(),
        ),
        404 if problem.code == client::NO_ROUTE => Some(
            "check --server and WARDROOM_SERVER_URL: this may be the listener for booting machines"
                .to_owned(),
        ),
        404 => {
            let Subject { kind, id } = subject.or_else(|| named(problem))?;
            Some(list(kind) + &past(kind, &typed(&id)))
        }
        409 if problem.code == "in_use" => subject.and_then(users),
        409 => {
            let Subject { kind, id } = subject.filter(|subject| is_explained(subject.kind))?;
            Some(format!("`wardroom why {} {}` says what can be done", kind.as_str(), typed(&id)))
        }
        500 => Some("look for this request in the server's log".to_owned()),
        _ => None,
    }
}

/// Returns the command that shows a resource that may have been deleted.
fn past(kind: Kind, called: &str) -> String {
    if with_type!(kind, T => T::KEPT).is_some() {
        return String::new();
    }
    format!("; if it was deleted: `wardroom history {} {called}`", kind.as_str())
}

/// Returns the command that lists the users of a resource.
fn users(Subject { kind, id }: Subject) -> Option<String> {
    let list = with_type!(kind, T => T::USERS)?;
    Some(format!("`wardroom get {list}{}` lists its users", typed(&id)))
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

    /// A path without a name, such as that of a change of many, leaves the name to the problem.
    #[test]
    fn a_missing_resource_is_named_by_the_problem() {
        let problem = serde_json::json!({
            "type": "t", "title": "t", "status": 404, "detail": "d", "code": "not_found", "request_id": "r",
            "resource": {"kind": "satellite-group", "id": "south"},
        });
        let error = client::Error::Problem(Box::new(serde_json::from_value(problem).unwrap()));
        let next = next_step(&error).unwrap();
        assert!(next.contains("`wardroom get satellite-groups`"), "{next}");
        assert!(next.contains("`wardroom history satellite-group south`"), "{next}");
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
