//! Which settings of a config are secrets, how they are hidden, and how they are stored.
//!
//! What must stay true: everything under a telling name is sealed before it is stored, so what is there and looks sealed
//! is sealed, whatever somebody sent.

use serde_json::Value;

use crate::{seal as seals, secret::Key};

/// What is shown instead of a secret.
pub(super) const HIDDEN: &str = "<hidden>";

/// A setting whose name contains one of these, whatever is between its words, is a secret.
#[rustfmt::skip]
const SECRETS: &[&str] = &[
    "password", "passwd", "passphrase", "passcode", "secret", "token", "credential",
    "privatekey", "apikey", "accesskey", "signingkey", "encryptionkey", "sharedkey", "clientkey", "basicauth", "httpauth",
];

/// So is one with one of these words in it: as a part of other words they say nothing.
const WORDS: &[&str] = &["auth", "authorization", "pass", "pwd", "psk", "jwt", "cookie"];

fn is_secret(key: &str) -> bool {
    let letters: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    SECRETS.iter().any(|word| letters.contains(word)) || words(key).any(|word| WORDS.contains(&&*word))
}

/// The words of a name, as in `basic_auth`, `basic-auth` and `basicAuth`.
fn words(key: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::new();
    let mut before = ' ';
    for letter in key.chars() {
        if before.is_ascii_lowercase() && letter.is_ascii_uppercase() {
            spaced.push(' ');
        }
        spaced.push(if letter.is_ascii_alphabetic() { letter.to_ascii_lowercase() } else { ' ' });
        before = letter;
    }
    spaced.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// What the secrets of a config are sealed for.
fn record(name: &str) -> String {
    format!("{}/{name}", super::CONFIGS.kind)
}

/// Seals every secret of a config.
pub(super) fn seal(key: &Key, name: &str, config: &mut Value) {
    let record = record(name);
    each(config, false, &mut |secret| *secret = seals::seal(key, &record, &secret.to_string()).into());
}

/// Opens every secret of a config, or says that one cannot be opened. What an older server stored is not sealed.
pub(super) fn open(key: &Key, name: &str, config: &mut Value) -> bool {
    let (record, mut all) = (record(name), true);
    each(config, false, &mut |secret| {
        let Some(sealed) = secret.as_str().filter(|text| seals::is_sealed(text)) else { return };
        let opened = seals::open(key, &record, sealed);
        match opened.and_then(|text| serde_json::from_str(&text).ok()) {
            Some(opened) => *secret = opened,
            None => all = false,
        }
    });
    all
}

/// Does something with every text and number under a telling name, however deep: what is there may be a list or an
/// object of secrets.
fn each(value: &mut Value, telling: bool, act: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(map) => {
            map.iter_mut().for_each(|(key, value)| each(value, telling || is_secret(key), act));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, telling, act)),
        Value::String(_) | Value::Number(_) if telling => act(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Hides every secret.
pub(super) fn hide(value: &mut Value, telling: bool) {
    each(value, telling, &mut |secret| *secret = HIDDEN.into());
}

/// Puts back what is hidden where it was sent as it is shown, so that who edits what was read loses no secret. A list
/// is put back as a whole or not at all: which of its secrets belongs where is not known after it was changed.
pub(super) fn unhide(patch: &mut Value, stored: &Value, telling: bool) {
    let mut shown = stored.clone();
    hide(&mut shown, telling);
    if *patch == shown {
        patch.clone_from(stored);
    } else if let (Value::Object(patch), Value::Object(stored)) = (patch, stored) {
        for (key, value) in patch {
            if let Some(stored) = stored.get(key) {
                unhide(value, stored, telling || is_secret(key));
            }
        }
    }
}

/// Where a mask was sent back instead of a secret.
pub(super) fn masked(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::String(text) if text == HIDDEN => Some(path.to_owned()),
        Value::Object(map) => map.iter().find_map(|(key, value)| masked(value, &format!("{path}.{key}"))),
        Value::Array(items) => items.iter().find_map(|value| masked(value, path)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn telling_names_are_known_however_they_are_written() {
        for name in [
            "password",
            "registryPassword",
            "PASSWD",
            "pass",
            "db_pass",
            "private-key",
            "privateKey",
            "apiKeys",
            "API_KEY",
            "accessKey",
            "clientSecret",
            "auth",
            "basicAuth",
            "proxy-authorization",
            "idToken",
            "pwd",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["author", "bypass", "keyboard", "key_file", "url", "passive", "log_level", ""] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_is_sealed_opens_as_it_was_and_for_its_config_only() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::create(&dir.path().join("key")).unwrap();
        let mut sent = json!({"auth": {"pin": 17, "on": true, "users": ["u", "wrs1.x"]}, "level": "wrs1.y"});
        let clear = sent.clone();
        seal(&key, "a", &mut sent);
        assert!(sent["auth"]["pin"].is_string() && sent["auth"]["on"] == true && sent["level"] == "wrs1.y");
        let mut opened = sent.clone();
        assert!(open(&key, "a", &mut opened));
        assert_eq!(opened, clear, "also what only looked sealed");
        assert!(!open(&key, "b", &mut sent));
        let mut old = json!({"auth": "in clear"});
        assert!(open(&key, "a", &mut old));
        assert_eq!(old, json!({"auth": "in clear"}), "an older server stored this");
    }
}
