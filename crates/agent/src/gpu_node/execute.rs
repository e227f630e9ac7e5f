//! Running commands: with a time limit, and with what they write kept within bounds.

use std::{collections::VecDeque, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};
use wardroom_api::gpu_node::agent::{Check as Checked, Detail, Task, TaskResult};
use wardroom_core::gpu_node::task::Outcome;

use super::config::{Check, Config};

/// How much of what a command writes is kept: its end.
const MOST: usize = 12 << 10;

/// The exit code by which a command says that it must not, or cannot, be done on this node.
const REFUSES: i32 = 69;

/// Lines by which a command tells what it did to one thing: `detail: {"name": …, "method": …, "ok": …}`.
const DETAIL: &str = "detail: ";

/// Executes a task; its epoch is filled in by who reports it.
pub(super) async fn task(config: &Config, task: Task) -> TaskResult {
    let limit = Duration::from_secs(task.time_limit);
    let Some((command, limit)) = config.of(&task.kind, limit) else {
        let output = format!("no command is configured for {}", task.kind);
        return ended(Outcome::Refused, None, output);
    };
    let environment = [
        ("WARDROOM_TASK", task.id.as_str()),
        ("WARDROOM_TASK_KIND", task.kind.as_str()),
        ("WARDROOM_RUN", task.run.as_str()),
        ("WARDROOM_FORCE", if task.force { "1" } else { "0" }),
    ];
    match run(&command.command, &environment, limit).await {
        Ran::Exited(Some(0), output) => ended(Outcome::Succeeded, Some(0), output),
        Ran::Exited(Some(REFUSES), output) => ended(Outcome::Refused, Some(REFUSES), output),
        Ran::Exited(code, output) => ended(Outcome::Failed, code, output),
        Ran::TooLong => ended(Outcome::Failed, None, format!("ended after {} s", limit.as_secs())),
        Ran::NotStarted(error) => ended(Outcome::Failed, None, error),
    }
}

/// Runs the health checks, side by side.
pub(super) async fn checks(checks: &[Check]) -> Vec<Checked> {
    let mut results = Vec::with_capacity(checks.len());
    for check in checks {
        let ran = run(&check.command, &[], Duration::from_secs(check.timeout_seconds)).await;
        let (ok, message) = match ran {
            Ran::Exited(Some(0), _) => (true, None),
            Ran::Exited(_, output) => (false, Some(last(&output, 500))),
            Ran::TooLong => (false, Some("it took too long".to_owned())),
            Ran::NotStarted(error) => (false, Some(error)),
        };
        results.push(Checked { name: check.name.clone(), ok, message });
    }
    results
}

enum Ran {
    /// The exit code, if it was not a signal, and the end of what was written.
    Exited(Option<i32>, String),
    TooLong,
    NotStarted(String),
}

async fn run(command: &[String], environment: &[(&str, &str)], limit: Duration) -> Ran {
    let Some((program, arguments)) = command.split_first() else {
        return Ran::NotStarted("the command is empty".to_owned());
    };
    let child = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Ran::NotStarted(format!("{program}: {error}")),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let work = async {
        let (out, err, status) = tokio::join!(tail(stdout), tail(stderr), child.wait());
        (status.ok().and_then(|status| status.code()), format!("{out}{err}"))
    };
    match tokio::time::timeout(limit, work).await {
        Ok((code, output)) => Ran::Exited(code, output),
        Err(_) => Ran::TooLong,
    }
}

/// The end of what is written to a pipe; the rest is read and dropped, so that nobody blocks on it.
async fn tail(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let (mut kept, mut buffer) = (VecDeque::new(), vec![0; 4096]);
    while let Ok(count) = pipe.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        kept.extend(&buffer[..count]);
        let over = kept.len().saturating_sub(MOST);
        kept.drain(..over);
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

fn ended(outcome: Outcome, exit_code: Option<i32>, output: String) -> TaskResult {
    let details = output.lines().filter_map(|line| line.strip_prefix(DETAIL));
    let details: Vec<Detail> = details.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let output = last(&output, MOST);
    TaskResult { epoch: 0, outcome: outcome.to_string(), exit_code, output, details }
}

fn last(text: &str, most: usize) -> String {
    let text = text.trim_end();
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(script: &str) -> Config {
        let mut config = Config::default();
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        let command = super::super::config::Command { command, timeout_seconds: Some(2) };
        config.tasks.insert("node.drain".to_owned(), command);
        config
    }

    fn asked(kind: &str) -> Task {
        Task {
            id: "t".to_owned(),
            kind: kind.to_owned(),
            state: "dispatched".to_owned(),
            run: "r".to_owned(),
            epoch: 1,
            time_limit: 60,
            force: true,
        }
    }

    #[tokio::test]
    async fn an_exit_code_is_an_outcome() {
        for (script, outcome) in
            [("exit 0", "succeeded"), ("exit 1", "failed"), ("exit 69", "refused"), ("kill -9 $$", "failed")]
        {
            let result = task(&configured(script), asked("node.drain")).await;
            assert_eq!(result.outcome, outcome, "{script}");
        }
        let nothing = task(&Config::default(), asked("node.drain")).await;
        assert_eq!(nothing.outcome, "refused", "what is not configured is not done");
    }

    #[tokio::test]
    async fn what_is_written_is_kept_within_bounds_and_details_are_read() {
        let script = "yes | head -c 100000; echo 'detail: {\"name\":\"nvme0\",\"method\":\"crypto\",\"ok\":true}'; \
                      echo \"$WARDROOM_FORCE $WARDROOM_TASK_KIND\" >&2";
        let result = task(&configured(script), asked("node.drain")).await;
        assert!(
            result.output.len() <= MOST && result.output.ends_with("1 node.drain"),
            "{}",
            result.output.len()
        );
        assert_eq!(result.details[0].method, "crypto");
    }

    #[tokio::test]
    async fn what_takes_too_long_is_ended() {
        let result = task(&configured("exec sleep 60"), asked("node.drain")).await;
        assert_eq!(result.outcome, "failed");
        assert!(result.output.contains("2 s"), "{}", result.output);
    }
}
