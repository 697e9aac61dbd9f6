//! An answer: status and headers at once, the body as it comes.

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use reqwest::header::HeaderMap;
use valvehouse_core::fault::Fault;

/// A whole body may be this large, unpacked.
pub const MAX_BODY: usize = 64 * 1024 * 1024;

/// An answer whose body is still coming.
pub struct Response {
    /// The status.
    pub status: u16,
    headers: HeaderMap,
    /// The part of the body that has come already.
    begun: Option<Bytes>,
    body: BoxStream<'static, Result<Bytes, Fault>>,
}

impl Response {
    pub(super) fn new(
        status: u16,
        headers: HeaderMap,
        body: BoxStream<'static, Result<Bytes, Fault>>,
    ) -> Self {
        Self { status, headers, begun: None, body }
    }

    /// A header, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The headers that are text, with their names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    /// `content-type` without parameters, in lower case; "" where there is none.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or("");
        value.split_once(';').map_or(value, |(media, _)| media).trim().to_ascii_lowercase()
    }

    /// The body as it comes, unpacked.
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, Fault>> {
        match self.begun {
            Some(begun) => stream::iter([Ok(begun)]).chain(self.body).boxed(),
            None => self.body,
        }
    }

    /// The first bytes that come, left in place; for services that do not say what they send.
    pub async fn peek(&mut self) -> Result<Bytes, Fault> {
        while self.begun.is_none()
            && let Some(bytes) = self.body.next().await
        {
            self.begun = Some(bytes?).filter(|bytes| !bytes.is_empty());
        }
        Ok(self.begun.clone().unwrap_or_default())
    }

    /// The whole body, [`MAX_BODY`] at most.
    pub async fn whole(self) -> Result<Bytes, Fault> {
        let (body, rest) = self.start(MAX_BODY).await?;
        if rest {
            let message = format!("an answer is larger than {} MiB", MAX_BODY >> 20);
            return Err(Fault::Provider { message: message.into(), timeout: false });
        }
        Ok(body)
    }

    /// The first bytes of the body and whether there are more; for error pages.
    pub async fn start(mut self, limit: usize) -> Result<(Bytes, bool), Fault> {
        let first = self.peek().await?;
        self.begun = None;
        let Some(second) = self.body.next().await else {
            // Most come in one piece, which is not a copy.
            return Ok((first.slice(..first.len().min(limit)), first.len() > limit));
        };
        let mut body = BytesMut::from(first);
        body.extend_from_slice(&second?);
        while body.len() <= limit
            && let Some(bytes) = self.body.next().await
        {
            body.extend_from_slice(&bytes?);
        }
        let is_longer = body.len() > limit;
        body.truncate(limit);
        Ok((body.freeze(), is_longer))
    }
}
