//! The provider that checks structured output, the requested format, and the answers that do not match it.

use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::breaker::OpenState;
use valvehouse_core::chat::{ModelCall, message};
use valvehouse_core::context::{FormatCheck, Notice, NoticeKind};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, ForwardRequest, PassthroughAnswer, Provider, Request, whole_within};
use valvehouse_json::{Json, Object};
use valvehouse_json_schema::Schema;

/// The start of the field in an unparsed body.
const FIELD: &str = "response_format";

/// A provider around another one that checks the answers to requests with `response_format`. Other requests
/// pass unchanged.
pub struct FormattedProvider {
    inner: Arc<dyn Provider>,
    retries: u32,
    on_misfit: OnMisfit,
}

/// The fate of an answer that does not match its format after all retries, or was truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnMisfit {
    /// It is an error. Streams are checked as well, so the answer is requested unstreamed.
    Fail,
    /// It is delivered with a note in the exchange. Streams pass unchecked, with such a note.
    Deliver,
}

impl FormattedProvider {
    /// The default maximum number of retries.
    pub const RETRIES: u32 = 2;

    /// Wraps a provider, with this maximum number of retries. An answer that never matches is an error, and
    /// answers are not streamed.
    pub fn new(inner: Arc<dyn Provider>, retries: u32) -> Self {
        Self { inner, retries, on_misfit: OnMisfit::Fail }
    }

    /// Wraps a provider as [`new`](Self::new) does, but delivers an answer that never matches, and passes
    /// streams unchecked. [`Exchange::format_check`](valvehouse_core::context::Exchange::format_check) returns
    /// which of these was the case.
    pub fn delivering(inner: Arc<dyn Provider>, retries: u32) -> Self {
        Self { inner, retries, on_misfit: OnMisfit::Deliver }
    }

    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let Some(shape) = Shape::of(&request.body).await? else {
            return self.inner.chat(request).await;
        };
        if self.on_misfit == OnMisfit::Deliver && request.stream {
            note(&request, Some(FormatCheck::Unchecked));
            return self.inner.chat(request).await;
        }
        note(&request, None);
        let mut messages = request.body.list("messages");
        let (mut spent, mut repeats) = (Vec::new(), 0);
        loop {
            let answer = self.whole(&request, &messages).await?;
            spent.extend(answer.get("usage"));
            let Some(misfit) = misfit(&shape, &answer).await? else {
                return Ok(Answer::Whole(with_usage_of_all(answer, &spent)));
            };
            if misfit.is_cut || repeats == self.retries {
                return match self.on_misfit {
                    OnMisfit::Fail => Err(self.gives_up(&misfit, repeats)),
                    OnMisfit::Deliver => {
                        note(&request, Some(misfit.check()));
                        Ok(Answer::Whole(with_usage_of_all(answer, &spent)))
                    }
                };
            }
            repeats += 1;
            // A retry is a separate call with another body and its own network retries.
            if let Some(turn) = &request.turn {
                turn.exchange().begin_call();
            }
            self.notify_retry(&request, repeats, &misfit);
            messages.extend(misfit.messages());
        }
    }

    async fn whole(&self, request: &Request, messages: &[Json]) -> Result<Json, Error> {
        let entries = request.body.entries();
        let fields = entries.into_iter().filter_map(|(key, value)| match key.as_str() {
            "stream_options" => None,
            "stream" => Some((key, false.into())),
            "messages" => Some((key, messages.to_vec().into())),
            _ => Some((key, value)),
        });
        let body = fields.collect::<Object>().into();
        match self.inner.chat(Request { body, stream: false, turn: request.turn.clone() }).await? {
            Answer::Whole(answer) => Ok(answer),
            Answer::Stream(chunks) => {
                let memory = request.turn.as_ref().and_then(|turn| turn.exchange().memory());
                whole_within(chunks, memory.map(|memory| &**memory)).await
            }
        }
    }

    fn notify_retry(&self, request: &Request, attempt: u32, misfit: &Misfit) {
        let provider = self.inner.name();
        // The reason quotes the answer, which must not be in every log.
        tracing::warn!(
            provider,
            "retrying ({attempt} of {}): the response does not match response_format",
            self.retries
        );
        tracing::debug!(provider, "{}", misfit.why);
        if let Some(turn) = &request.turn {
            turn.notify(NoticeKind::Retry, || Notice::Retry {
                what: format!("provider {provider}"),
                attempt,
                most: self.retries,
                error: misfit.why.clone(),
                delay: Duration::ZERO,
            });
        }
    }

    fn gives_up(&self, misfit: &Misfit, repeats: u32) -> Error {
        let (provider, why) = (self.inner.name(), &misfit.why);
        let message = if misfit.is_cut {
            format!(
                "the response of provider {provider} reached its token limit before its JSON was complete ({why}); raise max_tokens"
            )
        } else {
            let times = if repeats == 0 { "1 attempt" } else { &format!("{} attempts", repeats + 1) };
            format!("the response of provider {provider} does not match response_format after {times}: {why}")
        };
        Error::Misshapen { message }
    }
}

/// Records how the answer of a request was checked.
fn note(request: &Request, check: Option<FormatCheck>) {
    if let Some(turn) = &request.turn {
        turn.exchange().set_format_check(check);
    }
}

/// An answer that does not match the format.
struct Misfit {
    text: String,
    why: String,
    /// Set if the answer reached its token limit, which a retry would not change.
    is_cut: bool,
}

impl Misfit {
    fn check(&self) -> FormatCheck {
        if self.is_cut { FormatCheck::Truncated } else { FormatCheck::Mismatch }
    }

