//! The adapter as a program of its own, beside real servers and a Kubernetes that is a fake.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    Api, Backend, Site,
    cluster::{CLUSTERS, REQUIRED, REQUIRED_OF_POOLS, condition, status},
    fakes::Fake,
    on_both, site, wait_long_for,
};

on_both! {
    a_cluster_is_brought_about_kept_and_removed,
    what_is_killed_goes_on_and_makes_nothing_twice,
    a_cluster_that_cannot_be_worked_on_delays_no_other,
    a_node_pool_is_brought_about_and_removed,
}

/// A namespace, a job of a generation, and a map, as the adapter of an installation has them.
const CONFIG: &str = r#"
adapter: {name: validation}
params:
  - {name: region, source: cluster.spec.region, type: string, required: true}
resources:
  - name: namespace
    manifest: {apiVersion: v1, kind: Namespace, metadata: {name: "c-{{ .clusterId }}"}}
  - name: map
    manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: "c-{{ .clusterId }}"}, data: {region: "{{ .region }}"}}
  - name: job
    manifest:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: "job-{{ .generation }}", namespace: "c-{{ .clusterId }}"}
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/c:1}]}}}
post:
  parameters:
    - name: payload
      build:
        conditions:
          applied: {status: {expression: resources.map.data.region == region}}
          available: {status: {expression: "resources.job.status.conditions[?(@.type=='Complete')].status == 'True'"}}
          health: {status: {expression: "true"}}
"#;

/// A map for a node pool, in a namespace of its own.
const POOL_CONFIG: &str = r#"
adapter: {name: validation, kind: NodePool}
params:
  - {name: size, source: cluster.spec.size, type: int, required: true}
resources:
  - name: namespace
    manifest: {apiVersion: v1, kind: Namespace, metadata: {name: "p-{{ .nodePoolId }}"}}
  - name: map
    manifest:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: pool, namespace: "p-{{ .nodePoolId }}"}
      data: {cluster: "{{ .clusterId }}", size: "{{ .size }}"}
post:
  parameters:
    - name: payload
      build:
        conditions:
          applied: {status: {expression: resources.map.data.cluster == clusterId}}
          available: {status: {expression: resources.map.data.cluster == clusterId}}
          health: {status: {expression: "true"}}
"#;

/// An adapter that runs until it is killed.
struct Adapter {
    child: Child,
    log: PathBuf,
}

impl Adapter {
    fn start(site: &Site, dir: &Path, server: SocketAddr) -> Self {
        Self::start_with(CONFIG, site, dir, server)
    }

    fn start_with(text: &str, site: &Site, dir: &Path, server: SocketAddr) -> Self {
        let (config, token) = (dir.join("adapter.yaml"), dir.join("token"));
        fs::write(&config, text).unwrap();
        if !token.exists() {
            let create = json!({"name": "validation", "role": "adapter", "adapter": "validation"});
            fs::write(&token, site.new_token(&create).1).unwrap();
        }
        let log = dir.join(format!("adapter-{}.log", fs::read_dir(dir).unwrap().count()));
        let mut program = Command::new(site::adapter());
        program.args(["run", "--server", &format!("http://{server}")]).arg("--config").arg(&config);
        program.arg("--token-file").arg(&token).env("KUBECONFIG", dir.join("kubeconfig"));
        program.stdin(Stdio::null()).stderr(fs::File::create(&log).unwrap());
        Self { child: program.spawn().unwrap(), log }
    }

    /// As one that the kernel ends for want of memory.
    fn die(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that stays while the server behind it is restarted.
struct Door {
    address: SocketAddr,
    behind: Arc<Mutex<SocketAddr>>,
}

impl Door {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let door = Self { address: listener.local_addr().unwrap(), behind: Arc::new(Mutex::new(server)) };
        let behind = Arc::clone(&door.behind);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(*behind.lock().unwrap()) else { continue };
                let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || pass(near, far));
                thread::spawn(move || pass(far_again, near_again));
            }
        });
        door
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // The other side may have gone already.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// What Kubernetes has below a path, or nothing.
fn object(fake: &Fake, path: &str) -> Option<Value> {
    let reply = Api::new(fake.address, None).try_send("GET", path, b"").ok()?;
    (reply.status == 200).then(|| reply.json())
}

