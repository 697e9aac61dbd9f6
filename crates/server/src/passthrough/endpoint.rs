//! The handling of a passthrough request.
//!
//! The provider is that of the request's model, or the one that has the route.

use super::body::{Reading, RequestBody};
use super::{embeddings, guard, known};
use crate::body::{BodyLimits, unpacked};
use crate::headers::{named, sandbox};
use crate::messages::models::is_anthropic_client;
use crate::messages::rejection::AnthropicError;
use crate::{auth, exchange, facts, recording, reply, scope};
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::provider::{PassthroughAnswer, Provider, RelayRequest, RelayResponse, TracedCall};
use valvehouse_core::text::did_you_mean;
use valvehouse_host::app::App;
use valvehouse_host::{ProviderPlan, Snapshot};
use valvehouse_json::Json;

/// The headers of a client that describe its body and the response that it accepts.
const DESCRIBES: [&str; 2] = ["content-type", "accept"];

/// Handles a passthrough request of any route.
pub(super) async fn relay(State(app): State<Arc<App>>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches("/v1/").to_owned();
    through(app, request, path, None).await
}

/// Handles a passthrough request with this path below `/v1`, and with this model if the path names it.
pub(crate) async fn through(
    app: Arc<App>,
    request: Request,
    path: String,
    model: Option<String>,
) -> Response {
    let snapshot = app.host.snapshot();
    let anthropic = is_anthropic(&path, request.headers());
    let answer = Box::pin(answer(app, &snapshot, request, path, model, anthropic));
    named(&snapshot, answer, move |error| refused(error, anthropic)).await
}

/// Rejects a WebSocket, which cannot be passed through.
pub(super) async fn realtime(headers: HeaderMap) -> Response {
    let error = Error::Request {
        message: "cannot open a realtime session: this host does not forward WebSockets; connect to the service directly, or \
                  use /v1/audio/speech, /v1/audio/transcriptions and /v1/chat/completions"
            .into(),
        param: None,
        code: Some("realtime_unsupported"),
        kind: RequestErrorKind::NotFound,
    };
    refused(error, is_anthropic_client(&headers))
}

fn is_anthropic(path: &str, headers: &HeaderMap) -> bool {
    path.starts_with("messages/") || is_anthropic_client(headers)
}

fn refused(error: Error, anthropic: bool) -> Response {
    reply::log(&error);
    match anthropic {
        true => AnthropicError(error).into_response(),
        false => reply::unlogged(&error),
    }
}

