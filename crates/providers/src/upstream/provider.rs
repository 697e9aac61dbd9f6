//! The provider with all limits.

use super::breakers::{Breakers, digest};
use super::corrections::{self, Corrections, MAX_REFUSALS, asker};
use super::credentials::Credentials;
use super::extras::Extras;
use super::retry::{self, Retries};
use super::retrying::no_way;
use super::stream::{self, begin, begin_forwarded, begin_relayed};
use super::watch::{LastBytes, LastWords, record_usage_at_the_end, watched};
use bytes::Bytes;
use futures::future::BoxFuture;
use memchr::memmem;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use valvehouse_core::ErrorCode;
use valvehouse_core::breaker::{BreakerSettings, BreakerState, OpenState};
use valvehouse_core::chat::{CONTENT_BLOCKS, response};
use valvehouse_core::context::{Exchange, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::error_code::message_of;
use valvehouse_core::metrics::{Balancer, ProviderOutcome, Service};
use valvehouse_core::provider::{
    Answer, ForwardRequest, PassthroughAnswer, PassthroughBody, Provider, RelayRequest, RelayResponse,
    Request,
};
use valvehouse_core::trace::{CalledModel, Trace};
use valvehouse_grants::RetrySettings;
use valvehouse_json::Json;
use valvehouse_wire::service::{self, Adaptation, Names, ServiceKind};

/// A provider of any protocol with its credentials, retries, circuit breakers, time limits and metrics.
pub struct Upstream {
    name: String,
    credentials: Credentials,
    retry: RetrySettings,
    /// The time limit of a complete answer, including retries.
    total: Option<Duration>,
    breakers: Breakers,
    metrics: Arc<Service>,
    /// The advice in the error of a service that requires a key if none is configured.
    keyless: Option<String>,
    /// The fields that services sent with answers and clients do not return.
    extras: Option<Arc<Extras>>,
    /// The kind whose rules requests are adapted to.
    service: Option<ServiceKind>,
    /// Set if the service expects the thinking of all answers back if there are tools.
    expects_thoughts: bool,
    corrections: Corrections,
}

/// One request, with the parts that the limits depend on.
struct Question<'a> {
    model: &'a str,
    exchange: &'a Exchange,
    turn: Option<&'a Turn>,
    deadline: Option<Instant>,
    /// Set if the body can be sent more than once.
    is_repeatable: bool,
}

impl Upstream {
    /// Creates a provider with these credentials and the default settings.
    pub fn new(credentials: Credentials) -> Self {
        let name = credentials.name().to_owned();
        let breakers = Breakers::new(&name, BreakerSettings::default());
        let metrics = Arc::new(Service::with_targets(credentials.balancer()));
        Self {
            name,
            credentials,
            retry: RetrySettings::default(),
            total: None,
            breakers,
            metrics,
            keyless: None,
            extras: None,
            service: None,
            expects_thoughts: false,
            corrections: Corrections::default(),
        }
    }

    /// Sets the kind of the service. Requests are adapted to its rules before they are sent.
    #[must_use]
    pub fn with_service(mut self, kind: ServiceKind) -> Self {
        self.service = Some(kind);
        self.expects_thoughts = service::expects_thoughts(kind);
        self
    }

    /// Sets the retry policy.
    #[must_use]
    pub fn with_retry(mut self, retry: RetrySettings) -> Self {
        self.retry = retry;
        self
    }

    /// Limits the time of a complete answer, including retries.
    #[must_use]
    pub fn within(mut self, total: Option<Duration>) -> Self {
        self.total = total;
        self
    }

    /// Sets the settings of the circuit breakers.
    #[must_use]
    pub fn with_breaker(mut self, settings: BreakerSettings) -> Self {
        self.breakers = Breakers::new(&self.name, settings);
        self
    }

    /// Sets the advice in the error of a service that requires a key if none is configured.
    #[must_use]
    pub fn keyless(mut self, help: impl Into<String>) -> Self {
        self.keyless = Some(help.into());
        self
    }

    /// Restores what the service sent with earlier answers, such as signatures, if a client does not return it.
    #[must_use]
    pub fn with_extras(mut self, extras: Arc<Extras>) -> Self {
        self.extras = Some(extras);
        self
    }

