//! Selectors in Flight Control's words: `=`, `==`, `!=`, `in`, `notin`, a name alone, and `!` before it.

use wardroom_core::device::summary;
use wardroom_store::{List, Requirement, Selector};

use super::{
    super::{
        document::{self, OWNER},
        request::{APPROVED, DENIED, PENDING},
    },
    status,
};
use crate::platform::http::{error::Error, list};

const PARAMETER: &str = "fieldSelector";

/// A field that devices are selected by: its stored name, none for the state, and its values, none for any.
struct Field {
    name: &'static str,
    stored: Option<&'static str>,
    values: Option<&'static [&'static str]>,
}

const FIELDS: &[Field] = &[
    Field { name: "status.summary.status", stored: None, values: Some(status::SUMMARY) },
    Field { name: "status.updated.status", stored: Some(document::UPDATED), values: Some(status::UPDATED) },
    Field {
        name: "status.applicationsSummary.status",
        stored: Some(document::APPLICATIONS),
        values: Some(status::APPLICATIONS),
    },
    Field {
        name: "status.lifecycle.status",
        stored: Some(document::LIFECYCLE),
        values: Some(status::LIFECYCLE),
    },
    Field { name: "metadata.owner", stored: Some(OWNER), values: None },
];

/// Adds what a selector of devices asks for to a list.
pub(super) fn devices(text: &str, list: &mut List) -> Result<(), Error> {
    for Selector { key, requirement } in list::selector(PARAMETER, text)? {
        let Some(field) = FIELDS.iter().find(|field| field.name == key) else {
            let known: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
            return Err(unknown(&key, &known));
        };
        if let Some(known) = field.values {
            check(&key, &requirement, known)?;
        }
        match field.stored {
            None => list.states.push(mapped(requirement, |word| match word {
                "Unknown" => summary::Status::Offline.as_str(),
                other => other,
            })),
            Some(stored) => {
                list.field_requirements.push(Selector { key: stored.to_owned(), requirement });
            }
        }
    }
    Ok(())
}

const DECISION: &str = "status.approval.approved";

/// Adds what a selector of enrolment requests asks for to a list.
pub(super) fn requests(text: &str, list: &mut List) -> Result<(), Error> {
    for Selector { key, requirement } in list::selector(PARAMETER, text)? {
        if key != DECISION {
            return Err(unknown(&key, &[DECISION]));
        }
        check(&key, &requirement, &["true", "false"])?;
        list.states.push(match requirement {
            Requirement::Exists => Requirement::NotIn(vec![PENDING.to_owned()]),
            Requirement::Missing => Requirement::In(vec![PENDING.to_owned()]),
            decided @ (Requirement::In(_) | Requirement::NotIn(_)) => {
                mapped(decided, |word| if word == "true" { APPROVED } else { DENIED })
            }
        });
    }
    Ok(())
}

fn unknown(key: &str, known: &[&str]) -> Error {
    Error::invalid(PARAMETER, format!("cannot select by {key:?}, only by: {}", known.join(", ")))
}

fn values(requirement: &Requirement) -> &[String] {
    match requirement {
        Requirement::In(values) | Requirement::NotIn(values) => values,
        Requirement::Exists | Requirement::Missing => &[],
    }
}

/// Refuses a value that the field cannot have: nothing would ever be found by it.
fn check(key: &str, requirement: &Requirement, known: &[&str]) -> Result<(), Error> {
    match values(requirement).iter().find(|value| !known.contains(&value.as_str())) {
        None => Ok(()),
        Some(_) => Err(Error::invalid(PARAMETER, format!("{key} is one of: {}", known.join(", ")))),
    }
}

fn mapped(requirement: Requirement, word: impl Fn(&str) -> &str) -> Requirement {
    let all = |values: Vec<String>| values.iter().map(|value| word(value).to_owned()).collect();
    match requirement {
        Requirement::In(values) => Requirement::In(all(values)),
        Requirement::NotIn(values) => Requirement::NotIn(all(values)),
        other @ (Requirement::Exists | Requirement::Missing) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of(values: &[&str]) -> Requirement {
        Requirement::In(values.iter().map(|value| (*value).to_owned()).collect())
    }

    #[test]
    fn selectors_are_read_in_their_words() {
        let mut list = List::default();
        let text = "status.summary.status in (Unknown,Online),status.updated.status!=UpToDate,metadata.owner=Fleet/web";
        devices(text, &mut list).unwrap();
        assert_eq!(list.states, [one_of(&["Offline", "Online"])]);
        let fields: Vec<_> = list.field_requirements.iter().map(|field| &*field.key).collect();
        assert_eq!(fields, ["updated", "owner"]);
        let not = Requirement::NotIn(vec!["UpToDate".to_owned()]);
        assert_eq!(list.field_requirements[0].requirement, not);
        assert_eq!(list.field_requirements[1].requirement, one_of(&["Fleet/web"]));
        for wrong in
            ["status.summary.status=Offline", "status.applicationSummary.status=Error", "x", "", "a in b"]
        {
            assert!(devices(wrong, &mut List::default()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn requests_are_selected_by_their_decision() {
        let read = |text: &str| {
            let mut list = List::default();
            requests(text, &mut list).map(|()| list.states)
        };
        assert_eq!(read("status.approval.approved=true").unwrap(), [one_of(&["Approved"])]);
        assert_eq!(read("!status.approval.approved").unwrap(), [one_of(&["Pending"])]);
        assert!(read("status.approval.approved=maybe").is_err());
        assert!(read("state=Pending").is_err());
    }

    #[test]
    fn no_fuzzed_selector_is_the_fault_of_the_server() {
        use super::super::super::fuzz;
        let parts = [
            "status.summary.status",
            "metadata.owner",
            "status.approval.approved",
            "site",
            "Online",
            "Unknown",
            "=",
            "!=",
            "==",
            " in ",
            " notin ",
            "(",
            ")",
            ",",
            "!",
        ];
        let mut random = fuzz::Random(23);
        for _ in 0..fuzz::rounds() {
            let text = fuzz::text(&parts, &mut random);
            fuzz::judged(devices(&text, &mut List::default()), &text);
            fuzz::judged(requests(&text, &mut List::default()), &text);
            fuzz::judged(list::label_selector(&text), &text);
            fuzz::judged(list::field_selector(&text, &["status.summary.status", "metadata.owner"]), &text);
        }
    }
}