async fn answer(
    app: Arc<App>,
    snapshot: &Snapshot,
    request: Request,
    path: String,
    model: Option<String>,
    anthropic: bool,
) -> Result<Response, Error> {
    let (mut parts, body) = request.into_parts();
    let key_user = auth::user_of_key(&app, &parts)?;
    climbs_nowhere(&path)?;
    known::check(&parts.method, &path)?;
    unpacked(&parts.headers)?;
    let covered = guard::endpoint_of(&path).filter(|_| parts.method == Method::POST);
    let has_guards = covered.is_some_and(|(endpoint, _)| snapshot.covers(endpoint));
    let has_body = !body.is_end_stream();
    let limits_models = scope::limits_models(&app, &parts);
    let reading = match has_guards || limits_models {
        true => Reading::Whole,
        false if path.split('/').next() == Some("files") => Reading::Nothing,
        false => Reading::UntilModel,
    };
    let mut sent = RequestBody::read(&parts.headers, body, &BodyLimits::of(&app), reading).await?;
    let model = model.or_else(|| sent.model());
    match &model {
        Some(model) if limits_models => {
            let fields = sent.fields_with(parts.uri.query().unwrap_or(""))?;
            scope::check_model(&app, &parts, snapshot, model, &fields)?;
        }
        Some(model) => scope::check_model(&app, &parts, snapshot, model, &Json::Null)?,
        None => scope::check_unmodelled(&app, &parts, &path)?,
    }
    let target = Target::find(snapshot, &parts.headers, &path, model.as_deref(), anthropic)?;
    let more = match &model {
        Some(model) if snapshot.checks_fields() => {
            snapshot.guards_beside(model, &sent.fields_with(parts.uri.query().unwrap_or(""))?)?
        }
        _ => Vec::new(),
    };
    if parts.method == Method::POST {
        let named = model.as_deref().map(|model| (model, &more[..]));
        guard::check_no_way_around(snapshot, &path, named, target.is_listed)?;
    }
    // The model of the path is the one that was checked, whatever the body names.
    if model.is_some() && sent.model().as_deref() != Some(&*target.model) {
        sent.rename_model(&target.model);
    }
    let seen = Json::Object(model.iter().map(|model| ("model".into(), model.as_str().into())).collect());
    let listed = snapshot.listed().clone();
    let mut facts = facts::of_body(&app, &parts, &seen, &key_user, target.facts.clone(), listed);
    let endpoint = endpoint_of(&path);
    let watch = recording::begin(&app, endpoint, false, snapshot.generation, &parts, &mut facts);
    let context = facts::context(&app, &facts, &seen);
    let turn = Turn::new(facts, context, Events::default());
    let relayed = async {
        if let Some(at) = covered {
            let chain = match &model {
                Some(model) => snapshot.covering(at.0, model, &more),
                None => snapshot.covering_unnamed(at.0, target.provider.name()),
            };
            if chain.guards().next().is_some() {
                turn.exchange().judge();
            }
            if !chain.filters().is_empty() {
                guard::run(&chain, at, &mut sent, &turn).await?;
                // Filters have not seen the query, and some services read fields from it.
                parts.uri = Uri::default();
            }
        }
        pass_on(&app, &mut parts, sent, has_body, &path, &target, &turn).await
    };
    let mut response = match relayed.await {
        Ok(relayed) => response_of(relayed),
        Err(error) => refused(watch.failed(error), anthropic),
    };
    exchange::answer(turn.exchange(), &mut response);
    Ok(recording::until_end(watch, response))
}

async fn pass_on(
    app: &App,
    parts: &mut Parts,
    sent: RequestBody,
    has_body: bool,
    path: &str,
    target: &Target,
    turn: &Turn,
) -> Result<RelayResponse, Error> {
    let is_packed = embeddings::are_packed(path, &sent);
    let described = DESCRIBES.into_iter().filter_map(|name| {
        let written = sent.content_type().filter(|_| name == "content-type");
        let value = match written {
            Some(written) => written,
            None => parts.headers.get(name)?.to_str().ok()?,
        };
        Some((name.into(), value.into()))
    });
    // A request without a body states its length, because some providers require it.
    let length = match has_body {
        true => sent.streamed_length(),
        false => (parts.method == Method::POST).then_some(0),
    };
    let length = length.map(|length| ("content-length".into(), length.to_string().into()));
    let headers = described.chain(length).collect();
    let overflow = sent.overflow();
    let call = TracedCall::begin(turn.trace(), target.provider.name(), &target.model, || Json::Null);
    let body = match has_body {
        true => sent.into_body(),
        false => valvehouse_core::provider::PassthroughBody::Whole(bytes::Bytes::new()),
    };
    turn.exchange().begin_call();
    let relayed = target.provider.relay(RelayRequest {
        method: parts.method.as_str(),
        path,
        query: parts.uri.query(),
        headers,
        body,
        model: &target.model,
        exchange: turn.exchange(),
    });
    let provider = target.provider.name().into();
    let (mut headers, mut status) = (Vec::new(), 200);
    let forwarded = relayed.await.map(|relayed| {
        (headers, status) = (relayed.headers, relayed.status);
        // The parameters of a media type follow a space.
        headers.retain(|(_, value)| !turn.exchange().hides(&value.replace("; ", ";")));
        PassthroughAnswer { provider, status, content_type: None, body: relayed.body }
    });
    let forwarded = forwarded.map_err(|error| match overflow.load(Relaxed) {
        true => crate::body::too_large(app.config.server.max_body_mb),
        false => error,
    });
    let relayed = RelayResponse { status, headers, body: call.follow(forwarded)?.body };
    if is_packed && status == 200 { embeddings::packed(app, relayed).await } else { Ok(relayed) }
}

