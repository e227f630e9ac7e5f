//! Secrets of satellites: derived from the server's key, or random and shown once. None of them is stored.
//!
//! A robot's secret and a join token are derived from the key, the satellite and an epoch. So a handler can
//! answer before another system knows the secret, a worker can set it there later, and the database holds
//! hashes only.

use sha2::{Digest as _, Sha256};

use crate::platform::identity::secret::{self, Key};

pub(crate) type Hash = [u8; 32];

/// The secret of a satellite's credential in an epoch: upper case, lower case and digits, as registries ask for.
pub(crate) fn credential(key: &Key, id: &str, epoch: u64) -> String {
    let signed = key.sign("satellite credential", &[id, &epoch.to_string()]);
    format!("Wr1{}", secret::encode(&signed))
}

/// The join token of a satellite's agent in an epoch, in the form of a UUID.
pub(crate) fn join_token(key: &Key, id: &str, epoch: u64) -> String {
    let signed = key.sign("join token", &[id, &epoch.to_string()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&signed[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// A new registration token of 256 random bits, with a prefix by which leaked ones are recognised.
pub(crate) fn new_ztr_token() -> String {
    format!("wrz_{}", secret::random_text())
}

/// Hashes a credential or a registration token. A plain hash is enough for 256 random bits, and cheap enough
/// for every beat.
pub(crate) fn hash(text: &str) -> Hash {
    let mut hash = Sha256::new();
    hash.update(b"wardroom/satellite/1");
    hash.update(text.as_bytes());
    hash.finalize().into()
}

/// Hashes the `Idempotency-Key` of an exchange with the server's key, because it may be guessable.
pub(crate) fn exchange_hash(key: &Key, token: &Hash, idempotency_key: &str) -> Hash {
    key.sign("ztr exchange", &[&secret::encode(token), idempotency_key])
}

/// A hash as it is stored: text in a document.
pub(crate) fn text_of(hash: &Hash) -> String {
    secret::encode(hash)
}

pub(crate) fn hash_of(text: &str) -> Option<Hash> {
    secret::decode(text).and_then(|bytes| Hash::try_from(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_belong_to_one_satellite_and_epoch_and_please_a_strict_registry() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::create(&dir.path().join("key")).unwrap();
        let secret = credential(&key, "a", 1);
        assert_eq!(secret, credential(&key, "a", 1));
        assert_ne!(secret, credential(&key, "a", 2));
        assert_ne!(secret, credential(&key, "b", 1));
        assert!((8..=128).contains(&secret.len()));
        assert!(secret.bytes().any(|byte| byte.is_ascii_uppercase()));
        assert!(secret.bytes().any(|byte| byte.is_ascii_lowercase()));
        assert!(secret.bytes().any(|byte| byte.is_ascii_digit()));
        assert!(!join_token(&key, "a", 1).contains(&secret));
        assert_eq!(join_token(&key, "a", 1).len(), 36);
    }
}
