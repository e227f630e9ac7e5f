//! Which settings of a config are secrets, how they are hidden, and how they are stored.
//!
//! What must stay true: every value under a name that suggests a secret is sealed before it is stored, and so
//! is every text that looks sealed. Therefore a stored text that looks sealed is sealed.

use serde_json::Value;

use crate::platform::identity::{
    seal::{Seal, is_sealed},
    secret::Key,
};

/// What is shown instead of a secret.
pub(super) const HIDDEN: &str = "<hidden>";

/// A setting whose name contains one of these, with any separators, is a secret.
#[rustfmt::skip]
const SECRETS: &[&str] = &[
    "password", "passwd", "passphrase", "passcode", "secret", "token", "credential",
    "privatekey", "apikey", "accesskey", "signingkey", "encryptionkey", "sharedkey", "clientkey", "serverkey", "tlskey",
    "sslkey", "basicauth", "httpauth", "dbpass", "userpass",
];

/// A setting with one of these whole words in its name is a secret.
const WORDS: &[&str] = &["auth", "auths", "authorization", "pass", "pwd", "psk", "jwt", "cookie"];

fn is_secret(key: &str) -> bool {
    has_secret(key) || words(key).any(|word| WORDS.contains(&&*word))
}

fn has_secret(key: &str) -> bool {
    let letters: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    let letters = letters.to_ascii_lowercase();
    SECRETS.iter().any(|word| letters.contains(word))
}

#[derive(Clone, Copy, Default)]
pub(super) struct Place<'a> {
    /// Whether a name above it suggests a secret.
    telling: bool,
    /// The name of the enclosing object.
    of: &'a str,
}

impl<'a> Place<'a> {
    /// A setting inside this one. Whether `key` is a secret depends on the enclosing name, as in `tls.key`.
    fn at(self, key: &'a str) -> Self {
        let is_key = || matches!(words(key).last().as_deref(), Some("key" | "keys" | "pem"));
        let telling =
            self.telling || is_secret(key) || (is_key() && has_secret(&format!("{}{key}", self.of)));
        Self { telling, of: key }
    }
}

/// Whether a text is a secret under any name, or looks sealed.
fn is_secret_itself(text: &str) -> bool {
    (text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----")) || is_sealed(text)
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

/// The record name that the secrets of a config are sealed for.
fn record(name: &str) -> String {
    format!("{}/{name}", super::CONFIGS.kind)
}

pub(super) fn seal(key: &Key, name: &str, config: &mut Value) {
    let record = record(name);
    let seal = Seal::of(key, &record);
    each(config, Place::default(), &mut |secret| *secret = seal.seal(&secret.to_string()).into());
}

pub(super) fn count(config: &mut Value) -> usize {
    let mut count = 0;
    each(config, Place::default(), &mut |_| count += 1);
    count
}

/// Opens every sealed secret of a config; returns false if one cannot be opened. A setting that was stored
/// before its name was in the lists above is not sealed until the config is changed.
pub(super) fn open(key: &Key, name: &str, config: &mut Value) -> bool {
    let (record, mut all) = (record(name), true);
    let seal = Seal::of(key, &record);
    each(config, Place::default(), &mut |secret| {
        let Some(sealed) = secret.as_str().filter(|text| is_sealed(text)) else { return };
        match seal.open(sealed).and_then(|text| serde_json::from_str(&text).ok()) {
            Some(opened) => *secret = opened,
            None => all = false,
        }
    });
    all
}

/// Calls `act` with every text and number below a name that suggests a secret, at any depth, and with every
/// text that is a secret itself.
fn each(value: &mut Value, place: Place<'_>, act: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(key, value)| each(value, place.at(key), act)),
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, place, act)),
        Value::String(_) | Value::Number(_) if place.telling => act(value),
        Value::String(text) if is_secret_itself(text) => act(value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(super) fn hide(value: &mut Value, place: Place<'_>) {
    each(value, place, &mut |secret| *secret = HIDDEN.into());
}

/// Restores hidden values that were sent back as shown, so that editing a config loses no secret. A list is
/// restored as a whole or not at all, because its elements may have moved.
pub(super) fn unhide(patch: &mut Value, stored: &Value, place: Place<'_>) {
    let mut shown = stored.clone();
    hide(&mut shown, place);
    if *patch == shown {
        patch.clone_from(stored);
    } else if let (Value::Object(patch), Value::Object(stored)) = (patch, stored) {
        for (key, value) in patch {
            if let Some(stored) = stored.get(key) {
                unhide(value, stored, place.at(key));
            }
        }
    }
}

/// Returns the path of a mask that was sent instead of a secret.
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
            "auths",
            "dbpass",
            "dbPass",
            "tls.key",
            "ssl_key",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["author", "bypass", "keyboard", "key_file", "url", "passive", "log_level", ""] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_sealed_secret_opens_unchanged_and_for_its_config_only() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::create(&dir.path().join("key")).unwrap();
        let pem = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIA\n-----END EC PRIVATE KEY-----\n";
        let mut sent = json!({
            "auth": {"pin": 17, "on": true, "users": ["u", "wrs1.x"]}, "level": "wrs1.y", "blob": pem,
            "tls": {"key": "k", "cert": "c"}, "map": {"key": "v"},
        });
        let clear = sent.clone();
        assert_eq!(count(&mut sent), 6);
        assert_eq!(sent, clear);
        seal(&key, "a", &mut sent);
        assert!(sent["auth"]["pin"].is_string() && sent["auth"]["on"] == true && sent["level"] != "wrs1.y");
        assert!(is_sealed(sent["blob"].as_str().unwrap()) && is_sealed(sent["tls"]["key"].as_str().unwrap()));
        assert_eq!((&sent["tls"]["cert"], &sent["map"]), (&json!("c"), &json!({"key": "v"})));
        let mut shown = sent.clone();
        hide(&mut shown, Place::default());
        assert_eq!((&shown["blob"], &shown["tls"]["key"]), (&json!(HIDDEN), &json!(HIDDEN)));
        let mut patch = shown["tls"].clone();
        unhide(&mut patch, &clear["tls"], Place::default().at("tls"));
        assert_eq!(patch, clear["tls"], "sent back as it was shown");
        let mut opened = sent.clone();
        assert!(open(&key, "a", &mut opened));
        assert_eq!(opened, clear, "also what only looked sealed");
        assert!(!open(&key, "b", &mut sent));
        let mut clear = json!({"auth": "in clear"});
        assert!(open(&key, "a", &mut clear));
        assert_eq!(clear, json!({"auth": "in clear"}), "stored before `auth` was a telling name");
        assert!(!open(&key, "a", &mut json!({"level": "wrs1.y"})), "looks sealed and is not");
    }
}
