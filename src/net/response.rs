//! An answer: status and headers at once, the body as it comes.

use crate::fault::Fault;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use reqwest::header::HeaderMap;

/// A whole body may be this large, unpacked.
pub const MAX_BODY: usize = 64 * 1024 * 1024;

/// An answer whose body is still coming.
pub struct Response {
    /// The status.
    pub status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: BoxStream<'static, Result<Bytes, Fault>>,
}

impl Response {
    /// A header, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `content-type` without parameters, in lower case; "" where there is none.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The body as it comes, unpacked.
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, Fault>> {
        self.body
    }

    /// The first bytes that come, left in place; for services that do not say what they send.
    pub async fn peek(&mut self) -> Result<Bytes, Fault> {
        while let Some(bytes) = self.body.next().await {
            let bytes = bytes?;
            if !bytes.is_empty() {
                let rest = std::mem::replace(&mut self.body, stream::empty().boxed());
                self.body = stream::iter([Ok(bytes.clone())]).chain(rest).boxed();
                return Ok(bytes);
            }
        }
        Ok(Bytes::new())
    }

    /// The whole body, [`MAX_BODY`] at most.
    pub async fn whole(self) -> Result<Bytes, Fault> {
        let (body, rest) = self.start(MAX_BODY).await?;
        if rest {
            let message = format!("an answer is larger than {} MiB", MAX_BODY >> 20);
            return Err(Fault::Provider { message, timeout: false });
        }
        Ok(body)
    }

    /// The first bytes of the body and whether there are more; for error pages.
    pub async fn start(mut self, limit: usize) -> Result<(Bytes, bool), Fault> {
        let mut body = BytesMut::new();
        while let Some(bytes) = self.body.next().await {
            body.extend_from_slice(&bytes?);
            if body.len() > limit {
                body.truncate(limit);
                return Ok((body.freeze(), true));
            }
        }
        Ok((body.freeze(), false))
    }
}
