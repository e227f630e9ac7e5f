//! Encrypts secrets that must be given out again, so that only a server with the key can read them.
//!
//! What must stay true: a sealed secret opens only for its record, and sealing the same secret for the same
//! record gives the same text, so that an unchanged config stays unchanged. The cipher is AES-256-GCM-SIV,
//! made for a fixed nonce: a reader of the database learns only the length of a secret and whether it
//! changed.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::platform::identity::secret::{Key, decode, encode};

/// The prefix of a sealed secret; its number names the cipher.
const MARK: &str = "wrs1.";

pub(crate) fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

pub(crate) struct Seal<'a> {
    record: &'a str,
    cipher: LessSafeKey,
}

impl<'a> Seal<'a> {
    /// For a record.
    pub(crate) fn of(key: &Key, record: &'a str) -> Self {
        let derived = UnboundKey::new(&AES_256_GCM_SIV, &key.derive("seal"));
        let cipher = LessSafeKey::new(derived.expect("the derived key is as long as the cipher's"));
        Self { record, cipher }
    }

    pub(crate) fn seal(&self, secret: &str) -> String {
        let mut sealed = secret.as_bytes().to_vec();
        let done = self.cipher.seal_in_place_append_tag(nonce(), Aad::from(self.record), &mut sealed);
        done.expect("a text is shorter than the longest that can be sealed");
        format!("{MARK}{}", encode(&sealed))
    }

    /// The secret; nothing when it was sealed for another record, with another key, or not at all.
    pub(crate) fn open(&self, sealed: &str) -> Option<String> {
        let mut bytes = decode(sealed.strip_prefix(MARK)?)?;
        let secret = self.cipher.open_in_place(nonce(), Aad::from(self.record), &mut bytes).ok()?;
        String::from_utf8(secret.to_vec()).ok()
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_for_its_record_and_key_only() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::create(&dir.path().join("key")).unwrap();
        let seal = |key: &Key, record: &str, secret: &str| Seal::of(key, record).seal(secret);
        let open = |key: &Key, record: &str, sealed: &str| Seal::of(key, record).open(sealed);
        let sealed = seal(&key, "a", "hunter2");
        assert!(is_sealed(&sealed) && !sealed.contains("hunter2"));
        assert_eq!(sealed, seal(&key, "a", "hunter2"), "what is the same is sealed alike");
        assert_ne!(sealed, seal(&key, "b", "hunter2"));
        assert_eq!(open(&key, "a", &sealed).as_deref(), Some("hunter2"));
        assert_eq!(open(&key, "b", &sealed), None);
        let other = Key::create(&dir.path().join("other")).unwrap();
        assert_eq!(open(&other, "a", &sealed), None);
        let cut = &sealed[..sealed.len() - 2];
        for text in ["", "hunter2", MARK, "wrs1.AA", cut] {
            assert_eq!(open(&key, "a", text), None, "{text}");
        }
        assert_eq!(open(&key, "a", &seal(&key, "a", "")).as_deref(), Some(""));
    }
}
