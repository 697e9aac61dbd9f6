//! `http::…`: requests to other hosts that the plugin may reach.
//!
//! While the script waits on its thread, its running time does not count; its wall-clock limit and the end of the
//! turn also end the request. `net::web` checks which hosts are allowed.

use super::argument::{AnyArray, AnyMap, RhaiResultOf, effect, fail, float, items, running, unfit};
use super::json::MAX_VALUES;
use super::reading::{self, Form, OpenAnswer};
use super::waiting::{self, beside_each_other};
use super::{host_calls, multipart, output, url};
use ::url::Url;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt;
use rhai::{Array, Dynamic, FnNamespace, FuncRegistration, Module};
use std::time::Duration;
use valvehouse_dialect::budget;
use valvehouse_dialect::call::redaction::{excerpt, redacted};
use valvehouse_dialect::value::{self, BODY, Map, Shape, json_of, live};
use valvehouse_executor::Job;
use valvehouse_json::Json;
use valvehouse_net::Web;
use valvehouse_net::web::{Ask, WebError, WebResponse};

/// The methods with their own functions.
const METHODS: [(&str, &str); 6] = [
    ("get", "Sends a GET request."),
    ("post", "Sends a POST request."),
    ("put", "Sends a PUT request."),
    ("patch", "Sends a PATCH request."),
    ("delete", "Sends a DELETE request."),
    ("head", "Sends a HEAD request, whose answer has no body."),
];

const ANSWER: &str = "Returns `status`, `headers` (a map with names in lower case, repeated ones joined by \
                      `, `), `text`, `bytes` and `json()`. A status of 400 or more is returned as well. A \
                      request without an answer throws an error: a refused connection, a timeout, a host \
                      that is not granted, a body of more than 2 MiB. Reading `text` fails if the body is \
                      not UTF-8; `bytes` is the unchanged body.";

const WITH_OPTIONS: &str = "Options: `headers`, `query` (a map, added to the URL), one of `body` (text or \
                            bytes), `json` (any value), `form` (a map) and `multipart` (a map of texts and \
                            files, each file `#{ data, name, type }`), `timeout` in ms (default 10 000, at \
                            most 300 000), and `max_bytes` of the answer (default 2 097 152, at most 8 388 \
                            608).";

/// The module `http::…`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    for (method, does) in METHODS {
        effect(method, &["url: &str", "http_answer"], &format!("{does} {ANSWER}"))
            .set_into_module(&mut module, move |url: &str| ask(method, method, url, &Dynamic::UNIT));
        effect(
            method,
            &["url: &str", "options: map", "http_answer"],
            &format!("{does} {WITH_OPTIONS} Returns the same as without options."),
        )
        .set_into_module(&mut module, move |url: &str, options: AnyMap| ask(method, method, url, &options));
    }
    effect(
        "request",
        &["method: &str", "url: &str", "http_answer"],
        &format!("Sends a request with any method, for example `\"OPTIONS\"`. {ANSWER}"),
    )
    .set_into_module(&mut module, |method: &str, url: &str| ask("request", method, url, &Dynamic::UNIT));
    effect(
        "request",
        &["method: &str", "url: &str", "options: map", "http_answer"],
        &format!("Sends a request with any method. {WITH_OPTIONS} Returns the same as without options."),
    )
    .set_into_module(&mut module, |method: &str, url: &str, options: AnyMap| {
        ask("request", method, url, &options)
    });
    let all = "Sends several requests in parallel and returns the answers in order. A request is a URL, or \
               `#{ url, method }` with the options of http::request(). At most 8 run at a time. If one \
               fails, the others are canceled and the error is thrown.";
    effect("all", &["requests: array", "Array"], all).set_into_module(&mut module, |requests: AnyArray| {
        self::all(&requests, &Dynamic::from(rhai::Map::new()))
    });
    let settling = "Like `http::all` with the options of parallel(): `limit`, and `settle: true` for `#{ value }` or `#{ error }` of each.";
    effect("all", &["requests: array", "options: map", "Array"], settling)
        .set_into_module(&mut module, |requests: AnyArray, options: AnyMap| self::all(&requests, &options));
    let streams = "Sends a GET request and reads the answer as a stream: `for line in http::stream(url) { … \
                   }`. The answer has `status` and `headers`.";
    effect("stream", &["url: &str", "stream"], streams)
        .set_into_module(&mut module, |url: &str| stream(url, &Dynamic::UNIT));
    let streams = "Like `http::stream` with options: those of http::request(), `method`, and `read`: `\"lines\"` (texts; the default), \
                   `\"sse\"` (server-sent events, `#{ event, data }`) or `\"chunks\"` (bytes). `timeout` is \
                   for the headers of the answer; its body has at most 64 MiB.";
    effect("stream", &["url: &str", "options: map", "stream"], streams)
        .set_into_module(&mut module, |url: &str, options: AnyMap| stream(url, &options));
    module
}

