//! Finds the one resource that a person means by a name, an id or the start of an id.

use wardroom_api::{client::Client, found::Found};

use crate::{
    exit::{Code, failure, missing},
    kind::Kind,
    suggest, text,
    view::Resource,
};

/// A resource that a command acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The id, for requests.
    pub(crate) id: String,
    /// What the user calls it, for messages.
    pub(crate) name: String,
}

/// Whether deleted resources are meant too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    Living,
    All,
}

/// Returns the resource that is called so. An ambiguous name lists its candidates.
pub(crate) async fn locate<T: Resource>(
    client: &Client,
    typed: &str,
    among: Among,
) -> anyhow::Result<Target> {
    // The server gave such an id out, and says itself whether there is still such a resource.
    if is_id(typed) {
        return Ok(Target { id: typed.to_owned(), name: typed.to_owned() });
    }
    let mut found = T::named(client, typed, among).await?;
    let target = match (found.pop(), found.is_empty()) {
        (Some(one), true) => chosen(one, typed),
        (Some(last), false) => {
            found.push(last);
            return Err(failure(Code::Usage, ambiguous(T::KIND, typed, &found)));
        }
        (None, _) => return Err(missing(T::KIND, typed)),
    };
    suggest::remember(&target.id, &target.name);
    Ok(target)
}

/// Returns the resource under the name that the user typed; under its own if that was only the start of its id.
fn chosen(found: Found, typed: &str) -> Target {
    let Found { id, name, .. } = found;
    let is_start = id != typed && name != typed && id.starts_with(typed);
    Target { name: if is_start { name } else { typed.to_owned() }, id }
}

fn ambiguous(kind: Kind, typed: &str, found: &[Found]) -> String {
    let kind = kind.as_str();
    let mut said = format!("{typed:?} names several {kind}s: give one of their ids");
    for Found { id, name, state, .. } in found {
        said.push_str(&format!("\n{id}  {}  {state}", text::clean(name)));
    }
    said
}

/// Whether a text has the form of an id that the server gives out.
pub(crate) fn is_id(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use wardroom_api::found::Found;

    use super::{ambiguous, chosen, is_id};
    use crate::kind::Kind;

    fn found(id: &str, name: &str) -> Found {
        let state = "active".to_owned();
        Found { kind: "node".to_owned(), id: id.to_owned(), name: name.to_owned(), state, deleted: false }
    }

    #[test]
    fn a_resource_keeps_the_name_that_was_typed() {
        let id = "019a8b7c-0000-7000-8000-000000000001";
        for (typed, expected) in
            [("n1", "n1"), (id, id), ("019a8b", "n1"), ("52:54:00:00:00:01", "52:54:00:00:00:01")]
        {
            assert_eq!(chosen(found(id, "n1"), typed).name, expected);
        }
    }

    #[test]
    fn candidates_are_told_apart() {
        let said = ambiguous(Kind::Node, "n1", &[found("019a", "n1"), found("019b", "n1")]);
        assert_eq!(
            said,
            "\"n1\" names several nodes: give one of their ids\n019a  n1  active\n019b  n1  active"
        );
    }

    #[test]
    fn an_id_is_told_from_a_name() {
        assert!(is_id("019a8b7c-0000-7000-8000-000000000000"));
        assert!(!is_id("019a8b7c") && !is_id("rack-node-with-four-dashes") && !is_id(""));
    }
}
