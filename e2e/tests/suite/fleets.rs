//! Fleets: who owns which device, how a template reaches them, what stops it, and what brings the earlier one back.

use serde_json::{Value, json};

use crate::support::{
    Backend, Reply, Site, at_once,
    device::{Device, open_token, statuses},
    on_both, wait_for,
};

on_both! {
    a_template_reaches_its_devices_batch_by_batch,
    a_rollout_stops_at_its_threshold_and_a_rollback_cures_it,
    a_device_belongs_to_the_fleet_that_selects_it,
    where_fleets_overlap_a_device_keeps_its_owner,
    a_disruption_budget_is_kept,
    no_device_is_given_a_template_after_a_pause,
    operators_that_act_at_once_have_one_effect,
    a_device_that_is_relabelled_leaves_the_rollout,
    a_rollout_goes_on_after_a_kill,
    a_device_out_of_service_leaves_its_fleet,
    a_device_that_takes_too_long_has_failed,
    a_wrong_fleet_is_refused,
}

fn path(name: &str) -> String {
    format!("/api/v1/fleets/{name}")
}

/// A template with one file.
fn template(content: &str) -> Value {
    json!({"spec": {"config": [{"name": "motd", "inline": [{"path": "/etc/motd", "content": content}]}]}})
}

/// A fleet of the devices with a label.
pub(crate) fn fleet(name: &str, label: &str, content: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"fleet": label}}, "template": template(content)}})
}

pub(crate) fn with_policy(mut fleet: Value, policy: Value) -> Value {
    fleet["spec"]["rolloutPolicy"] = policy;
    fleet
}

pub(crate) fn create(site: &Site, fleet: &Value) -> Value {
    site.admin().post("/api/v1/fleets", fleet).expect(201)
}

pub(crate) fn change(site: &Site, fleet: &Value) -> Reply {
    site.admin_at(1).put(&path(fleet["metadata"]["name"].as_str().unwrap()), fleet)
}

fn get(site: &Site, name: &str) -> Value {
    site.admin().get(&path(name)).expect(200)
}

