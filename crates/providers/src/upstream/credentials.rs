//! The credentials for a provider: a fixed key, a key in a file that may change, each caller's own key, or several of
//! these, also for several deployments.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::chat::Outline;
use valvehouse_core::context::{Credential, Exchange};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::metrics::{Balancer, BalancerTarget};
use valvehouse_core::provider::{ForwardRequest, Provider};
use valvehouse_grants::{Secret, SecretSource};

/// The time for which a key is used before its file is read again.
const FRESH: Duration = Duration::from_secs(1);

/// Creates the provider with a key. It may share resources such as connections between providers.
type Make = Box<dyn Fn(Secret) -> Result<Arc<dyn Provider>, Error> + Send + Sync>;
/// Creates the provider with a caller's credential.
type MakeFor = Box<dyn Fn(&Credential) -> Result<Arc<dyn Provider>, Error> + Send + Sync>;

/// The provider for one request, and the position of its target.
pub(super) type TargetProvider = (Arc<dyn Provider>, usize);

/// The credentials for a provider.
pub struct Credentials {
    forwards: bool,
    kind: Kind,
}

enum Kind {
    /// One key, or none.
    Fixed(Arc<dyn Provider>),
    /// A key in a file. When the file contains another key, that key is used from then on.
    Rotating { source: SecretSource, make: Make, current: Mutex<Current>, first: Arc<dyn Provider> },
    /// Several keys or deployments, which share the requests.
    Several { all: Vec<Credentials>, balancer: Arc<Balancer> },
    /// Each caller's own key.
    Callers { bare: Arc<dyn Provider>, make: MakeFor },
}

struct Current {
    provider: Arc<dyn Provider>,
    key: Secret,
    looked: Instant,
}

impl Credentials {
    /// Creates credentials for a provider that has a fixed key or needs none.
    pub fn fixed(provider: Arc<dyn Provider>) -> Self {
        Self { forwards: forwards(&*provider), kind: Kind::Fixed(provider) }
    }

    /// Creates credentials whose key is read again from its source.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be created with the current key.
    pub fn rotating(
        source: SecretSource,
        key: Secret,
        make: impl Fn(Secret) -> Result<Arc<dyn Provider>, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let provider = make(key.clone())?;
        let current = Mutex::new(Current { provider: provider.clone(), key, looked: Instant::now() });
        let forwards = forwards(&*provider);
        Ok(Self { forwards, kind: Kind::Rotating { source, make: Box::new(make), current, first: provider } })
    }

    /// Creates credentials of several keys or deployments that share the requests.
    pub fn several(several: Vec<(BalancerTarget, Self)>) -> Self {
        let (targets, all): (Vec<_>, Vec<_>) = several.into_iter().unzip();
        let balancer = Arc::new(Balancer::new(targets));
        Self { forwards: all.iter().all(Self::forwards), kind: Kind::Several { all, balancer } }
    }

    /// Creates credentials for a provider that each caller uses with its own key. `bare` has no key and lists
    /// the models.
    pub fn of_callers(
        bare: Arc<dyn Provider>,
        make: impl Fn(&Credential) -> Result<Arc<dyn Provider>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { forwards: forwards(&*bare), kind: Kind::Callers { bare, make: Box::new(make) } }
    }

    /// Returns the configured name of the provider.
    pub(super) fn name(&self) -> &str {
        self.first().name()
    }

    /// Returns `true` if each caller uses its own key.
    pub(super) fn are_of_callers(&self) -> bool {
        match &self.kind {
            Kind::Several { all, .. } => all[0].are_of_callers(),
            kind => matches!(kind, Kind::Callers { .. }),
        }
    }

    /// Returns `true` if the provider forwards the bytes of chats.
    pub(super) fn forwards(&self) -> bool {
        self.forwards
    }

    /// Returns the provider for requests without a caller.
    pub(super) fn any(&self) -> Arc<dyn Provider> {
        match &self.kind {
            Kind::Rotating { source, make, current, .. } => rotated(source, make, &mut current.lock()),
            Kind::Fixed(provider) | Kind::Callers { bare: provider, .. } => provider.clone(),
            Kind::Several { all, balancer } => all[balancer.any()].any(),
        }
    }

    /// Returns the provider for a request that was sent to the `tried` targets; `None` if all others rest.
    pub(super) fn service(
        &self,
        exchange: &Exchange,
        tried: &[usize],
    ) -> Result<Option<TargetProvider>, Error> {
        match &self.kind {
            Kind::Callers { bare, make } => match exchange.credential() {
                Some(credential) => Ok(Some((make(credential)?, 0))),
                None => Err(no_credential(bare.name())),
            },
            Kind::Several { all, balancer } => {
                let Some(target) = balancer.next(tried) else { return Ok(None) };
                let service = all[target].service(exchange, &[])?;
                Ok(service.map(|(service, _)| (service, target)))
            }
            _ => Ok(Some((self.any(), 0))),
        }
    }

