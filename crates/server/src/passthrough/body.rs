//! The body of a passthrough request: read until its model is known, then streamed.

use super::multipart::{self, Field, Scan};
use crate::body::{BodyLimits, ReceivedBytes, counted, drain, parsed, read, too_large, unreadable};
use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use valvehouse_core::error::Error;
use valvehouse_core::provider::PassthroughBody;
use valvehouse_json::{Json, scan_object};

/// The format of a body, according to its content type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    /// A form with this boundary.
    Multipart(String),
    Other,
}

/// The part of a form that is read before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// All of it, strictly; it is written anew.
    Whole,
    /// The fields up to the model.
    UntilModel,
    /// Nothing, because it names no model.
    Nothing,
}

/// The body of a passthrough request.
pub(super) struct RequestBody {
    pub(super) form: Form,
    /// The bytes that have been read.
    pub(super) begun: Bytes,
    /// The bytes that have not been read.
    rest: Option<BoxStream<'static, Result<Bytes, Error>>>,
    /// The range of the model's name, in JSON including its quotes.
    model: Option<Range<usize>>,
    /// Set once the body has exceeded its size limit.
    is_too_large: Arc<AtomicBool>,
    /// The length that the client announced, in bytes.
    length: Option<u64>,
    /// The content type of a form that was written anew.
    content_type: Option<String>,
}

impl Form {
    fn of(headers: &HeaderMap, reading: Reading) -> Result<Self, Error> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let media = kind.split_once(';').map_or(kind, |(media, _)| media).trim().to_ascii_lowercase();
        Ok(match multipart::boundary(kind) {
            Some(Ok(boundary)) => Self::Multipart(boundary),
            Some(Err(error)) if reading == Reading::Whole => return Err(error.into()),
            None if media == "application/json" || media.ends_with("+json") => Self::Json,
            _ => Self::Other,
        })
    }
}

impl RequestBody {
    /// Reads a body. JSON is read completely, a form as far as `reading` says, and any other body is streamed.
    ///
    /// # Errors
    /// Returns the errors of [`read`], and a request error for a form that is read completely and that parsers could
    /// read differently.
    pub(super) async fn read(
        headers: &HeaderMap,
        body: Body,
        limits: &BodyLimits,
        reading: Reading,
    ) -> Result<Self, Error> {
        let form = Form::of(headers, reading)?;
        let length = HttpBody::size_hint(&body).exact();
        let mut sent = Self {
            form,
            begun: Bytes::new(),
            rest: None,
            model: None,
            is_too_large: Arc::default(),
            length,
            content_type: None,
        };
        match (sent.form.clone(), reading) {
            (Form::Json, _) => {
                sent.begun = read(body, limits).await?;
                if !sent.begun.is_empty() {
                    sent.model = json_model(&sent.begun)?;
                }
            }
            (Form::Multipart(boundary), Reading::Whole) => {
                sent.rewrite(read(body, limits).await?, &boundary)?
            }
            (Form::Multipart(boundary), Reading::UntilModel) => {
                sent.read_model(body, limits, &boundary).await?
            }
            _ => sent.rest = Some(limited(body, limits.max_mb, sent.is_too_large.clone())),
        }
        Ok(sent)
    }

    /// Replaces the body by a form with the same fields that every parser reads in the same way.
    fn rewrite(&mut self, bytes: Bytes, boundary: &str) -> Result<(), Error> {
        let fields = multipart::fields(&bytes, boundary)?;
        let mut models = fields.iter().filter(|field| base_name(&field.name).eq_ignore_ascii_case("model"));
        if models.next().is_some_and(|model| model.name != "model" || model.file_name.is_some())
            || models.next().is_some()
        {
            return Err(Error::invalid("the form must name its model in one field `model`", Some("model")));
        }
        let (form, boundary) = multipart::written(&bytes, &fields);
        // It counts like the body that it replaces until it has been sent.
        self.begun = counted(form.into(), bytes);
        self.model = next_model(&mut Scan::new(&boundary), &self.begun)?;
        self.content_type = Some(format!("multipart/form-data; boundary={boundary}"));
        self.form = Form::Multipart(boundary);
        self.length = None;
        Ok(())
    }