/// Returns a map without these keys, and their values.
fn parted(function: &str, options: &Dynamic, keys: &[&str]) -> RhaiResultOf<(Dynamic, Vec<Option<String>>)> {
    let mut rest = rhai::Map::new();
    let mut own = vec![None; keys.len()];
    for (name, value) in entries(function, "options", options)? {
        match keys.iter().position(|key| *key == name) {
            Some(_) if value.is_unit() => {}
            Some(at) => {
                let text =
                    value.clone().into_string().map_err(|_| unfit(function, &name, "a text", &value))?;
                own[at] = Some(text);
            }
            None => {
                rest.insert(name.into(), value);
            }
        }
    }
    Ok((rest.into(), own))
}

fn stream(url: &str, options: &Dynamic) -> RhaiResultOf<OpenAnswer> {
    const NAME: &str = "http::stream";
    let (options, own) = parted(NAME, options, &["method", "read"])?;
    let form = match own[1].as_deref() {
        None | Some("lines") => Form::Lines,
        Some("sse") => Form::Events,
        Some("chunks") => Form::Chunks,
        Some(other) => {
            return Err(fail(
                NAME,
                format!("unknown `read` {other:?}: expected \"lines\", \"sse\" or \"chunks\""),
            ));
        }
    };
    let method = own[0].as_deref().unwrap_or("GET");
    let call = running(NAME)?;
    let refused = |error: WebError| fail(NAME, with_help(&error, &call.caller.plugin, url));
    let request = Ask::new(method, url).map_err(refused)?;
    let request = Options::read(NAME, &options)?.apply(NAME, request)?;
    let web: &Web = &call.resources.web;
    web.check(&request).map_err(refused)?;
    let mut body = None;
    let arguments = || vec![Json::from(method), url.into(), recorded(&options)].into();
    let head = host_calls::once(NAME, arguments, || {
        let opened = budget::wait(&call.turn, web.open(request))?.map_err(refused)?;
        let bytes = opened.body.map(|bytes| bytes.map_err(|why| why.to_string())).boxed();
        body = Some(reading::split(form, bytes));
        Ok(Json::Object(reading::head(opened.status, opened.headers)))
    })?;
    Ok(OpenAnswer::new(NAME, reading::head_of(&head), body))
}

