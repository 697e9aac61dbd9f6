//! The client: pooled, without proxies on loopback, silent about keys, never waiting for ever.

use super::explain::{Peer, shown};
use super::{Call, Response};
use crate::config::Timeouts;
use crate::fault::Fault;
use futures::stream::{self, StreamExt};
use reqwest::redirect;
use std::sync::Once;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

/// Calls other machines. A clone shares the connections.
#[derive(Debug, Clone)]
pub struct Client {
    outward: reqwest::Client,
    /// For this machine itself, which no proxy can reach.
    local: reqwest::Client,
    timeouts: Timeouts,
}

impl Client {
    /// A client with the usual timeouts.
    pub fn new() -> Result<Self, Fault> {
        Self::with_timeouts(Timeouts::default())
    }

    /// A client with timeouts of one's own.
    pub fn with_timeouts(timeouts: Timeouts) -> Result<Self, Fault> {
        install_crypto();
        let outward = build(|| settings(timeouts))?;
        let local = build(|| settings(timeouts).no_proxy())?;
        Ok(Self { outward, local, timeouts })
    }

    /// Makes a call. Any status is an answer; only having none is an error.
    pub async fn send(&self, call: Call) -> Result<Response, Fault> {
        let Timeouts { connect, answer, idle, .. } = self.timeouts;
        let address = shown(&call.url);
        let peer = Peer { provider: call.provider, address, connect: Some(connect), total: call.total };
        if let Some(problem) = call.problem {
            let message = format!("cannot ask {}: {problem}", peer.name());
            return Err(Fault::Provider { message, timeout: false });
        }
        let client = if is_loopback(&call.url) { &self.local } else { &self.outward };
        let mut request = client.request(call.method, call.url).headers(call.headers).body(call.body);
        if let Some(total) = call.total {
            request = request.timeout(total);
        }
        let answer_by = Instant::now() + answer;
        let response = match timeout_at(answer_by, request.send()).await {
            Ok(sent) => sent.map_err(|error| peer.unreachable(&error))?,
            Err(_) => return Err(peer.silent(answer)),
        };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes_stream().boxed();
        // The first bytes of the body are waited for as the answer is: many services send headers at once.
        let first = Some(answer_by);
        let body = stream::unfold((Some(bytes), peer, first), move |(body, peer, first)| async move {
            let mut body = body?;
            match timeout_at(first.unwrap_or_else(|| Instant::now() + idle), body.next()).await {
                Ok(Some(Ok(bytes))) => Some((Ok(bytes), (Some(body), peer, None))),
                Ok(Some(Err(error))) => Some((Err(peer.broke_off(&error)), (None, peer, None))),
                Ok(None) => None,
                Err(_) if first.is_some() => Some((Err(peer.silent(answer)), (None, peer, None))),
                Err(_) => Some((Err(peer.stopped(idle)), (None, peer, None))),
            }
        });
        // Who reads on after the end finds it again.
        Ok(Response { status, headers, body: body.fuse().boxed() })
    }
}

/// One crypto library for the whole process; somebody else may already have chosen.
pub(super) fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

pub(super) fn settings(timeouts: Timeouts) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("valvehouse/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(timeouts.connect)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        // Where TLS offers HTTP/2 one connection carries all calls: one that died must be noticed.
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(10))
        // A redirect could carry the key to somebody else, and turns POST into GET.
        .redirect(redirect::Policy::none())
}

/// Builds a client, on a machine without CA certificates too: `http://` needs none of them.
pub(super) fn build(settings: impl Fn() -> reqwest::ClientBuilder) -> Result<reqwest::Client, Fault> {
    settings()
        .build()
        .or_else(|error| {
            tracing::warn!("https will not work: {}", std::error::Error::source(&error).unwrap_or(&error));
            let trust_nobody = rustls::ClientConfig::builder()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            settings().tls_backend_preconfigured(trust_nobody).build()
        })
        .map_err(|error| Fault::Host(format!("cannot set up outward HTTP: {error}")))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn failure(result: Result<Response, Fault>) -> (String, bool) {
        match result {
            Err(Fault::Provider { message, timeout } | Fault::Unanswered { message, timeout, .. }) => {
                (message, timeout)
            }
            Err(other) => panic!("{other}"),
            Ok(answer) => panic!("answered {}", answer.status),
        }
    }

    #[tokio::test]
    async fn a_refused_connection_names_address_reason_and_remedy_but_no_credentials() {
        // A port that is taken where nobody listens.
        let down = tokio::net::TcpSocket::new_v4().unwrap();
        down.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = down.local_addr().unwrap().port();
        let url = Url::parse(&format!("http://ann:secret@127.0.0.1:{port}/v1/models?key=hidden")).unwrap();
        let (message, timeout) = failure(Client::new().unwrap().send(Call::get(url).provider("lab")).await);
        assert_eq!(
            message,
            format!(
                "cannot reach provider lab at http://127.0.0.1:{port}/v1/models: connection refused (os \
                 error 111); is it running? check base_url of provider lab"
            )
        );
        assert!(!timeout);
    }

    #[tokio::test]
    async fn silence_is_a_timeout() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/", silent.local_addr().unwrap())).unwrap();
        let timeouts = Timeouts { answer: Duration::from_millis(50), ..Timeouts::default() };
        let client = Client::with_timeouts(timeouts).unwrap();
        let (message, timeout) = failure(client.send(Call::get(url)).await);
        assert!(timeout && message.contains("sent nothing for 0.05 s"), "{message}");
    }

    #[tokio::test]
    async fn a_key_that_fits_no_header_is_an_error_without_the_key() {
        let url = Url::parse("http://127.0.0.1:1/").unwrap();
        let call = Call::get(url).bearer(&Secret::from("sk-\nsecret"));
        let (message, _) = failure(Client::new().unwrap().send(call.clone()).await);
        assert!(message.contains("authorization") && !message.contains("secret"), "{message}");
        assert!(!format!("{:?}", call.bearer(&Secret::from("sk-fine"))).contains("sk-fine"));
    }

    #[test]
    fn loopback_is_known_in_all_its_spellings() {
        for (text, loopback) in [
            ("http://localhost:1/", true),
            ("http://127.8.0.1/", true),
            ("http://[::1]:1/", true),
            ("https://api.example.com/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(text).unwrap()), loopback, "{text}");
        }
    }
}
