//! The document of the status contract: each of its JSON blocks works as it is printed, with a current time.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{
    Backend, Site,
    cluster::{CLUSTERS, REQUIRED, cluster, now, report},
    http, on_both,
};

on_both! {
    the_blocks_of_the_document_work_as_printed,
    the_request_of_the_document_works_as_printed,
}

/// The text of the document, if it is beside the checkout.
fn document() -> Option<String> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    let data = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let folder = data.join("../seeds");
    let mut entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let found = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("003_"));
    let Some(found) = found else {
        println!("the document of the status contract is not there: its blocks are not tried");
        return None;
    };
    Some(std::fs::read_to_string(found.path()).unwrap())
}

/// The blocks of a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    text.split(&start).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

fn site(on: Backend) -> Site {
    let site = Site::start_with(on, &[(REQUIRED, "validation,dns")]);
    cluster(&site.admin(), "cls-123");
    site
}

/// A block is a whole report, a condition, or data or metadata of one: what is missing is filled in.
fn whole(block: &Value) -> Value {
    let mut whole = report("validation", 1, "True", None);
    if let Some(type_) = block["type"].as_str() {
        let conditions = whole["conditions"].as_array_mut().unwrap();
        conditions.retain(|condition| condition["type"] != type_);
        conditions.push(block.clone());
    } else {
        for (field, value) in block.as_object().unwrap() {
            whole[field] = value.clone();
        }
    }
    whole["observed_time"] = json!(now());
    whole
}

fn the_blocks_of_the_document_work_as_printed(on: Backend) {
    let Some(text) = document() else { return };
    let site = site(on);
    let blocks = blocks(&text, "json");
    assert!(blocks.len() >= 13, "{} blocks are cut out", blocks.len());
    for block in blocks {
        let report = whole(&serde_json::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}")));
        for path in ["/api/v1/clusters/cls-123/statuses", &format!("{CLUSTERS}/cls-123/statuses")] {
            let stored = site.admin().post(path, &report).expect(200);
            for field in ["adapter", "observed_generation", "data", "metadata"] {
                assert_eq!(stored.get(field), report.get(field), "{block}");
            }
            assert_eq!(stored["last_report_time"], report["observed_time"]);
            for sent in report["conditions"].as_array().unwrap() {
                let kept = stored["conditions"].as_array().unwrap();
                let kept = kept.iter().find(|kept| kept["type"] == sent["type"]).unwrap();
                for (field, value) in sent.as_object().unwrap() {
                    assert_eq!(kept[field], *value, "{block}");
                }
                assert!(kept["last_transition_time"].is_string(), "{kept}");
            }
        }
    }
}

fn the_request_of_the_document_works_as_printed(on: Backend) {
    let Some(text) = document() else { return };
    let site = site(on);
    let printed = blocks(&text, "http").into_iter().find(|block| block.starts_with("POST ")).unwrap();
    let (head, body) = printed.split_once("\n\n").unwrap();
    let (line, headers) = head.split_once('\n').unwrap();
    let [method, path, _] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let mut body: Value = serde_json::from_str(body).unwrap();
    body["observed_time"] = json!(now());
    let mut api = site.caller(0, None);
    for header in headers.lines() {
        let (name, value) = header.split_once(": ").unwrap();
        match name {
            "Host" => {}
            "Authorization" => {
                assert!(value.starts_with("Bearer "), "{value}");
                api = api.with("authorization", &format!("Bearer {}", site.token));
            }
            _ => api = api.with(name, value),
        }
    }
    let reply: http::Reply = api.send(method, path, body.to_string().as_bytes());
    assert_eq!(reply.expect(200)["data"], body["data"]);
    api.with("authorization", "Bearer eyJhbGciOiJSUzI1NiIs").send(method, path, b"{}").problem(401);
}
