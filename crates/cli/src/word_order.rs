//! Verbs before kinds, as people say it: `wardroom approve node n1` is `wardroom node approve n1`.
//!
//! Nothing is listed here: a verb is a subcommand of the command of a kind.

use std::ffi::OsString;

use clap::{Command, ValueEnum as _};

use crate::{
    exit::{Code, failure},
    kind::Kind,
};

/// Words of people for verbs that have another name in the API.
const WORDS: &[(&str, &str)] = &[("drain", "retire"), ("adopt", "adopt-observed-state")];

/// The arguments in the order of the commands; those of another command stay as they are.
///
/// # Errors
/// The kinds that have the verb, if no kind or another one is given with it.
pub(crate) fn settled(command: &Command, given: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let word = |at: usize| given.get(at).and_then(|word| word.to_str());
    let Some(said) = word(1).filter(|said| command.find_subcommand(said).is_none()) else { return Ok(given) };
    let verb = meant(said);
    let kinds: Vec<_> = command
        .get_subcommands()
        .filter(|kind| Kind::from_str(kind.get_name(), true).is_ok() && kind.find_subcommand(verb).is_some())
        .map(Command::get_name)
        .collect();
    if kinds.is_empty() {
        return Ok(given);
    }
    let kind = word(2).and_then(|word| Kind::from_str(word, true).ok()).map(Kind::as_str);
    let Some(kind) = kind.filter(|kind| kinds.contains(kind)) else {
        let ways: Vec<_> = kinds.iter().map(|kind| format!("`wardroom {said} {kind} NAME`")).collect();
        let all = ways.join(" or ");
        let next = format!("next: `wardroom {} {verb} --help` says more", kinds[0]);
        return Err(failure(Code::Usage, format!("{said} is a verb of {}: {all}\n{next}", kinds.join(", "))));
    };
    let settled = [given[0].clone(), kind.into(), verb.into()].into_iter();
    Ok(settled.chain(given.iter().skip(3).cloned()).collect())
}

/// The verb of the API for a word of people.
pub(crate) fn meant(said: &str) -> &str {
    WORDS.iter().find(|(known, _)| *known == said).map_or(said, |(_, verb)| verb)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    fn of(line: &str) -> Result<String, String> {
        let given = line.split(' ').map(OsString::from).collect();
        let settled = settled(&Arguments::command(), given).map_err(|error| error.to_string())?;
        Ok(settled.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_verb_may_come_before_its_kind() {
        for (said, meant) in [
            ("wardroom approve node n1", "wardroom node approve n1"),
            ("wardroom approve nodes n1 n2 --yes", "wardroom node approve n1 n2 --yes"),
            ("wardroom deny device d1 --comment no", "wardroom device deny d1 --comment no"),
            ("wardroom drain gpu g1", "wardroom gpu-node retire g1"),
            ("wardroom retry-stage run g1", "wardroom run retry-stage g1"),
            ("wardroom adopt run g1 --digest d", "wardroom run adopt-observed-state g1 --digest d"),
            ("wardroom revoke sat edge", "wardroom satellite revoke edge"),
            ("wardroom node approve n1", "wardroom node approve n1"),
            ("wardroom delete node n1", "wardroom delete node n1"),
            ("wardroom paint node n1", "wardroom paint node n1"),
            ("wardroom", "wardroom"),
        ] {
            assert_eq!(of(said).as_deref(), Ok(meant));
        }
    }

    #[test]
    fn a_verb_without_its_kind_says_which_kinds_have_it() {
        let refused = of("wardroom retire n1").unwrap_err();
        assert!(
            refused.contains("`wardroom retire node NAME`")
                && refused.contains("`wardroom retire gpu-node NAME`"),
            "{refused}"
        );
        assert!(of("wardroom approve satellite edge").unwrap_err().contains("node, device"));
        assert!(of("wardroom resume").unwrap_err().contains("`wardroom resume run NAME`"));
    }
}
