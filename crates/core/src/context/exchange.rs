//! The HTTP side of a request: headers passed between client and provider, the client's own credential, and the
//! retries made by all layers.

use super::held_memory::HeldMemory;
use crate::trace::{Counting, Trace};
use compact_str::CompactString;
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The header with which a provider detects a repeated request.
const IDEMPOTENCY: &str = "idempotency-key";

/// Names and prefixes (`x-ratelimit-*`) of headers, case-insensitive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderNames {
    exact: Vec<Box<str>>,
    prefixes: Vec<Box<str>>,
}

impl HeaderNames {
    /// Creates a set of names; a name that ends in `*` is a prefix.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut own = Self::default();
        for name in names {
            let name = name.trim().to_ascii_lowercase();
            match name.strip_suffix('*') {
                Some(prefix) => own.prefixes.push(prefix.into()),
                None => own.exact.push(name.into()),
            }
        }
        own
    }

    /// Returns `true` if the set contains a header name, which must be in lower case.
    pub fn contains(&self, name: &str) -> bool {
        self.exact.iter().any(|own| **own == *name)
            || self.prefixes.iter().any(|prefix| name.starts_with(&**prefix))
    }
}

/// The client's own credential. Its `Debug` output is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The token without its scheme.
    pub token: Arc<str>,
    /// `true` if it came as `authorization: Bearer …`, `false` if as `x-api-key` or `api-key`.
    pub is_bearer: bool,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A header: its name in lower case, and its value.
pub type Header = (CompactString, CompactString);

/// The names of request fields that providers receive changed or not at all.
#[derive(Debug, Default)]
struct FieldNames {
    earlier: Vec<String>,
    /// The fields of the current model call.
    last: Vec<String>,
}

impl FieldNames {
    /// Returns all names without duplicates.
    fn all(&self) -> Vec<String> {
        let last = self.last.iter().filter(|name| !self.earlier.contains(name));
        self.earlier.iter().chain(last).cloned().collect()
    }

    fn end_call(&mut self) {
        for name in std::mem::take(&mut self.last) {
            if !self.earlier.contains(&name) {
                self.earlier.push(name);
            }
        }
    }
}

/// The result of the check of an answer against the `response_format` of its request, unless it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatCheck {
    /// The answer is streamed and was not checked.
    Unchecked,
    /// The answer reached its token limit before its JSON was complete.
    Truncated,
    /// The answer does not match the format after all retries.
    Mismatch,
}

impl FormatCheck {
    /// Returns the name in the header `x-valvehouse-response-format`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Truncated => "truncated",
            Self::Mismatch => "mismatch",
        }
    }
}

/// Returns `true` for the value of a header that is neither a name or a number nor a date.
pub fn is_free_text(value: &str) -> bool {
    let is_date =
        || value.len() < 32 && jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).is_ok();
    value.len() > 256 || (value.contains(char::is_whitespace) && !is_date())
}

/// The HTTP side of one request. An empty value allocates no memory.
#[derive(Debug, Default)]
pub struct Exchange {
    sent: Vec<Header>,
    credential: Option<Credential>,
    /// The provider headers that the client may receive; if `None`, none is collected.
    shown: Option<Arc<HeaderNames>>,
    received: Mutex<Vec<Header>>,
    /// The names of the fields that were not sent to the providers of this request.
    left_out: Mutex<FieldNames>,
    /// The names of the fields that were changed for the providers of this request.
    adapted: Mutex<FieldNames>,
    /// The model that answered, `provider/model`, if there were several candidates.
    served_by: Mutex<Option<String>>,
    /// The result of the check of the last answer against its format.
    format_check: Mutex<Option<FormatCheck>>,
    /// Set if the client states that it retries by itself.
    is_retried: bool,
    /// The client's retry number.
    client_retry: u32,
    /// The number of model calls started for this request.
    calls: AtomicU32,
    /// The retries of the current model call in all layers.
    retries: AtomicU32,
    /// Set if a layer gave up because no retries were left.
    is_spent: AtomicBool,
    /// The memory that the request and its answers hold, also those of its scripts' model calls.
    memory: Option<Arc<HeldMemory>>,
    /// The trace that counts the tokens of the request, also those of its scripts' model calls.
    trace: OnceLock<Arc<Trace>>,
    /// The count of what the request and its work after the answer use.
    counting: OnceLock<Counting>,
    /// Set if the key of the request pays for its tokens, so that services have to report them.
    is_metered: bool,
    /// Set if provider headers with texts are not collected, because guards judge the texts of the answer.
    is_judged: AtomicBool,
}

