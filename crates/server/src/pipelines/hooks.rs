//! The inlets and outlets of single filters. An Open WebUI calls them one after the other, in the order of
//! their priorities, and passes each result to the next.
//!
//! The module also checks the callers of the pipelines endpoints: users with a key, or operators only. As at
//! pipelines servers, a request without a key is rejected with 403 and one with a wrong key with 401.

use super::names::FilterName;
use super::{names, split_turn};
use crate::api::{AnyObject, Path};
use crate::body::{BodyLimits, parsed, read};
use crate::headers::{EVENTS, GENERATION, events_header};
use crate::reply::{self, Detail, ErrorForm, json_response};
use crate::{auth, credentials, facts, recording};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::ext::ReasonPhrase;
use schemars::JsonSchema;
use std::sync::Arc;
use valvehouse_core::chat::request::check_each;
use valvehouse_core::chat::{keys, message};
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::error::{Error, Rejection, RequestErrorKind};
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_host::app::{AnswerEdit, App, SplitTurn};
use valvehouse_host::{Plugin, Snapshot};
use valvehouse_json::Json;

/// The maximum length of a rejection's reason phrase, in characters.
const MAX_REASON: usize = 300;

/// The body of a hook call from Open WebUI.
#[derive(JsonSchema)]
#[schemars(example = serde_json::json!({
    "body": {"model": "demo", "messages": [{"role": "user", "content": "hello"}]}, "user": {"id": "ann"}
}))]
#[expect(dead_code, reason = "`Call::read` reads it")]
pub(super) struct HookCall {
    body: HookBody,
    user: Option<AnyObject>,
}

/// A chat request, or a chat with its answer.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "as above")]
struct HookBody {
    model: Option<String>,
    messages: Vec<AnyObject>,
}

/// Handles `POST /{id}/filter/inlet`.
pub(super) async fn inlet(app: State<Arc<App>>, name: Path<FilterName>, request: Request) -> Response {
    answer(app.0, &name.0.joined(), Hook::Inlet, request).await
}

/// Handles `POST /{id}/filter/outlet`.
pub(super) async fn outlet(app: State<Arc<App>>, name: Path<FilterName>, request: Request) -> Response {
    answer(app.0, &name.0.joined(), Hook::Outlet, request).await
}

async fn answer(app: Arc<App>, name: &str, hook: Hook, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    let answered = run(&app, &snapshot, name, hook, request).await;
    let mut response = answered.unwrap_or_else(refused);
    response.headers_mut().insert(GENERATION, HeaderValue::from(snapshot.generation));
    response
}

/// Returns an error as `{"detail": text}` and in the reason phrase of its status, because Open WebUI shows
/// only the latter.
fn refused(error: Error) -> Response {
    reply::log(&error);
    let detail = reply::body(&error).at_path("error.message");
    let line: String = detail.str_or_empty().chars().take(MAX_REASON).collect();
    let line = line.replace(|letter: char| letter.is_control(), " ");
    let mut response = Detail(error).into_response();
    if let Ok(reason) = ReasonPhrase::try_from(line.into_bytes()) {
        response.extensions_mut().insert(reason);
    }
    response
}

/// A parsed hook call.
struct Call {
    hook: Hook,
    body: Json,
    user: Json,
}

async fn run(
    app: &Arc<App>,
    snapshot: &Snapshot,
    name: &str,
    hook: Hook,
    request: Request,
) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let bytes = read(body, &BodyLimits::of(app)).await?;
    let call = Call::read(app, hook, &parsed(&bytes)?, &parts)?;
    let Some(plugin) = names::filter(snapshot, name) else {
        return call.of_model(app, snapshot, name, &parts);
    };
    if let Some(message) = plugin.refusal() {
        return Err(Error::Unguarded { plugin: plugin.id.to_string(), message });
    }
    if !call.concerns(plugin) {
        call.note_outlet(app, snapshot, plugin, &parts);
        return Ok(json_response(StatusCode::OK, &call.body));
    }
    if plugin.security && !plugin.audited && hook == Hook::Inlet {
        keys::check_chat(&call.body)?;
    }
    call.of_filter(app, snapshot, plugin, &parts).await
}

impl Call {
    fn read(app: &App, hook: Hook, sent: &Json, parts: &Parts) -> Result<Self, Error> {
        let body = sent.field("body");
        let Some(Json::Array(messages)) = body.get("messages") else {
            let message = "send {\"body\": {\"model\": …, \"messages\": […]}, \"user\": {…}}";
            return Err(Error::invalid(message, Some("body")));
        };
        check_each(&messages)?;
        let key_user = parts.extensions.get::<KeyUser>().map_or(Json::Null, |user| user.0.clone());
        let user = match sent.get("user") {
            Some(user @ Json::Object(_)) if key_user.is_null() && facts::may_name_user(app, parts) => {
                facts::named_user(app, parts, &user)
            }
            _ => key_user,
        };
        Ok(Self { hook, body, user })
    }