    /// Makes a call with the current credentials and within the limits, and retries it if that may succeed.
    /// `body` returns the bytes of the request, whose digest identifies it after a failure.
    async fn call<T, F: Future<Output = Result<T, Error>>>(
        &self,
        question: Question<'_>,
        body: impl Fn() -> Vec<u8>,
        ask: impl Fn(Arc<dyn Provider>) -> F,
    ) -> Result<T, Error> {
        let known = OnceLock::new();
        let (question, known, body, ask) = (&question, &known, &body, &ask);
        let once = move || async move {
            let model = question.model;
            let admitted = self.breakers.admit(model);
            if let (BreakerState::Open(rest), Some(breaker)) = (admitted.admission, admitted.breaker()) {
                return Err(Error::BreakerOpen { message: breaker.explains(rest), cool_down: rest });
            }
            let outcome = self.attempt(question, ask).await;
            match &outcome {
                Err(error) if retry::is_failure(error) => {
                    let request = *known.get_or_init(|| digest(&body()));
                    self.breakers.record_failure(model, &error.to_string(), request);
                }
                _ => admitted.record_answer(),
            }
            outcome
        };
        if !question.is_repeatable {
            return once().await.map_err(|error| self.explained(error));
        }
        let metrics = Some(&*self.metrics);
        let Question { exchange, turn, deadline, .. } = *question;
        let retries = Retries { name: &self.name, retry: &self.retry, exchange, turn, metrics };
        retries.run(deadline, once).await.map_err(|error| self.explained(error))
    }

    /// Sends a request to one key or deployment after another, until one answers or no other one can. All of them
    /// together are one attempt for the breaker and for retries.
    async fn attempt<T, F: Future<Output = Result<T, Error>>>(
        &self,
        question: &Question<'_>,
        ask: &impl Fn(Arc<dyn Provider>) -> F,
    ) -> Result<T, Error> {
        let targets = self.metrics.targets();
        let (mut tried, mut last) = (Vec::new(), None);
        loop {
            let Some((service, target)) = self.credentials.service(question.exchange, &tried)? else {
                return Err(last.unwrap_or_else(|| self.all_rest(targets)));
            };
            let asking = ask(service);
            let outcome = match question.deadline {
                Some(deadline) => timeout_at(deadline, asking).await.unwrap_or_else(|_| Err(self.too_long())),
                None => asking.await,
            };
            match outcome {
                Err(error) if self.let_rest(targets, target, &error) && question.is_repeatable => {
                    tried.push(target);
                    last = Some(error);
                }
                outcome => {
                    if outcome.is_ok() && !targets.is_empty() {
                        targets.wake_deployment(target);
                    }
                    return outcome;
                }
            }
        }
    }

    /// Lets a key or a deployment rest after this error. Returns `true` if another one may answer the request.
    fn let_rest(&self, targets: &Balancer, target: usize, error: &Error) -> bool {
        let of_key = retry::rest_of_key(error).filter(|_| !self.credentials.are_of_callers());
        let of_deployment = || {
            let rest = retry::rest_of_deployment(error, &self.retry, self.breakers.cool_down());
            rest.filter(|_| targets.has_deployments())
        };
        let Some((rest, status)) = of_key.or_else(of_deployment).filter(|_| !targets.is_empty()) else {
            return false;
        };
        let (provider, name) = (&self.name, targets.name(target));
        tracing::warn!(provider, "`{name}` rests for {} s: {error}", rest.as_secs());
        match of_key {
            Some(_) => targets.rest(target, rest, status),
            None => targets.rest_deployment(target, rest, status),
        }
        of_key.is_some() || retry::may_repeat(error, &self.retry)
    }

    /// Returns the error while all keys and deployments rest until a time that the service announced.
    fn all_rest(&self, targets: &Balancer) -> Error {
        let announced = targets.reports().into_iter();
        let first = announced.filter_map(|report| Some((report.rest?, report.status?, report.name))).min();
        let (rest, status, name) = first.unwrap_or((Duration::ZERO, 503, String::new()));
        let seconds = rest.as_secs_f64().ceil();
        let provider = self.name.clone();
        let message = format!(
            "all keys and deployments of provider {provider} rest as their service demands; `{name}` is the first to be ready, in {seconds} s"
        );
        let body = upstream_error(message, Json::Null);
        Error::Answered { provider, status, body, retry_after: Some(seconds.to_string()) }
    }

