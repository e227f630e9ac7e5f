//! Executes tasks and health checks: each is a command of the configuration.

use std::{path::Path, time::Duration};

use wardroom_api::gpu_node::agent::{Check as Checked, Task, TaskResult};
use wardroom_core::gpu_node::task::Outcome;

use super::config::{Check, Config};
use crate::{
    command::{self, MOST, Program, Ran, Written, complaint, last},
    orphan,
};

/// The exit code of a command for work that must not or cannot be done on this node.
const REFUSES: i32 = 69;

/// Executes a task. The caller fills in the epoch of the result.
/// While a command runs, its process group is stored at `mark`.
pub(super) async fn task(config: &Config, task: Task, mark: &Path) -> TaskResult {
    let limit = Duration::from_secs(task.time_limit);
    let Some((command, limit)) = config.of(&task.kind, limit) else {
        let output = format!("no command is configured for {}", task.kind);
        return ended(Outcome::Refused, None, Written::only(output));
    };
    let environment = [
        ("WARDROOM_TASK", task.id.as_str()),
        ("WARDROOM_TASK_KIND", task.kind.as_str()),
        ("WARDROOM_RUN", task.run.as_str()),
        ("WARDROOM_FORCE", if task.force { "1" } else { "0" }),
    ];
    if let Err(left) = orphan::end(mark, limit).await {
        return ended(Outcome::Failed, None, Written::only(left));
    }
    match command::run(
        &Program { command: &command.command, environment: &environment, folder: None },
        limit,
        Some(mark),
    )
    .await
    {
        Ran::Exited(Some(0), written) => ended(Outcome::Succeeded, Some(0), written),
        Ran::Exited(Some(REFUSES), written) => ended(Outcome::Refused, Some(REFUSES), written),
        Ran::Exited(code, written) => ended(Outcome::Failed, code, written),
        Ran::TooLong(mut written) => {
            written.text = format!("{}\nended after {} s", written.text.trim_end(), limit.as_secs());
            ended(Outcome::Failed, None, written)
        }
        Ran::NotStarted(error) => ended(Outcome::Failed, None, Written::only(error)),
    }
}

/// Runs the health checks, one after another.
pub(super) async fn checks(checks: &[Check]) -> Vec<Checked> {
    let mut results = Vec::with_capacity(checks.len());
    for check in checks {
        let ran =
            command::run(&Program::of(&check.command), Duration::from_secs(check.timeout_seconds), None)
                .await;
        let (ok, message) = match ran {
            Ran::Exited(Some(0), _) => (true, None),
            Ran::Exited(code, written) => (false, Some(complaint(code, &written.text))),
            Ran::TooLong(_) => (false, Some("took too long".to_owned())),
            Ran::NotStarted(error) => (false, Some(error)),
        };
        results.push(Checked { name: check.name.clone(), ok, message });
    }
    fitting(results)
}

/// The room for checks in one heartbeat. The server refuses a larger heartbeat, and the node would be
/// considered silent.
const MOST_BYTES: usize = 60 << 10;

/// Returns the checks that fit into a heartbeat, failed ones first; at least one, because none means healthy.
fn fitting(mut checks: Vec<Checked>) -> Vec<Checked> {
    checks.sort_by_key(|check| check.ok);
    let mut bytes = 0;
    let fits = |check: &&Checked| {
        bytes += serde_json::to_vec(check).map_or(MOST_BYTES, |text| text.len() + 1);
        bytes <= MOST_BYTES
    };
    let (told, all) = (checks.iter().take_while(fits).count().max(1), checks.len());
    if told < all {
        tracing::warn!(
            told,
            all,
            "the results of the checks are too large for a heartbeat; some are left out"
        );
        checks.truncate(told);
    }
    checks
}