/// Waits until the rollout of a fleet is as told: its state, and how many devices are updated, updating, failed, waiting.
pub(crate) fn stands(site: &Site, name: &str, state: &str, counts: [u64; 4]) -> Value {
    let mut last = Value::Null;
    for _ in 0..3000 {
        last = get(site, name);
        let rollout = &last["status"]["rollout"];
        let found =
            ["updated", "updating", "failed", "waiting"].map(|count| rollout[count].as_u64().unwrap());
        if rollout["state"] == state && found == counts {
            return last;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{name} is not {state} with {counts:?}: {last:#}");
}

/// Devices that are heard, in the order of their names.
fn devices(site: &Site, token: &str, labels: &[Value]) -> Vec<Device> {
    let mut devices: Vec<_> =
        labels.iter().map(|labels| Device::enrolled_with(site, token, labels)).collect();
    devices.iter().for_each(|device| assert_eq!(device.report(site, 0, &json!({})).status, 204));
    devices.sort_by(|one, other| one.name.cmp(&other.name));
    devices
}

pub(crate) fn some(site: &Site, token: &str, count: usize) -> Vec<Device> {
    devices(site, token, &vec![json!({"fleet": "web"}); count])
}

fn shown(site: &Site, device: &Device) -> Value {
    site.admin().get(&format!("/api/v1/devices/{}", device.name)).expect(200)
}

fn annotation(device: &Value, name: &str) -> u64 {
    device["metadata"]["annotations"][name].as_str().map_or(0, |version| version.parse().unwrap())
}

fn owner(site: &Site, device: &Device) -> Option<String> {
    shown(site, device)["metadata"]["owner"].as_str().map(str::to_owned)
}

/// Waits until a device has an owner, or none.
fn is_owned(site: &Site, device: &Device, by: Option<&str>) {
    let by = by.map(|fleet| format!("Fleet/{fleet}"));
    wait_for("the owner", || (owner(site, device) == by).then_some(()));
}

/// Which of the devices were given a version of the template.
fn given(site: &Site, devices: &[Device], version: u64) -> Vec<bool> {
    let has = |device| annotation(&shown(site, device), "templateVersion") == version;
    devices.iter().map(has).collect()
}

/// The device applies what it is given, as an agent that reports.
pub(crate) fn applies(site: &Site, device: &Device) {
    let rendered = device.poll(site, 0, None).expect(200);
    let version = rendered["metadata"]["annotations"]["renderedVersion"].as_str().unwrap();
    let done = json!([{"type": "Updating", "status": "False", "reason": "Updated"}]);
    let report = json!({"config": {"renderedVersion": version}, "conditions": done});
    assert_eq!(device.report(site, 1, &report).status, 204);
}

/// The device gives up what it is given, and runs what it ran.
pub(crate) fn fails(site: &Site, device: &Device, running: &str) {
    let why =
        json!([{"type": "Updating", "status": "False", "reason": "Error", "message": "no room on /var"}]);
    let report = json!({"config": {"renderedVersion": running}, "conditions": why});
    assert_eq!(device.report(site, 0, &report).status, 204);
}

fn a_template_reaches_its_devices_batch_by_batch(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 5);
    let policy = json!({"batches": [{"limit": 1}, {"limit": "40%"}]});
    let staged = |content: &str| with_policy(fleet("web", "web", content), policy.clone());
    let made = create(&site, &staged("one"));
    assert_eq!((&made["spec"]["templateVersion"], &made["metadata"]["generation"]), (&json!("1"), &json!(1)));
    stands(&site, "web", "Active", [0, 1, 0, 4]);
    assert_eq!(given(&site, &devices, 1), [true, false, false, false, false]);
    // The record, the filter and the list of the fleet agree while it rolls.
    let of_fleet = "fieldSelector=metadata.owner=Fleet/web,status.updated=OutOfDate";
    wait_for("all devices of the fleet", || {
        let listed = site.admin().get(&format!("/api/v1/devices?{of_fleet}")).expect(200);
        let items = listed["items"].as_array().unwrap();
        assert!(items.iter().all(|device| statuses(device)[1] == "OutOfDate"), "{listed}");
        (items.len() == 5).then_some(())
    });
    let rendered = devices[0].poll(&site, 1, Some("0")).expect(200);
    assert_eq!(rendered["metadata"]["annotations"], json!({"renderedVersion": "1", "templateVersion": "1"}));
    assert_eq!(rendered["spec"], template("one")["spec"]);
    assert_eq!(shown(&site, &devices[0])["spec"], template("one")["spec"]);
    assert_eq!(shown(&site, &devices[1])["spec"], json!({}));
    applies(&site, &devices[0]);
    stands(&site, "web", "Active", [1, 2, 0, 2]);
    assert_eq!(given(&site, &devices, 1), [true, true, true, false, false]);
    applies(&site, &devices[1]);
    applies(&site, &devices[2]);
    stands(&site, "web", "Active", [3, 2, 0, 0]);
    devices[3..].iter().for_each(|device| applies(&site, device));
    let done = stands(&site, "web", "Inactive", [5, 0, 0, 0]);
    assert_eq!(done["status"]["devices"], json!(5));
    assert!(devices.iter().all(|device| device.statuses(&site)[1] == "UpToDate"));

    // A device's spec is its fleet's, and the refusal names the fleet.
    let own = json!({"spec": template("mine")["spec"]});
    let refused = site.admin().put(&format!("/api/v1/devices/{}", devices[0].name), &own).problem(409);
    assert_eq!(refused["code"], json!("managed_by_fleet"));
    assert!(refused["detail"].as_str().unwrap().contains("\"web\""), "{refused}");
    assert_eq!(refused["allowed_actions"][0]["path"], json!("/api/v1/fleets/web"));
    // The same template makes no version; another one does, and reaches all again, batch by batch.
    assert_eq!(change(&site, &staged("one")).expect(200)["spec"]["templateVersion"], json!("1"));
    assert_eq!(change(&site, &staged("two")).expect(200)["spec"]["templateVersion"], json!("2"));
    stands(&site, "web", "Active", [0, 1, 0, 4]);
    // A device that joins waits for its turn.
    let late = &some(&site, &token, 1)[0];
    is_owned(&site, late, Some("web"));
    applies(&site, &devices[0]);
    stands(&site, "web", "Active", [1, 3, 0, 2]);
    let versions = site.admin().get("/api/v1/fleets/web/templateversions").expect(200);
    let named: Vec<_> =
        versions["items"].as_array().unwrap().iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(named, ["1", "2"]);
    assert_eq!(versions["items"][0]["spec"]["template"], template("one"));
    let history =
        site.admin().get(&format!("/api/v1/history?kind=device&id={}", devices[0].name)).expect(200);
    let rows = history["data"].as_array().unwrap();
    let rollout = rows.iter().find(|row| row["type"] == "rollout").unwrap_or_else(|| panic!("{history}"));
    assert_eq!(
        (&rollout["metadata"]["fleet"], &rollout["metadata"]["templateVersion"]),
        (&json!("web"), &json!("2"))
    );
}

fn a_rollout_stops_at_its_threshold_and_a_rollback_cures_it(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 4);
    let policy = json!({"batches": [{"limit": 2}], "successThreshold": 60});
    let staged = |content: &str| with_policy(fleet("web", "web", content), policy.clone());
    create(&site, &staged("good"));
    site.admin().post("/api/v1/fleets/web/actions/rollback", &json!({})).problem(409);
    for round in 0..2 {
        stands(&site, "web", "Active", [2 * round, 2, 0, 2 - 2 * round]);
        let at = usize::try_from(2 * round).unwrap();
        devices[at..at + 2].iter().for_each(|device| applies(&site, device));
    }
    stands(&site, "web", "Inactive", [4, 0, 0, 0]);
    change(&site, &staged("bad")).expect(200);
    stands(&site, "web", "Active", [0, 2, 0, 2]);
    applies(&site, &devices[1]);
    fails(&site, &devices[0], "1");
    stands(&site, "web", "Suspended", [1, 0, 1, 2]);
    let why = site.admin().get("/api/v1/resources/fleet/web/why").expect(200);
    let cause = format!("device {} failed: no room on /var", devices[0].name);
    assert!(why["data"][0]["blockers"].as_array().unwrap().iter().any(|one| one["what"] == cause), "{why}");
    assert_eq!(why["data"][0]["next"]["action"], json!("rollback"));
    let attention = site.admin().get("/api/v1/attention").expect(200);
    let needs = attention["data"]["needs"].as_array().unwrap();
    let of_fleet: Vec<_> = needs.iter().filter(|need| need["kind"] == "fleet").collect();
    assert_eq!((of_fleet.len(), &of_fleet[0]["why"]), (1, &json!(cause)), "{attention}");
    let filtered = "/api/v1/fleets?fieldSelector=status.rollout.state=Suspended";
    assert_eq!(site.admin().get(filtered).expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(given(&site, &devices, 2), [true, true, false, false]);
    // A device that waits says what for, and who must act.
    let why = site.admin().get(&format!("/api/v1/resources/device/{}/why", devices[3].name)).expect(200);
    let said = why["data"][1]["blockers"].to_string();
    assert!(said.contains("the rollout of its fleet web is Suspended"), "{why}");
    assert_eq!(why["data"][1]["next"]["action"], json!("rollback"));

    let comment = json!({"comment": "it fills the disk"});
    let back = site.admin().post("/api/v1/fleets/web/actions/rollback", &comment).expect(200);
    assert_eq!(back["spec"]["template"], template("good"));
    assert_eq!(
        (&back["spec"]["templateVersion"], &back["status"]["rollout"]["restores"]),
        (&json!("3"), &json!("1"))
    );
    // Those that were not given the bad one keep their version; the others get a higher one with the good spec.
    stands(&site, "web", "Active", [2, 2, 0, 0]);
    let rendered = |device| annotation(&shown(&site, device), "renderedVersion");
    assert_eq!(devices.iter().map(rendered).collect::<Vec<_>>(), [3, 3, 1, 1]);
    assert!(devices[2..].iter().all(|device| device.statuses(&site)[1] == "UpToDate"));
    devices[..2].iter().for_each(|device| applies(&site, device));
    stands(&site, "web", "Inactive", [4, 0, 0, 0]);
    assert!(devices.iter().all(|device| device.statuses(&site)[1] == "UpToDate"));
    // A repeat does nothing.
    let again = site.admin().post("/api/v1/fleets/web/actions/rollback", &json!({})).expect(200);
    assert_eq!(again["spec"]["templateVersion"], json!("3"));
    let history = site.admin().get("/api/v1/history?kind=fleet&id=web").expect(200);
    let rows = history["data"].as_array().unwrap();
    let row = rows.iter().find(|row| row["comment"] == "it fills the disk").unwrap();
    assert_eq!((&row["user_id"], &row["metadata"]["event"]), (&json!("first-admin"), &json!("rollback")));
    assert!(
        site.admin().get("/api/v1/attention").expect(200)["data"]["needs"].as_array().unwrap().is_empty()
    );
}

fn a_device_belongs_to_the_fleet_that_selects_it(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let [device, other] =
        devices(&site, &token, &[json!({"fleet": "web"}), json!({"fleet": "web"})]).try_into().unwrap();
    let empty = json!({"metadata": {"name": "empty"}, "spec": {"template": template("none")}});
    create(&site, &empty);
    stands(&site, "empty", "Inactive", [0, 0, 0, 0]);
    create(&site, &fleet("web", "web", "web"));
    let expressions = json!([{"key": "fleet", "operator": "In", "values": ["db", "cache"]}, {"key": "old", "operator": "DoesNotExist"}]);
    let spec = json!({"selector": {"matchExpressions": expressions}, "template": template("db"), "disconnectionTimeout": "1h"});
    create(&site, &json!({"metadata": {"name": "db"}, "spec": spec}));
    is_owned(&site, &device, Some("web"));
    stands(&site, "web", "Active", [0, 2, 0, 0]);
    applies(&site, &device);
    let label = |labels: Value| {
        let path = format!("/api/v1/devices/{}", device.name);
        site.admin()
            .patch(&path, &json!([{"op": "replace", "path": "/metadata/labels", "value": labels}]))
            .expect(200)
    };
    // Moving to another fleet ends with what that one wants, although both are at version 1.
    label(json!({"fleet": "db"}));
    is_owned(&site, &device, Some("db"));
    stands(&site, "db", "Active", [0, 1, 0, 0]);
    assert_eq!(device.statuses(&site)[1], "OutOfDate");
    applies(&site, &device);
    stands(&site, "db", "Inactive", [1, 0, 0, 0]);
    assert_eq!(device.statuses(&site)[1], "UpToDate");
    assert_eq!(shown(&site, &device)["spec"], template("db")["spec"]);
    // No fleet: it keeps its spec, which a person may change from now on.
    label(json!({"fleet": "db", "old": "yes"}));
    is_owned(&site, &device, None);
    let kept = shown(&site, &device);
    assert_eq!((&kept["spec"], &statuses(&kept)[1]), (&template("db")["spec"], &"UpToDate".to_owned()));
    let own = json!({"metadata": {"labels": {}}, "spec": template("mine")["spec"]});
    let mine = site.admin().put(&format!("/api/v1/devices/{}", device.name), &own).expect(200);
    assert_eq!((&mine["spec"], annotation(&mine, "renderedVersion")), (&template("mine")["spec"], 3));
    // A fleet that is deleted leaves its devices as they are; one that is created again counts on.
    applies(&site, &other);
    site.admin().delete("/api/v1/fleets/web").expect(200);
    is_owned(&site, &other, None);
    assert_eq!(shown(&site, &other)["spec"], template("web")["spec"]);
    site.admin().get("/api/v1/resources/fleet/web/why").expect(200);
    let again = create(&site, &fleet("web", "web", "again"));
    assert_eq!(again["spec"]["templateVersion"], json!("2"));
    is_owned(&site, &other, Some("web"));
    stands(&site, "web", "Active", [0, 1, 0, 0]);
    site.admin().post("/api/v1/fleets/web/actions/rollback", &json!({})).problem(409);
}

fn where_fleets_overlap_a_device_keeps_its_owner(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let device = &some(&site, &token, 1)[0];
    create(&site, &fleet("web", "web", "one"));
    is_owned(&site, device, Some("web"));
    create(&site, &fleet("also", "web", "two"));
    let condition = |site: &Site| {
        let shown = shown(site, device);
        let conditions = shown["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .find(|one| one["type"] == "MultipleOwners")
            .map(|one| one["message"].as_str().unwrap().to_owned())
    };
    let said = wait_for("the condition", || condition(&site));
    assert!(said.contains("also, web") && said.contains("stays with web"), "{said}");
    assert_eq!(owner(&site, device), Some("Fleet/web".to_owned()));
    for (name, other) in [("web", "also"), ("also", "web")] {
        let said = wait_for("the condition of the fleet", || {
            let shown = get(&site, name);
            shown["status"]["conditions"][0]["message"].as_str().map(str::to_owned)
        });
        assert!(said.contains(other) && said.contains(&device.name), "{name}: {said}");
    }
    // A report of the agent does not end the condition, and the device goes on with its owner.
    applies(&site, device);
    stands(&site, "web", "Inactive", [1, 0, 0, 0]);
    assert!(condition(&site).is_some());
    site.admin().delete("/api/v1/fleets/web").expect(200);
    is_owned(&site, device, Some("also"));
    wait_for("the end of the condition", || condition(&site).is_none().then_some(()));
    wait_for("the end of that of the fleet", || {
        (get(&site, "also")["status"]["conditions"] == json!([])).then_some(())
    });
}

fn a_disruption_budget_is_kept(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let at = |place: &str| json!({"fleet": "web", "site": place});
    let all = devices(&site, &token, &[at("a"), at("a"), at("a"), at("b"), at("b")]);
    let policy = json!({"disruptionBudget": {"groupBy": ["site"], "maxUnavailable": 1, "minAvailable": 1}});
    create(&site, &with_policy(fleet("web", "web", "one"), policy));
    for (updated, waiting) in [(0, 3), (2, 1), (4, 0)] {
        let updating = if waiting == 0 { 1 } else { 2 };
        stands(&site, "web", "Active", [updated, updating, 0, waiting]);
        let busy: Vec<_> = all
            .iter()
            .filter(|device| {
                let shown = shown(&site, device);
                annotation(&shown, "templateVersion") == 1 && statuses(&shown)[1] == "OutOfDate"
            })
            .collect();
        let places: Vec<_> =
            busy.iter().map(|device| shown(&site, device)["metadata"]["labels"]["site"].clone()).collect();
        assert!(places.len() < 2 || places[0] != places[1], "{places:?}");
        busy.iter().for_each(|device| applies(&site, device));
    }
    stands(&site, "web", "Inactive", [5, 0, 0, 0]);
    // A budget that allows nothing says so.
    let policy = json!({"disruptionBudget": {"minAvailable": 5}});
    change(&site, &with_policy(fleet("web", "web", "two"), policy)).expect(200);
    let stuck = stands(&site, "web", "Waiting", [0, 0, 0, 5]);
    assert!(stuck["status"]["rollout"]["causes"][0].as_str().unwrap().contains("never allows"), "{stuck}");
    let attention = site.admin().get("/api/v1/attention?kind=fleet").expect(200);
    assert_eq!(attention["data"]["needs"].as_array().unwrap().len(), 1, "{attention}");
}

fn no_device_is_given_a_template_after_a_pause(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 6);
    create(&site, &fleet("web", "web", "0"));
    stands(&site, "web", "Active", [0, 6, 0, 0]);
    for round in 1..4_u64 {
        change(&site, &fleet("web", "web", &round.to_string())).expect(200);
        let comment = json!({"comment": "wait for the weekend"});
        site.admin_at(1).post("/api/v1/fleets/web/actions/pause", &comment).expect(200);
        let version = round + 1;
        let then = given(&site, &devices, version);
        let count = |given: &[bool]| u64::try_from(given.iter().filter(|given| **given).count()).unwrap();
        stands(&site, "web", "Paused", [0, count(&then), 0, 6 - count(&then)]);
        assert_eq!(given(&site, &devices, version), then, "a device was given it after the pause");
        let why = site.admin().get("/api/v1/resources/fleet/web/why").expect(200);
        assert!(
            why["data"][0]["blockers"][1]["what"].as_str().unwrap().contains("wait for the weekend"),
            "{why}"
        );
        site.admin().post("/api/v1/fleets/web/actions/resume", &json!({})).expect(200);
        stands(&site, "web", "Active", [0, 6, 0, 0]);
    }
}

fn operators_that_act_at_once_have_one_effect(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 2);
    for content in ["one", "two"] {
        let staged = with_policy(fleet("web", "web", content), json!({"batches": [{"limit": 1}]}));
        match content {
            "one" => drop(create(&site, &staged)),
            _ => drop(change(&site, &staged).expect(200)),
        }
        stands(&site, "web", "Active", [0, 1, 0, 1]);
        applies(&site, &devices[0]);
        stands(&site, "web", "Active", [1, 1, 0, 0]);
        applies(&site, &devices[1]);
        stands(&site, "web", "Inactive", [2, 0, 0, 0]);
    }
    let verbs = ["pause", "rollback", "rollback", "pause", "rollback", "pause"];
    let replies = at_once(verbs.len(), |index| {
        let path = format!("/api/v1/fleets/web/actions/{}", verbs[index]);
        site.admin_at(index).post(&path, &json!({"comment": format!("operator {index}")})).status
    });
    assert!(replies.iter().all(|status| *status == 200), "{replies:?}");
    let after = get(&site, "web");
    assert_eq!(after["spec"]["templateVersion"], json!("3"), "one rollback");
    assert_eq!(after["spec"]["template"], template("one"));
    site.admin().post("/api/v1/fleets/web/actions/resume", &json!({})).expect(200);
    stands(&site, "web", "Active", [0, 2, 0, 0]);
    devices.iter().for_each(|device| applies(&site, device));
    stands(&site, "web", "Inactive", [2, 0, 0, 0]);
    let history = site.admin().get("/api/v1/history?kind=fleet&id=web&limit=100").expect(200);
    let rows = history["data"].as_array().unwrap();
    let count = |event: &str| rows.iter().filter(|row| row["metadata"]["event"] == event).count();
    assert_eq!(count("rollback"), 1);
    assert!(count("pause") <= 2, "{history}");
}

fn a_device_that_is_relabelled_leaves_the_rollout(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 3);
    create(&site, &with_policy(fleet("web", "web", "one"), json!({"batches": [{"limit": 1}]})));
    stands(&site, "web", "Active", [0, 1, 0, 2]);
    // The one that works on it leaves: the next one takes its place in the batch.
    let path = format!("/api/v1/devices/{}", devices[0].name);
    site.admin().put(&path, &json!({"spec": template("one")["spec"]})).expect(200);
    is_owned(&site, &devices[0], None);
    stands(&site, "web", "Active", [0, 1, 0, 1]);
    assert_eq!(given(&site, &devices[1..], 1), [true, false]);
    applies(&site, &devices[1]);
    stands(&site, "web", "Active", [1, 1, 0, 0]);
    applies(&site, &devices[2]);
    stands(&site, "web", "Inactive", [2, 0, 0, 0]);
}

