//! HTTP requests.

use super::arguments::Arguments;
use super::context::{Hindrance, Outcome, Translator};
use super::helper::Helper;
use crate::code::{Code, call, strength};
use crate::kinds::{Client, Type};
use crate::names;
use crate::python::{Expr, ExprKind, FormatPart};
use crate::report::NoteKind;
use crate::value;

impl Translator<'_> {
    /// Returns an HTTP client: `requests.Session()` or `aiohttp.ClientSession(headers=…)`.
    pub(super) fn session(&mut self, arguments: &Arguments<'_>, line: usize) -> Outcome {
        let mut client = Client::default();
        for (name, value) in arguments.all_named() {
            self.check_option(name, value, line);
        }
        if let Some(headers) = arguments.named("headers") {
            client.headers = self.expr(headers)?.text;
        }
        if let Some(value) = arguments.named("timeout") {
            match self.timeout(value) {
                Ok(Some(timeout)) => client.timeout = timeout,
                Ok(None) => {}
                Err(why) => self.note(why.kind, format!("the timeout of a client: {}", why.text), line),
            }
        }
        if let Some(base) = arguments.named("base_url") {
            self.host_of(base);
            let base = self.expr(base)?;
            if base.text != "()" {
                client.base = base.at(strength::ADD);
            }
        }
        Ok(Code::atom("()", Type::Session(Box::new(client))))
    }

    /// Returns the code of an HTTP request.
    pub(super) fn request(
        &mut self,
        method: &str,
        arguments: &Arguments<'_>,
        client: &Client,
        is_stream: bool,
        line: usize,
    ) -> Outcome {
        if !arguments.spread.is_empty() {
            return Hindrance::err(NoteKind::Http, "a request with computed options");
        }
        let mut positional = arguments.positional().iter().copied();
        let method = match method {
            "request" | "stream" => {
                let method = arguments.named("method").or_else(|| positional.next());
                match method {
                    Some(method) => self.expr(method)?.text,
                    None => return Hindrance::err(NoteKind::Http, "a request without a method"),
                }
            }
            _ => names::quoted(&method.to_uppercase()),
        };
        let Some(url) = arguments.named("url").or_else(|| positional.next()) else {
            return Hindrance::err(NoteKind::Http, "a request without a URL");
        };
        self.host_of(url);
        let mut url = self.expr(url)?;
        if !client.base.is_empty() && !url.text.trim_start_matches(['"', '`']).starts_with("http") {
            let text = format!("{} + {}", client.base, url.at(strength::ADD + 1));
            url = Code::new(text, strength::ADD, Type::Text);
        }
        let mut options: Vec<(String, String)> = Vec::new();
        let is_get = method == "\"GET\"";
        let second = positional.next();
        let third = positional.next();
        let mut named: Vec<(&str, &Expr)> = arguments.all_named().to_vec();
        named.extend(second.map(|value| (if is_get { "params" } else { "data" }, value)));
        named.extend(third.map(|value| ("json", value)));
        let mut is_stream = is_stream || std::mem::take(&mut self.scope.wants_stream);
        let is_set = |code: &String| !code.is_empty();
        let mut headers = Some(client.headers.clone()).filter(is_set);
        if !named.iter().any(|(name, _)| *name == "timeout") {
            options.extend(Some(client.timeout.clone()).filter(is_set).map(|time| ("timeout".into(), time)));
        }
        for (name, value) in named {
            match name {
                "url" | "method" => {}
                "params" => {
                    let value = self.expr(value)?;
                    if value.text != "()" {
                        options.push(("query".into(), value.text));
                    }
                }
                "headers" => {
                    let value = self.expr(value)?;
                    headers = Some(match headers {
                        Some(session) => format!("{session} + {}", value.at(strength::ADD + 1)),
                        None => value.text,
                    });
                }
                "json" => options.push(("json".into(), self.expr(value)?.text)),
                "data" | "content" => self.body(value, &mut options)?,
                "files" => return Hindrance::err(NoteKind::Http, "an upload: use `multipart`"),
                "auth" => {
                    let basic = self.basic(value)?;
                    headers = Some(match headers {
                        Some(session) => format!("{session} + {basic}"),
                        None => basic,
                    });
                }
                "timeout" => {
                    if let Some(milliseconds) = self.timeout(value)? {
                        options.push(("timeout".into(), milliseconds));
                    }
                }
                "stream" => is_stream |= matches!(value.kind, ExprKind::Bool(true)),
                other if self.check_option(other, value, line) => {}
                other => return Hindrance::err(NoteKind::Http, format!("the option `{other}` of a request")),
            }
        }
        options.extend(headers.map(|headers| ("headers".into(), headers)));
        self.capability("http");
        let short = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
            .iter()
            .find(|name| method == names::quoted(name));
        if is_stream && !is_get {
            options.insert(0, ("method".into(), method.clone()));
        }
        let entries: Vec<String> = options.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let mut args = vec![url.text];
        if short.is_none() && !is_stream {
            args.insert(0, method);
        }
        if !entries.is_empty() {
            args.push(value::map(&entries));
        }
        let (function, kind) = match (is_stream, short) {
            (true, _) => ("http::stream".to_owned(), Type::Stream),
            (false, Some(name)) => (format!("http::{}", name.to_lowercase()), Type::Answer),
            (false, None) => ("http::request".to_owned(), Type::Answer),
        };
        Ok(Code::atom(format!("{function}({})", args.join(", ")), kind))
    }

    /// Leaves an option of a request or of a client that has no counterpart to the author, unless it says what happens
    /// anyway. Returns `false` for an option that is not known.
    fn check_option(&mut self, name: &str, value: &Expr, line: usize) -> bool {
        let is = |wanted: bool| matches!(value.kind, ExprKind::Bool(value) if value == wanted);
        let is_needless = match name {
            "allow_redirects" | "follow_redirects" | "verify" | "ssl" => is(true),
            "raise_for_status" => is(false),
            "cookies" | "proxies" | "proxy" | "ssl_context" | "cert" | "auth" | "transport" | "mounts" => {
                false
            }
            _ => return false,
        };
        if !is_needless && !matches!(value.kind, ExprKind::None) {
            let text = match name {
                "verify" | "ssl" | "ssl_context" | "cert" => {
                    format!("`{name}`: certificates are always verified, by those of the system")
                }
                _ => format!("the option `{name}` of a request"),
            };
            self.flag(NoteKind::Http, text, line);
        }
        true
    }

    fn body(&mut self, value: &Expr, options: &mut Vec<(String, String)>) -> Outcome<()> {
        // `data=json.dumps(x)` is a JSON body.
        if let ExprKind::Call(of, args) = &value.kind {
            let inner = match &of.kind {
                ExprKind::Attribute(inner, name) if name == "encode" => match &inner.kind {
                    ExprKind::Call(of, args) => Some((of, args)),
                    _ => None,
                },
                _ => Some((of, args)),
            };
            if let Some((of, args)) = inner
                && self.full_path(of).as_deref() == Some("json.dumps")
                && let Some(value) = Arguments::of(args).at(0)
            {
                options.push(("json".into(), self.expr(value)?.text));
                return Ok(());
            }
        }
        let value = self.expr(value)?;
        let name = if value.kind == Type::Map { "form" } else { "body" };
        options.push((name.into(), value.text));
        Ok(())
    }

    /// Returns the code of the `Authorization` header for a user name and a password.
    fn basic(&mut self, value: &Expr) -> Outcome<String> {
        let (user, password) = match &value.kind {
            ExprKind::Tuple(all) => match all.as_slice() {
                [user, password] => (user, password),
                _ => return Hindrance::err(NoteKind::Http, "the option `auth`"),
            },
            ExprKind::Call(_, args) => match args.as_slice() {
                [user, password] => (&user.value, &password.value),
                _ => return Hindrance::err(NoteKind::Http, "the option `auth`"),
            },
            _ => return Hindrance::err(NoteKind::Http, "the option `auth`"),
        };
        let (user, password) = (self.expr(user)?, self.expr(password)?);
        let pair = format!("`${{{}}}:${{{}}}`", user.text, password.text);
        Ok(format!("#{{ authorization: \"Basic \" + base64::encode({pair}) }}"))
    }

    /// Records the host of a URL, if it is known.
    fn host_of(&mut self, url: &Expr) {
        let text = match &url.kind {
            ExprKind::Text(text) => Some(text.clone()),
            ExprKind::Format(parts) => match parts.first() {
                Some(FormatPart::Text(text)) => Some(text.clone()),
                _ => None,
            },
            _ => match value::Value::of(url, &self.plugin.constants) {
                Some(value::Value::Text(text)) => Some(text),
                _ => None,
            },
        };
        self.effects.hosts.extend(text.as_deref().and_then(host));
    }

    /// Returns the code of a call of an HTTP client's method.
    pub(super) fn session_method(
        &mut self,
        name: &str,
        client: &Client,
        arguments: &Arguments<'_>,
        is_stream: bool,
        line: usize,
    ) -> Outcome {
        match name {
            "get" | "post" | "put" | "patch" | "delete" | "head" | "options" | "request" => {
                self.request(name, arguments, client, is_stream, line)
            }
            "stream" => self.request(name, arguments, client, true, line),
            "close" | "aclose" | "mount" => Ok(Code::atom("()", Type::Nothing)),
            _ => Hindrance::err(NoteKind::Http, format!("`.{name}()` of a client")),
        }
    }

    /// Returns the code of a call of a response's method.
    pub(super) fn answer_method(&mut self, of: &Code, name: &str) -> Outcome {
        let is_stream = of.kind == Type::Stream;
        match name {
            "json" if is_stream => {
                let read = self.helper(Helper::ReadAll);
                Ok(call("json::parse", &[format!("{read}({})", of.text)], Type::Unknown))
            }
            "json" => Ok(of.method("json", &[], Type::Unknown)),
            "text" | "aread" | "read" if is_stream => {
                let read = self.helper(Helper::ReadAll);
                Ok(call(read, std::slice::from_ref(&of.text), Type::Text))
            }
            "text" => Ok(of.property("text", Type::Text)),
            "read" | "aread" => Ok(of.property("bytes", Type::Bytes)),
            "raise_for_status" => {
                let check = self.helper(Helper::CheckStatus);
                Ok(call(check, std::slice::from_ref(&of.text), Type::None))
            }
            "iter_lines" | "aiter_lines" | "iter_content" | "aiter_bytes" | "aiter_text" | "aiter_raw"
            | "iter_any" | "iter_chunked" | "iter_text" | "iter_bytes" | "iter_raw" => {
                if is_stream {
                    Ok(of.clone())
                } else {
                    Ok(call("text::lines", &[format!("{}.text", of.owner())], Type::list_of(Type::Text)))
                }
            }
            "close" | "aclose" | "release" => Ok(Code::atom("()", Type::Nothing)),
            _ => Hindrance::err(NoteKind::Http, format!("`.{name}()` of an answer")),
        }
    }
}

/// Returns the host of a URL, if the URL contains it completely.
pub(crate) fn host(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let end = rest.find(['/', '?', '#', ':']);
    let host = rest.get(..end.unwrap_or(rest.len()))?;
    let is_whole = end.is_some() || host.contains('.');
    let is_host = host.contains('.')
        && !host.starts_with('.')
        && !host.ends_with('.')
        && host.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-');
    (is_whole && is_host).then(|| host.to_lowercase())
}
