//! Secrets: the server's key, tokens and their hashes. None of them is ever printed.

use std::{fmt, fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The server's key, kept outside the database; what is signed with it is domain separated.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads the key; nothing when there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read, or does not hold a key.
    pub fn load(path: &Path) -> Result<Option<Self>, String> {
        match fs::read(path) {
            Ok(bytes) => {
                let key = <[u8; 32]>::try_from(bytes).map(Self);
                key.map(Some).map_err(|_| format!("{}: must be exactly 32 bytes", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Makes a key and writes it where only its owner can read it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path) -> Result<Self, String> {
        let key = random();
        write_private(path, &key).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(key))
    }

    /// Signs several parts, separated unambiguously, for one purpose.
    #[must_use]
    pub fn sign(&self, purpose: &str, parts: &[&str]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a MAC takes a key of any length");
        for part in std::iter::once(&purpose).chain(parts) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }

    /// Returns the stored hash of an API token. Write access to the database without the key cannot make one.
    #[must_use]
    pub fn hash_token(&self, token: &str) -> String {
        format!("mac/{}", encode(&self.sign("api token", &[&hash_token(token)])))
    }

    /// A key for one purpose, derived from this one.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        self.sign("derive", &[purpose])
    }
}

/// Writes a file that only its owner can read, and that must not exist yet.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A token of 256 random bits, with a prefix by which leaked ones are recognised.
#[must_use]
pub fn new_token() -> String {
    format!("wrt_{}", random_text())
}

/// Returns a fingerprint of a token of 256 random bits, made without a key: a name, not a proof.
#[must_use]
pub fn hash_token(token: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"wardroom/token/1");
    hash.update(token.as_bytes());
    encode(&hash.finalize())
}

/// Compares in constant time.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

/// 256 random bits as text.
pub(crate) fn random_text() -> String {
    encode(&random())
}

pub(crate) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    // Without random bytes no secret can be made.
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}
