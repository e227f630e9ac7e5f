//! The client of Kubernetes against the fake: applies, deletions, watches, and every fault that can be ordered.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use serde_json::{Value, json};
use wardroom_fakes::{
    fault,
    kubernetes::{self as fake, Order, Outcome, Watches},
};
use wardroom_upstream::{
    Failure, Repeat,
    kubernetes::{Change, Kind, Kubernetes, Options, Propagation, Removal, Source, Target, Watched},
};

const TIMEOUT: Duration = Duration::from_millis(500);

/// A fake, and clients of it.
struct Cluster {
    fake: fake::Kubernetes,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let options = fake::Options { token: Some("right".to_owned()), ..fake::Options::default() };
        let cluster = Self {
            fake: fake::Kubernetes::start(options).await.unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        cluster
            .client("a")
            .await
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}}))
            .await
            .unwrap();
        cluster
    }

    async fn client(&self, manager: &str) -> Kubernetes {
        self.client_with(manager, &self.fake.kubeconfig()).await
    }

    async fn client_with(&self, manager: &str, kubeconfig: &str) -> Kubernetes {
        let path = self.folder.path().join("config");
        std::fs::write(&path, kubeconfig).unwrap();
        let options = Options {
            source: Source::File(path),
            manager: manager.to_owned(),
            timeout: Some(TIMEOUT),
            watch: Some(Duration::from_secs(1)),
        };
        Kubernetes::new(options).await.unwrap()
    }

    fn fault(&self, on: &str, kind: &str) {
        self.fake.faults().order(fault::Order::once(on, kind)).unwrap();
    }

    fn stall(&self, kind: &str) {
        let (namespace, name) = (None, None);
        self.fake.order(Order {
            kind: kind.to_owned(),
            namespace,
            name,
            outcome: Outcome::Stall,
            after_ms: 0,
        });
    }
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "t", "labels": {"app": "c"}}, "data": data})
}

fn target(name: &str) -> Target {
    Target { kind: Kind::new("v1", "ConfigMap"), namespace: Some("t".to_owned()), name: name.to_owned() }
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "c", "namespace": "t"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "c"}}, "template": {"metadata": {"labels": {"app": "c"}},
            "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]}}}})
}

fn watched(kind: Kind, selector: &str) -> Watched {
    Watched { kind, namespace: Some("t".to_owned()), selector: selector.to_owned() }
}

/// Returns changes in short, up to one that is looked for.
async fn until(stream: &mut (impl Stream<Item = Change> + Unpin), wanted: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let all = async {
        while seen.last().is_none_or(|last| last != wanted) {
            seen.push(match stream.next().await.unwrap() {
                Change::Applied(object) if object["data"]["x"].is_string() => {
                    format!("applied {} {}", name(&object), object["data"]["x"].as_str().unwrap())
                }
                Change::Applied(object) => format!("applied {}", name(&object)),
                Change::Deleted(object) => format!("deleted {}", name(&object)),
                Change::Listed(watched) => format!("listed {}", watched.kind.kind),
                Change::Interrupted { failure, .. } => format!("interrupted: {failure}"),
            });
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), all).await.is_err() {
        panic!("{wanted:?} did not come after {seen:?}");
    }
    seen
}

#[tokio::test]
async fn applied_fields_are_owned_and_foreign_ones_stay() {
    let cluster = Cluster::start().await;
    let (a, b) = (cluster.client("a").await, cluster.client("b").await);
    assert_eq!(a.version().await.unwrap(), "v1.36.4");
    let first = a.apply(&map("m", &json!({"x": "1", "y": "1"}))).await.unwrap();
    let again = a.apply(&map("m", &json!({"x": "1", "y": "1"}))).await.unwrap();
    assert_eq!(first, again, "the same again changes nothing");
    b.apply(&map("m", &json!({"z": "1"}))).await.unwrap();
    // `y` is dropped by its owner, `z` belongs to another, `x` is taken by force.
    b.apply(&map("m", &json!({"z": "1", "x": "2"}))).await.unwrap();
    let repaired = a.apply(&map("m", &json!({"x": "1"}))).await.unwrap();
    assert_eq!(repaired["data"], json!({"x": "1", "z": "1"}));
    assert_eq!(a.get(&target("m")).await.unwrap(), repaired);
    let found = a.list(&Kind::new("v1", "ConfigMap"), None, "app=c").await.unwrap();
    assert_eq!(found, [repaired], "items of lists are whole objects");
    assert_eq!(a.list(&Kind::new("v1", "ConfigMap"), Some("t"), "app=z").await.unwrap(), Vec::<Value>::new());

    assert_eq!(a.delete(&target("m"), Propagation::Background).await.unwrap(), Removal::Gone);
    assert_eq!(a.delete(&target("m"), Propagation::Background).await.unwrap(), Removal::Gone);
    assert_eq!(a.get(&target("m")).await.unwrap_err(), Failure::NotFound);
}

