//! The models that a service lists, cached.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use valvehouse_core::provider::Provider;
use valvehouse_json::Json;

/// The maximum time for which requests wait for a list.
const DEADLINE: Duration = Duration::from_secs(2);
/// The time for which a list is used before it is requested again.
const FRESH: Duration = Duration::from_secs(60);
/// The time after a failure in which a list is not requested again.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The list of one provider. The service is asked by one request at a time, whose answer is kept for all
/// others, even if it arrives after the deadline.
#[derive(Default)]
pub struct ModelList {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last list of the service.
    known: Vec<Json>,
    fresh_until: Option<Instant>,
    /// The start of the running request, and its end: a closed channel.
    asking: Option<(Instant, watch::Receiver<()>)>,
    /// Ends the request when the list is dropped.
    tasks: JoinSet<()>,
}

impl ModelList {
    /// Returns copies of the models in OpenAI's format: those that the service lists, or those of its last
    /// list if it does not respond within two seconds or fails. A failure is logged.
    pub async fn models(self: &Arc<Self>, provider: &Arc<dyn Provider>) -> Vec<Json> {
        if let Some((began, mut answered)) = self.ask(provider)
            && timeout_at(began + DEADLINE, answered.changed()).await.is_err()
        {
            let provider = provider.name();
            tracing::warn!(provider, "cannot list its models: no response within {} s", DEADLINE.as_secs());
        }
        self.state.lock().known.iter().map(Json::deep_clone).collect()
    }

    /// Returns the running request, which is started if the list is not fresh.
    fn ask(self: &Arc<Self>, provider: &Arc<dyn Provider>) -> Option<(Instant, watch::Receiver<()>)> {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.fresh_until.is_some_and(|until| now < until) {
            return None;
        }
        let running = state.asking.clone().filter(|(_, answered)| answered.has_changed().is_ok());
        if running.is_some() {
            return running;
        }
        let (end, answered) = watch::channel(());
        let (list, provider) = (Arc::downgrade(self), provider.clone());
        state.tasks.spawn(async move {
            // Dropped at the end, which closes the channel.
            let _end = end;
            let listed = provider.models().await;
            let Some(list) = list.upgrade() else { return };
            let mut state = list.state.lock();
            match listed {
                Ok(models) => (state.known, state.fresh_until) = (models, Some(Instant::now() + FRESH)),
                Err(error) => {
                    tracing::warn!(provider = provider.name(), "cannot list its models: {error}");
                    state.fresh_until = Some(Instant::now() + AFTER_FAILURE);
                }
            }
        });
        state.asking = Some((now, answered));
        state.asking.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use valvehouse_core::error::Error;
    use valvehouse_core::provider::{Answer, Request};

    /// A provider that lists its number of requests, each after this time.
    struct Slow(Duration, AtomicUsize);

    impl Provider for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
            Box::pin(async {
                tokio::time::sleep(self.0).await;
                match self.1.fetch_add(1, Relaxed) {
                    1 => Err(Error::Host("it is down".into())),
                    count => Ok(vec![Json::from([("id", format!("m{count}").into())])]),
                }
            })
        }
        fn chat(&self, _: Request) -> BoxFuture<'_, Result<Answer, Error>> {
            Box::pin(async { Err(Error::Host("it lists only".into())) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_requested_once_and_outlives_a_failure() {
        let slow = Arc::new(Slow(Duration::from_secs(5), AtomicUsize::new(0)));
        let list = Arc::new(ModelList::default());
        let provider: Arc<dyn Provider> = slow.clone();
        let names = async || -> Vec<String> {
            list.models(&provider).await.iter().map(|model| model.text_or_empty("id").into()).collect()
        };
        let began = Instant::now();
        let (first, second) = tokio::join!(names(), names());
        assert_eq!((first.len(), second.len(), began.elapsed()), (0, 0, DEADLINE));
        // Later requests do not wait again, and receive the list as soon as it is there.
        assert!(names().await.is_empty());
        assert_eq!(began.elapsed(), DEADLINE);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!((names().await, slow.1.load(Relaxed)), (vec!["m0".to_owned()], 1));
        // The second request fails; the last list stays, and the service is not asked again at once.
        tokio::time::sleep(FRESH).await;
        assert_eq!(names().await, ["m0"]);
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!((names().await, slow.1.load(Relaxed)), (vec!["m0".to_owned()], 2));
        tokio::time::sleep(AFTER_FAILURE).await;
        names().await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!((names().await, slow.1.load(Relaxed)), (vec!["m2".to_owned()], 3));
    }
}
