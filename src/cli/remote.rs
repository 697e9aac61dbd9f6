//! The operators' API of a running host.

use super::running;
use bytes::Bytes;
use std::net::IpAddr;
use url::Url;
use valvehouse_config::{Config, Listen, Secret};
use valvehouse_json::Json;
use valvehouse_net::{Client, HttpCall, Response};
use valvehouse_terminal::{CommandError, Exit};

/// The environment variable with an operator's own key, which takes precedence over the key of [admin].
const KEY: &str = "VALVEHOUSE_KEY";

/// A running host and its key.
pub(super) struct Remote {
    client: Client,
    base: Url,
    key: Option<Secret>,
}

impl Remote {
    /// Returns the host that runs on this project, or the one at a URL.
    pub(super) fn of(config: &Config, at: Option<&str>) -> Result<Self, CommandError> {
        let base = match at {
            Some(at) => Url::parse(at).ok().filter(|url| matches!(url.scheme(), "http" | "https")),
            None => Url::parse(&local(config)?).ok(),
        };
        let base = base.ok_or_else(|| {
            CommandError::usage(
                "invalid address of a host: expected a URL such as http://127.0.0.1:9099; pass it with --at",
            )
        })?;
        let own = std::env::var(KEY).ok().filter(|key| !key.is_empty()).map(|key| Secret::new(&key));
        let configured = || config.admin.key.as_ref().map(|key| key.read()).transpose();
        let key = own.map_or_else(configured, |own| Ok(Some(own))).map_err(|error| {
            CommandError::new(Exit::Configuration, format!("cannot read the key of [admin]: {error}"))
        })?;
        Ok(Self { client: Client::new()?, base, key })
    }

    /// Gets a resource.
    pub(super) async fn get(&self, way: &[&str], words: &[(&str, &str)]) -> Result<Json, CommandError> {
        let response = self.open(way, words).await?;
        self.read(response).await
    }

    /// Posts a body, and returns the response.
    pub(super) async fn post(&self, way: &[&str], body: &Json) -> Result<Json, CommandError> {
        let bytes = body.encode().map_err(|error| CommandError::data(error.to_string()))?;
        let call = HttpCall::post(self.url(way, &[])?, Bytes::from(bytes))
            .header("content-type", "application/json");
        let response = self.send(call).await?;
        self.read(response).await
    }

    /// Deletes a resource, and returns the response.
    pub(super) async fn delete(&self, way: &[&str]) -> Result<Json, CommandError> {
        let response = self.send(HttpCall::of("DELETE", self.url(way, &[])?)).await?;
        self.read(response).await
    }

    /// Gets a resource as a stream.
    pub(super) async fn open(&self, way: &[&str], words: &[(&str, &str)]) -> Result<Response, CommandError> {
        self.send(HttpCall::get(self.url(way, words)?)).await
    }

    async fn send(&self, call: HttpCall) -> Result<Response, CommandError> {
        let call = match &self.key {
            Some(key) => call.bearer(key),
            None => call,
        };
        let response = self.client.send(call).await.map_err(|error| {
            let what = format!("cannot reach a host at {}: {error}", self.base);
            let help = "start one with valvehouse serve, or pass its URL with --at URL";
            CommandError::new(Exit::Unavailable, format!("{what}; {help}"))
        })?;
        match response.status {
            200..=299 => Ok(response),
            status => Err(self.refused(status, response).await),
        }
    }

    async fn refused(&self, status: u16, response: Response) -> CommandError {
        let body = Json::from(response.whole().await.ok().and_then(|bytes| Json::parse(&bytes).ok()));
        // A host that is not ready gives its reason in another form.
        let message = body.at_path("error").text("message").or_else(|| body.text("reason"));
        let message =
            message.map_or_else(|| format!("status {status} without a reason"), |text| text.to_string());
        let exit = match status {
            422 => Exit::Data,
            400..=499 => Exit::Usage,
            _ => Exit::Unavailable,
        };
        CommandError::new(exit, format!("the host at {} refused the request: {message}", self.base))
    }

    async fn read(&self, response: Response) -> Result<Json, CommandError> {
        let bytes = response.whole().await?;
        Json::parse(&bytes).map_err(|error| {
            let what = format!("the server at {} is not a Valvehouse host: {error}", self.base);
            CommandError::new(Exit::Unavailable, what)
        })
    }

    fn url(&self, way: &[&str], words: &[(&str, &str)]) -> Result<Url, CommandError> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut path) => drop(path.pop_if_empty().extend(way)),
            Err(()) => return Err(CommandError::usage(format!("invalid address of a host: {}", self.base))),
        }
        if !words.is_empty() {
            url.query_pairs_mut().extend_pairs(words);
        }
        Ok(url)
    }
}

/// Returns the URL of the host that runs on this project: the one that listens at the configured address,
/// else the only one.
fn local(config: &Config) -> Result<String, CommandError> {
    let running: Vec<_> =
        running::addresses(&config.project).iter().map(|at| format!("http://{at}")).collect();
    let configured = address(&config.server.listen);
    match running.as_slice() {
        [] => configured,
        [one] => Ok(one.clone()),
        several => configured.ok().filter(|address| several.contains(address)).ok_or_else(|| {
            let several = several.join(", ");
            CommandError::usage(format!(
                "several hosts are running on this project: {several}; choose one with --at"
            ))
        }),
    }
}

/// Returns the URL of a configured host from this computer.
fn address(listen: &Listen) -> Result<String, CommandError> {
    if listen.port == 0 {
        return Err(CommandError::usage(
            "no host is running on this project, and server.listen has no fixed port; pass the URL of a host with --at http://HOST:PORT",
        ));
    }
    let host = match listen.host.parse() {
        Ok(IpAddr::V4(every)) if every.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(every)) if every.is_unspecified() => "::1".to_owned(),
        _ => listen.host.clone(),
    };
    Ok(format!("http://{}", Listen { host, port: listen.port }))
}
