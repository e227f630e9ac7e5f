//! The end of a namespace: its content goes first, then the namespace, unless finalizers hold either.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Condition, MANAGER, Outcome, set_conditions, time};
use crate::kubernetes::{
    owners::Writer,
    state::State,
    write::{Deletion, Place},
};

impl State {
    pub(super) fn namespace(&mut self, place: &Place, object: &Value, now: Timestamp) {
        let Some(since) = time(&object["metadata"]["deletionTimestamp"]) else { return };
        if self.outcome(place, Some(since), now) != Outcome::Succeed {
            return;
        }
        let writer = Writer { manager: MANAGER, subresource: "", now };
        let content: Vec<_> =
            self.places().into_iter().filter(|(inner, _)| inner.namespace == place.name).collect();
        for (inner, object) in &content {
            if !object["metadata"]["deletionTimestamp"].is_string() {
                // It may be deleted already.
                let _ = self.delete(inner, &Deletion::default(), &writer);
            }
        }
        let left: Vec<_> = self.objects.iter().filter(|(key, _)| key.2 == place.name).collect();
        let mut wanted = object.clone();
        let held: Vec<_> = left.iter().map(|(key, _)| format!("{}.{} {}", key.1, key.0, key.3)).collect();
        set_conditions(&mut wanted, &conditions(&held), now, false);
        let is_empty = left.is_empty();
        self.write_status(place, &wanted, now);
        if is_empty && let Ok(mut current) = self.object(place) {
            current["spec"] = json!({});
            // The last write of the controller; without finalizers it removes the namespace.
            let _ = self.update(place, current, &writer, false);
            self.remove_if_free(&place.key());
        }
    }
}

fn conditions(held: &[String]) -> Vec<Condition> {
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        (kind.to_owned(), is_true, reason.to_owned(), message.to_owned())
    };
    let mut all = vec![
        condition(
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        condition(
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ];
    all.extend(if held.is_empty() {
        [
            condition(
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed",
            ),
            condition(
                "NamespaceFinalizersRemaining",
                false,
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ]
    } else {
        let list = held.join(", ");
        [
            condition(
                "NamespaceContentRemaining",
                true,
                "SomeResourcesRemain",
                &format!("Some resources are remaining: {list}"),
            ),
            condition(
                "NamespaceFinalizersRemaining",
                true,
                "SomeFinalizersRemain",
                &format!("Some content in the namespace has finalizers remaining: {list}"),
            ),
        ]
    });
    all
}