    /// Returns the state of the keys and deployments; empty unless there are several.
    pub(super) fn balancer(&self) -> Arc<Balancer> {
        match &self.kind {
            Kind::Several { balancer, .. } => balancer.clone(),
            _ => Arc::default(),
        }
    }

    /// Returns the provider as created first, for properties that do not depend on its key.
    pub(super) fn first(&self) -> &dyn Provider {
        match &self.kind {
            Kind::Fixed(provider)
            | Kind::Rotating { first: provider, .. }
            | Kind::Callers { bare: provider, .. } => &**provider,
            Kind::Several { all, .. } => all[0].first(),
        }
    }
}

/// Returns `true` if a provider forwards bytes. The future is dropped, so no request is sent.
fn forwards(provider: &dyn Provider) -> bool {
    let exchange = Exchange::default();
    let (body, outline) = (bytes::Bytes::new(), &Outline::default());
    let request = ForwardRequest { body, outline, stream: false, model: "", exchange: &exchange };
    provider.forward(request).is_some()
}

fn rotated(source: &SecretSource, make: &Make, current: &mut Current) -> Arc<dyn Provider> {
    if current.looked.elapsed() < FRESH {
        return current.provider.clone();
    }
    current.looked = Instant::now();
    let name = current.provider.name();
    match source.read() {
        Ok(key) if key == current.key => {}
        Ok(key) => match make(key.clone()) {
            Ok(provider) => {
                tracing::info!(provider = name, "using the new key");
                (current.provider, current.key) = (provider, key);
            }
            Err(error) => tracing::warn!(provider = name, "cannot use the new key: {error}"),
        },
        // A file that is being replaced is missing for a moment.
        Err(error) => tracing::warn!(
            provider = name,
            "cannot read the key again, continuing with the last one: {error}"
        ),
    }
    current.provider.clone()
}

fn no_credential(provider: &str) -> Error {
    Error::Request {
        message: format!(
            "missing key for provider {provider}: send your own key as `Authorization: Bearer KEY` or `x-api-key`, and a key of this host, if it needs one, as `x-valvehouse-key`"
        ),
        param: None,
        code: Some("provider_key_missing"),
        kind: RequestErrorKind::Unauthenticated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::provider::{Answer, CannedProvider, Reply, Request};
    use valvehouse_json::Json;

    async fn key_sent(credentials: &Credentials, exchange: &Exchange) -> Result<String, Error> {
        let request = Request::new(Json::object(), false);
        let Answer::Whole(whole) = credentials.service(exchange, &[])?.unwrap().0.chat(request).await? else {
            panic!()
        };
        Ok(whole.at_path("choices.0.message.content").to_string())
    }

    #[tokio::test]
    async fn a_changed_key_file_is_reloaded_and_a_deleted_one_keeps_the_last_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "one\n").unwrap();
        let source = SecretSource::File(file.clone());
        let key = source.read().unwrap();
        let make =
            |key: Secret| Ok(Arc::new(CannedProvider::new([Reply::text(key.expose())])) as Arc<dyn Provider>);
        let credentials = Credentials::rotating(source, key, make).unwrap();
        let Kind::Rotating { current, .. } = &credentials.kind else { panic!() };
        let (later, nobody) = (|| current.lock().looked -= 2 * FRESH, Exchange::default());
        let key_sent = async || key_sent(&credentials, &nobody).await.unwrap();
        assert_eq!(key_sent().await, "\"one\"");
        std::fs::write(&file, "two\n").unwrap();
        assert_eq!(key_sent().await, "\"one\"", "it was looked at a moment ago");
        later();
        assert_eq!(key_sent().await, "\"two\"");
        std::fs::remove_file(&file).unwrap();
        later();
        assert_eq!(key_sent().await, "\"two\"");
        assert!(!credentials.forwards());
    }

    #[tokio::test]
    async fn requests_use_the_key_of_the_caller_and_fail_without_one() {
        let make = |own: &Credential| {
            Ok(Arc::new(CannedProvider::new([Reply::text(&own.token)])) as Arc<dyn Provider>)
        };
        let bare = CannedProvider::named("lab", [Reply::text("nobody")]);
        let credentials = Credentials::of_callers(Arc::new(bare.clone()), make);
        for token in ["ann", "ben"] {
            let mut exchange = Exchange::default();
            exchange.set_credential(Credential { token: token.into(), is_bearer: true });
            assert_eq!(key_sent(&credentials, &exchange).await.unwrap(), format!("\"{token}\""));
        }
        let refused = key_sent(&credentials, &Exchange::default()).await.unwrap_err();
        assert!(matches!(refused, Error::Request { kind: RequestErrorKind::Unauthenticated, .. }));
        assert!(bare.requests().is_empty());
    }
}