/// Returns the result of a task. A detail line that cannot be read makes it a failure, because it may have reported one.
fn ended(outcome: Outcome, exit_code: Option<i32>, written: Written) -> TaskResult {
    let Written { mut text, details, unreadable } = written;
    let mut outcome = outcome;
    if let Some(line) = unreadable {
        text = format!("{}\nthis line cannot be read: {line}", text.trim_end());
        if outcome == Outcome::Succeeded {
            outcome = Outcome::Failed;
        }
    }
    let output = last(&text, MOST);
    TaskResult { epoch: 0, outcome: outcome.to_string(), exit_code, output, details }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn task(config: &Config, task: Task) -> TaskResult {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("running");
        let result = super::task(config, task, &mark).await;
        assert!(result.output.contains("ended after") || !mark.exists(), "nothing runs any more");
        result
    }

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

    #[test]
    fn failures_come_first_and_the_rest_is_cut() {
        let check =
            |ok, message: &str| Checked { name: "c".to_owned(), ok, message: Some(message.to_owned()) };
        let few = vec![check(true, "fine"), check(false, "broken")];
        assert_eq!(fitting(few), [check(false, "broken"), check(true, "fine")]);
        assert_eq!(fitting(Vec::new()), []);
        let mut many = vec![check(true, &"x".repeat(500)); 300];
        many.push(check(false, "broken"));
        let told = fitting(many);
        assert_eq!(told[0], check(false, "broken"));
        let bytes = serde_json::to_vec(&told).unwrap().len();
        assert!((50 << 10..64 << 10).contains(&bytes), "{bytes}");
        assert_eq!(fitting(vec![check(false, &"x".repeat(100 << 10))]).len(), 1, "it is not well");
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
        assert_eq!(nothing.outcome, "refused", "a task without a command is refused");
    }

    #[tokio::test]
    async fn a_check_that_says_nothing_says_how_it_ended() {
        for (script, said) in
            [("exit 3", "exit code 3"), ("kill -9 $$", "ended by a signal"), ("echo hot; exit 3", "hot")]
        {
            let command = ["sh", "-c", script].map(str::to_owned).to_vec();
            let check = Check { name: "gpus".to_owned(), command, timeout_seconds: 60 };
            assert_eq!(checks(&[check]).await[0].message.as_deref(), Some(said), "{script}");
        }
    }

    #[tokio::test]
    async fn output_is_bounded_and_details_are_read() {
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

    /// A disk that could not be erased is reported, however much output and however many other details follow.
    #[tokio::test]
    async fn a_detail_is_read_wherever_it_stands() {
        let script = "echo 'detail: {\"name\":\"nvme0\",\"method\":\"crypto\",\"ok\":false}' >&2; yes | head -c 100000; \
                      yes 'detail: {\"name\":\"other\",\"ok\":true}' | head -n 300; \
                      printf 'detail:{\"name\":\"last\",\"ok\":false}'";
        let result = task(&configured(script), asked("node.drain")).await;
        assert_eq!(result.outcome, "succeeded", "what failed is in the details: {}", result.output);
        let failed: Vec<_> = result.details.iter().filter(|detail| !detail.ok).collect();
        let names: Vec<_> = failed.iter().map(|detail| detail.name.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.contains(&"nvme0") && names.contains(&"last"), "{names:?}");
        assert_eq!(result.details.len(), 256);
    }

    #[tokio::test]
    async fn a_detail_that_cannot_be_read_fails_the_task() {
        let long = format!("detail: {{\"name\":\"{}\",\"ok\":true}}", "x".repeat(5000));
        for line in ["detail: nvme0 ok", "detail: {\"name\":\"nvme0\"}", "detail:", &long] {
            let script = format!("echo '{line}'; yes | head -c 100000");
            let result = task(&configured(&script), asked("node.drain")).await;
            assert_eq!((result.outcome.as_str(), result.exit_code), ("failed", Some(0)), "{line}");
            assert!(result.output.contains(&line[..7]) && result.output.len() <= MOST, "{line}");
        }
        let refused = task(&configured("echo detail: no; exit 69"), asked("node.drain")).await;
        assert_eq!(refused.outcome, "refused");
    }

    #[tokio::test]
    async fn a_slow_command_is_ended_and_its_output_kept() {
        let script = "yes | head -c 100000; echo begun; exec sleep 60";
        let result = task(&configured(script), asked("node.drain")).await;
        assert_eq!(result.outcome, "failed");
        assert!(
            result.output.len() <= MOST && result.output.ends_with("begun\nended after 2 s"),
            "{}",
            result.output
        );
    }

    /// Returns whether a process runs; a zombie does not.
    fn lives(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    async fn ends(pid: &str) {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts a long-lived child, writes its id to a file, and waits for it.
    fn with_child(file: &std::path::Path) -> Config {
        configured(&format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display()))
    }

    #[tokio::test]
    async fn children_of_a_command_end_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        let result = task(&with_child(&file), asked("node.drain")).await;
        assert_eq!(result.outcome, "failed");
        let child = std::fs::read_to_string(&file).unwrap();
        tokio::time::timeout(Duration::from_secs(60), ends(child.trim())).await.unwrap();
    }

    /// An agent that is killed between the two would leave an unknown command. A pipe that is never read
    /// keeps the agent in between.
    #[tokio::test]
    async fn a_command_runs_only_when_it_is_written_down() {
        let dir = tempfile::tempdir().unwrap();
        let (mark, ran) = (dir.path().join("running"), dir.path().join("ran"));
        let made = std::process::Command::new("mkfifo").arg(&mark).status().unwrap();
        assert!(made.success());
        let config = configured(&format!("touch {}", ran.display()));
        let reader = std::thread::spawn({
            let (mark, ran) = (mark.clone(), ran.clone());
            move || {
                std::thread::sleep(Duration::from_millis(500));
                (ran.exists(), std::fs::read_to_string(mark).unwrap())
            }
        });
        let result = command::run(
            &Program::of(&config.tasks["node.drain"].command),
            Duration::from_secs(60),
            Some(&mark),
        )
        .await;
        let (too_early, noted) = reader.join().unwrap();
        assert!(matches!(result, Ran::Exited(Some(0), _)) && ran.exists(), "{noted}");
        assert!(!too_early, "{noted}");
    }

    /// A command from before still runs and ignores `SIGTERM`: it is killed before the next one starts.
    #[tokio::test]
    async fn nothing_begins_beside_what_was_begun_before() {
        let dir = tempfile::tempdir().unwrap();
        let (mark, file) = (dir.path().join("running"), dir.path().join("child"));
        let stubborn = format!("trap '' TERM; echo $$ > {0}.new; mv {0}.new {0}; sleep 600", file.display());
        let mut before = std::process::Command::new("sh");
        let mut before = std::os::unix::process::CommandExt::process_group(&mut before, 0)
            .args(["-c", &stubborn])
            .spawn()
            .unwrap();
        orphan::note(&mark, before.id()).unwrap();
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut config =
            configured(&format!("! kill -0 {0} || grep -q '^State:.Z' /proc/{0}/status", before.id()));
        config.tasks.get_mut("node.drain").unwrap().timeout_seconds = Some(60);
        let result = super::task(&config, asked("node.drain"), &mark).await;
        assert_eq!(result.outcome, "succeeded", "{}", result.output);
        before.wait().unwrap();
    }

    /// A task that no longer belongs to this agent is dropped in the middle.
    #[tokio::test]
    async fn children_of_a_command_end_when_its_caller_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        let mut config = with_child(&file);
        config.tasks.get_mut("node.drain").unwrap().timeout_seconds = Some(600);
        let mut asked = asked("node.drain");
        asked.time_limit = 600;
        let child = tokio::select! {
            result = task(&config, asked) => panic!("{result:?}"),
            child = async {
                loop {
                    if let Ok(child) = std::fs::read_to_string(&file) {
                        break child;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            } => child,
        };
        tokio::time::timeout(Duration::from_secs(60), ends(child.trim())).await.unwrap();
    }
}
