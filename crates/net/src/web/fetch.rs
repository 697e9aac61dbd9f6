//! Requests of plugins: each redirect is checked like the first request.

use super::ask::{Ask, MAX_ANSWER, MAX_STREAM, OpenResponse, WebResponse};
use super::connections::{CannedWeb, Web};
use super::error::{Inside, WebError};
use super::pattern::Site;
use crate::explain::{Peer, place};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap, LOCATION,
    USER_AGENT,
};
use reqwest::{Method, Response};
use std::error::Error as StdError;
use url::Url;
use valvehouse_core::error::Error;

/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

impl Web {
    /// Sends a request and returns the response, whatever its status.
    ///
    /// # Errors
    /// Returns an error if the host is not granted, or if no complete response arrives in time.
    pub async fn ask(&self, ask: Ask) -> Result<WebResponse, WebError> {
        if let Some(CannedWeb(answer)) = &self.canned {
            self.listed(&ask.url)?;
            return answer(&ask);
        }
        let peer = peer(&ask);
        let answer = async {
            let (response, ask) = self.follow(ask.clone()).await?;
            read(response, &self::peer(&ask), ask.max_answer).await
        };
        match tokio::time::timeout(ask.within, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(web_error(peer.too_long())),
        }
    }

    /// Sends a request and returns its response with a streamed body. The time limit covers the request until
    /// the headers.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not respond. The stream ends with an error if the connection fails, or
    /// if the body is larger than [`MAX_STREAM`].
    pub async fn open(&self, ask: Ask) -> Result<OpenResponse, WebError> {
        if let Some(CannedWeb(answer)) = &self.canned {
            self.listed(&ask.url)?;
            let WebResponse { status, headers, body } = answer(&ask)?;
            return Ok(OpenResponse { status, headers, body: stream::iter([Ok(body)]).boxed() });
        }
        let peer = peer(&ask);
        let (response, _) = match tokio::time::timeout(ask.within, self.follow(ask)).await {
            Ok(response) => response?,
            Err(_) => return Err(web_error(peer.too_long())),
        };
        let (status, headers) = head(&response);
        let name = peer.name().to_string();
        let body = response
            .bytes_stream()
            .map(move |bytes| bytes.map_err(|error| web_error(peer.interrupted(&error.into()))));
        let mut left = MAX_STREAM;
        let body = body.map(move |bytes| {
            let bytes = bytes?;
            match left.checked_sub(bytes.len()) {
                Some(rest) => left = rest,
                None => {
                    let most = MAX_STREAM >> 20;
                    return Err(WebError::new(format!(
                        "the response of {name} exceeded its limit of {most} MiB when decompressed"
                    )));
                }
            }
            Ok(bytes)
        });
        Ok(OpenResponse { status, headers, body: body.boxed() })
    }

    /// Returns the last response of a chain of redirects, and its request.
    async fn follow(&self, mut ask: Ask) -> Result<(Response, Ask), WebError> {
        let first = place(&ask.url);
        for hop in 0..=MAX_REDIRECTS {
            let response = self.hop(&ask).await;
            let response =
                response.map_err(|error| if hop == 0 { error } else { error.after_redirect(&first) })?;
            match next(&ask, &response)? {
                Some(redirected) => ask = redirected,
                None => return Ok((response, ask)),
            }
        }
        Err(WebError::new(format!("{first} exceeded its limit of {MAX_REDIRECTS} redirects")))
    }

    async fn hop(&self, ask: &Ask) -> Result<Response, WebError> {
        let way = self.way(&ask.url)?;
        let client = self.clients.on(way).await.map_err(web_error)?;
        let request = client.request(ask.method.clone(), without_final_dot(&ask.url));
        let sent = request.headers(ask.headers.clone()).body(ask.body.clone()).send().await;
        sent.map_err(|error| match inside(&error) {
            Some(inside) => WebError::leads_inside(&ask.url, inside),
            None => web_error(peer(ask).unreachable(&error.into())),
        })
    }
}

fn peer(ask: &Ask) -> Peer {
    Peer { provider: None, address: place(&ask.url).into(), connect: None, total: Some(ask.within) }
}

fn web_error(error: Error) -> WebError {
    WebError::new(error.to_string())
}

/// Returns the rejection of a name among the causes of an error.
fn inside<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Inside> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(inside) = error.downcast_ref::<Inside>() {
            return Some(inside);
        }
        cause = error.source();
    }
    None
}

/// Returns a URL with the host in the form that was checked.
fn without_final_dot(url: &Url) -> Url {
    let mut url = url.clone();
    if let Some(site @ Site::Name(_)) = Site::of(&url) {
        // The host is valid, so this cannot fail.
        let _ = url.set_host(Some(&site.to_string()));
    }
    url
}

/// Returns the request of a redirect; `None` if the response is not a redirect.
pub(super) fn next(ask: &Ask, response: &Response) -> Result<Option<Ask>, WebError> {
    let status = response.status().as_u16();
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let from = place(&ask.url);
    let refused = |why: &str| WebError::new(format!("cannot follow the redirect of {from}: {why}"));
    let location = std::str::from_utf8(location.as_bytes()).ok().and_then(|text| ask.url.join(text).ok());
    let url = location.ok_or_else(|| refused("its location is not a valid URL"))?;
    if ask.url.scheme() == "https" && url.scheme() == "http" {
        return Err(refused("it leads from https:// to unencrypted http://"));
    }
    let mut next = Ask { url, ..ask.clone() };
    let turns_into_get = match status {
        303 => ask.method != Method::HEAD,
        301 | 302 => ask.method == Method::POST,
        _ => false,
    };
    if turns_into_get {
        next.method = Method::GET;
        next.body = Bytes::new();
        for header in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE] {
            next.headers.remove(header);
        }
    }
    if next.url.origin() != ask.url.origin() {
        next.headers = harmless(&next.headers);
    }
    Ok(Some(next))
}

/// Returns the headers that may be sent to another host; any other could contain a key.
fn harmless(headers: &HeaderMap) -> HeaderMap {
    let kept = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, USER_AGENT];
    kept.into_iter().filter_map(|name| headers.get(&name).cloned().map(|value| (name, value))).collect()
}

/// Returns the status and the headers.
fn head(response: &Response) -> (u16, Vec<(String, String)>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = response.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect();
    (response.status().as_u16(), headers)
}

async fn read(mut response: Response, peer: &Peer, most: usize) -> Result<WebResponse, WebError> {
    let (status, headers) = head(&response);
    // The announced length is allocated at once, so that it counts for the memory of the call.
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = BytesMut::with_capacity(announced.unwrap_or(0).min(most));
    while let Some(bytes) =
        response.chunk().await.map_err(|error| web_error(peer.interrupted(&error.into())))?
    {
        if body.len() + bytes.len() > most {
            let why = match most {
                MAX_ANSWER => {
                    "exceeded its limit of 2 MiB when decompressed; request a smaller part, or set `max_bytes`".to_owned()
                }
                most => format!("exceeded its limit of {most} bytes when decompressed; request a smaller part"),
            };
            return Err(WebError::new(format!("the response of {} {why}", peer.name())));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(WebResponse { status, headers, body: body.freeze() })
}
