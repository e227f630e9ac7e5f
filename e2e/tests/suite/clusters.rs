//! Clusters and node pools from their creation to their end.

use serde_json::{Value, json};

use crate::support::{
    Backend, Site, at_once,
    cluster::{
        CLUSTERS, REQUIRED, REQUIRED_OF_POOLS, assert_folded, cluster, condition, earlier, now, pool, report,
        report_at, status, tell,
    },
    on_both, wait_for,
};

on_both! {
    a_cluster_lives_and_goes,
    a_report_moves_no_tag_and_no_persons_version,
    reports_are_ordered_and_replace_each_other,
    a_report_names_all_that_is_wrong,
    what_adapters_keep_comes_back_to_the_byte,
    node_pools_go_before_their_cluster,
    force_delete_is_for_what_is_being_deleted,
    a_cluster_without_adapters_goes_at_once,
    lists_are_searched_and_paged,
    wrong_requests_are_refused,
    pools_and_the_deletion_of_their_cluster_do_not_cross,
}

fn site(on: Backend) -> Site {
    Site::start_with(on, &[(REQUIRED, "validation,dns"), (REQUIRED_OF_POOLS, "validation")])
}

fn a_cluster_lives_and_goes(on: Backend) {
    let site = site(on);
    let made = cluster(&site.admin(), "cls-123");
    let id = made["id"].as_str().unwrap();
    assert_eq!((&made["kind"], &made["generation"]), (&json!("Cluster"), &json!(1)), "{made}");
    assert_eq!(condition(&made, "Reconciled")["reason"], "ReconciledMissingAdapters");
    assert_eq!(status(&made, "LastKnownReconciled"), "False");
    assert_eq!(made["href"], format!("{CLUSTERS}/{id}"));
    assert_eq!(made["created_time"], made["updated_time"]);
    let path = format!("{CLUSTERS}/{id}");
    assert_eq!(
        site.admin().get(&path).expect(200),
        site.admin().get(&format!("{CLUSTERS}/cls-123")).expect(200)
    );

    let same = json!({"spec": {"region": "eu"}, "labels": {}});
    assert_eq!(site.admin().patch(&path, &same).expect(200)["generation"], 1, "the same content");
    let changed = site.admin().patch(&path, &json!({"labels": {"env": "prod"}})).expect(200);
    assert_eq!((&changed["generation"], &changed["labels"]["env"]), (&json!(2), &json!("prod")));

    for adapter in ["validation", "dns"] {
        let stored = tell(&site.admin(), "cls-123", &report(adapter, 2, "True", None)).expect(200);
        assert_eq!(stored["adapter"], adapter);
    }
    let ready = assert_folded(&site.admin(), id, &["validation".into(), "dns".into()]);
    assert_eq!(status(&ready, "Reconciled"), "True", "{ready}");
    assert_eq!(condition(&ready, "DnsSuccessful")["message"], "dns said so");
    let summary = site.admin().get("/api/v1/summary").expect(200);
    assert_eq!(summary["data"]["kinds"]["cluster"]["True"], 1, "{summary}");

    let going = site.admin().delete(&path).expect(202);
    assert_eq!((&going["generation"], status(&going, "Reconciled")), (&json!(3), "False".to_owned()));
    assert!(going["deleted_time"].is_string() && going["deleted_by"] == "first-admin", "{going}");
    assert_eq!(site.admin().delete(&path).expect(202)["generation"], 3, "asked again");
    assert_eq!(site.admin().patch(&path, &json!({"spec": {}})).problem(409)["code"], "being_deleted");
    tell(&site.admin(), id, &report("validation", 3, "False", Some("True"))).expect(200);
    assert_eq!(status(&site.admin().get(&path).expect(200), "Reconciled"), "False");
    tell(&site.admin(), id, &report("dns", 3, "False", Some("True"))).expect(200);
    assert_eq!(site.admin().get(&path).problem(404)["code"], "not_found");
    tell(&site.admin(), id, &report("dns", 3, "False", Some("True"))).problem(404);

    let history = site.admin().get(&format!("/api/v1/history?kind=cluster&id={id}&limit=100")).expect(200);
    let rows = history["data"].as_array().unwrap();
    let said: Vec<_> = rows.iter().rev().map(|row| row["type"].as_str().unwrap()).collect();
    let expected =
        ["created", "changed", "reported", "transition", "deletion_requested", "reported", "deleted"];
    assert_eq!(said, expected, "{history}");
    assert_eq!(rows[0]["triggered_by"], "adapter_report");
    assert_eq!(rows[0]["metadata"]["adapter"], "dns");
    cluster(&site.admin(), "cls-123");
}

