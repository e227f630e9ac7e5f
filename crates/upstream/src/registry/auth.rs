//! The demand in a registry's 401: a password, or a token from a token server.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{Url, header::HeaderValue};

use super::client::{Credentials, Registry};
use crate::{Failure, exchange};

#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

/// Turns a demand into the value of an `Authorization` header.
pub(super) async fn answer(
    registry: &Registry,
    challenge: Option<&str>,
    (repository, actions): (&str, &str),
) -> Result<HeaderValue, Failure> {
    let denied = || Failure::Refused { status: 401, detail: "the credentials are not accepted".to_owned() };
    let credentials = registry.credentials.as_ref();
    let mut value = match challenge.and_then(parse).ok_or_else(denied)? {
        Challenge::Basic => basic(credentials.ok_or_else(denied)?),
        Challenge::Bearer { realm, service } => {
            let token =
                token(registry, &realm, service.as_deref(), &format!("repository:{repository}:{actions}"))
                    .await?;
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| denied())
        }
    }?;
    value.set_sensitive(true);
    Ok(value)
}

fn basic(credentials: &Credentials) -> Result<HeaderValue, Failure> {
    let Credentials { username, password } = credentials;
    let pair = BASE64_STANDARD.encode(format!("{username}:{}", password.expose()));
    HeaderValue::from_str(&format!("Basic {pair}"))
        .map_err(|_| Failure::Setup("the credentials cannot be sent".to_owned()))
}

async fn token(
    registry: &Registry,
    realm: &str,
    service: Option<&str>,
    scope: &str,
) -> Result<String, Failure> {
    #[derive(serde::Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let odd = |why: &str| Failure::Unexpected(format!("the registry sends clients for tokens to {why}"));
    let mut url: Url = realm.parse().map_err(|_| odd("a URL that is not valid"))?;
    if registry.base.scheme() == "https" && url.scheme() != "https" {
        return Err(odd("a URL without TLS"));
    }
    if let Some(service) = service {
        url.query_pairs_mut().append_pair("service", service);
    }
    url.query_pairs_mut().append_pair("scope", scope);
    let mut request = registry.http.get(url);
    let mut hidden = "";
    if let Some(Credentials { username, password }) = &registry.credentials {
        hidden = password.expose();
        request = request.basic_auth(username, Some(hidden));
    }
    let reply = exchange::send(request, registry.timeout).await?.expect(&[200], &[hidden])?;
    let Answer { token, access_token } = reply.json()?;
    token.or(access_token).ok_or_else(|| odd("a URL that issued no token"))
}

/// Reads `Basic realm="…"` and `Bearer realm="…",service="…",scope="…"`.
fn parse(header: &str) -> Option<Challenge> {
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameter = |wanted: &str| {
        let mut rest = rest;
        while let Some((name, after)) = rest.split_once("=\"") {
            let (value, next) = after.split_once('"')?;
            if name.trim_matches([' ', ',']).eq_ignore_ascii_case(wanted) {
                return Some(value.to_owned());
            }
            rest = next;
        }
        None
    };
    Some(Challenge::Bearer { realm: parameter("realm")?, service: parameter("service") })
}

#[cfg(test)]
mod tests {
    use super::{Challenge, parse};

    #[test]
    fn demands_are_understood() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        assert_eq!(parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(
            parse(r#"Bearer realm="https://h/token",service="s, t",scope="repository:a/b:pull,push""#),
            bearer("https://h/token", Some("s, t"))
        );
        assert_eq!(parse(r#"bearer service="s", realm="r""#), bearer("r", Some("s")));
        assert_eq!(parse(r#"Bearer realm="r""#), bearer("r", None));
        for odd in ["Bearer", "Bearer realm=", r#"Bearer realm="r"#, "Negotiate x", ""] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}
