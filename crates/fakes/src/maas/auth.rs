//! The check of the OAuth header, with the words of the recorded refusals. One of them gives the secret away.

use std::{collections::HashSet, hash::BuildHasher as _};

use http_body_util::Full;
use hyper::{Response, body::Bytes};

use super::{body::decoded, clock::Now};
use crate::wire::{Request, answer, with};

/// How far the clock of a client may be off.
const SKEW: i64 = 300;

/// Used nonces: each is accepted once. Two generations bound the memory.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    young: HashSet<u64>,
    old: HashSet<u64>,
    since: i64,
    hasher: std::hash::RandomState,
}

impl Nonces {
    fn take(&mut self, nonce: &str, now: i64) -> bool {
        if now - self.since > 2 * SKEW {
            self.old = std::mem::take(&mut self.young);
            self.since = now;
        }
        let hash = self.hasher.hash_one(nonce);
        !self.old.contains(&hash) && self.young.insert(hash)
    }
}

type Refusal = Box<Response<Full<Bytes>>>;

pub(super) fn check(
    request: &Request,
    op: Option<&str>,
    key: &str,
    nonces: &mut Nonces,
    now: Now,
) -> Result<(), Refusal> {
    let header = request.header("authorization");
    let Some(given) = header.strip_prefix("OAuth ") else {
        let op = op.unwrap_or("None");
        let text = format!("Unrecognised signature: method={} op={op}", request.method);
        return Err(Box::new(answer(400, "text/plain; charset=utf-8", text)));
    };
    let part = |name: &str| {
        let parts = given.split(',').filter_map(|part| part.trim().split_once('='));
        let found = parts.into_iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| decoded(value.trim_matches('"'))).unwrap_or_default()
    };
    let mut parts = key.splitn(3, ':');
    let (consumer, token, secret) = (parts.next(), parts.next(), parts.next());
    let timestamp: i64 = part("oauth_timestamp").parse().unwrap_or_default();
    if Some(part("oauth_consumer_key").as_str()) != consumer {
        return Err(refusal("Invalid API key."));
    }
    if Some(part("oauth_token").as_str()) != token {
        return Err(refusal(&format!("'Invalid access token: {}'", part("oauth_token"))));
    }
    let expected = format!("&{}", secret.unwrap_or_default());
    if part("oauth_signature") != expected || part("oauth_signature_method") != "PLAINTEXT" {
        return Err(refusal(&format!("'Invalid signature. Expected signature base string: {expected}'")));
    }
    let off = now.wall.as_second() - timestamp;
    if off.abs() > SKEW {
        return Err(refusal(&format!("'Expired timestamp: given {timestamp}, off by {off}'")));
    }
    if !nonces.take(&part("oauth_nonce"), now.wall.as_second()) {
        return Err(refusal("'Nonce already used'"));
    }
    Ok(())
}

/// A 401 in MAAS's words.
pub(super) fn refusal(why: &str) -> Refusal {
    let text = format!("Authorization Error: {why}");
    Box::new(with(answer(401, "text/html; charset=utf-8", text), "www-authenticate", "OAuth realm=\"OAuth\""))
}