    /// Returns the messages that report the error to the model.
    fn messages(self) -> Vec<Json> {
        let why = format!(
            "This answer does not match the response format: {}. Answer again with the complete JSON and nothing else.",
            self.why
        );
        // Some services reject empty messages.
        let answer = (!self.text.trim().is_empty()).then(|| message::assistant(self.text));
        answer.into_iter().chain([message::user(why)]).collect()
    }
}

/// Checks every choice of an answer, and reduces each text to its JSON. Returns the first choice that does
/// not match.
async fn misfit(shape: &Shape, answer: &Json) -> Result<Option<Misfit>, Error> {
    for choice in answer.list("choices") {
        let message = choice.field("message");
        let ended = choice.text_or_empty("finish_reason");
        let refuses = message.get("refusal").is_some_and(|refusal| !refusal.is_empty());
        if refuses || ended == "content_filter" || !ModelCall::all(&message).is_empty() {
            continue;
        }
        let text = message::text_of(&message);
        match shape.read(&text).await? {
            Ok(json) if *json == *text => {}
            Ok(json) => message::set_text(&message, &json),
            Err(why) => return Ok(Some(Misfit { text: text.into(), why, is_cut: ended == "length" })),
        }
    }
    Ok(None)
}

/// Returns the last answer with the token usage of all attempts.
fn with_usage_of_all(answer: Json, spent: &[Json]) -> Json {
    if let Some((first, others)) = spent.split_first().filter(|(_, others)| !others.is_empty()) {
        let sum = others.iter().fold(first.deep_clone(), |sum, next| added(&sum, next));
        // The object already contains numbers, so it accepts them.
        answer.edit("usage", sum);
    }
    answer
}

/// Adds two usage objects number by number. Other values are those of the later one.
fn added(a: &Json, b: &Json) -> Json {
    match (a, b) {
        (Json::Number(_), Json::Number(_)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.saturating_add(b).into(),
            _ => (a.as_f64().unwrap_or(0.0) + b.as_f64().unwrap_or(0.0)).into(),
        },
        (Json::Object(a), Json::Object(b)) => {
            let sum = Object::new(a.entries());
            b.for_each(|key, next| {
                let value = sum.get(key).map_or_else(|| next.deep_clone(), |own| added(&own, next));
                // Copies fit into a new object.
                sum.put(key, value);
            });
            sum.into()
        }
        (own, Json::Null) => own.deep_clone(),
        (_, next) => next.deep_clone(),
    }
}

impl Provider for FormattedProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        self.inner.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(self.ask(request))
    }

    /// A body that requests a format is not forwarded unparsed.
    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        if request.outline.has(FIELD) { None } else { self.inner.forward(request) }
    }

    fn has_route(&self, path: &str) -> bool {
        self.inner.has_route(path)
    }

    fn chooses(&self) -> bool {
        self.inner.chooses()
    }

    fn open_breakers(&self) -> Vec<OpenState> {
        self.inner.open_breakers()
    }
}

/// The requested format of an answer.
pub(super) struct Shape(Option<Schema>);

impl Shape {
    /// Returns the format of a request; `None` if none is requested.
    pub(super) async fn of(body: &Json) -> Result<Option<Self>, Error> {
        let format = body.field("response_format");
        let schema = match format.text("type").as_deref() {
            Some("json_schema") => Some(format.at_path("json_schema.schema")),
            // Some services accept a schema for this type as well.
            Some("json_object") => format.get("schema"),
            _ => return Ok(None),
        };
        let schema = match schema {
            Some(schema) => Some(Schema::compile(schema).await.map_err(|error| wrong(&error.to_string()))?),
            None => None,
        };
        Ok(Some(Self(schema)))
    }

    /// Returns the JSON of an answer as written by the model, or the reason why it does not match.
    ///
    /// # Errors
    /// Returns a request error if the check of the schema fails.
    pub(super) async fn read(&self, answer: &str) -> Result<Result<String, String>, Error> {
        let (text, json) = match find_json(answer) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let misfit = match &self.0 {
            Some(schema) => schema.misfit(&json).await.map_err(|error| wrong(&error.to_string()))?,
            None if json.as_object().is_some() => None,
            None => Some(format!("it is of type {}; it must be a JSON object", json.kind())),
        };
        Ok(misfit.map_or_else(|| Ok(text.to_owned()), Err))
    }
}

/// Returns the error for an invalid schema.
fn wrong(why: &str) -> Error {
    let message = format!("invalid schema in response_format: {why}");
    Error::invalid(message, Some("response_format"))
}

/// Returns the JSON of an answer, which is the whole text or a code block in it.
fn find_json(answer: &str) -> Result<(&str, Json), String> {
    let whole = answer.trim();
    let error = match Json::parse(whole.as_bytes()) {
        Ok(json) => return Ok((whole, json)),
        Err(error) => error,
    };
    let in_a_block = blocks(whole).find_map(|block| Some((block, Json::parse(block.as_bytes()).ok()?)));
    in_a_block.ok_or_else(|| match whole {
        "" => "it is empty; it must be JSON".to_owned(),
        _ => format!("it is not valid JSON: {error}"),
    })
}

/// Returns the contents of code blocks.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once("```")?;
        // The line of the fence may name a language.
        let (_, inside) = after.split_once('\n')?;
        let end = inside.match_indices("```").map(|(at, _)| at);
        let end = end.into_iter().find(|at| inside[..*at].trim_end_matches([' ', '\t']).ends_with('\n'))?;
        rest = &inside[end + 3..];
        Some(inside[..end].trim())
    })
}