/// Sends several requests concurrently.
fn all(requests: &Dynamic, options: &Dynamic) -> RhaiResultOf<Array> {
    const NAME: &str = "http::all";
    let options = waiting::Options::of(NAME, options)?;
    let (limit, settles) = (options.limit()?, options.truth("settle")?);
    let requests = items(NAME, "requests", requests)?;
    let one = |request: &Dynamic| -> RhaiResultOf<Dynamic> {
        if let Ok(url) = request.as_immutable_string_ref() {
            return ask("all", "GET", &url, &Dynamic::UNIT);
        }
        let (options, own) = parted(NAME, request, &["method", "url"])?;
        let url = own[1]
            .as_deref()
            .ok_or_else(|| fail(NAME, "invalid request: expected a URL, or a map with a `url`"))?;
        ask("all", own[0].as_deref().unwrap_or("GET"), url, &options)
    };
    let works = requests.iter().map(|request| Box::new(|| one(request)) as Job<'_, _>);
    beside_each_other(NAME, works.collect(), limit, settles)
}

/// Registers the method `json()` of responses, which needs no module.
pub(super) fn register_method(module: &mut Module) {
    FuncRegistration::new("json")
        .with_namespace(FnNamespace::Global)
        .with_purity(true)
        .with_params_info(["answer: &mut http_answer", "any"])
        .with_comments([
            "/// Parses the body of an answer of `http::` as JSON and returns the value. Fails if it is not \
             JSON.",
        ])
        .set_into_module(module, |answer: &mut Map| parsed(answer));
}

fn ask(function: &str, method: &str, url: &str, options: &Dynamic) -> RhaiResultOf<Dynamic> {
    let function = format!("http::{function}");
    let call = running(&function)?;
    let refused = |error: WebError| fail(&function, with_help(&error, &call.caller.plugin, url));
    let request = Ask::new(method, url).map_err(refused)?;
    let request = Options::read(&function, options)?.apply(&function, request)?;
    let web: &Web = &call.resources.web;
    // Checked before the wait, which the running time excludes.
    web.check(&request).map_err(refused)?;
    let arguments = || vec![Json::from(method), url.into(), recorded(options)].into();
    let answer = host_calls::once(&function, arguments, || {
        Ok(shown(budget::wait(&call.turn, web.ask(request))?.map_err(refused)?))
    })?;
    Ok(live(&answer, Shape::Reply))
}

/// Returns the error with the command that would allow the request. A host that is a part of a secret is redacted
/// here, because its URL separates it from the rest of the secret.
fn with_help(error: &WebError, plugin: &str, url: &str) -> String {
    let text = match error.grant() {
        Some(host) => format!("{error}; grant it with: valvehouse grant {plugin} http={host}"),
        None => error.to_string(),
    };
    let host = |url: &str| Some(Url::parse(url).ok()?.host_str()?.to_owned());
    match (host(url), host(&redacted(url))) {
        (Some(own), shown) if shown.as_ref() != Some(&own) => text.replace(&own, "***"),
        _ => text,
    }
}

/// Returns a response as scripts see it.
fn shown(answer: WebResponse) -> Json {
    let shown = reading::head(answer.status, answer.headers);
    let (key, body) = match String::from_utf8(answer.body.into()) {
        Ok(text) => ("text", text),
        Err(bytes) => (BODY, STANDARD.encode(bytes.as_bytes())),
    };
    shown.put(key, body.into());
    Json::Object(shown)
}

/// Returns the options that are compared when a step runs again. Bytes have no JSON form, so they are not compared.
fn recorded(options: &Dynamic) -> Json {
    json_of(options).unwrap_or_else(|_| "with bytes".into())
}

/// Parses the text of a response as JSON.
fn parsed(answer: &Map) -> RhaiResultOf<Dynamic> {
    if let (Some(kind), Some(status)) = (answer.object.get(BODY), answer.object.get("status")) {
        let bytes = kind.as_str().map_or(0, |body| body.len() / 4 * 3);
        let why = format!("the answer with status {status} is not JSON: its {bytes} bytes are not UTF-8");
        return Err(fail("json", why));
    }
    let (Some(Json::Text(text)), Some(status)) = (answer.object.get("text"), answer.object.get("status"))
    else {
        return Err(fail("json", "this map is not an answer of `http::`; use json::parse(text) for a text"));
    };
    let json = Json::parse_within(text.as_bytes(), MAX_VALUES).map_err(|error| {
        let text = excerpt(text.as_str());
        fail("json", format!("the answer with status {status} is not JSON: {error}; it is `{text}`"))
    })?;
    Ok(live(&json, Shape::Plain))
}

/// The values of an option map.
#[derive(Default)]
struct Options {
    headers: Vec<(String, String)>,
    query: Option<String>,
    body: Option<(Bytes, String)>,
    timeout: Option<Duration>,
    max_bytes: Option<usize>,
}

impl Options {
    fn read(function: &str, options: &Dynamic) -> RhaiResultOf<Self> {
        let mut read = Self::default();
        for (name, value) in entries(function, "options", options)? {
            if value.is_unit() {
                continue;
            }
            match name.as_str() {
                "headers" => read.headers = headers(function, &value)?,
                "query" => read.query = Some(pairs(function, "query", &value)?),
                "timeout" => read.timeout = Some(timeout(function, &value)?),
                "body" | "json" | "form" | "multipart" if read.body.is_some() => {
                    return Err(fail(
                        function,
                        "cannot send more than one of `body`, `json`, `form` and `multipart`",
                    ));
                }
                "body" => read.body = Some(body(function, &value)?),
                "json" => {
                    let text = output::json(function, &json_of(&value)?, None)?;
                    read.body = Some((text.into(), "application/json".into()));
                }
                "form" => {
                    let form = pairs(function, "form", &value)?;
                    read.body = Some((form.into(), "application/x-www-form-urlencoded".into()));
                }
                "multipart" => {
                    read.body = Some(multipart::body(function, entries(function, "multipart", &value)?)?)
                }
                "max_bytes" => read.max_bytes = Some(max_bytes(function, &value)?),
                unknown => {
                    let known = waiting::known_options("http::request");
                    return Err(waiting::unknown_option(function, unknown, &known));
                }
            }
        }
        Ok(read)
    }

    fn apply(self, function: &str, mut ask: Ask) -> RhaiResultOf<Ask> {
        let refused = |error: WebError| fail(function, error);
        for (name, value) in &self.headers {
            ask = ask.header(name, value).map_err(refused)?;
        }
        if let Some((body, kind)) = self.body {
            ask = ask.body(body, &kind).map_err(refused)?;
        }
        if let Some(bytes) = self.max_bytes {
            ask = ask.at_most(bytes).map_err(refused)?;
        }
        if let Some(timeout) = self.timeout {
            ask = ask.within(timeout).map_err(refused)?;
        }
        Ok(ask.query(&self.query.unwrap_or_default()))
    }
}

/// Returns the keys and values of a map, native or live; `()` has none.
fn entries(function: &str, name: &str, map: &Dynamic) -> RhaiResultOf<Vec<(String, Dynamic)>> {
    if map.is_unit() {
        return Ok(Vec::new());
    }
    if let Some(map) = map.read_lock::<Map>() {
        let entries = map.object.entries().into_iter();
        return Ok(entries.map(|(key, value)| (key.to_string(), live(&value, Shape::Plain))).collect());
    }
    let plain = map.as_map_ref().map_err(|_| unfit(function, name, "a map", map))?;
    Ok(plain.iter().map(|(key, value)| (key.to_string(), value.clone())).collect())
}

fn headers(function: &str, value: &Dynamic) -> RhaiResultOf<Vec<(String, String)>> {
    let mut headers = Vec::new();
    for (name, value) in entries(function, "headers", value)? {
        match json_of(&value)? {
            Json::Null => {}
            Json::Text(text) => headers.push((name, text.into())),
            plain @ (Json::Bool(_) | Json::Number(_)) => headers.push((name, plain.to_string())),
            Json::Array(_) | Json::Object(_) => {
                return Err(unfit(function, &format!("headers.{name}"), "a text", &value));
            }
        }
    }
    Ok(headers)
}

/// Encodes a map as the pairs of a query or form.
fn pairs(function: &str, name: &str, value: &Dynamic) -> RhaiResultOf<String> {
    entries(function, name, value)?;
    url::functions::query(value.clone())
}

fn body(function: &str, value: &Dynamic) -> RhaiResultOf<(Bytes, String)> {
    if let Ok(text) = value.as_immutable_string_ref() {
        return Ok((Bytes::copy_from_slice(text.as_bytes()), "text/plain; charset=utf-8".into()));
    }
    if let Some(bytes) = value::Bytes::of(value) {
        return Ok((bytes.0, "application/octet-stream".into()));
    }
    Err(unfit(function, "body", "a text or bytes (use `json` or `form` for other values)", value))
}

fn max_bytes(function: &str, value: &Dynamic) -> RhaiResultOf<usize> {
    let bytes = value.as_int().ok().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| unfit(function, "max_bytes", "a whole number", value))
}

fn timeout(function: &str, value: &Dynamic) -> RhaiResultOf<Duration> {
    let ms = float(function, "timeout", value)?;
    Duration::try_from_secs_f64(ms / 1000.0)
        .map_err(|_| fail(function, format!("`timeout` must be above 0 and at most 300000 ms, not {value}")))
}
