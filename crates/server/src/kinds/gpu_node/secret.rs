//! Secrets of GPU nodes: derived from the server's key, so that none of them is stored.
//!
//! A token is derived from the key, the node and its round; a credential from the key, the node and an epoch.
//! So a worker that takes over a run renders the same user data, and a repeated enrolment gets the same
//! credential.

use sha2::{Digest as _, Sha256};

use crate::platform::identity::secret::{self, Key};

/// The prefixes by which leaked ones are recognised.
const TOKEN: &str = "wrb_";
const CREDENTIAL: &str = "wrg_";

/// The token that an agent enrols with, for one run and one round of it.
pub(crate) fn token(key: &Key, node: &str, run: &str, round: u32) -> String {
    let signed = key.sign("gpu-node token", &[node, run, &round.to_string()]);
    format!("{TOKEN}{}", secret::encode(&signed))
}

/// The credential of an agent in an epoch. It names its node, so that one read finds the hash.
pub(crate) fn credential(key: &Key, node: &str, epoch: u64) -> String {
    let signed = key.sign("gpu-node credential", &[node, &epoch.to_string()]);
    format!("{CREDENTIAL}{node}.{}", secret::encode(&signed))
}

pub(crate) fn is_credential(text: &str) -> bool {
    text.starts_with(CREDENTIAL)
}

pub(crate) fn node_of(credential: &str) -> Option<&str> {
    let (node, signed) = credential.strip_prefix(CREDENTIAL)?.split_once('.')?;
    (!node.is_empty() && node.len() <= 64 && !signed.is_empty()).then_some(node)
}

/// The stored hash of a token, a credential or the name of an exchange.
pub(crate) type Hash = [u8; 32];

pub(crate) fn digest(text: &str) -> Hash {
    let mut hash = Sha256::new();
    hash.update(b"wardroom/gpu-node/1");
    hash.update(text.as_bytes());
    hash.finalize().into()
}

/// The same as text in a document.
pub(crate) fn hash(text: &str) -> String {
    secret::encode(&digest(text))
}

pub(crate) fn hash_of(text: &str) -> Option<Hash> {
    secret::decode(text).and_then(|bytes| Hash::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_belong_to_one_node_and_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::create(&dir.path().join("key")).unwrap();
        let shown = credential(&key, "a-1", 1);
        assert_eq!(node_of(&shown), Some("a-1"));
        assert_eq!(shown, credential(&key, "a-1", 1));
        assert_ne!(shown, credential(&key, "a-1", 2));
        assert_ne!(hash(&shown), hash(&credential(&key, "a-2", 1)));
        assert_ne!(token(&key, "a", "r", 1), token(&key, "a", "r", 2));
        for wrong in ["", "wrg_", "wrg_.x", "wrg_a", "wrt_a.b"] {
            assert_eq!(node_of(wrong), None, "{wrong:?}");
        }
    }
}
