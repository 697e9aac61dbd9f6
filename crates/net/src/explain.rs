//! Descriptions of failed calls: the attempt, the address, the cause, and a hint.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use valvehouse_core::error::{Error, Explanation};
use valvehouse_core::text::optional;

/// The reason for a missing or incomplete response, of either client.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub(super) struct FailedCall {
    /// `true` if no connection was established.
    pub(super) connecting: bool,
    /// `true` if a time limit was exceeded.
    pub(super) timeout: bool,
    /// The underlying error.
    #[source]
    pub(super) cause: Box<dyn StdError + Send + Sync>,
}

impl From<reqwest::Error> for FailedCall {
    fn from(error: reqwest::Error) -> Self {
        Self { connecting: error.is_connect(), timeout: error.is_timeout(), cause: Box::new(error) }
    }
}

/// The target of a call in error messages.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// The configured name of the provider, if the call is for one.
    pub(super) provider: Option<Arc<str>>,
    /// The address without credentials and query.
    pub(super) address: Arc<str>,
    /// The time limit of the connection.
    pub(super) connect: Option<Duration>,
    /// The time limit of the whole call.
    pub(super) total: Option<Duration>,
}

impl Peer {
    /// Returns the error of a call without a response.
    pub(super) fn unreachable(&self, failed: &FailedCall) -> Error {
        let who = self.name();
        if failed.connecting {
            let timeout = failed.timeout;
            let why = if timeout {
                let within = optional(self.connect, |connect| format!(" within {} s", connect.as_secs_f64()));
                format!("no connection{within}{}", self.raise("connect_ms"))
            } else {
                let reason = root_cause(&*failed.cause);
                let hint = self.hint(&reason);
                format!("{reason}; {hint}")
            };
            // The text of the system may contain host names and certificates.
            let public = match timeout {
                true => format!("cannot reach {}: {why}", self.public()),
                false => format!("cannot reach {}", self.public()),
            };
            let message = Explanation::new(public, format!("cannot reach {who}: {why}"));
            return Error::Unanswered { message, sent: false, timeout };
        }
        if failed.timeout {
            return self.too_long();
        }
        let full = format!("{who} did not answer: {}", root_cause(&*failed.cause));
        let message = Explanation::new(format!("{} did not answer", self.public()), full);
        Error::Unanswered { message, sent: true, timeout: false }
    }

    /// Returns the error of an incomplete response.
    pub(super) fn interrupted(&self, failed: &FailedCall) -> Error {
        if failed.timeout {
            return self.too_long();
        }
        let full = format!("the response of {} ended early: {}", self.name(), root_cause(&*failed.cause));
        let message = Explanation::new(format!("the response of {} ended early", self.public()), full);
        Error::Provider { message, timeout: false }
    }

    /// Returns the error of a response that did not start in time.
    pub(super) fn silent(&self, timeout: Duration) -> Error {
        let message = self.both(|who| {
            format!("{who} sent no response within {} s{}", timeout.as_secs_f64(), self.raise("response_ms"))
        });
        Error::Provider { message, timeout: true }
    }

    /// Returns the error of a response that stopped for too long.
    pub(super) fn stopped(&self, timeout: Duration) -> Error {
        let (seconds, raise) = (timeout.as_secs_f64(), self.raise("idle_ms"));
        let message =
            self.both(|who| format!("{who} sent no further part of its response within {seconds} s{raise}"));
        Error::Provider { message, timeout: true }
    }

    /// Returns the error of a response that did not end in time.
    pub(super) fn too_long(&self) -> Error {
        let within = optional(self.total, |total| format!(" within {} s", total.as_secs_f64()));
        let message = self.both(|who| format!("{who} did not complete its response{within}"));
        Error::Provider { message, timeout: true }
    }

    /// Returns `provider openai at https://…`, or the address only.
    pub(super) fn name(&self) -> String {
        match &self.provider {
            Some(provider) => format!("provider {provider} at {}", self.address),
            None => self.address.to_string(),
        }
    }

    /// Returns the name without the address, for clients.
    fn public(&self) -> String {
        self.provider.as_ref().map_or_else(|| "the service".to_owned(), |name| format!("provider {name}"))
    }

    /// Returns a sentence with the address for operators, and without it for clients.
    fn both(&self, sentence: impl Fn(&str) -> String) -> Explanation {
        Explanation::new(sentence(&self.public()), sentence(&self.name()))
    }

    /// Returns the hint to raise a time limit.
    fn raise(&self, key: &str) -> String {
        match &self.provider {
            Some(provider) => format!("; raise timeouts.{key} of provider {provider}"),
            None => String::new(),
        }
    }

    fn hint(&self, reason: &str) -> String {
        let place = match &self.provider {
            Some(provider) => format!("base_url of provider {provider}"),
            None => "the address".to_owned(),
        };
        let lower = reason.to_lowercase();
        if lower.contains("certificate") {
            format!("check {place}, and that this machine's CA certificates are installed")
        } else if lower.contains("lookup") || lower.contains("dns") {
            format!("check the host name in {place}")
        } else {
            format!("check {place}, and that the service is running")
        }
    }
}

/// Returns a URL for messages: without user, password, query and fragment.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // This fails only for URLs that cannot have a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// Returns scheme, host and port of a URL, for plugins, whose paths may contain keys.
pub(super) fn place(url: &Url) -> String {
    match url.origin() {
        origin @ url::Origin::Tuple(..) => {
            let rest = if url.path() == "/" { "/" } else { "/…" };
            origin.ascii_serialization() + rest
        }
        url::Origin::Opaque(_) => format!("{}:…", url.scheme()),
    }
}

/// Returns the innermost error; the outer ones only say that sending failed.
fn root_cause(error: &(dyn StdError + Send + Sync + 'static)) -> String {
    let mut cause: &(dyn StdError + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    // An error without a source would print its URL with the query.
    let text = match cause.downcast_ref::<reqwest::Error>() {
        Some(bare) if bare.is_decode() => "its compressed body is not valid".to_owned(),
        Some(_) => "cannot send the request".to_owned(),
        None => cause.to_string(),
    };
    let mut letters = text.chars();
    match letters.next() {
        // `Connection refused` is changed, but `TLS …` and `DNS …` are not.
        Some(first) if letters.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text,
    }
}