fn a_report_moves_no_tag_and_no_persons_version(on: Backend) {
    let site = site(on);
    let made = site.admin().post(CLUSTERS, &json!({"name": "east", "spec": {}}));
    let tag = made.header("etag").unwrap().to_owned();
    let id = made.expect(201)["id"].as_str().unwrap().to_owned();
    let path = format!("{CLUSTERS}/{id}");
    for adapter in ["validation", "dns"] {
        tell(&site.admin(), &id, &report(adapter, 1, "True", None)).expect(200);
    }
    let read = site.admin().get(&path);
    assert_eq!(read.header("etag"), Some(&*tag), "a report moves no tag");
    let patched = site.admin().with("if-match", &tag).patch(&path, &json!({"spec": {"a": 1}}));
    assert_eq!(patched.expect(200)["generation"], 2);
    site.admin().with("if-match", &tag).patch(&path, &json!({"spec": {"a": 2}})).problem(412);
    site.admin().with("if-match", &tag).delete(&path).problem(412);

    // A repeat that moves no status leaves no row.
    let rows = || {
        let history = site.admin().get(&format!("/api/v1/history?kind=cluster&id={id}")).expect(200);
        history["data"].as_array().unwrap().len()
    };
    let before = rows();
    for _ in 0..3 {
        tell(&site.admin(), &id, &report("dns", 1, "True", None)).expect(200);
    }
    assert_eq!(rows(), before);
    tell(&site.admin(), &id, &report("dns", 2, "False", None)).expect(200);
    assert_eq!(rows(), before + 1);
}

fn reports_are_ordered_and_replace_each_other(on: Backend) {
    let site = site(on);
    cluster(&site.admin(), "east");
    let path = format!("{CLUSTERS}/east/statuses");
    let first = report_at("dns", 1, earlier(60), "True", None);
    assert_eq!(site.admin().put(&path, &first).expect(201)["observed_generation"], 1);
    let discarded = |report: &Value, why: &str| {
        let answer = site.admin().post(&path, report).expect(200);
        assert_eq!(answer["discarded"], why, "{answer}");
        let answer = site.admin().put(&path, report);
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
    };
    discarded(&report("dns", 2, "True", None), "future_generation");
    discarded(&report_at("dns", 1, earlier(90), "False", None), "older_observed_time");
    discarded(&report("dns", 1, "Unknown", None), "repeated_unknown");
    site.admin().patch(&format!("{CLUSTERS}/east"), &json!({"spec": {"b": 2}})).expect(200);
    site.admin().put(&path, &report_at("dns", 2, earlier(80), "False", None)).expect(201);
    discarded(&report("dns", 1, "True", None), "older_generation");
    let unknown = site.admin().put(&path, &report("other", 2, "Unknown", None)).expect(201);
    assert_eq!(unknown["conditions"][0]["status"], "Unknown");

    let all = site.admin().get("/api/v1/clusters/east/statuses").expect(200);
    assert_eq!((&all["total"], &all["page"], &all["size"]), (&json!(2), &json!(1), &json!(2)), "{all}");
    let dns = &all["items"][0];
    assert_eq!((&dns["adapter"], &dns["conditions"][0]["status"]), (&json!("dns"), &json!("False")));
    assert_eq!(dns["created_time"], first["observed_time"], "the first observation");
    let second = site.admin().get(&format!("{path}?page=2&size=1")).expect(200);
    assert_eq!(second["items"][0]["adapter"], "other");
}