impl Exchange {
    /// Creates the HTTP side of a request whose client may receive these provider headers.
    pub fn new(shown: Arc<HeaderNames>) -> Self {
        Self { shown: Some(shown), ..Self::default() }
    }

    /// Adds a client header that is sent to providers.
    pub fn send(&mut self, name: &str, value: &str) {
        self.sent.push((name.into(), value.into()));
    }

    /// Sets the client's own credential.
    pub fn set_credential(&mut self, credential: Credential) {
        self.credential = Some(credential);
    }

    /// Sets where the memory of the request and its answers counts.
    pub fn set_memory(&mut self, memory: Arc<HeldMemory>) {
        self.memory = Some(memory);
    }

    /// Returns the memory that the request holds, if it is counted.
    pub fn memory(&self) -> Option<&Arc<HeldMemory>> {
        self.memory.as_ref()
    }

    /// Requests the number of tokens from services, because the key of the request pays for them.
    pub fn meter(&mut self) {
        self.is_metered = true;
    }

    /// Returns `true` if services have to report the number of tokens.
    pub fn is_metered(&self) -> bool {
        self.is_metered
    }

    /// Sets the trace that counts the tokens of the request. Only the first one counts.
    pub fn count_in(&self, trace: &Arc<Trace>) {
        // A second trace would be that of a part of the request.
        let _ = self.trace.set(trace.clone());
    }

    /// Sets the count of what the request uses. Only the first one counts.
    pub fn count_by(&self, counting: Counting) {
        // As with the trace.
        let _ = self.counting.set(counting);
    }

    /// Returns the count of what the request uses.
    pub fn counting(&self) -> Counting {
        self.counting.get().map_or_else(Counting::default, Counting::clone)
    }