/// Converts a response. If it ends early, the connection is aborted, because the received part would look
/// complete.
fn response_of(relayed: RelayResponse) -> Response {
    let body = relayed.body.into_stream().inspect(|bytes| {
        if let Err(error) = bytes {
            tracing::warn!("a response ended early: {error}");
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = StatusCode::from_u16(relayed.status).unwrap_or(StatusCode::OK);
    for (name, value) in relayed.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            response.headers_mut().append(name, value);
        }
    }
    sandbox(response.headers_mut());
    response
}

/// Rejects a path with `.` or `..` or an encoded slash, which could leave the routes of the provider. Some services
/// ignore what follows a `;` in a step.
fn climbs_nowhere(path: &str) -> Result<(), Error> {
    let climbs = |step: &str| {
        let step = percent_encoding::percent_decode_str(step).decode_utf8_lossy();
        let name = step.split(';').next().unwrap_or("");
        matches!(name, "." | "..") || step.contains(['/', '\\'])
    };
    match path.split('/').any(climbs) {
        true => Err(Error::invalid(
            "invalid path: it contains `.`, `..` or an encoded slash; send it without them",
            None,
        )),
        false => Ok(()),
    }
}

/// Returns the name of a route in metrics and traces.
fn endpoint_of(path: &str) -> &'static str {
    match path.split('/').next() {
        Some("embeddings") => "embeddings",
        Some("completions") => "completions",
        Some("moderations") => "moderations",
        Some("audio") => "audio",
        Some("images") => "images",
        Some("batches") => "batches",
        Some("rerank") => "rerank",
        Some("messages") => "messages",
        _ => "files",
    }
}

/// The header with the provider, for routes that name no model and that several providers have.
const PROVIDER: HeaderName = HeaderName::from_static("x-valvehouse-provider");

/// The name of the provider of the demonstration model.
const DEMO: &str = "demo";

/// A provider, and its name of the requested model.
pub(super) struct Target {
    pub(super) provider: Arc<dyn Provider>,
    /// The model; empty if the request names none.
    pub(super) model: String,
    /// The facts about the model for scripts and traces.
    pub(super) facts: Json,
    /// Set if the provider's settings list its routes.
    pub(super) is_listed: bool,
}

impl Target {
    /// Finds the provider of a route. `anthropic` selects one of the two APIs with `/v1/files`.
    pub(super) fn find(
        snapshot: &Snapshot,
        headers: &HeaderMap,
        path: &str,
        model: Option<&str>,
        anthropic: bool,
    ) -> Result<Self, Error> {
        let plans = &snapshot.plan().providers;
        let having: Vec<&ProviderPlan> = plans.iter().filter(|plan| has(plan, path, anthropic)).collect();
        let named = headers.get(&PROVIDER).and_then(|name| name.to_str().ok());
        if let Some(name) = named {
            let Some(plan) = plans.iter().find(|plan| plan.provider.name() == name) else {
                let near = did_you_mean(name, plans.iter().map(|plan| plan.provider.name()));
                return Err(Error::invalid(format!("unknown provider `{name}` in {PROVIDER}{near}"), None));
            };
            if !has(plan, path, anthropic) {
                return Err(without(path, &[name], &having));
            }
        }
        if let Some(model) = model {
            return Self::of_model(snapshot, path, model, named, &having);
        }
        // The demonstration model is only used if a request names it.
        let others = having.iter().copied().filter(|plan| plan.provider.name() != DEMO);
        let others: Vec<&ProviderPlan> = others.collect();
        let having = if others.is_empty() { having } else { others };
        let takes_model = !matches!(path.split('/').next(), Some("files" | "batches" | "messages"));
        match having.as_slice() {
            all if named.is_some() => {
                let found = all.iter().find(|plan| Some(plan.provider.name()) == named);
                found.ok_or_else(|| without(path, &[], &having)).and_then(|plan| Self::of(plan, takes_model))
            }
            [only] => Self::of(only, takes_model),
            [] => Err(without(path, &[], &having)),
            several => {
                let names: Vec<&str> = several.iter().map(|plan| plan.provider.name()).collect();
                let message = format!(
                    "several providers may serve /v1/{path}: {}; {}name one of them in the header {PROVIDER}, or restrict `routes` in their settings",
                    names.join(", "),
                    if takes_model { "name a `model`, " } else { "" },
                );
                Err(Error::invalid(message, takes_model.then_some("model")))
            }
        }
    }