fn a_rollout_goes_on_after_a_kill(on: Backend) {
    let mut site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 4);
    create(&site, &with_policy(fleet("web", "web", "one"), json!({"batches": [{"limit": 2}]})));
    stands(&site, "web", "Active", [0, 2, 0, 2]);
    for index in 0..site.servers.len() {
        site.servers[index].kill();
    }
    for index in 0..site.servers.len() {
        site.restart(index);
    }
    devices[..2].iter().for_each(|device| applies(&site, device));
    stands(&site, "web", "Active", [2, 2, 0, 0]);
    devices[2..].iter().for_each(|device| applies(&site, device));
    stands(&site, "web", "Inactive", [4, 0, 0, 0]);
}

fn a_device_out_of_service_leaves_its_fleet(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 3);
    create(&site, &fleet("web", "web", "one"));
    stands(&site, "web", "Active", [0, 3, 0, 0]);
    site.admin().put(&format!("/api/v1/devices/{}/decommission", devices[0].name), &json!({})).expect(200);
    assert_eq!(owner(&site, &devices[0]), None);
    stands(&site, "web", "Active", [0, 2, 0, 0]);
    let told = devices[0].poll(&site, 0, None).expect(200);
    assert_eq!(told["spec"]["decommissioning"]["target"], json!("Unenroll"));
    site.admin().delete(&format!("/api/v1/devices/{}", devices[1].name)).expect(200);
    stands(&site, "web", "Active", [0, 1, 0, 0]);
    change(&site, &fleet("web", "web", "two")).expect(200);
    stands(&site, "web", "Active", [0, 1, 0, 0]);
    assert_eq!(annotation(&shown(&site, &devices[0]), "renderedVersion"), 2, "it is told of nothing else");
}