    /// Returns `true` if a filter applies to the call. A filter that is disabled or failed to load does not.
    fn concerns(&self, plugin: &Plugin) -> bool {
        let has_hook =
            plugin.script.as_ref().is_some_and(|script| script.hooks().any(|own| own == self.hook));
        let is_wanted =
            || !plugin.is_toggle() || facts::filter_ids(&self.body).iter().any(|id| **id == *plugin.id);
        plugin.enabled && has_hook && is_wanted()
    }

    /// Records the inlet call of a filter that has only an outlet. The client will call the outlet as well,
    /// so the chat between these calls does not run it.
    fn note_outlet(&self, app: &App, snapshot: &Snapshot, plugin: &Plugin, parts: &Parts) {
        let outlet = Self { hook: Hook::Outlet, body: self.body.clone(), user: self.user.clone() };
        let has_only_outlet = self.hook == Hook::Inlet && outlet.concerns(plugin);
        let has_inlet =
            plugin.script.as_ref().is_some_and(|script| script.hooks().any(|own| own == Hook::Inlet));
        if !has_only_outlet || has_inlet {
            return;
        }
        if let Some(part) = split_turn::of_hook(snapshot, &self.body, &self.user, Hook::Inlet) {
            let part = split_turn::of_caller(app, parts, part);
            split_turn::mark(snapshot, &self.body, &part);
            let parted = app.parted.find_or_begin(&part);
            parted.inlet_ran(&plugin.id);
            app.parted.keep(part, &parted);
        }
    }

    async fn of_filter(
        &self,
        app: &Arc<App>,
        snapshot: &Snapshot,
        plugin: &Plugin,
        parts: &Parts,
    ) -> Result<Response, Error> {
        let Self { hook, body, user } = self;
        let part = split_turn::of_hook(snapshot, body, user, *hook);
        let part = part.map(|part| split_turn::of_caller(app, parts, part));
        let parted = part.as_ref().map_or_else(SplitTurn::default, |part| app.parted.find_or_begin(part));
        split_turn::forget_strangers(&parted, snapshot);
        parted.meets(&plugin.id, plugin.incarnation);
        let has_run = *hook == Hook::Outlet && parted.has_outlet_run(&plugin.id);
        if has_run {
            self.take_edit(&parted);
        }
        // A guard always runs.
        if has_run || (parted.is_answered() && !plugin.security) {
            return Ok(json_response(StatusCode::OK, body));
        }
        let model = names::model(snapshot, &body.text_or_empty("model"));
        // Tools that the script calls are those of the model, if it is a model of this host.
        let kernel =
            model.as_ref().map_or_else(|| snapshot.invoking_only(Vec::new()), |ready| ready.kernel.clone());
        let model = Json::from(model.map(|ready| ready.facts));
        let mut facts = facts::of_body(app, parts, body, user, model, snapshot.listed().clone());
        facts.verified_user = verified_user(app, parts, user);
        facts.states = Some(parted.states().clone());
        let watch = recording::begin(app, hook.name(), false, snapshot.generation, parts, &mut facts);
        let context = facts::context_with(app, &facts, body, parted.metadata().clone());
        let turn = Turn::new(facts, context, Events::default());
        kernel.runs(&turn);
        let ran = self.chain(snapshot, plugin, &turn, &parted).await;
        let events = turn.events().take();
        if *hook == Hook::Inlet && !plugin.security {
            // A guard runs again in the chat.
            parted.keep_events(&events);
        }
        let mut response = match ran {
            Ok(body) => {
                if let Some(part) = part {
                    if *hook == Hook::Inlet {
                        split_turn::mark(snapshot, &body, &part);
                    }
                    app.parted.keep(part, &parted);
                }
                json_response(StatusCode::OK, &body)
            }
            Err(error) => refused(watch.failed(error)),
        };
        if let Some(events) = events_header(&events) {
            response.headers_mut().insert(EVENTS, events);
        }
        Ok(recording::until_end(watch, response))
    }

    /// Replaces the text of the answer that the outlets changed in the chat, after the client had received it.
    fn take_edit(&self, parted: &SplitTurn) {
        let Some(AnswerEdit { sent, text }) = parted.take_edit() else { return };
        let last = Json::from(self.body.get("messages").and_then(|messages| messages.at(-1)));
        let shown = last.text_or_empty("content");
        if let Some(place) = shown.rfind(&sent) {
            let (before, after) = (&shown[..place], &shown[place + sent.len()..]);
            last.edit("content", format!("{before}{text}{after}"));
        }
    }

