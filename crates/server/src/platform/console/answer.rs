//! Answers of the console: pages with their headers, files, and refusals as pages.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use wardroom_console::{Markup, assets, form, problem, shell::Theme};

use super::session;
use crate::platform::{
    http::{error::Error, path::Path},
    kind::Kind,
};

/// What a page may load and do: only what this server gives it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// The cookie of the theme.
pub(super) const THEME: &str = "wardroom-theme";

/// A page.
pub(super) fn page(status: StatusCode, markup: &Markup) -> Response {
    let mut response = (status, markup.0.clone()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Another page, to be read with GET.
pub(super) fn see(path: &str) -> Response {
    // Paths are encoded before they come here; anything else leads to the overview.
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/console"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response()
}

/// A path of the console that a form may lead back to.
pub(super) fn own(path: &str) -> &str {
    let is_own = (path == "/console" || path.starts_with("/console/") || path.starts_with("/console?"))
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_own { path } else { "/console" }
}

pub(super) fn theme(headers: &HeaderMap) -> Theme {
    session::read(headers, THEME).map(Theme::of).unwrap_or_default()
}

/// A file; its name has its hash, so browsers keep it.
pub(super) async fn asset(Path(name): Path<String>) -> Result<Response, Error> {
    let asset = assets::find(&name).ok_or(Error::NoRoute)?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    Ok((headers, &*asset.bytes).into_response())
}

/// A request for a page, as far as its refusal needs it.
pub(crate) struct Visitor {
    theme: Theme,
    path: String,
    reads: bool,
}

/// The visitor of a page; nothing for other requests.
pub(crate) fn visitor(request: &Request) -> Option<Visitor> {
    let path = request.uri().path();
    let is_page = path == "/console" || path.starts_with("/console/") && !path.starts_with(assets::PATH);
    is_page.then(|| Visitor {
        theme: theme(request.headers()),
        path: request.uri().path_and_query().map_or_else(String::new, ToString::to_string),
        reads: matches!(*request.method(), Method::GET | Method::HEAD),
    })
}

impl Visitor {
    /// A refusal as a page: without a session that is the login, which leads back here.
    pub(crate) fn refused(&self, error: &Error, kinds: &[&'static Kind], request_id: &str) -> Response {
        let mut problem = error.problem(kinds, request_id);
        if matches!(error, Error::Unauthenticated(_)) {
            if self.reads {
                let next = Some(&*self.path).filter(|path| *path != "/console").unwrap_or_default();
                return see(&format!("/console/login{}", form::query([("next", next)])));
            }
            // A form without a session is refused, not asked for a token.
            problem.status = StatusCode::FORBIDDEN.as_u16();
        }
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        page(status, &problem::alone(&problem, self.theme))
    }
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn a_form_leads_back_to_the_console_only() {
        for path in ["/console", "/console/nodes?q=a%3Db", "/console?done=x"] {
            assert_eq!(own(path), path);
        }
        for path in [
            "",
            "//evil.example",
            "https://evil.example",
            "/consolex",
            "/console/\\evil",
            "/console/\r\nx",
            "/api/v1/nodes",
        ] {
            assert_eq!(own(path), "/console", "{path:?}");
        }
    }
}
