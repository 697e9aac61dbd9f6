//! Runs the `inlet` chain on the texts of passthrough requests, for filters that list their endpoint.
//!
//! A filter receives a body whose `messages` contain each text as a user message. Its edits are written back
//! to the request, so a filter for chats works unchanged; so are its edits of other fields of the request.

use super::body::{Form, RequestBody, base_name};
use compact_str::CompactString;
use std::ops::Range;
use valvehouse_core::chat::{keys, message};
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, Rejection, RequestErrorKind};
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_core::kernel::is_ours;
use valvehouse_host::Snapshot;
use valvehouse_json::Json;

/// Returns the endpoint of a path and the field that contains its texts, if filters can run on it.
pub(super) fn endpoint_of(path: &str) -> Option<(&'static str, &'static str)> {
    match path.split('/').next() {
        Some("embeddings") => Some(("embeddings", "input")),
        Some("completions") => Some(("completions", "prompt")),
        Some("images") => Some(("images", "prompt")),
        _ => None,
    }
}

/// Rejects a route that would bypass the guards of chats, unless the provider's settings list its routes.
///
/// # Errors
/// Returns a request error that names the bypassed guards.
pub(super) fn check_no_way_around(
    snapshot: &Snapshot,
    path: &str,
    model: Option<(&str, &[String])>,
    is_listed: bool,
) -> Result<(), Error> {
    let (blind, how) = match path.split('/').next() {
        _ if is_listed => return Ok(()),
        Some("completions") => (
            snapshot.blind_guards("completions", model),
            "let them list the endpoint, `const endpoints = [\"chat\", \"completions\"];`, or list \"completions\" in",
        ),
        Some("batches") => (snapshot.blind_guards("batches", None), "list \"batches\" in"),
        Some("messages") if path.starts_with("messages/batches") => {
            (snapshot.blind_guards("batches", None), "list \"messages\" in")
        }
        _ => return Ok(()),
    };
    if blind.is_empty() {
        return Ok(());
    }
    Err(Error::Request {
        message: format!(
            "cannot forward /v1/{path}: these guards would not run for it: {}; {how} `routes` of the provider",
            blind.join(", ")
        ),
        param: None,
        code: Some("route_not_guarded"),
        kind: RequestErrorKind::Forbidden,
    })
}

/// Runs the chain on the texts of a request and writes its edits back. Without edits, all bytes stay
/// unchanged, unless they repeat a key: then the request is written anew from the values that the filters saw.
///
/// # Errors
/// Returns the rejection or failure of a filter, or a request error if an input is not a text, because
/// filters could not read it, or if a key is another spelling of a field.
pub(super) async fn run(
    chain: &Chain,
    (endpoint, field): (&'static str, &'static str),
    sent: &mut RequestBody,
    turn: &Turn,
) -> Result<(), Error> {
    sent.check_readable()?;
    let request = sent.json()?;
    keys::check_fields(&request)?;
    let places = match sent.form {
        Form::Json => Places::Json(json_texts(&request, endpoint, field)?),
        _ => Places::Form(form_texts(sent, field)?),
    };
    let texts = places.texts(sent)?;
    let messages: Vec<Json> = texts
        .iter()
        .map(|text| Json::from([("role", "user".into()), ("content", text.as_str().into())]))
        .collect();
    let body = Json::object();
    let others: Vec<(CompactString, Json)> =
        request.entries().into_iter().filter(|(key, _)| key != field).collect();
    for (key, value) in &others {
        put(&body, key, value.deep_clone())?;
    }
    if let (None, Some(model)) = (body.get("model"), sent.model()) {
        put(&body, "model", model.into())?;
    }
    put(&body, "endpoint", endpoint.into())?;
    put(&body, "messages", messages.into())?;
    if let Some(trace) = turn.trace() {
        trace.begins_with(&body);
    }
    let (body, edited) = match chain.run(Hook::Inlet, body, turn).await? {
        ChainOutcome::Done(body) => {
            let edited = body.list("messages");
            (body, edited)
        }
        ChainOutcome::Skipped(value) => {
            let text = message::text_of(&value);
            let text = value.as_str().map_or_else(|| text.to_string(), str::to_owned);
            let shown = if text.is_empty() { "a filter answered".to_owned() } else { text };
            let message = format!("{shown} (a filter cannot answer in place of the model at {endpoint})");
            return Err(Rejection::new(message).into());
        }
    };
    if edited.len() != texts.len() {
        return Err(Error::Host(format!(
            "the inlet of a filter returned {} of {} messages: for {endpoint} each text is a message, and none may be removed",
            edited.len(),
            texts.len()
        )));
    }
    let edited: Vec<String> = edited.iter().map(|edit| message::text_of(edit).to_string()).collect();
    // The model has been selected, and the other texts are messages.
    let is_fixed = |key: &str| matches!(key, "model" | "messages") || text_fields(field).contains(&key);
    let is_ambiguous = request.is_changed();
    let mut is_changed = edited != texts || is_ambiguous;
    for (key, value) in others.iter().filter(|(key, _)| !is_fixed(key)) {
        match body.get(key) {
            // As in chats, these fields are for the host, and `body.texts` has not all of their texts.
            _ if is_ours(key, value.is_object()) => drop(request.remove(key)),
            Some(edited) if edited == *value => continue,
            Some(edited) => put(&request, key, edited)?,
            None => drop(request.remove(key)),
        }
        is_changed = true;
    }
    if is_changed { places.write(sent, &request, edited) } else { Ok(()) }
}