    async fn chain(
        &self,
        snapshot: &Snapshot,
        plugin: &Plugin,
        turn: &Turn,
        parted: &SplitTurn,
    ) -> Result<Json, Error> {
        let comes_here = split_turn::comes_here(snapshot, &self.body);
        let chain = Chain::new(plugin.filter().into_iter().collect());
        let work = async { turn.flushed(chain.run(self.hook, self.body.clone(), turn).await).await };
        let outcome = turn.lasting(work).await?;
        let (body, handles_files) = match outcome {
            ChainOutcome::Done(body) => {
                let script = plugin.script.as_ref();
                (body, script.is_some_and(|script| script.manifest.file_handler && !plugin.audited))
            }
            // The chat request itself will return this answer.
            ChainOutcome::Skipped(value) if self.hook == Hook::Inlet && comes_here => {
                parted.answered(&plugin.id, &value);
                return Ok(self.body.clone());
            }
            ChainOutcome::Skipped(value) => return self.skipped(plugin, value),
        };
        if self.hook == Hook::Inlet {
            parted.inlet_ran(&plugin.id);
            if handles_files {
                body.remove("files");
                body.get("metadata").and_then(|metadata| metadata.remove("files"));
                turn.metadata().remove("files");
            }
        }
        Ok(body)
    }

    /// Returns the result of a filter that ended the chain. An inlet cannot answer instead of the model,
    /// because the client calls its model unless the request is rejected. An outlet can replace the answer.
    fn skipped(&self, plugin: &Plugin, value: Json) -> Result<Json, Error> {
        if self.hook == Hook::Inlet {
            let text = message::text_of(&value);
            let text = value.as_str().map_or(text.into(), str::to_owned);
            return Err(Error::Rejected(Rejection { plugin: plugin.id.to_string(), ..Rejection::new(text) }));
        }
        if matches!(value.get("messages"), Some(Json::Array(_))) {
            return Ok(value);
        }
        let content = value.get("content").unwrap_or(value);
        if let Some(last) = self.body.get("messages").and_then(|messages| messages.at(-1)) {
            // A copy cannot contain the body it is inserted into.
            last.edit("content", content.deep_clone());
        }
        Ok(self.body.clone())
    }

    /// Returns the body unchanged for a hook of a model, which Open WebUI calls after the inlets of all
    /// filters and before their outlets. If the chat will come to this host, the body of the inlet receives
    /// the id of the turn.
    fn of_model(self, app: &App, snapshot: &Snapshot, name: &str, parts: &Parts) -> Result<Response, Error> {
        let is_requested = self.body.text("model").is_some_and(|model| model == name);
        let is_model = is_requested && names::model(snapshot, name).is_some();
        if !is_model {
            return Err(names::unknown(name));
        }
        if self.hook == Hook::Inlet
            && let Some(part) = split_turn::of_model(&self.body, &self.user)
        {
            let part = split_turn::of_caller(app, parts, part);
            split_turn::mark(snapshot, &self.body, &part);
            let parted = app.parted.find_or_begin(&part);
            app.parted.keep(part, &parted);
        }
        Ok(json_response(StatusCode::OK, &self.body))
    }
}

/// Returns the id of the user verified by a key or trusted headers, or else by the operators' own Open WebUI.
fn verified_user(app: &App, parts: &Parts, named: &Json) -> Option<String> {
    let key_user = parts.extensions.get::<KeyUser>().map_or(Json::Null, |user| user.0.clone());
    let by_operator = || auth::may_operate_by_key(app, parts).then(|| facts::user_id(named)).flatten();
    facts::verified_user(app, &parts.headers, &key_user).or_else(by_operator)
}

/// The user bound to the key of a request, or null. Handlers receive it as an extension.
#[derive(Debug, Clone)]
pub(super) struct KeyUser(pub(super) Json);

/// Admits callers that may use models, and operators.
pub(super) async fn all(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    auth::admitted(user(&app, &parts).map(KeyUser), ErrorForm::Detail, parts, body, next).await
}

/// Admits operators only.
pub(super) async fn operators(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let operator = user(&app, &parts).and_then(|_| operator(&app, &parts));
    auth::admitted(operator, ErrorForm::Detail, parts, body, next).await
}

fn operator(app: &App, parts: &Parts) -> Result<auth::Operator, Error> {
    let opens_less = app.access.keys.has_admin()
        && credentials::given_key(&parts.headers).is_some()
        && !auth::may_operate(app, parts);
    if opens_less {
        // A key that is valid elsewhere does not count as a guess.
        return Err(Error::Request {
            message: "this route is for operators: set the key of [admin] for this connection in Open WebUI"
                .into(),
            param: None,
            code: Some("admin_key_needed"),
            kind: RequestErrorKind::Forbidden,
        });
    }
    auth::operator(app, parts)
}

/// Returns the user of a key.
fn user(app: &App, parts: &Parts) -> Result<Json, Error> {
    auth::user_of_key(app, parts).map_err(|error| match credentials::given_key(&parts.headers) {
        Some(_) => error,
        None => of_kind(error, RequestErrorKind::Forbidden),
    })
}

fn of_kind(error: Error, kind: RequestErrorKind) -> Error {
    match error {
        Error::Request { message, param, code, .. } => Error::Request { message, param, code, kind },
        other => other,
    }
}