fn a_report_names_all_that_is_wrong(on: Backend) {
    let site = site(on);
    cluster(&site.admin(), "east");
    let path = "/api/v1/clusters/east/statuses";
    let wrong = json!({
        "adapter": 7, "observed_generation": 0, "observed_time": "yesterday", "data": [],
        "conditions": [{"type": "Available", "status": "true"}, {"type": "Available"}],
    });
    let mut fields = site.admin().post(path, &wrong).wrong_fields();
    fields.sort();
    fields.dedup();
    let expected = [
        "adapter",
        "conditions",
        "conditions[0].status",
        "conditions[1].status",
        "conditions[1].type",
        "data",
        "observed_generation",
        "observed_time",
    ];
    assert_eq!(fields, expected);
    let old = report_at("dns", 1, earlier(31 * 60), "True", None);
    assert_eq!(site.admin().post(path, &old).wrong_fields(), ["observed_time"]);
    site.admin().post("/api/v1/clusters/missing/statuses", &report("dns", 1, "True", None)).problem(404);
    site.caller(0, None).post(path, &report("dns", 1, "True", None)).problem(401);
    let mut large = report("dns", 1, "True", None);
    large["data"] = json!({"text": "x".repeat(256 << 10)});
    site.admin().post(path, &large).problem(413);
    let mut deep = json!({});
    for _ in 0..40 {
        deep = json!({"deeper": deep});
    }
    large["data"] = deep;
    assert_eq!(site.admin().post(path, &large).wrong_fields(), ["body"]);

    let mut told = report("dns", 1, "True", None);
    told["created_time"] = json!("2020-01-01T00:00:00Z");
    told["colour"] = json!("red");
    told["conditions"][0]["last_transition_time"] = json!("2020-01-01T00:00:00Z");
    let reply = site.admin().post(path, &told);
    let warning = reply.header("warning").unwrap();
    for field in ["created_time", "colour", "conditions[0].last_transition_time"] {
        assert!(warning.contains(field), "{warning}");
    }
    assert_ne!(reply.expect(200)["created_time"], "2020-01-01T00:00:00Z");
}

