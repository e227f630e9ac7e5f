//! How the agent handles answers of its server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use wardroom_api::{
    Problem,
    client::Error,
    gpu_node::agent::{Check, ClaimRequest, Claimed, Detail, Recorded, Task, TaskResult},
};

use super::{
    Agent, BTreeSet, Config, Keeper, Options, brief, client,
    enrol::{enrol, other_token_warning},
    is_final, is_unreadable,
    keep::Kept,
    turned, unreadable,
};

/// Starts a server that answers each request with `answer` of its body; returns its URL.
fn serve(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let head = line.to_ascii_lowercase();
                length = head.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let (status, said) = answer(std::str::from_utf8(&body).unwrap());
            let length = said.len();
            let head =
                format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            reader.into_inner().write_all(format!("{head}{said}").as_bytes()).unwrap();
        }
    });
    url
}

fn options(server: String, dir: &Path) -> Options {
    let token_file = Some(dir.join("token"));
    std::fs::write(dir.join("token"), "wrb_one").unwrap();
    Options { server, token_file, state_dir: dir.to_owned(), config: dir.join("config"), ca_file: None }
}

fn problem(status: u16) -> (u16, String) {
    (status, serde_json::to_string(&told(status)).unwrap())
}

/// An enrolled agent ignores another token and warns.
#[test]
fn an_enrolled_agent_warns_of_another_token() {
    let dir = tempfile::tempdir().unwrap();
    let options = options("http://127.0.0.1:1".to_owned(), dir.path());
    let told = |token_end: &str| {
        let token_end = token_end.to_owned();
        other_token_warning(&options, &Kept { node: "n".to_owned(), credential: "c".to_owned(), token_end })
    };
    assert_eq!(told("rb_one"), None, "the same");
    assert!(told("rb_two").unwrap().contains(&dir.path().display().to_string()));
}

/// A retry would get the same answer, so the agent ends with the reason.
#[tokio::test]
async fn an_enrolment_that_is_refused_ends_the_agent() {
    for (status, why) in
        [(400, "understand"), (401, "token"), (403, "token"), (404, "token"), (413, "understand")]
    {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(dir.path()).unwrap();
        let options = options(serve(move |_| problem(status)), dir.path());
        let ended = tokio::time::timeout(Duration::from_secs(60), enrol(&options, &keeper)).await;
        let Err(error) = ended.expect("it is not asked for ever") else { panic!("{status}") };
        assert!(error.to_string().contains(why), "{status}: {error}");
    }
}

const BEAT: &str = r#"{"status":"active","next":"@every 00h00m30s","server_time":"2026-11-16T00:00:00Z","has_tasks":false,"lost":[]}"#;

/// Starts a server with one task for the first holder. It answers the first `refusals` results with `refusal`, and then gives
/// the task out in another epoch. Returns the epoch in which it took a result.
fn serve_task(kind: &'static str, refusals: i64, refusal: Problem) -> (String, Arc<OnceLock<i64>>) {
    let taken = Arc::new(OnceLock::new());
    let (took, holder, epoch) = (taken.clone(), OnceLock::new(), AtomicI64::new(1));
    let url = serve(move |body| {
        if let Ok(result) = serde_json::from_str::<TaskResult>(body) {
            if epoch.fetch_add(1, SeqCst) <= refusals {
                return (refusal.status, serde_json::to_string(&refusal).unwrap());
            }
            took.set(result.epoch).unwrap();
            let recorded = Recorded { state: result.outcome, repeated: false };
            return (200, serde_json::to_string(&recorded).unwrap());
        }
        let Ok(claim) = serde_json::from_str::<ClaimRequest>(body) else {
            return (200, BEAT.replace("false", "true"));
        };
        let is_open = took.get().is_none() && *holder.get_or_init(|| claim.holder.clone()) == claim.holder;
        let task = is_open.then(|| Task {
            id: "t-1".to_owned(),
            kind: kind.to_owned(),
            state: "dispatched".to_owned(),
            run: "r".to_owned(),
            epoch: epoch.load(SeqCst),
            time_limit: 60,
            force: false,
        });
        (200, serde_json::to_string(&Claimed { task }).unwrap())
    });
    (url, taken)
}

/// Runs an agent for some rounds with a task whose command is `script`, beside the state folder. Returns whether it ended as
/// uninstalled, and how often the command ran.
async fn lives(server: String, kind: &str, script: &str) -> (bool, usize) {
    let dir = tempfile::tempdir().unwrap();
    let keeper = Keeper::open(&dir.path().join("state")).unwrap();
    let script = format!("cd {}; echo >>ran; {script}", dir.path().display());
    let config: Config =
        toml::from_str(&format!("[tasks.{kind:?}]\ncommand = [\"sh\", \"-c\", {script:?}]\n")).unwrap();
    let client = client(&options(server, dir.path()), None).unwrap();
    let (node, work, told, failing, eager) = ("one".to_owned(), None, None, BTreeSet::new(), 0);
    let mut agent = Agent { client, config: &config, keeper: &keeper, node, work, told, failing, eager };
    let mut uninstalled = false;
    for _ in 0..6 {
        uninstalled = agent.round().await.unwrap().is_none();
        if uninstalled {
            break;
        }
        if agent.work.is_some() {
            agent.wait(Duration::from_secs(60)).await.unwrap();
        }
    }
    (uninstalled, std::fs::read_to_string(dir.path().join("ran")).unwrap().lines().count())
}