fn create(site: &Site, name: &str, spec: &Value) -> String {
    let made = site.admin().post(CLUSTERS, &json!({"name": name, "spec": spec})).expect(201);
    made["id"].as_str().unwrap().to_owned()
}

/// Waits until a cluster is reconciled at a generation.
fn wait_reconciled(site: &Site, id: &str, generation: i64) {
    wait_long_for(&format!("{id} to be reconciled at {generation}"), || {
        let shown = site.admin().get(&format!("{CLUSTERS}/{id}")).expect(200);
        (status(&shown, "Reconciled") == "True" && shown["generation"] == generation).then_some(())
    });
}

/// Waits until a cluster is removed.
fn wait_gone(site: &Site, id: &str) {
    wait_long_for(&format!("{id} to be removed"), || {
        (site.admin().get(&format!("{CLUSTERS}/{id}")).status == 404).then_some(())
    });
}

fn a_cluster_is_brought_about_kept_and_removed(on: Backend) {
    let site = Site::start_with(on, &[(REQUIRED, "validation")]);
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::kubernetes(dir.path());
    let adapter = Adapter::start(&site, dir.path(), site.servers[0].address);
    let id = create(&site, "east", &json!({"region": "eu"}));
    wait_reconciled(&site, &id, 1);
    let namespace = format!("/api/v1/namespaces/c-{id}");
    let map = format!("{namespace}/configmaps/settings");
    assert_eq!(object(&fake, &map).unwrap()["data"], json!({"region": "eu"}));

    // A field that another writer changed is set back, one that the manifest does not name is left alone.
    let kubernetes = Api::new(fake.address, None).with("content-type", "application/merge-patch+json");
    let drift = json!({"data": {"region": "moon", "note": "mine"}});
    assert_eq!(kubernetes.send("PATCH", &map, drift.to_string().as_bytes()).status, 200);
    wait_long_for("the drift to be repaired", || {
        (object(&fake, &map)?["data"] == json!({"region": "eu", "note": "mine"})).then_some(())
    });
    assert_eq!(kubernetes.delete(&map).status, 200);
    wait_long_for("the map to be applied again", || object(&fake, &map));

    site.admin().patch(&format!("{CLUSTERS}/{id}"), &json!({"spec": {"region": "us"}})).expect(200);
    wait_reconciled(&site, &id, 2);
    assert_eq!(object(&fake, &map).unwrap()["data"]["region"], "us");

    site.admin().delete(&format!("{CLUSTERS}/{id}")).expect(202);
    wait_gone(&site, &id);
    assert_eq!(object(&fake, &namespace), None, "{}", adapter.log());
}

fn a_node_pool_is_brought_about_and_removed(on: Backend) {
    let site = Site::start_with(on, &[(REQUIRED_OF_POOLS, "validation")]);
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::kubernetes(dir.path());
    let adapter = Adapter::start_with(POOL_CONFIG, &site, dir.path(), site.servers[0].address);
    let cluster = create(&site, "east", &json!({}));
    let pools = format!("{CLUSTERS}/{cluster}/nodepools");
    let made = site.admin().post(&pools, &json!({"name": "gpus", "spec": {"size": 3}})).expect(201);
    let pool = made["id"].as_str().unwrap();
    let path = format!("{pools}/{pool}");
    let reconciled = |generation: i64| {
        wait_long_for(&format!("the pool to be reconciled at {generation}: {}", adapter.log()), || {
            let shown = site.admin().get(&path).expect(200);
            (status(&shown, "Reconciled") == "True" && shown["generation"] == generation).then_some(())
        });
    };
    reconciled(1);
    let map = format!("/api/v1/namespaces/p-{pool}/configmaps/pool");
    assert_eq!(object(&fake, &map).unwrap()["data"], json!({"cluster": cluster, "size": "3"}));
    site.admin().patch(&path, &json!({"spec": {"size": 5}})).expect(200);
    reconciled(2);
    assert_eq!(object(&fake, &map).unwrap()["data"]["size"], "5");
    // The pool goes first, with what was made for it; then its cluster, which waits for no adapter.
    site.admin().delete(&format!("{CLUSTERS}/{cluster}")).expect(202);
    wait_gone(&site, &cluster);
    site.admin().get(&path).problem(404);
    assert_eq!(object(&fake, &format!("/api/v1/namespaces/p-{pool}")), None, "{}", adapter.log());
}