    /// Returns the trace that counts the tokens of the request.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.get()
    }

    /// Records that the client retries by itself, and the number of its retry; 0 is its first attempt.
    pub fn set_client_retry(&mut self, number: u32) {
        (self.is_retried, self.client_retry) = (true, number);
    }

    /// Records the fields that are not sent to a provider. They replace the fields recorded for an earlier
    /// provider of the same model call.
    pub fn leave_out(&self, provider: &str, names: Vec<String>) {
        if !names.is_empty() {
            tracing::info!(provider, "left out of a request: {}", names.join(", "));
        }
        self.left_out.lock().last = names;
    }

    /// Records another field that is not sent in the current model call, after those of [`Exchange::leave_out`].
    /// Returns `false` if it was recorded already.
    pub(super) fn leave_out_too(&self, provider: &str, name: &str) -> bool {
        let mut left_out = self.left_out.lock();
        let is_new = !left_out.last.iter().any(|known| known == name);
        if is_new {
            tracing::info!(provider, "left out of a request: {name}");
            left_out.last.push(name.to_owned());
        }
        is_new
    }

    /// Returns the names of the fields omitted from the model calls of this request, without duplicates.
    pub fn left_out(&self) -> Vec<String> {
        self.left_out.lock().all()
    }

    /// Records the fields that are changed for a provider, whose service would refuse them. They replace the
    /// fields recorded for an earlier provider of the same model call.
    pub fn adapt(&self, provider: &str, names: Vec<String>) {
        if !names.is_empty() {
            tracing::info!(provider, "adapted in a request: {}", names.join(", "));
        }
        self.adapted.lock().last = names;
    }

    /// Returns the names of the fields changed for the model calls of this request, without duplicates.
    pub fn adapted(&self) -> Vec<String> {
        self.adapted.lock().all()
    }

    /// Creates the HTTP side of a request nested in this one, such as a script's model call, with the same
    /// credential, memory and count of tokens.
    pub fn beside(&self) -> Self {
        Self { trace: self.trace.clone(), ..self.behind() }
    }

    /// Creates the HTTP side of work after the answer, whose tokens another trace counts.
    pub fn behind(&self) -> Self {
        let Self { credential, memory, counting, is_metered, .. } = self;
        let (credential, memory, counting) = (credential.clone(), memory.clone(), counting.clone());
        Self { credential, memory, counting, is_metered: *is_metered, ..Self::default() }
    }

    /// Returns the client headers to send to a provider. The idempotency key is sent with the first model call
    /// only, because a later call has another body.
    pub fn sent(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_later = self.calls.load(Relaxed) > 1;
        let sent = self.sent.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        sent.filter(move |(name, _)| !(is_later && *name == IDEMPOTENCY))
    }

    /// Returns the client's own credential, if any.
    pub fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// Returns `true` if a provider header is collected for the client.
    pub fn shows(&self, name: &str) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.contains(name))
    }

    /// Collects only headers with names, numbers and dates from now on.
    pub fn judge(&self) {
        self.is_judged.store(true, Relaxed);
    }

    /// Returns `true` for the value of a header that guards would have to judge.
    pub fn hides(&self, value: &str) -> bool {
        self.is_judged.load(Relaxed) && is_free_text(value)
    }

    /// Collects the headers of a provider's response, replacing those of an earlier one.
    pub fn receive<'a>(&self, headers: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut received = self.received.lock();
        received.clear();
        let headers = headers.filter(|(name, value)| self.shows(name) && !self.hides(value));
        received.extend(headers.map(|(name, value)| (name.into(), value.into())));
    }

    /// Takes the collected headers of the last provider response.
    pub fn take_received(&self) -> Vec<Header> {
        std::mem::take(&mut self.received.lock())
    }

    /// Records the model that answered, if there were several candidates.
    pub fn serve(&self, provider: &str, model: &str) {
        *self.served_by.lock() = Some(format!("{provider}/{model}"));
    }

    /// Returns the model that answered last, `provider/model`, if there were several candidates.
    pub fn served_by(&self) -> Option<String> {
        self.served_by.lock().clone()
    }

    /// Records the result of the check of the last answer against its format; `None` if it matches.
    pub fn set_format_check(&self, check: Option<FormatCheck>) {
        *self.format_check.lock() = check;
    }

    /// Returns the result of the check of the last answer against its format; `None` if it matches or was not
    /// to be checked.
    pub fn format_check(&self) -> Option<FormatCheck> {
        *self.format_check.lock()
    }

    /// Starts a model call and resets its retry count.
    pub fn begin_call(&self) {
        if self.calls.fetch_add(1, Relaxed) > 0 {
            self.left_out.lock().end_call();
            self.adapted.lock().end_call();
        }
        self.retries.store(0, Relaxed);
    }

    /// Returns `true` if a model call was started: the filters before it have accepted the request.
    pub fn has_begun_call(&self) -> bool {
        self.calls.load(Relaxed) > 0
    }

    /// Counts a retry of the current model call over all layers and returns its number. `None` if `max` is
    /// reached or if this request is a retry by the client, whose first attempt had all retries.
    pub fn retry(&self, max: u32) -> Option<u32> {
        if max == 0 {
            // A host without retries leaves them to the client.
            return None;
        }
        let max = if self.client_retry > 0 { 0 } else { max };
        let counted = self.retries.fetch_update(Relaxed, Relaxed, |made| (made < max).then_some(made + 1));
        match counted {
            Ok(made) => Some(made + 1),
            Err(_) => {
                self.is_spent.store(true, Relaxed);
                None
            }
        }
    }

    /// Returns `true` if the client would retry although the host has used all its retries.
    pub fn is_exhausted(&self) -> bool {
        let has_retried = self.retries.load(Relaxed) > 0 || self.client_retry > 0;
        self.is_retried && has_retried && self.is_spent.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_after_the_answer_counts_in_its_own_trace_as_its_request_does() {
        use crate::trace::{RequestFacts, Traces};
        let traces = Traces::new(9);
        let begin = || traces.begin(RequestFacts::default(), false);
        let (request, mut work) = (begin(), begin());
        let exchange = Exchange::default();
        exchange.count_in(request.trace());
        exchange.count_by(Counting::new(|recording| recording.trace().set_key("ci")));
        let behind = exchange.behind();
        behind.counting().begin(&mut work);
        behind.count_in(work.trace());
        assert_eq!(work.trace().key(), Some("ci"));
        // So do the model calls of this work.
        let nested = behind.beside();
        assert!(Arc::ptr_eq(nested.trace().unwrap(), work.trace()));
        assert!(Arc::ptr_eq(exchange.beside().trace().unwrap(), request.trace()));
    }

    #[test]
    fn header_names_match_completely_or_by_prefix() {
        let names = HeaderNames::new(["X-Request-Id", "x-ratelimit-*"]);
        for (name, is_one) in [
            ("x-request-id", true),
            ("x-request-id-2", false),
            ("x-ratelimit-limit-requests", true),
            ("ratelimit", false),
        ] {
            assert_eq!(names.contains(name), is_one, "{name}");
        }
        assert!(!HeaderNames::new([]).contains("x-request-id"));
    }

    #[test]
    fn all_layers_share_the_retry_count_of_a_model_call() {
        let exchange = Exchange::default();
        exchange.begin_call();
        assert_eq!([2, 2, 3, 2, 3].map(|max| exchange.retry(max)), [Some(1), Some(2), Some(3), None, None]);
        exchange.begin_call();
        assert_eq!((exchange.retry(1), exchange.retry(1)), (Some(1), None));
        assert!(!exchange.is_exhausted(), "a client that does not retry needs no word");
    }

    #[test]
    fn a_retry_by_the_client_is_not_retried_by_the_host() {
        let mut exchange = Exchange::default();
        exchange.set_client_retry(0);
        assert!(exchange.retry(1).is_some() && !exchange.is_exhausted());
        assert!(exchange.retry(1).is_none() && exchange.is_exhausted());
        let mut again = Exchange::default();
        again.set_client_retry(1);
        assert!(again.retry(5).is_none() && again.is_exhausted());
    }

    #[test]
    fn only_the_first_model_call_carries_the_idempotency_key() {
        let mut exchange = Exchange::default();
        exchange.send("idempotency-key", "k");
        exchange.send("x-title", "t");
        exchange.begin_call();
        assert_eq!(exchange.sent().count(), 2);
        exchange.begin_call();
        assert_eq!(exchange.sent().collect::<Vec<_>>(), [("x-title", "t")]);
    }

    #[test]
    fn only_response_headers_that_clients_may_see_are_collected() {
        let exchange = Exchange::new(Arc::new(HeaderNames::new(["x-request-id"])));
        exchange.receive([("x-request-id", "1"), ("set-cookie", "a")].into_iter());
        exchange.receive([("x-request-id", "2"), ("server", "b")].into_iter());
        assert_eq!(exchange.take_received(), [("x-request-id".into(), "2".into())]);
        assert!(exchange.take_received().is_empty());
    }

    #[test]
    fn debug_output_hides_a_credential() {
        let mut exchange = Exchange::default();
        exchange.set_credential(Credential { token: "sk-own".into(), is_bearer: true });
        assert!(!format!("{exchange:?}").contains("sk-own"));
        assert!(exchange.beside().credential().is_some());
    }
}