fn a_device_that_takes_too_long_has_failed(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let devices = some(&site, &token, 2);
    let policy = json!({"batches": [{"limit": 1}], "updateTimeout": "2s"});
    create(&site, &with_policy(fleet("web", "web", "one"), policy));
    let late = stands(&site, "web", "Suspended", [0, 0, 1, 1]);
    let cause = format!("device {} failed: did not finish within 2s", devices[0].name);
    assert_eq!(late["status"]["rollout"]["causes"][0], json!(cause));
    // A person accepts that; what the device does later counts again.
    site.admin().post("/api/v1/fleets/web/actions/resume", &json!({"comment": "go on"})).expect(200);
    wait_for("the other device", || given(&site, &devices, 1)[1].then_some(()));
    devices.iter().for_each(|device| applies(&site, device));
    stands(&site, "web", "Inactive", [2, 0, 0, 0]);
}

fn a_wrong_fleet_is_refused(on: Backend) {
    let site = Site::start(on);
    let refused = |fleet: Value| site.admin().post("/api/v1/fleets", &fleet).wrong_fields();
    assert_eq!(refused(json!({"metadata": {"name": "Web"}})), ["metadata.name"]);
    assert_eq!(refused(json!({"metadata": {"name": "web"}, "spec": {"selektor": {}}})), ["spec.selektor"]);
    let wrong = with_policy(fleet("web", "web", "one"), json!({"batches": [{"limit": "many"}]}));
    assert_eq!(refused(wrong), ["spec.rolloutPolicy.batches[0].limit"]);
    let nested = json!([{"path": "/a", "content": "x"}, {"path": "/a/b", "content": "x"}]);
    let wrong = json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {"config": [{"inline": nested}]}}}});
    assert_eq!(refused(wrong), ["spec.template.spec.config[0].inline[1].path"]);
    let made = create(&site, &fleet("web", "web", "one"));
    site.admin().post("/api/v1/fleets", &fleet("web", "web", "one")).problem(409);
    let tag = site.admin().get("/api/v1/fleets/web").header("etag").unwrap().to_owned();
    let read = site.admin().with("If-Match", &tag);
    read.put("/api/v1/fleets/web", &fleet("web", "web", "two")).expect(200);
    read.put("/api/v1/fleets/web", &fleet("web", "web", "three")).problem(412);
    let mut stale = made;
    stale["spec"]["template"] = template("three");
    change(&site, &stale).problem(412);
    let patch = json!([{"op": "add", "path": "/metadata/labels/team", "value": "edge"}]);
    let labelled = site.admin().patch("/api/v1/fleets/web", &patch).expect(200);
    assert_eq!(
        (&labelled["metadata"]["labels"]["team"], &labelled["spec"]["templateVersion"]),
        (&json!("edge"), &json!("2"))
    );
    assert_eq!(
        site.admin().get("/api/v1/fleets?labelSelector=team=edge").expect(200)["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let (_, viewer) = site.new_token(&json!({"name": "looks", "role": "viewer"}));
    let viewer = site.caller(0, Some(&viewer));
    viewer.get("/api/v1/fleets/web").expect(200);
    viewer.post("/api/v1/fleets/web/actions/pause", &json!({})).problem(403);
    site.admin().post("/api/v1/fleets/none/actions/pause", &json!({})).problem(404);
    site.admin().post("/api/v1/fleets/web/actions/stop", &json!({})).problem(404);
}
