//! Deployments with their ReplicaSets, and Jobs. No pods are made: the outcome is a matter of time and of orders.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Condition, MANAGER, Outcome, kind_named, set_conditions, time};
use crate::kubernetes::{
    owners::Writer,
    state::{State, seconds},
    write::Place,
};

impl State {
    pub(super) fn deployment(&mut self, place: &Place, object: &Value, now: Timestamp) {
        let set = replica_set_name(object);
        let is_ending = object["metadata"]["deletionTimestamp"].is_string();
        if !is_ending {
            self.roll_out(place, object, &set, now);
        }
        let status = &object["status"];
        let generation = &object["metadata"]["generation"];
        let replicas = object["spec"]["replicas"].as_i64().unwrap_or(0);
        // A rollout begins when the controller first sees its ReplicaSet.
        let progressing = condition(status, "Progressing");
        let is_known = progressing
            .is_some_and(|known| known["message"].as_str().is_some_and(|text| text.contains(&set)));
        let since = progressing.filter(|_| is_known).and_then(|known| time(&known["lastUpdateTime"]));
        let was = progressing.filter(|_| is_known).map(|known| known["reason"].as_str().unwrap_or_default());
        let outcome = match was {
            // The end of a rollout stays what it was, until its ReplicaSet changes.
            Some("NewReplicaSetAvailable") => Outcome::Succeed,
            _ if is_ending => Outcome::Stall,
            Some("ProgressDeadlineExceeded") => match self.outcome(place, None, now) {
                Outcome::Succeed => Outcome::Succeed,
                Outcome::Fail | Outcome::Stall => Outcome::Fail,
            },
            _ => self.outcome(place, since.or(Some(now)), now),
        };
        let ready = if outcome == Outcome::Succeed { replicas } else { 0 };
        let mut wanted = object.clone();
        let revision =
            object["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().unwrap_or("0");
        let next = if is_known || is_ending {
            revision.to_owned()
        } else {
            (revision.parse().unwrap_or(0) + 1).to_string()
        };
        wanted["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!(next);
        for (name, value) in [
            ("observedGeneration", generation.clone()),
            ("replicas", json!(replicas)),
            ("updatedReplicas", json!(replicas)),
            ("readyReplicas", json!(ready)),
            ("availableReplicas", json!(ready)),
            ("unavailableReplicas", json!(replicas - ready)),
            ("terminatingReplicas", json!(0)),
        ] {
            wanted["status"][name] = value;
        }
        set_conditions(&mut wanted, &conditions(outcome, &set), now, true);
        self.write_status(place, &wanted, now);
    }

    /// Creates the ReplicaSet of the current template, and empties the others.
    fn roll_out(&mut self, place: &Place, object: &Value, set: &str, now: Timestamp) {
        let Some(kind) = kind_named("ReplicaSet") else { return };
        let writer = Writer { manager: MANAGER, subresource: "", now };
        let at = |name: &str| Place {
            kind: kind.clone(),
            namespace: place.namespace.clone(),
            name: name.to_owned(),
        };
        let metadata = &object["metadata"];
        let mut template = object["spec"]["template"].clone();
        template["metadata"]["labels"]["pod-template-hash"] = json!(hash(object));
        let mut selector = object["spec"]["selector"].clone();
        selector["matchLabels"]["pod-template-hash"] = json!(hash(object));
        let own = json!({"metadata": {"name": set, "namespace": place.namespace, "labels": template["metadata"]["labels"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": place.name,
                "uid": metadata["uid"], "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"replicas": object["spec"]["replicas"], "selector": selector, "template": template}});
        // It exists already, or its namespace ends: the next round decides again.
        let _ = self.create(&at(set), own, &writer, false);
        let sets: Vec<_> = self.places().into_iter().filter(|(other, _)| other.kind == kind).collect();
        for (other, mut content) in sets {
            if content["metadata"]["ownerReferences"][0]["uid"] != metadata["uid"] {
                continue;
            }
            let replicas = if other.name == set { object["spec"]["replicas"].clone() } else { json!(0) };
            content["spec"]["replicas"] = replicas;
            let _ = self.update(&other, content, &writer, false);
        }
    }

    pub(super) fn replica_set(&mut self, place: &Place, object: &Value, now: Timestamp) {
        let mut wanted = object.clone();
        let replicas = object["spec"]["replicas"].clone();
        for (name, value) in [
            ("observedGeneration", object["metadata"]["generation"].clone()),
            ("replicas", replicas.clone()),
            ("fullyLabeledReplicas", replicas),
            ("terminatingReplicas", json!(0)),
        ] {
            wanted["status"][name] = value;
        }
        self.write_status(place, &wanted, now);
    }

    pub(super) fn job(&mut self, place: &Place, object: &Value, now: Timestamp) {
        let status = &object["status"];
        let is_over = condition(status, "Complete").is_some() || condition(status, "Failed").is_some();
        let is_ending = object["metadata"]["deletionTimestamp"].is_string();
        if is_over || is_ending || object["spec"]["suspend"] == true {
            return;
        }
        let mut wanted = object.clone();
        let start = time(&status["startTime"]).unwrap_or(now);
        wanted["status"]["startTime"] = json!(seconds(start));
        let met = |kind: &str, reason: &str, message: &str| {
            (kind.to_owned(), true, reason.to_owned(), message.to_owned())
        };
        let done = &mut wanted["status"];
        done["uncountedTerminatedPods"] = json!({});
        done["terminating"] = json!(0);
        done["ready"] = json!(0);
        match self.outcome(place, Some(start), now) {
            Outcome::Stall => done["active"] = object["spec"]["parallelism"].clone(),
            Outcome::Succeed => {
                done["active"] = json!(0);
                done["succeeded"] = object["spec"]["completions"].clone();
                done["completionTime"] = json!(seconds(now));
                let text = "Reached expected number of succeeded pods";
                let (reason, kinds) = ("CompletionsReached", ["SuccessCriteriaMet", "Complete"]);
                set_conditions(&mut wanted, &kinds.map(|kind| met(kind, reason, text)), now, false);
            }
            Outcome::Fail => {
                done["active"] = json!(0);
                done["failed"] = json!(object["spec"]["backoffLimit"].as_i64().unwrap_or(0) + 1);
                let text = "Job has reached the specified backoff limit";
                let (reason, kinds) = ("BackoffLimitExceeded", ["FailureTarget", "Failed"]);
                set_conditions(&mut wanted, &kinds.map(|kind| met(kind, reason, text)), now, false);
            }
        }
        self.write_status(place, &wanted, now);
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn conditions(outcome: Outcome, set: &str) -> Vec<Condition> {
    let is_ready = outcome == Outcome::Succeed;
    let available = if is_ready {
        ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let (progress, text) = match outcome {
        Outcome::Succeed => ("NewReplicaSetAvailable", "has successfully progressed."),
        Outcome::Fail => ("ProgressDeadlineExceeded", "has timed out progressing."),
        Outcome::Stall => ("ReplicaSetUpdated", "is progressing."),
    };
    vec![
        ("Available".to_owned(), is_ready, available.0.to_owned(), available.1.to_owned()),
        (
            "Progressing".to_owned(),
            outcome != Outcome::Fail,
            progress.to_owned(),
            format!("ReplicaSet \"{set}\" {text}"),
        ),
    ]
}

fn hash(deployment: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    deployment["spec"]["template"].to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish())[..9].to_owned()
}

fn replica_set_name(deployment: &Value) -> String {
    format!("{}-{}", deployment["metadata"]["name"].as_str().unwrap_or_default(), hash(deployment))
}