    /// Reads a form up to its model. One that parsers could read differently is read up to there.
    async fn read_model(&mut self, body: Body, limits: &BodyLimits, boundary: &str) -> Result<(), Error> {
        let mut rest = limited(body, limits.max_mb, self.is_too_large.clone());
        let (mut begun, mut scan) = (BytesMut::new(), Scan::new(boundary));
        let mut received = ReceivedBytes::new(&limits.memory);
        while let Some(bytes) = rest.next().await {
            let bytes = bytes?;
            if let Err(error) = received.add(bytes.len()) {
                drop(begun);
                drain(rest).await;
                return Err(error);
            }
            begun.extend_from_slice(&bytes);
            match next_model(&mut scan, &begun) {
                Ok(None) => continue,
                Ok(found) => self.model = found,
                Err(error) => tracing::debug!("cannot find the model of a form: {error}"),
            }
            break;
        }
        (self.begun, self.rest) = (received.count(begun.freeze()), Some(rest));
        Ok(())
    }

    /// Returns the model that the body names.
    pub(super) fn model(&self) -> Option<String> {
        let bytes = &self.begun[self.model.clone()?];
        match self.form {
            Form::Json => Json::parse(bytes).ok()?.as_str().map(str::to_owned),
            _ => Some(String::from_utf8_lossy(bytes).trim().to_owned()),
        }
        .filter(|model| !model.is_empty())
    }

    /// Returns the fields of a form that was read completely.
    pub(super) fn fields(&self) -> Vec<Field> {
        match &self.form {
            // A form that has been read completely was written by this host.
            Form::Multipart(boundary) => multipart::fields(&self.begun, boundary).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Rejects a body that a provider could parse differently than this host: one that is neither JSON nor a
    /// complete form, or that contains a field twice.
    pub(super) fn check_readable(&self) -> Result<(), Error> {
        let is_readable = match &self.form {
            Form::Json => !has_twice(&self.begun),
            Form::Multipart(_) => self.content_type.is_some(),
            Form::Other => false,
        };
        match is_readable {
            true => Ok(()),
            false => Err(Error::invalid(
                "cannot forward the request: filters of this host read its texts; send JSON (content-type application/json, each field once) or a complete form (multipart/form-data)",
                None,
            )),
        }
    }

    /// Returns the body as JSON; an empty object for any other format.
    pub(super) fn json(&self) -> Result<Json, Error> {
        match self.form {
            Form::Json if !self.begun.is_empty() => parsed(&self.begun),
            _ => Ok(Json::object()),
        }
    }

    /// Returns the fields of the body as JSON, and those of a query and of a form that was read completely in `others`.
    pub(super) fn fields_with(&self, query: &str) -> Result<Json, Error> {
        let of_form = self.fields().into_iter().filter(|field| field.name != "model");
        let of_form = of_form.map(|field| {
            let value = &self.begun[field.value];
            // Some services read such a field as JSON.
            (field.name, Json::parse(value).unwrap_or_else(|_| (&*String::from_utf8_lossy(value)).into()))
        });
        let of_query = url::form_urlencoded::parse(query.as_bytes()).into_owned();
        let of_query = of_query.map(|(key, value)| (key, value.into()));
        let others: Vec<Json> = of_form.chain(of_query).map(|field| Json::from_fields([field])).collect();
        let json = self.json()?;
        if !others.is_empty() {
            json.edit("others", others);
        }
        Ok(json)
    }

    /// Replaces ranges of a completely read form with texts, in their order.
    pub(super) fn replace_texts(&mut self, edits: impl IntoIterator<Item = (Range<usize>, String)>) {
        self.length = None;
        // The texts may have moved it.
        self.model = None;
        let (mut out, mut from) = (Vec::with_capacity(self.begun.len()), 0);
        for (at, text) in edits {
            out.extend_from_slice(&self.begun[from..at.start]);
            out.extend_from_slice(text.as_bytes());
            from = at.end;
        }
        out.extend_from_slice(&self.begun[from..]);
        self.begun = out.into();
    }

    /// Replaces a JSON body.
    pub(super) fn replace(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.length = None;
        self.begun = bytes.into();
        self.model = json_model(&self.begun)?;
        Ok(())
    }

    /// Replaces the model. A JSON body without a model gets it as its first field.
    pub(super) fn rename_model(&mut self, model: &str) {
        self.length = None;
        match (&self.form, self.model.clone()) {
            (Form::Json, own) => {
                self.begun = with_model(&self.begun, own, model);
                // The object contained at most one model, and now contains this one.
                self.model = find_model(&self.begun).and_then(|(at, _)| at);
            }
            (_, Some(at)) => {
                let parts = [&self.begun[..at.start], model.as_bytes(), &self.begun[at.end..]];
                self.begun = parts.concat().into();
                self.model = Some(at.start..at.start + model.len());
            }
            (_, None) => {}
        }
    }

    /// Returns the content type of a body that was written anew.
    pub(super) fn content_type(&self) -> Option<&str> {
        self.content_type.as_deref()
    }

    /// Returns the length of the whole body in bytes, if it is known and the body is streamed.
    pub(super) fn streamed_length(&self) -> Option<u64> {
        self.length.filter(|_| self.rest.is_some())
    }

    /// Returns the flag that is set if the body exceeds its size limit while it is sent.
    pub(super) fn overflow(&self) -> Arc<AtomicBool> {
        self.is_too_large.clone()
    }

    /// Returns the body to send.
    pub(super) fn into_body(self) -> PassthroughBody {
        match self.rest {
            None => PassthroughBody::Whole(self.begun),
            Some(rest) => {
                let begun =
                    Some(Ok(self.begun)).filter(|begun| begun.as_ref().is_ok_and(|it| !it.is_empty()));
                PassthroughBody::Stream(stream::iter(begun).chain(rest).boxed())
            }
        }
    }
}

fn limited(
    body: Body,
    max_mb: u64,
    is_too_large: Arc<AtomicBool>,
) -> BoxStream<'static, Result<Bytes, Error>> {
    let (limit, mut read) = (max_mb.saturating_mul(1024 * 1024), 0_u64);
    let pieces = body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(|error| unreadable(&error, max_mb))?;
        read += piece.len() as u64;
        if read > limit {
            is_too_large.store(true, Relaxed);
            return Err(too_large(max_mb));
        }
        Ok(piece)
    });
    pieces.boxed()
}