fn what_is_killed_goes_on_and_makes_nothing_twice(on: Backend) {
    let mut site = Site::start_with(on, &[(REQUIRED, "validation")]);
    let dir = tempfile::tempdir().unwrap();
    let mut fake = Fake::kubernetes(dir.path());
    let door = Door::to(site.servers[0].address);
    let mut ids = Vec::new();
    let mut adapter = Adapter::start(&site, dir.path(), door.address);
    // Two of the same do no harm.
    let _other = Adapter::start(&site, dir.path(), door.address);
    for round in 0..4 {
        ids.push(create(&site, &format!("cluster-{round}"), &json!({"region": "eu"})));
        thread::sleep(Duration::from_millis(30 * round));
        match round % 3 {
            0 => {
                adapter.die();
                adapter = Adapter::start(&site, dir.path(), door.address);
            }
            1 => {
                fake.kill();
                thread::sleep(Duration::from_millis(300));
                fake.restart();
            }
            _ => {
                site.servers[0].kill();
                thread::sleep(Duration::from_millis(300));
                site.restart(0);
                *door.behind.lock().unwrap() = site.servers[0].address;
            }
        }
    }
    for id in &ids {
        wait_reconciled(&site, id, 1);
        let jobs = object(&fake, &format!("/apis/batch/v1/namespaces/c-{id}/jobs")).unwrap();
        assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "{jobs}");
    }
    // Deletions survive the same.
    for id in &ids {
        site.admin().delete(&format!("{CLUSTERS}/{id}")).expect(202);
    }
    adapter.die();
    fake.kill();
    fake.restart();
    let _adapter = Adapter::start(&site, dir.path(), door.address);
    for id in &ids {
        wait_gone(&site, id);
        assert_eq!(object(&fake, &format!("/api/v1/namespaces/c-{id}")), None);
    }
}

fn a_cluster_that_cannot_be_worked_on_delays_no_other(on: Backend) {
    let site = Site::start_with(on, &[(REQUIRED, "validation")]);
    let dir = tempfile::tempdir().unwrap();
    let _fake = Fake::kubernetes(dir.path());
    let _adapter = Adapter::start(&site, dir.path(), site.servers[0].address);
    let bad = create(&site, "bad", &json!({"zone": "no region"}));
    let good: Vec<_> =
        (0..5).map(|at| create(&site, &format!("good-{at}"), &json!({"region": "eu"}))).collect();
    for id in &good {
        wait_reconciled(&site, id, 1);
    }
    let path = format!("{CLUSTERS}/{bad}");
    let said = wait_long_for("the error to be reported", || {
        let shown = site.admin().get(&path).expect(200);
        Some(condition(&shown, "ValidationSuccessful")).filter(Value::is_object)
    });
    assert_eq!((&said["status"], &said["reason"]), (&json!("False"), &json!("AdapterError")), "{said}");
    let statuses = site.admin().get(&format!("{path}/statuses")).expect(200);
    let conditions = statuses["items"][0]["conditions"].as_array().unwrap();
    let health = conditions.iter().find(|condition| condition["type"] == "Health").unwrap();
    assert_eq!(health["status"], "False");
    assert!(health["message"].as_str().unwrap().contains("params region: it is required"), "{health}");
    // A change makes it right.
    site.admin().patch(&path, &json!({"spec": {"region": "us"}})).expect(200);
    wait_reconciled(&site, &bad, 2);
}
