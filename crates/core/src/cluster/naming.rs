//! The condition that a required adapter gets on its cluster.

use std::collections::BTreeMap;

use crate::Invalid;

/// The type of an adapter's condition: `pull-secret` becomes `PullSecretSuccessful`.
///
/// Hyphens separate words, empty words vanish, and everything but a word's first letter stays as it is.
#[must_use]
pub fn successful_type(adapter: &str) -> String {
    const SUFFIX: &str = "Successful";
    let mut type_ = String::with_capacity(adapter.len() + SUFFIX.len());
    for word in adapter.split('-') {
        let mut letters = word.chars();
        type_.extend(letters.next().map(upper));
        type_.push_str(letters.as_str());
    }
    type_.push_str(SUFFIX);
    type_
}

// One letter for one letter: "ß" has no capital of its own and stays.
fn upper(letter: char) -> char {
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        _ => letter,
    }
}

/// Checks the list of required adapters when the configuration is loaded.
///
/// Two names that give one condition (`a-b` and `a--b`) would overwrite each other for ever.
///
/// # Errors
///
/// Every name that is empty or that cannot stand beside an earlier one.
pub fn check_required(adapters: &[String]) -> Result<(), Vec<Invalid>> {
    let mut problems = Vec::new();
    let mut taken = BTreeMap::new();
    for (index, adapter) in adapters.iter().enumerate() {
        let mut problem =
            |message: String| problems.push(Invalid::new(format!("required_adapters[{index}]"), message));
        if adapter.trim().is_empty() {
            problem("is empty; name an adapter or remove the entry".into());
            continue;
        }
        let type_ = successful_type(adapter);
        match taken.get(&type_) {
            Some(other) if *other == adapter => problem(format!("{adapter:?} is listed twice; remove one")),
            Some(other) => problem(format!("{adapter:?} and {other:?} both become {type_}; rename one")),
            None => drop(taken.insert(type_, adapter)),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}