    fn too_long(&self) -> Error {
        stream::too_long(&self.name, self.total.unwrap_or_default())
    }

    fn deadline(&self) -> Option<Instant> {
        self.total.map(|total| Instant::now() + total)
    }

    /// Reports the refusal of the operator's key as a failure of the service: a client that received its status would
    /// take its own key for wrong. Without a key, the error names the setting.
    fn explained(&self, error: Error) -> Error {
        let Error::Answered { provider, status: status @ (401 | 403), body, retry_after } = error else {
            return error;
        };
        let is_about_content = ErrorCode::of_service(status, &body) == Some(ErrorCode::ContentPolicy);
        if self.credentials.are_of_callers() || is_about_content {
            return Error::Answered { provider, status, body, retry_after };
        }
        // Claude Code takes every error with the name of this header for one about its own key.
        let own_message =
            message_of(&body).unwrap_or_else(|| body.to_string()).replace("x-api-key", "API key");
        let (code, message) = match &self.keyless {
            Some(help) => (
                "provider_key_missing",
                format!("provider {provider} returned {status}, and its key is not set: {help}"),
            ),
            None => (
                ErrorCode::UpstreamAuth.as_str(),
                format!(
                    "provider {provider} returned {status}: it refuses this host's key, not the client's"
                ),
            ),
        };
        let body = upstream_error(format!("{message} (its message: {own_message})"), code.into());
        Error::Answered { provider, status: 502, body, retry_after: None }
    }

    /// Adapts a request to the rules of the service. The names of the changed fields are recorded for the response
    /// header, the trace and the log. Also returns the names of tools to restore in the answer.
    fn adapt(&self, request: Request) -> Result<(Request, Names), Error> {
        let Some(kind) = self.service else { return Ok((request, Names::default())) };
        let adapted = service::adapt(kind, &request.body)?;
        if let Some(turn) = &request.turn {
            let names = adapted.as_ref().map_or_else(Vec::new, names_of);
            self.note_changes(turn.exchange(), turn.trace(), names);
        }
        Ok(match adapted {
            Some(adapted) => (Request { body: adapted.body, ..request }, adapted.names),
            None => (request, Names::default()),
        })
    }

    /// Records the names of the fields that are changed for the service.
    fn note_changes(&self, exchange: &Exchange, trace: Option<&Arc<Trace>>, fields: Vec<String>) {
        if let Some(trace) = trace.filter(|_| !fields.is_empty()) {
            trace.adapted(&self.name, &fields);
        }
        exchange.adapt(&self.name, fields);
    }

    /// Returns a request that was changed as the service demanded, besides the changes for its rules.
    fn changed(&self, request: &Request, changed: Adaptation) -> Request {
        if let Some(turn) = &request.turn {
            let mut names = turn.exchange().adapted();
            for name in names_of(&changed) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            self.note_changes(turn.exchange(), turn.trace(), names);
        }
        Request { body: changed.body, ..request.clone() }
    }

    fn kind(&self) -> ServiceKind {
        self.service.unwrap_or(ServiceKind::Compatible)
    }