#[tokio::test]
async fn refusals_have_a_class_and_name_their_reason() {
    let cluster = Cluster::start().await;
    let a = cluster.client("a").await;
    let refused = async |object: Value, status: u16, text: &str| {
        let failure = a.apply(&object).await.unwrap_err();
        assert_eq!(failure.repeat(), Repeat::Useless, "{failure}");
        assert!(
            matches!(&failure, Failure::Refused { status: is, detail } if *is == status && detail.contains(text)),
            "{failure}"
        );
    };
    let with = |pointer: &str, value: Value| {
        let mut object = deployment();
        *object.pointer_mut(pointer).unwrap() = value;
        object
    };
    refused(with("/metadata/namespace", json!("none")), 404, "namespaces \"none\" not found").await;
    refused(with("/kind", json!("Frob")), 404, "no kind Frob in apps/v1").await;
    refused(with("/spec/replicas", json!(-1)), 422, "spec.replicas").await;
    refused(with("/spec/replicas", json!("x")), 500, ".spec.replicas").await;
    refused(with("/spec", json!({"frob": 1})), 500, "field not declared in schema").await;
    let failure =
        a.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "../x"}})).await;
    assert!(matches!(failure, Err(Failure::Setup(_))), "{failure:?}");
    let selector = a.list(&Kind::new("v1", "ConfigMap"), None, "==").await.unwrap_err();
    assert!(matches!(selector, Failure::Refused { status: 400, .. }), "{selector}");

    let hold = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t", "finalizers": ["example.com/hold"]}});
    a.apply(&hold).await.unwrap();
    let namespace = Target::of(&hold).unwrap();
    let removal = a.delete(&namespace, Propagation::Background).await.unwrap();
    assert!(
        matches!(&removal, Removal::Ending(left) if left["status"]["phase"] == "Terminating"),
        "{removal:?}"
    );
    refused(map("late", &json!({})), 403, "being terminated").await;

    let config = cluster.fake.kubeconfig().replace("right", "wrong");
    let denied = cluster.client_with("a", &config).await.get(&target("m")).await.unwrap_err();
    assert!(denied.is_denied(), "{denied}");
}