/// The command removes the folder that the agent would write its result to.
#[tokio::test]
async fn an_uninstall_that_removes_the_state_folder_is_reported() {
    let lost = Problem { code: "task_lost".to_owned(), ..told(409) };
    for refusals in [0, 1] {
        let (server, taken) = serve_task("node.uninstall", refusals, lost.clone());
        assert_eq!(lives(server, "node.uninstall", "rm -r state").await, (true, 1), "{refusals} refusals");
        assert_eq!(taken.get(), Some(&(refusals + 1)));
    }
}

/// A file in place of a folder prevents writing there, like a full or read-only disk.
#[tokio::test]
async fn a_result_that_cannot_be_written_is_reported_and_its_task_not_executed_again() {
    let lost = Problem { code: "task_lost".to_owned(), ..told(409) };
    for (refusals, refusal) in [(0, &lost), (1, &lost), (1, &told(400)), (3, &told(400))] {
        let (server, taken) = serve_task("node.scrub_gpu", refusals, refusal.clone());
        let script = "rmdir state/results; touch state/results";
        let lived = lives(server, "node.scrub_gpu", script).await;
        assert_eq!(lived, (false, 1), "{refusals} times {}", refusal.status);
        assert_eq!(taken.get(), Some(&(refusals + 1)));
    }
}

/// If the server refuses the output of checks, the output is dropped and the heartbeat counts.
#[tokio::test]
async fn a_beat_comes_through_whatever_checks_say() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = Keeper::open(dir.path()).unwrap();
    let server = serve(move |body| match (body.contains("message"), body.contains(r#""ok":false"#)) {
        (true, _) => problem(400),
        (false, true) => (200, BEAT.to_owned()),
        (false, false) => problem(500),
    });
    let config: Config =
        toml::from_str("[[checks]]\nname = \"gpu\"\ncommand = [\"sh\", \"-c\", \"echo NaN; exit 1\"]\n")
            .unwrap();
    let client = client(&options(server, dir.path()), None).unwrap();
    // It has sent a heartbeat before, and has claimed its own task.
    let (node, told) = ("one".to_owned(), Some("@every 00h00m30s".to_owned()));
    let failing = BTreeSet::new();
    let (config, keeper, work, eager) = (&config, &keeper, None, 0);
    let mut agent = Agent { client, config, keeper, node, work, told, failing, eager };
    assert_eq!(agent.round().await.unwrap(), Some(Duration::from_secs(30)));
}

#[test]
fn a_summary_keeps_the_failures() {
    let check = |number: usize, ok| Check {
        name: format!("\u{7}{number}{}", "é".repeat(200)),
        ok,
        message: Some("x".repeat(500)),
    };
    let mut checks: Vec<_> = (0..100).map(|number| check(number, true)).collect();
    checks.push(check(100, false));
    let checks = brief(checks);
    assert_eq!((checks.len(), checks[0].ok, checks[0].name.chars().count()), (64, false, 100));
    assert!(serde_json::to_string(&checks).unwrap().len() < 64 << 10, "as much as a server reads");
}

fn refused(status: u16) -> Error {
    Error::Problem(Box::new(told(status)))
}

fn told(status: u16) -> Problem {
    let text = String::new;
    Problem {
        type_: text(),
        title: text(),
        status,
        detail: text(),
        code: text(),
        request_id: text(),
        errors: Vec::new(),
        allowed_actions: None,
        resource: None,
        asked: text(),
    }
}

#[test]
fn only_a_lost_identity_ends_an_agent() {
    for (status, ends) in [(400, false), (401, true), (403, true), (404, true), (413, false), (503, false)] {
        assert_eq!(is_final(&refused(status)), ends, "{status}");
    }
    for (status, never) in [(400, true), (413, true), (401, false), (503, false)] {
        assert_eq!(is_unreadable(&refused(status)), never, "{status}");
    }
}

#[test]
fn a_check_is_told_when_it_turns() {
    let check = |name: &str, ok: bool| Check { name: name.to_owned(), ok, message: None };
    let failing = BTreeSet::from(["dcgm".to_owned(), "nccl".to_owned()]);
    let now = [check("dcgm", false), check("nccl", true), check("disk", false), check("fan", true)];
    let told: Vec<_> = turned(&failing, &now).iter().map(|check| check.name.as_str()).collect();
    assert_eq!(told, ["nccl", "disk"]);
}

#[test]
fn a_result_that_cannot_be_read_becomes_a_failure_once() {
    let detail = Detail { name: "\u{7}".to_owned(), method: "erase".to_owned(), ok: true };
    let result = TaskResult {
        epoch: 3,
        outcome: "succeeded".to_owned(),
        details: vec![detail],
        ..TaskResult::default()
    };
    let plain = unreadable(&result, "details: no");
    assert_eq!((plain.epoch, plain.outcome.as_str(), plain.details.len()), (3, "failed", 0));
    assert_eq!(unreadable(&plain, "details: no"), plain, "it is not replaced a second time");
}
