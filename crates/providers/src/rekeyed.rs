//! A service whose key is in a file: where the file holds another key, that one is used from then on.

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_config::{Secret, SecretSource};
use valvehouse_core::breaker::Open;
use valvehouse_core::fault::Fault;
use valvehouse_core::provider::{Answer, Forwarded, Provider, Request};
use valvehouse_json::Json;

/// How long a key is used before the file is looked at again.
const FRESH: Duration = Duration::from_secs(1);

type Make = Box<dyn Fn(Secret) -> Result<Arc<dyn Provider>, Fault> + Send + Sync>;

/// Makes its provider anew for each new key. What they share, such as connections, is the maker's business.
pub struct Rekeyed {
    name: String,
    source: SecretSource,
    make: Make,
    forwards: bool,
    current: Mutex<Current>,
}

struct Current {
    provider: Arc<dyn Provider>,
    key: Secret,
    looked: Instant,
}

impl Rekeyed {
    /// With the key as it is now.
    pub fn new(
        source: SecretSource,
        key: Secret,
        make: impl Fn(Secret) -> Result<Arc<dyn Provider>, Fault> + Send + Sync + 'static,
    ) -> Result<Self, Fault> {
        let provider = make(key.clone())?;
        // Nothing is sent by what nobody waits for.
        let forwards = provider.forward(Bytes::new(), false).is_some();
        Ok(Self {
            name: provider.name().to_owned(),
            source,
            make: Box::new(make),
            forwards,
            current: Mutex::new(Current { provider, key, looked: Instant::now() }),
        })
    }

    fn current(&self) -> Arc<dyn Provider> {
        let mut current = self.current.lock();
        if current.looked.elapsed() < FRESH {
            return current.provider.clone();
        }
        current.looked = Instant::now();
        match self.source.read() {
            Ok(key) if key == current.key => {}
            Ok(key) => match (self.make)(key.clone()) {
                Ok(provider) => {
                    tracing::info!(provider = self.name, "its key has changed");
                    (current.provider, current.key) = (provider, key);
                }
                Err(fault) => tracing::warn!(provider = self.name, "the new key is not used: {fault}"),
            },
            // A file that is being replaced is missing for a moment.
            Err(error) => tracing::warn!(provider = self.name, "the last key is used on: {error}"),
        }
        current.provider.clone()
    }
}

impl Provider for Rekeyed {
    fn name(&self) -> &str {
        &self.name
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>> {
        let provider = self.current();
        Box::pin(async move { provider.models().await })
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        let provider = self.current();
        Box::pin(async move { provider.chat(request).await })
    }

    fn forward(&self, body: Bytes, stream: bool) -> Option<BoxFuture<'_, Result<Forwarded, Fault>>> {
        let provider = Some(self.current()).filter(|_| self.forwards)?;
        Some(Box::pin(async move {
            match provider.forward(body, stream) {
                Some(forwarded) => forwarded.await,
                None => Err(Fault::Host("a provider that passes bytes on does so no more".into())),
            }
        }))
    }

    fn takes_response_format(&self, format: &Json) -> bool {
        self.current.lock().provider.takes_response_format(format)
    }

    fn rests(&self) -> Option<Open> {
        self.current.lock().provider.rests()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::provider::{Canned, Reply};

    #[tokio::test]
    async fn a_key_that_changes_in_its_file_is_used_and_one_that_goes_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "one\n").unwrap();
        let source = SecretSource::File(file.clone());
        let key = source.read().unwrap();
        let make = |key: Secret| Ok(Arc::new(Canned::new([Reply::text(key.expose())])) as Arc<dyn Provider>);
        let provider = Rekeyed::new(source, key, make).unwrap();
        let later = || provider.current.lock().looked -= 2 * FRESH;
        let says = || async {
            let request = Request::new(Json::object(), false);
            let Ok(Answer::Whole(whole)) = provider.chat(request).await else { panic!() };
            whole.at_path("choices.0.message.content").to_string()
        };
        assert_eq!(says().await, "\"one\"");
        std::fs::write(&file, "two\n").unwrap();
        assert_eq!(says().await, "\"one\"", "it was looked at a moment ago");
        later();
        assert_eq!(says().await, "\"two\"");
        std::fs::remove_file(&file).unwrap();
        later();
        assert_eq!(says().await, "\"two\"");
        assert!(provider.forward(Bytes::new(), false).is_none());
    }
}
