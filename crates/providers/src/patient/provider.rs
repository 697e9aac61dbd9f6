//! The provider around another one.

use super::retry;
use super::stream::{self, begin, begin_forwarded};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use valvehouse_config::Retry;
use valvehouse_core::breaker::{Admission, Breaker, BreakerSettings, Open};
use valvehouse_core::context::{Notice, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::figures::Service;
use valvehouse_core::provider::{Answer, Forwarded, Passed, Provider, Request};
use valvehouse_json::Json;

/// Wraps any provider, whatever its wire.
pub struct Patient {
    provider: Arc<dyn Provider>,
    retry: Retry,
    /// For a whole answer, asking again included.
    total: Option<Duration>,
    breaker: Breaker,
    /// What to say of a service that wants a key where there is none.
    keyless: Option<String>,
    /// Where it is counted that a service is asked again.
    figures: Option<Arc<Service>>,
}

impl Patient {
    /// Around a provider, with the usual settings.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        let breaker = Breaker::of_provider(provider.name(), BreakerSettings::default());
        Self { provider, retry: Retry::default(), total: None, breaker, keyless: None, figures: None }
    }

    /// The same with other rules for asking again.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The same with a limit to a whole answer.
    #[must_use]
    pub fn within(mut self, total: Option<Duration>) -> Self {
        self.total = total;
        self
    }

    /// The same with other rules for leaving it alone.
    #[must_use]
    pub fn with_breaker(mut self, settings: BreakerSettings) -> Self {
        self.breaker = Breaker::of_provider(self.provider.name(), settings);
        self
    }

    /// The same for a service without a key; what to do about it when the service wants one.
    #[must_use]
    pub fn keyless(mut self, remedy: impl Into<String>) -> Self {
        self.keyless = Some(remedy.into());
        self
    }

    /// The same, adding to these figures.
    #[must_use]
    pub fn counting(mut self, figures: Arc<Service>) -> Self {
        self.figures = Some(figures);
        self
    }

    /// Asks until there is an answer or no use in asking on.
    async fn ask<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        turn: Option<&Turn>,
        deadline: Option<Instant>,
        mut asking: impl FnMut() -> F,
    ) -> Result<T, Fault> {
        let mut asked_again = 0;
        let mut last = match self.once(deadline, &mut asking).await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        while asked_again < self.retry.times
            && let Some(wait) = retry::wait(&last, &self.retry, asked_again)
            && deadline.is_none_or(|deadline| Instant::now() + wait < deadline)
        {
            asked_again += 1;
            self.tell(turn, asked_again, &last, wait);
            sleep(wait).await;
            last = match self.once(deadline, &mut asking).await {
                Ok(answer) => return Ok(answer),
                // It rests since it failed: why it failed says more.
                Err(Fault::Resting { .. }) => break,
                Err(fault) => fault,
            };
        }
        Err(self.explained(last))
    }

    /// Tells the figures, the log, and whoever watches the turn, that it is asked again.
    fn tell(&self, turn: Option<&Turn>, attempt: u32, fault: &Fault, delay: Duration) {
        let (provider, most) = (self.name(), self.retry.times);
        if let Some(figures) = &self.figures {
            figures.asked_again();
        }
        tracing::warn!(provider, "asked again in {} ms ({attempt} of {most}): {fault}", delay.as_millis());
        if let Some(turn) = turn {
            let (what, error) = (format!("provider {provider}"), fault.to_string());
            turn.tell(|| Notice::Retry { what, attempt, most, error, delay });
        }
    }

    /// Asks once, if it may be asked.
    async fn once<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        deadline: Option<Instant>,
        asking: impl FnOnce() -> F,
    ) -> Result<T, Fault> {
        let admission = self.breaker.admit();
        if let Admission::Rests(rest) = admission {
            return Err(Fault::Resting { message: self.breaker.explains(rest), rest });
        }
        let outcome = match deadline {
            Some(deadline) => timeout_at(deadline, asking()).await.unwrap_or_else(|_| Err(self.too_long())),
            None => asking().await,
        };
        match &outcome {
            Err(fault) if retry::is_failure(fault) => self.breaker.broke(&fault.to_string()),
            // An answer, even if it says no: the service works.
            _ => self.breaker.went_well(admission),
        }
        outcome
    }

    fn too_long(&self) -> Fault {
        stream::too_long(self.name(), self.total.unwrap_or_default())
    }

    fn deadline(&self) -> Option<Instant> {
        self.total.map(|total| Instant::now() + total)
    }

    /// A service that wants a key where none is configured says only that it wants one.
    fn explained(&self, fault: Fault) -> Fault {
        match (fault, &self.keyless) {
            (Fault::Answered { provider, status: status @ (401 | 403), body, retry_after }, Some(remedy)) => {
                let said = body.at_path("error.message");
                let said = said.as_str().map_or_else(|| body.to_string(), str::to_owned);
                let message = format!("provider {provider} answered {status}, and it has no key: {remedy}");
                let error = Json::from([
                    ("message", format!("{message} (it says: {said})").into()),
                    ("type", "authentication_error".into()),
                    ("param", Json::Null),
                    ("code", "provider_key_missing".into()),
                ]);
                let body = Json::from([("error", error)]);
                Fault::Answered { provider, status, body, retry_after }
            }
            (fault, _) => fault,
        }
    }
}

impl Provider for Patient {
    fn name(&self) -> &str {
        self.provider.name()
    }

    /// Once, and also while it rests: a list is no work.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>> {
        self.provider.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        Box::pin(async move {
            let deadline = self.deadline();
            let asking = || {
                let asked = self.provider.chat(request.clone());
                async move { begin(asked.await?).await }
            };
            let answer = self.ask(request.turn.as_ref(), deadline, asking).await?;
            Ok(match (answer, deadline.zip(self.total)) {
                (Answer::Stream(pieces), Some((deadline, total))) => {
                    Answer::Stream(stream::until(pieces, deadline, stream::too_long(self.name(), total)))
                }
                (answer, _) => answer,
            })
        })
    }

    fn forward(&self, body: Bytes, stream: bool) -> Option<BoxFuture<'_, Result<Forwarded, Fault>>> {
        let mut first = Some(self.provider.forward(body.clone(), stream)?);
        Some(Box::pin(async move {
            let deadline = self.deadline();
            let asking = || {
                let asked = first.take().or_else(|| self.provider.forward(body.clone(), stream));
                async move { begin_forwarded(asked.ok_or_else(no_way)?.await?).await }
            };
            let mut forwarded: Forwarded = self.ask(None, deadline, asking).await?;
            if let Some((deadline, total)) = deadline.zip(self.total)
                && let Passed::Stream(body) = forwarded.body
            {
                let fault = stream::too_long(self.name(), total);
                forwarded.body = Passed::Stream(stream::until(body, deadline, fault));
            }
            Ok(forwarded)
        }))
    }

    fn takes_response_format(&self, format: &Json) -> bool {
        self.provider.takes_response_format(format)
    }

    fn rests(&self) -> Option<Open> {
        self.breaker.open()
    }
}

/// A provider that forwarded once does so again.
fn no_way() -> Fault {
    Fault::Host("a provider that passes bytes on does so no more".into())
}
