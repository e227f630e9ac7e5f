//! Selectors: which devices a fleet, or a batch of its rollout, means by their labels.

use std::collections::BTreeMap;

/// Requirements that must all hold; without one, no device is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selector(pub Vec<Requirement>);

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// What must hold for it.
    pub must: Must,
}

/// What must hold for a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Must {
    /// It has one of these values.
    BeIn(Vec<String>),
    /// It has none of these values, or is missing.
    NotBeIn(Vec<String>),
    /// It has any value.
    Exist,
    /// It is missing.
    NotExist,
}

impl Selector {
    /// Whether a device with these labels is selected.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.0.is_empty() && self.0.iter().all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.must {
            Must::BeIn(values) => value.is_some_and(|value| values.contains(value)),
            Must::NotBeIn(values) => value.is_none_or(|value| !values.contains(value)),
            Must::Exist => value.is_some(),
            Must::NotExist => value.is_none(),
        }
    }
}

/// Returns the fleet that owns a device, of those that claim it. Where several do, it stays with its owner.
#[must_use]
pub fn owner<'a>(current: Option<&str>, claimants: &[&'a str]) -> Option<&'a str> {
    match claimants {
        [] => None,
        [only] => Some(only),
        several => several.iter().find(|claimant| Some(**claimant) == current).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn all_requirements_must_hold_and_an_empty_selector_selects_nothing() {
        let device = labels(&[("site", "berlin"), ("tier", "gold")]);
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        let selects = |requirements: &[(&str, Must)]| {
            let requirements = requirements
                .iter()
                .map(|(key, must)| Requirement { key: (*key).to_owned(), must: must.clone() });
            Selector(requirements.collect()).selects(&device)
        };
        let cases = [
            (vec![], false),
            (vec![("site", Must::BeIn(values(&["berlin"])))], true),
            (vec![("site", Must::BeIn(values(&["bonn", "berlin"])))], true),
            (vec![("site", Must::BeIn(values(&["bonn"])))], false),
            (vec![("rack", Must::BeIn(values(&["r1"])))], false),
            (vec![("site", Must::NotBeIn(values(&["bonn"])))], true),
            (vec![("site", Must::NotBeIn(values(&["berlin"])))], false),
            (vec![("rack", Must::NotBeIn(values(&["r1"])))], true),
            (vec![("tier", Must::Exist)], true),
            (vec![("rack", Must::Exist)], false),
            (vec![("rack", Must::NotExist)], true),
            (vec![("tier", Must::NotExist)], false),
            (vec![("tier", Must::Exist), ("rack", Must::Exist)], false),
        ];
        for (requirements, expected) in cases {
            assert_eq!(selects(&requirements), expected, "{requirements:?}");
        }
    }

    #[test]
    fn a_device_that_several_fleets_claim_keeps_its_owner() {
        assert_eq!(owner(Some("a"), &[]), None);
        assert_eq!(owner(None, &["a"]), Some("a"));
        assert_eq!(owner(Some("b"), &["a"]), Some("a"));
        assert_eq!(owner(Some("b"), &["a", "b"]), Some("b"));
        assert_eq!(owner(None, &["a", "b"]), None);
        assert_eq!(owner(Some("c"), &["a", "b"]), None);
    }
}