fn what_adapters_keep_comes_back_to_the_byte(on: Backend) {
    let site = site(on);
    cluster(&site.admin(), "east");
    let path = format!("{CLUSTERS}/east/statuses");
    let data = r#"{"z":1.50,"a":123456789012345678901234567890,"list":[ 1, 2 ],"u":"\u0000\ud83d\ude00é","e":1E400}"#;
    let metadata = r#"{"job_name":"j","executionTime":"115s","b":0.1,"a":null}"#;
    let body = format!(
        r#"{{"data":{data},"adapter":"dns","observed_generation":1,"observed_time":"{}","metadata":{metadata},
            "conditions":[{{"type":"Available","status":"True"}},{{"type":"Applied","status":"True"}},
            {{"type":"Health","status":"True"}}]}}"#,
        now()
    );
    let api = site.admin().with("content-type", "application/json");
    let stored = api.send("POST", &path, body.as_bytes());
    assert_eq!(stored.status, 200, "{}", stored.text());
    for text in [stored.text(), site.admin().get(&path).text()] {
        assert!(text.contains(&format!(r#""data":{data}"#)), "{text}");
        assert!(text.contains(&format!(r#""metadata":{metadata}"#)), "{text}");
    }
    let plain = tell(&site.admin(), "east", &report("dns", 1, "True", None)).expect(200);
    assert!(plain.get("data").is_none() && plain.get("metadata").is_none(), "a report replaces all: {plain}");
}

fn node_pools_go_before_their_cluster(on: Backend) {
    let site = site(on);
    cluster(&site.admin(), "east");
    let made = pool(&site.admin(), "east", "workers");
    assert_eq!(made["owner_references"]["kind"], "Cluster");
    pool(&site.admin(), "east", "gpus");
    let pools = format!("{CLUSTERS}/east/nodepools");
    let taken = json!({"name": "workers", "spec": {}});
    assert_eq!(site.admin().post(&pools, &taken).problem(409)["code"], "name_taken");
    cluster(&site.admin(), "west");
    pool(&site.admin(), "west", "workers");
    assert_eq!(site.admin().get(&pools).expect(200)["total"], 2);
    assert_eq!(site.admin().get("/api/hyperfleet/v1/nodepools").expect(200)["total"], 3);
    site.admin().get(&format!("{CLUSTERS}/west/nodepools/gpus")).problem(404);
    let ready = report("validation", 1, "True", None);
    site.admin().put(&format!("{pools}/workers/statuses"), &ready).expect(201);
    let workers = site.admin().get(&format!("{pools}/workers")).expect(200);
    assert_eq!(status(&workers, "Reconciled"), "True");
    assert_eq!(
        site.admin().patch(&format!("{pools}/workers"), &json!({"spec": {"size": 5}})).expect(200)["generation"],
        2
    );

    site.admin().delete(&format!("{CLUSTERS}/east")).expect(202);
    let workers = site.admin().get(&format!("{pools}/workers")).expect(200);
    assert_eq!((&workers["generation"], workers["deleted_time"].is_string()), (&json!(3), true));
    let late = site.admin().post(&pools, &json!({"name": "late", "spec": {}}));
    assert_eq!(late.problem(409)["code"], "being_deleted");
    for adapter in ["validation", "dns"] {
        tell(&site.admin(), "east", &report(adapter, 2, "False", Some("True"))).expect(200);
    }
    let waiting = site.admin().get(&format!("{CLUSTERS}/east")).expect(200);
    assert_eq!(condition(&waiting, "Reconciled")["reason"], "ReconciledWaitingForChildren", "{waiting}");
    let why = site.admin().get("/api/v1/resources/cluster/east/why").expect(200);
    assert!(why.to_string().contains("owns 2 node pools"), "{why}");
    let gone = |pool: &str, generation| {
        let report = report("validation", generation, "False", Some("True"));
        site.admin().post(&format!("{pools}/{pool}/statuses"), &report).expect(200);
    };
    gone("gpus", 2);
    site.admin().get(&format!("{CLUSTERS}/east")).expect(200);
    gone("workers", 3);
    site.admin().get(&format!("{CLUSTERS}/east")).problem(404);
    site.admin().get(&format!("{CLUSTERS}/west/nodepools/workers")).expect(200);
}

fn force_delete_is_for_what_is_being_deleted(on: Backend) {
    let site = site(on);
    cluster(&site.admin(), "east");
    pool(&site.admin(), "east", "workers");
    let (force, why) = (format!("{CLUSTERS}/east/force-delete"), json!({"reason": "the cloud is gone"}));
    assert_eq!(site.admin().post(&force, &why).problem(409)["code"], "not_being_deleted");
    site.admin().delete(&format!("{CLUSTERS}/east")).expect(202);
    assert_eq!(site.admin().post(&force, &json!({"reason": ""})).wrong_fields(), ["reason"]);
    assert_eq!(site.admin().post(&force, &why).status, 204);
    site.admin().get(&format!("{CLUSTERS}/east")).problem(404);
    assert_eq!(site.admin().get("/api/hyperfleet/v1/nodepools").expect(200)["total"], 0);
    let history = site.admin().get("/api/v1/history?limit=100").expect(200);
    let said = history["data"].as_array().unwrap().iter().filter(|row| row["comment"] == why["reason"]);
    assert_eq!(said.count(), 2, "the pool and the cluster: {history}");
}

fn a_cluster_without_adapters_goes_at_once(on: Backend) {
    let site = Site::start(on);
    let made = cluster(&site.admin(), "plain");
    assert_eq!(condition(&made, "Reconciled")["status"], "False", "no adapter has looked");
    pool(&site.admin(), "plain", "workers");
    site.admin().delete(&format!("{CLUSTERS}/plain")).expect(202);
    site.admin().get(&format!("{CLUSTERS}/plain")).problem(404);
    assert_eq!(site.admin().get("/api/hyperfleet/v1/nodepools").expect(200)["total"], 0);
}

fn lists_are_searched_and_paged(on: Backend) {
    let site = site(on);
    for number in 0..7 {
        let region = if number % 2 == 0 { "east" } else { "west" };
        let body = json!({
            "name": format!("cls-{number}"), "labels": {"region": region}, "spec": {"size": number, "own": {"x": "y"}},
        });
        site.admin().post(CLUSTERS, &body).expect(201);
    }
    for adapter in ["validation", "dns"] {
        tell(&site.admin(), "cls-3", &report(adapter, 1, "True", None)).expect(200);
    }
    let found = |search: &str| {
        let query: String = search.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let list = site.admin().get(&format!("{CLUSTERS}?order=created_time&search={query}")).expect(200);
        let names: Vec<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(list["total"], names.len());
        names.join(" ")
    };
    assert_eq!(found("labels.region = 'west'"), "cls-1 cls-3 cls-5");
    assert_eq!(found("status.conditions.Reconciled='True'"), "cls-3");
    assert_eq!(found("status.conditions.Reconciled='False' and labels.region='west'"), "cls-1 cls-5");
    assert_eq!(found("name in ('cls-0', 'cls-6') or spec.size = 2"), "cls-0 cls-2 cls-6");
    assert_eq!(found("spec.size >= 5 and spec.own.x = 'y'"), "cls-5 cls-6");
    assert_eq!(found("name like 'cls-%' and not labels.region = 'east'"), "cls-1 cls-3 cls-5");
    assert_eq!(found("status.conditions.DnsSuccessful.observed_generation = 1"), "cls-3");
    assert_eq!(found("labels.region = 'east' and labels.region = 'west'"), "");

    let page = |query: &str| site.admin().get(&format!("{CLUSTERS}?{query}")).expect(200);
    let last = page("page=3&size=3");
    assert_eq!((&last["total"], &last["size"], &last["page"]), (&json!(7), &json!(1), &json!(3)), "{last}");
    assert_eq!(last["items"][0]["name"], "cls-0", "the newest come first");
    assert_eq!(page("page=9&size=3")["items"], json!([]));
    let query = "search=labels.region%3D'west'&page=2&size=2";
    assert_eq!(page(query)["items"][0]["name"], "cls-1");
    for (query, field) in [
        ("search=colour%3D'red'", "search"),
        ("order=name", "order"),
        ("size=0", "size"),
        ("page=0", "page"),
        ("labels=x", "labels"),
    ] {
        assert_eq!(site.admin().get(&format!("{CLUSTERS}?{query}")).wrong_fields(), [field]);
    }
}

fn wrong_requests_are_refused(on: Backend) {
    let site = site(on);
    let wrong = json!({"kind": "NodePool", "name": "Not a name", "spec": {}, "labels": {"a b": "c"}});
    let mut fields = site.admin().post(CLUSTERS, &wrong).wrong_fields();
    fields.sort();
    assert_eq!(fields, ["kind", "labels", "name"]);
    assert_eq!(site.admin().post(CLUSTERS, &json!({"name": "east"})).wrong_fields(), ["spec"]);
    assert_eq!(site.admin().post(CLUSTERS, &json!({"name": "east", "spec": []})).wrong_fields(), ["spec"]);
    assert_eq!(
        site.admin().post(CLUSTERS, &json!({"name": "east", "spec": {}, "id": "x"})).wrong_fields(),
        ["id"]
    );
    let id = cluster(&site.admin(), "east")["id"].as_str().unwrap().to_owned();
    let taken = site.admin().post(CLUSTERS, &json!({"name": "east", "spec": {}})).problem(409);
    assert_eq!((&taken["code"], &taken["allowed_actions"][0]["id"]), (&json!("name_taken"), &json!(id)));
    let path = format!("{CLUSTERS}/east");
    assert_eq!(site.admin().patch(&path, &json!({})).wrong_fields(), ["body"]);
    assert_eq!(site.admin().patch(&path, &json!({"generation": 5})).wrong_fields(), ["generation"]);
    site.admin().get(&format!("{CLUSTERS}/missing/nodepools")).problem(404);
    site.admin().delete(&format!("{CLUSTERS}/missing")).problem(404);
    let why = site.admin().get("/api/v1/resources/cluster/east/why").expect(200);
    assert!(why.to_string().contains("dns has not reported yet"), "{why}");
    let keyed = site.admin().with("idempotency-key", "once");
    let body = json!({"name": "keyed", "spec": {}});
    let (one, two) = (keyed.post(CLUSTERS, &body).expect(201), keyed.post(CLUSTERS, &body).expect(201));
    assert_eq!(one["id"], two["id"]);
}

/// A node pool is created in time to be deleted with its cluster, or not at all.
fn pools_and_the_deletion_of_their_cluster_do_not_cross(on: Backend) {
    let site = site(on);
    for round in 0..5 {
        let name = format!("race-{round}");
        cluster(&site.admin(), &name);
        let replies = at_once(6, |index| match index {
            0 => site.admin_at(0).delete(&format!("{CLUSTERS}/{name}")),
            _ => {
                let body = json!({"name": format!("pool-{index}"), "spec": {}});
                site.admin_at(index).post(&format!("{CLUSTERS}/{name}/nodepools"), &body)
            }
        });
        replies[0].expect(202);
        let made = replies[1..].iter().filter(|reply| reply.status == 201).count();
        assert!(replies[1..].iter().all(|reply| matches!(reply.status, 201 | 409)));
        let pools = site.admin().get(&format!("{CLUSTERS}/{name}/nodepools")).expect(200);
        assert_eq!(pools["total"], made);
        assert!(pools["items"].as_array().unwrap().iter().all(|pool| pool["deleted_time"].is_string()));
        for adapter in ["validation", "dns"] {
            tell(&site.admin(), &name, &report(adapter, 2, "False", Some("True"))).expect(200);
        }
        // The last ones go at the same moment, and take their cluster along.
        let pools = pools["items"].as_array().unwrap();
        if !pools.is_empty() {
            at_once(pools.len(), |index| {
                let path = format!("{}/statuses", pools[index]["href"].as_str().unwrap());
                let said = report("validation", 2, "False", Some("True"));
                site.admin_at(index).post(&path, &said).expect(200)
            });
        }
        wait_for("the cluster to go", || {
            (site.admin().get(&format!("{CLUSTERS}/{name}")).status == 404).then_some(())
        });
    }
}