fn put(object: &Json, key: &str, value: Json) -> Result<(), Error> {
    object.set(key, value).map(drop).map_err(|error| Error::Host(error.to_string()))
}

/// The positions of texts in a request.
enum Places {
    /// Paths in JSON, with their texts.
    Json(Vec<(Vec<Step>, String)>),
    /// Ranges in a form.
    Form(Vec<Range<usize>>),
}

#[derive(Clone)]
enum Step {
    Key(&'static str),
    Index(usize),
}

impl Places {
    fn texts(&self, sent: &RequestBody) -> Result<Vec<String>, Error> {
        match self {
            Self::Json(all) => Ok(all.iter().map(|(_, text)| text.clone()).collect()),
            Self::Form(all) => {
                let texts = all.iter().map(|at| std::str::from_utf8(&sent.begun[at.clone()]));
                let texts = texts.map(|text| text.map(str::to_owned));
                texts
                    .collect::<Result<_, _>>()
                    .map_err(|_| Error::invalid("a field of the form is not UTF-8", None))
            }
        }
    }

    fn write(self, sent: &mut RequestBody, request: &Json, edited: Vec<String>) -> Result<(), Error> {
        match self {
            Self::Json(places) => {
                for ((path, before), text) in places.into_iter().zip(edited) {
                    if before != text {
                        set_at(request, &path, text)?;
                    }
                }
                let bytes = request.encode_raw().map_err(|error| Error::invalid(error.to_string(), None))?;
                sent.replace(bytes)
            }
            Self::Form(places) => {
                sent.replace_texts(places.into_iter().zip(edited));
                Ok(())
            }
        }
    }
}

fn set_at(request: &Json, path: &[Step], text: String) -> Result<(), Error> {
    let Some((last, steps)) = path.split_last() else { return Ok(()) };
    let mut at = request.clone();
    for step in steps {
        at = match step {
            Step::Key(key) => at.field(key),
            // Access by index avoids a copy of the list for each text.
            Step::Index(index) => i64::try_from(*index).ok().and_then(|index| at.at(index)).into(),
        };
    }
    match (last, &at) {
        (Step::Key(key), at) => put(at, key, text.into()),
        (Step::Index(index), Json::Array(list)) => {
            list.set(*index, text.into()).map(drop).map_err(|error| Error::Host(error.to_string()))
        }
        (Step::Index(_), _) => Ok(()),
    }
}

/// Returns the fields of a request that contain texts: `field` of its endpoint, and those that several
/// endpoints have.
fn text_fields(field: &'static str) -> [&'static str; 3] {
    [field, "suffix", "negative_prompt"]
}

/// Returns the texts of a JSON request: a text, a list of texts, or a list of objects with a `text`.
fn json_texts(
    request: &Json,
    endpoint: &str,
    field: &'static str,
) -> Result<Vec<(Vec<Step>, String)>, Error> {
    let unseen = || {
        Error::invalid(
            format!(
                "invalid `{field}`: expected texts, because filters of this host read the texts of {endpoint}, got something else, such as tokens; send texts (LangChain: check_embedding_ctx_length=False)"
            ),
            Some(field),
        )
    };
    // Some services read these fields as inputs.
    for key in [
        "input",
        "inputs",
        "prompt",
        "prompts",
        "texts",
        "messages",
        "input_extra",
        "documents",
        "query",
        "endpoint",
    ] {
        if key != field && request.get(key).is_some_and(|value| !value.is_empty()) {
            let message = format!(
                "cannot send `{key}`: filters of this host read the texts of {endpoint} in `{field}`; send them there"
            );
            return Err(Error::invalid(message, Some(key)));
        }
    }
    let mut found = Vec::new();
    for key in text_fields(field) {
        match request.get(key) {
            None | Some(Json::Null) => {}
            Some(Json::Text(text)) => found.push((vec![Step::Key(key)], text.to_string())),
            Some(Json::Array(list)) => {
                for (index, item) in list.items().into_iter().enumerate() {
                    let path = vec![Step::Key(key), Step::Index(index)];
                    // Another field of an item could be read in place of its text.
                    let is_plain = || {
                        item.keys().iter().all(|key| key == "text" || key == "type")
                            && item.get("type").is_none_or(|kind| kind.as_str().is_some_and(is_word))
                    };
                    match (&item, item.get("text")) {
                        (Json::Text(text), _) => found.push((path, text.to_string())),
                        (Json::Object(_), Some(Json::Text(text))) if is_plain() => {
                            found.push(([path, vec![Step::Key("text")]].concat(), text.to_string()));
                        }
                        _ => return Err(unseen()),
                    }
                }
            }
            Some(_) => return Err(unseen()),
        }
    }
    Ok(found)
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Returns the ranges of the texts in a form: its fields but the model, and files that some services read as texts:
/// those named like a text, and those that are text.
///
/// # Errors
/// Returns a request error for a file named like a text that services could decode.
fn form_texts(sent: &RequestBody, field: &'static str) -> Result<Vec<Range<usize>>, Error> {
    let mut texts = Vec::new();
    for own in sent.fields() {
        let is_text = match own.file_name.as_deref() {
            // Some services read a part with an empty file name as a text.
            None | Some("") => own.name != "model",
            Some(_)
                if text_fields(field).iter().any(|text| base_name(&own.name).eq_ignore_ascii_case(text)) =>
            {
                own.check_plain()?;
                true
            }
            Some(_) => std::str::from_utf8(&sent.begun[own.value.clone()]).is_ok(),
        };
        if is_text {
            texts.push(own.value);
        }
    }
    Ok(texts)
}