/// Returns the range of the value of `model` in a JSON object, or the last range if there are several, and
/// their number; `None` if the body is not an object.
pub(super) fn find_model(body: &[u8]) -> Option<(Option<Range<usize>>, usize)> {
    let (mut found, mut count) = (None, 0);
    let is_object = scan_object(body, |key, value| {
        if key == "model" {
            let start = value.as_ptr() as usize - body.as_ptr() as usize;
            (found, count) = (Some(start..start + value.len()), count + 1);
        }
    });
    is_object.then_some((found, count))
}

/// Returns a JSON object with this model, which replaces the range `own` or becomes the first field.
pub(super) fn with_model(body: &Bytes, own: Option<Range<usize>>, model: &str) -> Bytes {
    let quoted = Json::from(model).to_string();
    let Some(open) = body.iter().position(|byte| *byte == b'{') else { return body.clone() };
    let (at, with) = match own {
        Some(own) => (own, quoted),
        None => {
            let is_empty = body[open + 1..].trim_ascii_start().starts_with(b"}");
            let comma = if is_empty { "" } else { "," };
            (open + 1..open + 1, format!("\"model\":{quoted}{comma}"))
        }
    };
    [&body[..at.start], with.as_bytes(), &body[at.end..]].concat().into()
}

/// Returns the range of the value of `model` in a JSON body.
fn json_model(body: &Bytes) -> Result<Option<Range<usize>>, Error> {
    let object = std::str::from_utf8(body).ok().and_then(|_| find_model(body));
    let Some((found, count)) = object else {
        let message = match parsed(body)? {
            // Services may read these keys, which are not searched here.
            Json::Object(_) => {
                "a key of the request body contains an escape; send the keys without escapes".into()
            }
            json => format!("the request body must be a JSON object, not {}", json.kind()),
        };
        return Err(Error::invalid(message, None));
    };
    let value = found.clone().map(|at: Range<usize>| body[at].trim_ascii());
    match (count, value) {
        (0, _) | (1, Some(b"null")) => Ok(None),
        (1, Some([b'"', ..])) => Ok(found),
        (1, _) => Err(Error::invalid("`model` must be the name of a model, a string", Some("model"))),
        _ => Err(Error::invalid("`model` is set more than once", Some("model"))),
    }
}

fn has_twice(body: &[u8]) -> bool {
    let mut keys = std::collections::HashSet::new();
    let mut is_twice = false;
    scan_object(body, |key, _| is_twice |= !keys.insert(key.to_owned()));
    is_twice
}

/// Returns the range of the model among the form fields that have arrived since the last call.
fn next_model(scan: &mut Scan, body: &[u8]) -> Result<Option<Range<usize>>, Error> {
    while let Some(field) = scan.next(body)? {
        if field.name == "model" && field.file_name.is_none() {
            return Ok(Some(field.value));
        }
    }
    Ok(None)
}

/// Returns the name of the field to which a name such as `prompt[0]` or `prompt.text` belongs for some services.
pub(super) fn base_name(name: &str) -> &str {
    name.split(['[', '.']).next().unwrap_or(name)
}
