//! A provider with further retries for agents, in addition to those of the provider itself. Both count toward
//! one limit.

use super::retry::Retries;
use super::stream::{begin, begin_forwarded};
use futures::future::BoxFuture;
use std::sync::Arc;
use valvehouse_core::breaker::OpenState;
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::metrics::Service;
use valvehouse_core::provider::{Answer, ForwardRequest, PassthroughAnswer, Provider, Request};
use valvehouse_grants::RetrySettings;
use valvehouse_json::Json;

/// A provider around another one that adds retries.
pub struct RetryingProvider {
    provider: Arc<dyn Provider>,
    retry: RetrySettings,
}

impl RetryingProvider {
    /// Creates a provider with this retry policy.
    pub fn new(provider: Arc<dyn Provider>, retry: RetrySettings) -> Self {
        Self { provider, retry }
    }
}

impl Provider for RetryingProvider {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        self.provider.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(async move {
            let none = Exchange::default();
            let turn = request.turn.as_ref();
            let exchange = turn.map_or(&none, |turn| turn.exchange());
            let retries = Retries { name: self.name(), retry: &self.retry, exchange, turn, metrics: None };
            let once = || {
                let attempt = self.provider.chat(request.clone());
                async move { begin(attempt.await?).await }
            };
            retries.run(None, once).await
        })
    }

    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        let mut first = Some(self.provider.forward(request.clone())?);
        Some(Box::pin(async move {
            let exchange = request.exchange;
            let retries =
                Retries { name: self.name(), retry: &self.retry, exchange, turn: None, metrics: None };
            let once = || {
                let attempt = first.take().or_else(|| self.provider.forward(request.clone()));
                async move { begin_forwarded(attempt.ok_or_else(no_way)?.await?).await }
            };
            retries.run(None, once).await
        }))
    }

    fn has_route(&self, path: &str) -> bool {
        self.provider.has_route(path)
    }

    fn chooses(&self) -> bool {
        self.provider.chooses()
    }

    fn open_breakers(&self) -> Vec<OpenState> {
        self.provider.open_breakers()
    }

    fn metrics(&self) -> Option<&Service> {
        self.provider.metrics()
    }
}

/// Returns the error of a provider that no longer forwards bytes.
pub(super) fn no_way() -> Error {
    Error::Host("the provider no longer supports forwarded requests".into())
}