    /// Returns `true` if bytes can be sent as they are: no rule of the service changes them.
    fn takes_bytes(&self, request: &ForwardRequest<'_>) -> bool {
        if self.corrections.has(|| asker(request.exchange, request.model)) {
            return false;
        }
        let Some(kind) = self.service else { return true };
        // Blocks are of this host, and services refuse them.
        if request.outline.messages.is_rich
            && memmem::find(&request.body, CONTENT_BLOCKS.as_bytes()).is_some()
        {
            return false;
        }
        !service::may_apply(kind, request.outline, request.model)
            || Json::parse_shared(&request.body)
                .is_ok_and(|body| matches!(service::adapt(kind, &body), Ok(None)))
    }

    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let none = Exchange::default();
        let extras = self.extras.as_ref();
        let request = match extras {
            Some(extras) => extras.restore(&self.name, request),
            None => request,
        };
        let recorder = extras.map(|extras| extras.recorder(&self.name, &request, self.expects_thoughts));
        let calls = request.body.clone();
        let (request, names) = self.adapt(request)?;
        let names = names.with_calls_of(calls);
        let (turn, deadline) = (request.turn.as_ref(), self.deadline());
        let exchange = turn.map_or(&none, |turn| turn.exchange());
        let model = request.body.text_or_empty("model");
        let question = Question { model: &model, exchange, turn, deadline, is_repeatable: true };
        let mut asking =
            self.metrics.ask(exchange.trace(), CalledModel { provider: &self.name, model: &model });
        let body = || request.body.to_string().into_bytes();
        if exchange.is_metered() {
            asking.sends(&body(), true);
        }
        let attempt = self.call(question, body, |service| self.ask_corrected(service, request.clone()));
        match attempt.await {
            Ok(Answer::Whole(whole)) => {
                asking.receives();
                if let Some(recorder) = recorder {
                    recorder.whole(&whole);
                }
                asking.record_usage(&whole.field("usage"));
                asking.estimate_whole(|| response::text_size(&whole));
                asking.ends(ProviderOutcome::Whole);
                Ok(names.restore(Answer::Whole(whole)))
            }
            Ok(Answer::Stream(chunks)) => {
                let chunks = stream::limited(chunks, deadline, || self.too_long());
                Ok(names.restore(Answer::Stream(watched(chunks, asking, LastWords(recorder)))))
            }
            Err(error) => {
                asking.fails(&error);
                Err(error)
            }
        }
    }

    /// Asks a service, and again if its refusal tells how to change the request.
    async fn ask_corrected(&self, service: Arc<dyn Provider>, request: Request) -> Result<Answer, Error> {
        let model = request.body.text_or_empty("model");
        let none = Exchange::default();
        let asker = asker(request.turn.as_ref().map_or(&none, |turn| turn.exchange()), &model);
        let known = self.corrections.known(self.kind(), &asker, &request.body);
        let mut request = known.map_or_else(|| request.clone(), |known| self.changed(&request, known));
        let (mut made, mut refusals) = (Vec::new(), 0);
        loop {
            let attempt = async { begin(service.chat(request.clone()).await?).await };
            let error = match attempt.await {
                Ok(answer) => {
                    self.corrections.keep(asker, made);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let next = || corrections::after(self.kind(), &error, &request.body, &made);
            let Some((changes, changed)) = (refusals < MAX_REFUSALS).then(next).flatten() else {
                return Err(error);
            };
            refusals += 1;
            made.extend(changes);
            request = self.changed(&request, changed);
        }
    }

    /// Sends bytes to a service, and once more if its refusal tells how to change them.
    async fn forward_corrected(
        &self,
        service: Arc<dyn Provider>,
        request: ForwardRequest<'_>,
    ) -> Result<PassthroughAnswer, Error> {
        let forwarded =
            async |request| begin_forwarded(service.forward(request).ok_or_else(no_way)?.await?).await;
        let error = match forwarded(request.clone()).await {
            Err(error @ Error::Answered { status: 400..500, .. }) => error,
            outcome => return outcome,
        };
        let Ok(body) = Json::parse_shared(&request.body) else { return Err(error) };
        let Some((changes, changed)) = corrections::after(self.kind(), &error, &body, &[]) else {
            return Err(error);
        };
        let Ok(body) = changed.body.encode() else { return Err(error) };
        let exchange = request.exchange;
        self.note_changes(exchange, exchange.trace(), names_of(&changed));
        let answer = forwarded(ForwardRequest { body: body.into(), ..request.clone() }).await?;
        self.corrections.keep(asker(exchange, request.model), changes);
        Ok(answer)
    }

    async fn pass_on(&self, request: ForwardRequest<'_>) -> Result<PassthroughAnswer, Error> {
        let deadline = self.deadline();
        let (model, exchange) = (request.model, request.exchange);
        let question = Question { model, exchange, turn: None, deadline, is_repeatable: true };
        let mut asking = self.metrics.ask(exchange.trace(), CalledModel { provider: &self.name, model });
        asking.sends(&request.body, exchange.is_metered());
        let attempt = self.call(
            question,
            || request.body.to_vec(),
            |service| self.forward_corrected(service, request.clone()),
        );
        match attempt.await {
            Ok(forwarded) => {
                let body = match forwarded.body {
                    PassthroughBody::Stream(body) => {
                        let body = stream::limited(body, deadline, || self.too_long());
                        PassthroughBody::Stream(watched(body, asking, LastBytes::default()))
                    }
                    PassthroughBody::Whole(body) => {
                        asking.receives();
                        record_usage_at_the_end(&body, &mut asking);
                        asking.estimate_whole(|| {
                            Json::parse_shared(&body).map_or(body.len(), |whole| response::text_size(&whole))
                        });
                        asking.ends(ProviderOutcome::Whole);
                        PassthroughBody::Whole(body)
                    }
                };
                Ok(PassthroughAnswer { body, ..forwarded })
            }
            Err(error) => {
                asking.fails(&error);
                Err(error)
            }
        }
    }

    async fn pass_through(&self, request: RelayRequest<'_>) -> Result<RelayResponse, Error> {
        let deadline = self.deadline();
        let RelayRequest { method, path, query, headers, body, model, exchange } = request;
        // A streamed body can be sent only once.
        let (streamed, whole) = match body {
            PassthroughBody::Whole(bytes) => (Mutex::new(None), Some(bytes)),
            PassthroughBody::Stream(stream) => (Mutex::new(Some(stream)), None),
        };
        let question = Question { model, exchange, turn: None, deadline, is_repeatable: whole.is_some() };
        let mut asking = self.metrics.ask(exchange.trace(), CalledModel { provider: &self.name, model });
        asking.sends(whole.as_deref().unwrap_or(&[]), exchange.is_metered());
        let bytes = || whole.as_ref().map(|bytes| bytes.to_vec()).unwrap_or_default();
        let attempt = self.call(question, bytes, |service| {
            let body = match (&whole, streamed.lock().take()) {
                (Some(bytes), _) => PassthroughBody::Whole(bytes.clone()),
                (None, Some(stream)) => PassthroughBody::Stream(stream),
                (None, None) => PassthroughBody::Whole(Bytes::new()),
            };
            let headers = headers.clone();
            async move {
                let request = RelayRequest { method, path, query, headers, body, model, exchange };
                begin_relayed(service.relay(request).await?).await
            }
        });
        match attempt.await {
            Ok(relayed) => {
                let body = stream::limited(relayed.body.into_stream(), deadline, || self.too_long());
                let body = PassthroughBody::Stream(watched(body, asking, LastBytes::default()));
                Ok(RelayResponse { body, ..relayed })
            }
            Err(error) => {
                asking.fails(&error);
                Err(error)
            }
        }
    }
}

/// Returns the names of the fields that an adaptation changed.
fn names_of(adapted: &Adaptation) -> Vec<String> {
    adapted.fields.iter().map(ToString::to_string).collect()
}

/// Returns the body of an error of a service that the host writes.
fn upstream_error(message: String, code: Json) -> Json {
    let kind = ("type", "upstream_error".into());
    let error = Json::from([("message", message.into()), kind, ("param", Json::Null), ("code", code)]);
    Json::from([("error", error)])
}

impl Provider for Upstream {
    fn name(&self) -> &str {
        &self.name
    }

    /// Sends one attempt, even while a circuit breaker is open. The list does not affect the breakers.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        let service = self.credentials.any();
        Box::pin(async move { service.models().await })
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(self.ask(request))
    }

    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        let forwards = self.credentials.forwards() && self.takes_bytes(&request);
        forwards.then(|| Box::pin(self.pass_on(request)) as _)
    }

    fn has_route(&self, path: &str) -> bool {
        self.credentials.first().has_route(path)
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        Box::pin(self.pass_through(request))
    }

    fn open_breakers(&self) -> Vec<OpenState> {
        self.breakers.open()
    }

    fn metrics(&self) -> Option<&Service> {
        Some(&self.metrics)
    }
}
