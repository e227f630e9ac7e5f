//! The controllers that matter to a client: Deployments become ready or fail, Jobs end, owned objects are collected,
//! namespaces end, and custom kinds are established.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    kinds::{self, Kind},
    owners::Writer,
    state::{Key, State, seconds},
    write::{Deletion, Place, owners_of},
};

mod namespaces;
mod workloads;

/// The manager that controllers write as.
pub(super) const MANAGER: &str = "kube-controller-manager";

/// The end of the work on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A Deployment becomes ready, a Job completes, a namespace ends.
    Succeed,
    /// A Deployment exceeds its deadline, a Job fails.
    Fail,
    /// It never ends.
    Stall,
}

/// An order for the work on objects of a kind; the last one that fits is followed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// `Deployment`, `Job` or `Namespace`.
    pub kind: String,
    /// The only namespace it is about.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The only object it is about.
    #[serde(default)]
    pub name: Option<String>,
    /// How it ends.
    pub outcome: Outcome,
    /// How long it takes.
    #[serde(default)]
    pub after_ms: i64,
}

impl Order {
    fn fits(&self, place: &Place) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        self.kind == place.kind.kind && is(&self.namespace, &place.namespace) && is(&self.name, &place.name)
    }
}

impl State {
    /// Lets every controller look at everything once. Returns whether anything changed.
    pub(super) fn reconcile(&mut self, now: Timestamp) -> bool {
        let before = self.version;
        if self.settled == Some(before) && self.orders.iter().all(|order| order.after_ms == 0) {
            return false;
        }
        for (place, object) in self.places() {
            match place.kind.kind.as_str() {
                "Deployment" => self.deployment(&place, &object, now),
                "ReplicaSet" => self.replica_set(&place, &object, now),
                "Job" => self.job(&place, &object, now),
                "Namespace" => self.namespace(&place, &object, now),
                "CustomResourceDefinition" => self.definition(&place, &object, now),
                _ => {}
            }
            self.collect(&place, &object, now);
        }
        self.settled = (self.version == before).then_some(before);
        self.settled.is_none()
    }

    /// Returns all objects with their places.
    fn places(&self) -> Vec<(Place, Value)> {
        let kinds = self.kinds();
        let of = |key: &Key| kinds.iter().find(|kind| kind.group == key.0 && kind.plural == key.1).cloned();
        let place =
            |key: &Key| of(key).map(|kind| Place { kind, namespace: key.2.clone(), name: key.3.clone() });
        self.objects.iter().filter_map(|(key, object)| Some((place(key)?, object.clone()))).collect()
    }

    /// Returns how the work on an object ends, if its time has come.
    fn outcome(&self, place: &Place, since: Option<Timestamp>, now: Timestamp) -> Outcome {
        let Some(order) = self.orders.iter().rev().find(|order| order.fits(place)) else {
            return Outcome::Succeed;
        };
        let is_due = since.is_none_or(|since| since + SignedDuration::from_millis(order.after_ms) <= now);
        if is_due { order.outcome } else { Outcome::Stall }
    }

    /// Writes the status of an object, when it differs.
    fn write_status(&mut self, place: &Place, object: &Value, now: Timestamp) {
        let writer = Writer { manager: MANAGER, subresource: "status", now };
        // A refusal means that the object changed meanwhile: the next look decides again.
        let _ = self.update(place, object.clone(), &writer, false);
    }

    /// Deletes an object whose owners are gone or wait for it, and finishes one that waited for others.
    fn collect(&mut self, place: &Place, object: &Value, now: Timestamp) {
        let metadata = &object["metadata"];
        let owners: Vec<_> = owners_of(object).collect();
        let owner = |uid: &Value| self.objects.values().find(|owner| owner["metadata"]["uid"] == *uid);
        let waits = |owner: &Value| is_held_by(owner, "foregroundDeletion");
        let is_unowned = !owners.is_empty() && owners.iter().all(|uid| owner(uid).is_none_or(waits));
        let writer = Writer { manager: MANAGER, subresource: "", now };
        if is_unowned && !metadata["deletionTimestamp"].is_string() {
            // It may be deleted already.
            let _ = self.delete(place, &Deletion::default(), &writer);
        }
        let has_dependents =
            || self.objects.values().any(|other| owners_of(other).any(|uid| uid == metadata["uid"]));
        if waits(object) && metadata["deletionTimestamp"].is_string() && !has_dependents() {
            let mut freed = object.clone();
            if let Some(finalizers) = freed["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != "foregroundDeletion");
            }
            let _ = self.update(place, freed, &writer, false);
        }
    }

    /// Establishes a custom kind.
    fn definition(&mut self, place: &Place, object: &Value, now: Timestamp) {
        let mut wanted = object.clone();
        let met = |kind: &str, reason: &str, message: &str| {
            (kind.to_owned(), true, reason.to_owned(), message.to_owned())
        };
        set_conditions(
            &mut wanted,
            &[
                met("NamesAccepted", "NoConflicts", "no conflicts found"),
                met("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            now,
            false,
        );
        wanted["status"]["acceptedNames"] = object["spec"]["names"].clone();
        self.write_status(place, &wanted, now);
    }
}

fn is_held_by(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|list| list.iter().any(|held| held == finalizer))
}

/// Returns a time of an object.
fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(|time| time.parse().ok())
}

fn kind_named(name: &str) -> Option<Kind> {
    kinds::built_in().into_iter().find(|kind| kind.kind == name)
}

/// A condition: type, whether it is true, reason and message.
type Condition = (String, bool, String, String);

/// Replaces the conditions of an object; times move only with what they are about.
fn set_conditions(object: &mut Value, conditions: &[Condition], now: Timestamp, has_update_time: bool) {
    let before = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let written = conditions.iter().map(|(kind, is_true, reason, message)| {
        let status = if *is_true { "True" } else { "False" };
        let old = before.iter().find(|old| old["type"] == kind.as_str());
        let kept = |is_same: bool, field: &str| {
            let time = old.filter(|_| is_same).map(|old| old[field].clone());
            time.unwrap_or_else(|| json!(seconds(now)))
        };
        let has_status = old.is_some_and(|old| old["status"] == status);
        let mut new = json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": kept(has_status, "lastTransitionTime")});
        if has_update_time {
            let is_same =
                old.is_some_and(|old| old["reason"] == reason.as_str() && old["message"] == message.as_str());
            new["lastUpdateTime"] = kept(has_status && is_same, "lastUpdateTime");
        }
        new
    });
    object["status"]["conditions"] = written.collect();
}
