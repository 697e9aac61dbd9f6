//! Describes why a call failed: the attempt, the address, the cause, and what to check.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use valvehouse_core::error::{Error, Explanation};
use valvehouse_core::text::optional;

/// The reason for which there is no answer, or no more of one, of either client.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub(super) struct FailedCall {
    /// Set if no connection was made.
    pub(super) connecting: bool,
    /// Set if the time ran out.
    pub(super) timeout: bool,
    /// The error behind it.
    #[source]
    pub(super) cause: Box<dyn StdError + Send + Sync>,
}

impl From<reqwest::Error> for FailedCall {
    fn from(error: reqwest::Error) -> Self {
        Self { connecting: error.is_connect(), timeout: error.is_timeout(), cause: Box::new(error) }
    }
}

/// The target of a call, as errors name it.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// The provider's configured name, where the call is for one.
    pub(super) provider: Option<Arc<str>>,
    /// The address without credentials and query.
    pub(super) address: Arc<str>,
    /// The time that a connection may take.
    pub(super) connect: Option<Duration>,
    /// The time that the whole call may take.
    pub(super) total: Option<Duration>,
}

impl Peer {
    /// Errors of a call that has no answer yet.
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
            // The system's text may name hosts and certificates.
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

    /// Errors in the middle of an answer.
    pub(super) fn interrupted(&self, failed: &FailedCall) -> Error {
        if failed.timeout {
            return self.too_long();
        }
        let full = format!("the response of {} ended early: {}", self.name(), root_cause(&*failed.cause));
        let message = Explanation::new(format!("the response of {} ended early", self.public()), full);
        Error::Provider { message, timeout: false }
    }

    /// No answer began for so long.
    pub(super) fn silent(&self, patience: Duration) -> Error {
        let message = self.both(|who| {
            format!("{who} sent no response within {} s{}", patience.as_secs_f64(), self.raise("response_ms"))
        });
        Error::Provider { message, timeout: true }
    }

    /// An answer that had begun did not go on for so long.
    pub(super) fn stopped(&self, patience: Duration) -> Error {
        let (seconds, raise) = (patience.as_secs_f64(), self.raise("idle_ms"));
        let message =
            self.both(|who| format!("{who} sent no further part of its response within {seconds} s{raise}"));
        Error::Provider { message, timeout: true }
    }

    /// It did not come to its end in time.
    pub(super) fn too_long(&self) -> Error {
        let within = optional(self.total, |total| format!(" within {} s", total.as_secs_f64()));
        let message = self.both(|who| format!("{who} did not complete its response{within}"));
        Error::Provider { message, timeout: true }
    }

    /// `provider openai at https://…`, or the address alone.
    pub(super) fn name(&self) -> String {
        match &self.provider {
            Some(provider) => format!("provider {provider} at {}", self.address),
            None => self.address.to_string(),
        }
    }

    /// The same without its address, for clients.
    fn public(&self) -> String {
        self.provider.as_ref().map_or_else(|| "the service".to_owned(), |name| format!("provider {name}"))
    }

    /// One sentence, with its address for operators and without it for clients.
    fn both(&self, sentence: impl Fn(&str) -> String) -> Explanation {
        Explanation::new(sentence(&self.public()), sentence(&self.name()))
    }

    /// The advice that gives it more time.
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

/// An address that may be shown: without user, password, query and fragment.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Only addresses that can have no user refuse; then there is nothing to remove.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// The place of an address: scheme, host and port. For addresses of plugins, whose paths hold keys too.
pub(super) fn place(url: &Url) -> String {
    match url.origin() {
        origin @ url::Origin::Tuple(..) => {
            let rest = if url.path() == "/" { "/" } else { "/…" };
            origin.ascii_serialization() + rest
        }
        url::Origin::Opaque(_) => format!("{}:…", url.scheme()),
    }
}

/// The innermost error: the outer ones only say that sending failed.
fn root_cause(error: &(dyn StdError + Send + Sync + 'static)) -> String {
    let mut cause: &(dyn StdError + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    // An error without a source would print its URL, query included.
    let text = match cause.downcast_ref::<reqwest::Error>() {
        Some(bare) if bare.is_decode() => "its compressed body is not valid".to_owned(),
        Some(_) => "cannot send the request".to_owned(),
        None => cause.to_string(),
    };
    let mut letters = text.chars();
    match letters.next() {
        // `Connection refused`, but `TLS …` and `DNS …` stay.
        Some(first) if letters.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text,
    }
}
