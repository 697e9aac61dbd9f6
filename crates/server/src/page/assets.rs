//! The files of the page. They are compiled in, so that the page works without a network, and their ETag is a
//! hash of the content, so that a browser downloads each file once.

use crate::api::Path;
use crate::reply::OpenAiError;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::hex;

/// The content security policy: the page uses only its own files and connects only to this host.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

struct File {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    tag: String,
}

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        vec![$(File::new($name, $kind, include_bytes!(concat!("files/", $name)))),*]
    };
}

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    files![
        "access.js" SCRIPT,
        "api.js" SCRIPT,
        "approvals.js" SCRIPT,
        "chain.js" SCRIPT,
        "chat.js" SCRIPT,
        "completion.js" SCRIPT,
        "coverage.js" SCRIPT,
        "create.js" SCRIPT,
        "curves.js" SCRIPT,
        "diff.js" SCRIPT,
        "dom.js" SCRIPT,
        "editor.js" SCRIPT,
        "facts.js" SCRIPT,
        "feed.js" SCRIPT,
        "fields.js" SCRIPT,
        "first.js" SCRIPT,
        "history.js" SCRIPT,
        "home.js" SCRIPT,
        "icon.svg" PICTURE,
        "icons.js" SCRIPT,
        "index.html" HTML,
        "keys.js" SCRIPT,
        "main.js" SCRIPT,
        "markdown.js" SCRIPT,
        "mcp.js" SCRIPT,
        "models.js" SCRIPT,
        "order.js" SCRIPT,
        "plugin.js" SCRIPT,
        "plugins.js" SCRIPT,
        "problems.js" SCRIPT,
        "replay.js" SCRIPT,
        "requests.js" SCRIPT,
        "rhai.js" SCRIPT,
        "route.js" SCRIPT,
        "runs.js" SCRIPT,
        "session.js" SCRIPT,
        "settings.js" SCRIPT,
        "source.js" SCRIPT,
        "state.js" SCRIPT,
        "status.js" SCRIPT,
        "steps.js" SCRIPT,
        "style.css" STYLE,
        "tests.js" SCRIPT,
        "theme.js" SCRIPT,
        "uplot-license.txt" TEXT,
        "uplot.css" STYLE,
        "uplot.js" SCRIPT,
        "usage.js" SCRIPT,
        "valves.js" SCRIPT,
        "words.js" SCRIPT,
    ]
});

impl File {
    fn new(name: &'static str, kind: &'static str, bytes: &'static [u8]) -> Self {
        let tag = format!("\"{}\"", &hex(&Sha256::digest(bytes))[..20]);
        Self { name, kind, bytes, tag }
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let is_known = known.flat_map(|tags| tags.split(',')).any(|tag| tag.trim() == self.tag);
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => Body::from(self.bytes).into_response(),
        };
        let own = response.headers_mut();
        let safe: [(HeaderName, &'static str); 6] = [
            (header::CONTENT_TYPE, self.kind),
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ];
        own.extend(safe.map(|(name, value)| (name, HeaderValue::from_static(value))));
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            own.insert(header::ETAG, tag);
        }
        response
    }
}

/// Returns the page.
pub(super) fn page(headers: &HeaderMap) -> Response {
    answer("index.html", headers)
}

/// The path of a file.
#[derive(Deserialize, JsonSchema)]
pub(super) struct FilePath {
    /// The name of the file.
    #[schemars(example = &"style.css")]
    name: String,
}

/// Handles `GET /page/{name}`.
pub(super) async fn file(Path(FilePath { name }): Path<FilePath>, headers: HeaderMap) -> Response {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        let message = format!("unknown file of the page `{name}`");
        return OpenAiError(Error::Request {
            message,
            param: None,
            code: Some("not_found"),
            kind: RequestErrorKind::NotFound,
        })
        .into_response();
    };
    file.answer(headers)
}