#[tokio::test]
async fn a_deployment_is_ready_when_it_is_due_and_takes_its_own_along() {
    let cluster = Cluster::start().await;
    let a = cluster.client("a").await;
    let (kind, sets) = (Kind::new("apps/v1", "Deployment"), Kind::new("apps/v1", "ReplicaSet"));
    cluster.stall("Deployment");
    let mut changes = a.watch(vec![watched(kind.clone(), ""), watched(sets.clone(), "")]);
    a.apply(&deployment()).await.unwrap();
    let target = Target::of(&deployment()).unwrap();
    let ready = async |wanted: Option<i64>| loop {
        let status = a.get(&target).await.unwrap()["status"].clone();
        if status["observedGeneration"].is_number() && status["readyReplicas"].as_i64() == wanted {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let status = ready(None).await;
    assert_eq!(status["unavailableReplicas"], 2, "{status}");
    let (name, namespace) = (Some("c".to_owned()), Some("t".to_owned()));
    cluster.fake.order(Order {
        kind: "Deployment".to_owned(),
        namespace,
        name,
        outcome: Outcome::Succeed,
        after_ms: 200,
    });
    let status = tokio::time::timeout(Duration::from_secs(10), ready(Some(2))).await.unwrap();
    assert!(status.get("unavailableReplicas").is_none(), "{status}");
    assert_eq!(a.list(&sets, Some("t"), "app=c").await.unwrap().len(), 1);

    let removal = a.delete(&target, Propagation::Foreground).await.unwrap();
    assert!(matches!(removal, Removal::Ending(_)), "{removal:?}");
    until(&mut changes, "deleted c").await;
    assert_eq!(a.list(&sets, Some("t"), "").await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_job_completes_or_fails_as_ordered() {
    let cluster = Cluster::start().await;
    let a = cluster.client("a").await;
    let order = |name: &str, outcome| {
        let (kind, namespace, name) = ("Job".to_owned(), None, Some(name.to_owned()));
        cluster.fake.order(Order { kind, namespace, name, outcome, after_ms: 0 });
    };
    order("bad", Outcome::Fail);
    for (name, wanted) in [("good", "Complete"), ("bad", "Failed")] {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "t"}, "spec":
            {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}}});
        a.apply(&job).await.unwrap();
        let has = |job: &Value| {
            job["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["type"] == wanted && one["status"] == "True"))
        };
        let mut seen = Value::Null;
        for _ in 0..500 {
            seen = a.get(&Target::of(&job).unwrap()).await.unwrap();
            if has(&seen) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(has(&seen), "{seen}");
        // What is applied again is what is there: the template of a Job cannot be changed.
        a.apply(&job).await.unwrap();
        let mut other = job.clone();
        other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
        assert!(matches!(a.apply(&other).await, Err(Failure::Refused { status: 422, .. })));
    }
}

#[tokio::test]
async fn each_fault_has_its_class_and_the_next_call_works() {
    let cluster = Cluster::start().await;
    let a = cluster.client("a").await;
    a.apply(&map("m", &json!({}))).await.unwrap();
    let path = "PATCH /api/v1/namespaces/t/configmaps";
    let is = |failure: &Failure, kind: &str| match kind {
        "429" => *failure == Failure::Busy { after: Some(Duration::from_secs(1)) },
        "hang" | "lost_reply" => matches!(failure, Failure::Ambiguous(_)),
        status => matches!(failure, Failure::Failed { status: is, .. } if is.to_string() == status),
    };
    for kind in ["429", "500", "503", "504", "hang", "lost_reply"] {
        cluster.fault(path, kind);
        let object = map("m", &json!({"x": kind}));
        let failure = a.apply(&object).await.unwrap_err();
        assert!(is(&failure, kind), "{kind}: {failure:?}");
        assert_ne!(failure.repeat(), Repeat::Useless, "{kind}");
        // Nothing was repeated by the client: only a lost answer was applied.
        let applied = a.get(&target("m")).await.unwrap()["data"]["x"] == kind;
        assert_eq!(applied, kind == "lost_reply", "{kind}");
        a.apply(&object).await.unwrap();
    }
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [],
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x"}}]});
    let nowhere = cluster.client_with("a", &config.to_string()).await;
    let failure = nowhere.version().await.unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure:?}");
}

#[tokio::test]
async fn a_watch_reports_every_difference_whatever_happens_to_it() {
    let cluster = Cluster::start().await;
    let a = cluster.client("a").await;
    a.apply(&map("old", &json!({"x": "1"}))).await.unwrap();
    a.apply(&map("gone", &json!({"x": "1"}))).await.unwrap();
    let mut changes = a.watch(vec![watched(Kind::new("v1", "ConfigMap"), "app=c")]);
    let begin = until(&mut changes, "listed ConfigMap").await;
    assert_eq!(begin, ["applied gone 1", "applied old 1", "listed ConfigMap"]);

    // Longer than one watch of a second: it goes on without listing again.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    a.apply(&map("new", &json!({"x": "1"}))).await.unwrap();
    assert_eq!(until(&mut changes, "applied new 1").await, ["applied new 1"]);

    // Expired while it was cut off: it lists, and reports only the differences.
    let path = "WATCH /api/v1/namespaces/t/configmaps";
    cluster.fault(path, "503");
    cluster.fake.watches(Watches::Cut);
    a.apply(&map("new", &json!({"x": "2"}))).await.unwrap();
    a.delete(&target("gone"), Propagation::Background).await.unwrap();
    cluster.fake.watches(Watches::Expire);
    let seen = until(&mut changes, "listed ConfigMap").await;
    let reported: Vec<_> = seen.iter().filter(|change| !change.starts_with("interrupted")).collect();
    assert_eq!(reported, ["applied new 2", "deleted gone", "listed ConfigMap"]);
    assert!(seen.iter().any(|change| change.contains("503")), "{seen:?}");

    for kind in ["410", "429", "500", "hang", "lost_reply"] {
        cluster.fault(path, kind);
        cluster.fake.watches(Watches::Cut);
        a.apply(&map("new", &json!({"x": kind}))).await.unwrap();
        let seen = until(&mut changes, &format!("applied new {kind}")).await;
        assert!(seen.iter().filter(|change| change.starts_with("applied")).count() == 1, "{seen:?}");
    }
    // A label that is no longer there is a deletion for the selector.
    let mut other = map("old", &json!({"x": "1"}));
    other["metadata"]["labels"] = json!({});
    a.apply(&other).await.unwrap();
    until(&mut changes, "deleted old").await;
}

#[tokio::test]
async fn a_watch_that_went_silent_is_opened_again() {
    let cluster = Cluster::start().await;
    let a = cluster.client("a").await;
    let mut changes = a.watch(vec![watched(Kind::new("v1", "ConfigMap"), "")]);
    until(&mut changes, "listed ConfigMap").await;
    cluster.fake.watches(Watches::Silence);
    a.apply(&map("m", &json!({"x": "1"}))).await.unwrap();
    // Nothing comes while the connection is open and silent; its patience is a second and ten more.
    let early = tokio::time::timeout(Duration::from_millis(1500), changes.next()).await;
    assert!(early.is_err(), "{early:?}");
    let (seen, ()) = tokio::join!(until(&mut changes, "applied m 1"), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.fake.watches(Watches::Speak);
        // Only new watches hear of it: the old connection is as good as dead.
        cluster.fake.watches(Watches::Cut);
    });
    assert!(seen.len() <= 2, "{seen:?}");
}

#[tokio::test]
async fn long_lists_are_read_to_the_end_though_their_pages_expire() {
    let cluster = Cluster::start().await;
    let a = cluster.client("a").await;
    for number in 0..501 {
        a.apply(&map(&format!("m{number}"), &json!({}))).await.unwrap();
    }
    let all = async || a.list(&Kind::new("v1", "ConfigMap"), Some("t"), "").await.map(|items| items.len());
    assert_eq!(all().await, Ok(501));
    cluster.fault("GET /api/v1/namespaces/t/configmaps", "410");
    assert_eq!(all().await, Ok(501));
}