    /// Returns the target of a request without a model.
    fn of(plan: &ProviderPlan, takes_model: bool) -> Result<Self, Error> {
        let name = plan.provider.name();
        if plan.refuses_unlisted && takes_model {
            let message =
                format!("missing `model`: provider {name} serves only configured models; name one of them");
            return Err(Error::invalid(message, Some("model")));
        }
        let facts = Json::from([("provider", name.into())]);
        Ok(Self {
            provider: plan.provider.clone(),
            model: String::new(),
            facts,
            is_listed: plan.routes.is_some(),
        })
    }

    fn of_model(
        snapshot: &Snapshot,
        path: &str,
        model: &str,
        named: Option<&str>,
        having: &[&ProviderPlan],
    ) -> Result<Self, Error> {
        let ready = snapshot.ready(model, &[])?;
        let Some(provider) = ready.kernel.provider().map(|provider| provider.name().to_owned()) else {
            return Err(without(path, &[], having));
        };
        if let Some(named) = named.filter(|named| *named != provider) {
            let message = format!("the model `{model}` belongs to provider {provider}, not to {named}");
            return Err(Error::invalid(message, Some("model")));
        }
        let Some(plan) = having.iter().find(|plan| plan.provider.name() == provider) else {
            return Err(without(path, &[&provider], having));
        };
        let upstream = ready.kernel.settings().model.clone().unwrap_or_else(|| model.to_owned());
        let is_listed = plan.routes.is_some();
        Ok(Self { provider: plan.provider.clone(), model: upstream, facts: ready.facts, is_listed })
    }
}

/// Returns `true` if a provider may serve a route.
fn has(plan: &ProviderPlan, path: &str, anthropic: bool) -> bool {
    let first = path.split_once('/').map_or(path, |(first, _)| first);
    let is_anthropic_client = plan.provider.has_route("messages/count_tokens");
    plan.provider.has_route(path)
        && plan.routes.as_ref().is_none_or(|routes| routes.iter().any(|route| route == first))
        && (first != "files" || is_anthropic_client == anthropic)
}

/// Returns the error for a route that the provider, or every provider, lacks.
fn without(path: &str, provider: &[&str], having: &[&ProviderPlan]) -> Error {
    let names: Vec<&str> = having.iter().map(|plan| plan.provider.name()).collect();
    let who = match provider {
        [name] => format!("provider {name} does not serve /v1/{path}"),
        _ => format!("no provider of this host serves /v1/{path}"),
    };
    let how = match names.as_slice() {
        [] => "; an operator has to add a provider that does, such as `kind = \"openai\"`".to_owned(),
        names => format!("; these may serve it: {}", names.join(", ")),
    };
    Error::Request {
        message: format!("{who}{how}"),
        param: None,
        code: Some("route_not_found"),
        kind: RequestErrorKind::NotFound,
    }
}
