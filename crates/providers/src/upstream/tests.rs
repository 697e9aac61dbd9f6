//! Tests with a provider that fails as configured, and with short delays.

use super::{Credentials, RetryingProvider, Upstream};
use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::chat::{message, response};
use valvehouse_core::context::{Notice, Observer, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, CannedProvider, Provider, Reply, Request, StreamChunk};
use valvehouse_grants::RetrySettings;
use valvehouse_json::Json;

const SHORT: RetrySettings = RetrySettings {
    max_retries: 2,
    initial_delay: Duration::from_millis(10),
    max_delay: Duration::from_secs(1),
    after_send: false,
};

fn answered(status: u16, retry_after: Option<&str>) -> Error {
    let retry_after = retry_after.map(str::to_owned);
    Error::Answered { provider: "canned".into(), status, body: Json::Null, retry_after }
}

fn unreachable() -> Error {
    Error::Unanswered { message: "cannot reach it".into(), sent: false, timeout: false }
}

fn request(stream: bool) -> Request {
    Request::new(Json::parse(br#"{"model":"m","messages":[]}"#).unwrap(), stream)
}

fn patient(replies: impl IntoIterator<Item = Reply>) -> (CannedProvider, Upstream) {
    let canned = CannedProvider::new(replies);
    (canned.clone(), Upstream::new(Credentials::fixed(Arc::new(canned))).with_retry(SHORT))
}

async fn text(answer: Answer) -> String {
    match answer {
        Answer::Whole(whole) => message::text_of(&response::message_of(&whole)).into(),
        Answer::Stream(chunks) => {
            let chunks: Vec<StreamChunk> = chunks.map(Result::unwrap).collect().await;
            chunks
                .iter()
                .filter_map(|chunk| {
                    chunk.event.at_path("choices.0.delta.content").as_str().map(str::to_owned)
                })
                .collect()
        }
    }
}

async fn error(patient: &Upstream) -> Error {
    patient.chat(request(false)).await.err().expect("a error")
}

#[tokio::test]
async fn a_request_succeeds_after_retries() {
    let replies = [unreachable().into(), answered(503, None).into(), Reply::text("there")];
    let (canned, patient) = patient(replies);
    assert_eq!(text(patient.chat(request(true)).await.unwrap()).await, "there");
    assert_eq!(canned.requests().len(), 3);
}

#[tokio::test]
async fn an_observer_of_the_turn_is_notified_of_each_retry() {
    #[derive(Default)]
    struct SeenNotices(Mutex<Vec<(String, u32, u32, String)>>);
    impl Observer for SeenNotices {
        fn notice(&self, notice: Notice) {
            let Notice::Retry { what, attempt, most, error, delay } = notice else { return };
            assert!(delay <= SHORT.max_delay);
            self.0.lock().push((what, attempt, most, error));
        }
    }
    let seen = Arc::new(SeenNotices::default());
    let turn = Turn::default().observed_by(seen.clone());
    let (_, patient) = patient([unreachable().into(), answered(503, None).into(), Reply::text("there")]);
    patient.chat(Request { turn: Some(turn), ..request(false) }).await.map(drop).unwrap();
    let expected = |attempt, error: &str| ("provider canned".to_owned(), attempt, 2, error.to_owned());
    assert_eq!(*seen.0.lock(), [expected(1, "cannot reach it"), expected(2, "provider canned answered 503")]);
}

#[tokio::test]
async fn the_last_error_is_returned_after_all_attempts() {
    let (canned, patient) = patient([answered(500, None).into(), answered(503, Some("0")).into()]);
    assert!(matches!(error(&patient).await, Error::Answered { status: 503, .. }));
    assert_eq!(canned.requests().len(), 3);
    let never = patient.with_retry(RetrySettings { max_retries: 0, ..SHORT });
    assert!(matches!(error(&never).await, Error::Answered { status: 503, .. }));
    assert_eq!(canned.requests().len(), 4);
}

#[tokio::test]
async fn a_retry_waits_for_retry_after_up_to_the_limit() {
    let (canned, patient) = patient([answered(429, Some("0.3")).into(), Reply::text("now")]);
    let begun = Instant::now();
    assert_eq!(text(patient.chat(request(false)).await.unwrap()).await, "now");
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    assert_eq!(canned.requests().len(), 2);
}

#[tokio::test]
async fn a_retry_after_over_the_limit_is_returned_to_the_caller() {
    let (canned, patient) = patient([answered(429, Some("60")).into()]);
    let Error::Answered { retry_after, .. } = error(&patient).await else { panic!() };
    assert_eq!((retry_after.as_deref(), canned.requests().len()), (Some("60"), 1));
}

#[tokio::test]
async fn an_error_in_place_of_the_first_chunk_is_retried_and_a_later_one_is_not() {
    let nothing: [&str; 0] = [];
    let overloaded = || Reply::chunks_then_error(nothing, answered(529, None));
    let (canned, early) = patient([overloaded(), Reply::chunks(["a", "b"])]);
    assert_eq!(text(early.chat(request(true)).await.unwrap()).await, "ab");
    assert_eq!(canned.requests().len(), 2);

    let (canned, late) = patient([Reply::chunks_then_error(["a"], answered(529, None))]);
    let Answer::Stream(chunks) = late.chat(request(true)).await.unwrap() else { panic!() };
    let chunks: Vec<_> = chunks.collect().await;
    assert!(chunks[0].is_ok() && matches!(chunks[1], Err(Error::Answered { status: 529, .. })));
    assert_eq!(canned.requests().len(), 1);
}

#[tokio::test]
async fn the_total_timeout_includes_retries() {
    let (canned, patient) = patient([answered(503, Some("0.6")).into()]);
    let patient = patient.within(Some(Duration::from_secs(1)));
    assert!(matches!(error(&patient).await, Error::Answered { status: 503, .. }));
    assert_eq!(canned.requests().len(), 2, "a third try would come too late");
}

/// Sends one chunk and then stays silent.
struct Slow {
    first: Duration,
    then: bool,
}

impl Provider for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(std::future::pending())
    }
    fn chat(&self, _: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(async {
            sleep(self.first).await;
            let chunk = StreamChunk::new(Json::parse(br#"{"choices":[{"delta":{"content":"a"}}]}"#).unwrap());
            let rest = futures::stream::pending().take(usize::from(self.then));
            Ok(Answer::Stream(futures::stream::iter([Ok(chunk)]).chain(rest).boxed()))
        })
    }
}

#[tokio::test]
async fn the_total_timeout_ends_a_stream_and_the_wait_for_one() {
    let total = Some(Duration::from_millis(100));
    let late =
        Upstream::new(Credentials::fixed(Arc::new(Slow { first: Duration::from_secs(60), then: false })))
            .within(total);
    let error = error(&late).await;
    assert_eq!(
        error.to_string(),
        "provider slow did not complete its response within 0.1 s; raise timeouts.total_ms of provider slow"
    );
    assert!(matches!(error, Error::Provider { timeout: true, .. }));

    let begun = Instant::now();
    let endless =
        Upstream::new(Credentials::fixed(Arc::new(Slow { first: Duration::ZERO, then: true }))).within(total);
    let Answer::Stream(chunks) = endless.chat(request(true)).await.unwrap() else { panic!() };
    let chunks: Vec<_> = chunks.collect().await;
    assert!(chunks[0].is_ok() && matches!(chunks[1], Err(Error::Provider { timeout: true, .. })));
    assert!(chunks.len() == 2 && begun.elapsed() >= Duration::from_millis(100));
}

fn asking(text: &str) -> Request {
    let body = Json::from([("model", "m".into()), ("messages", text.into())]);
    Request::new(body, false)
}

#[tokio::test]
async fn repeated_failures_open_the_breaker_until_a_probe_succeeds() {
    let replies = [unreachable(), unreachable(), unreachable()].map(Reply::error).into_iter();
    let (canned, upstream) = patient(replies.chain([Reply::text("back")]));
    let settings = BreakerSettings {
        failure_threshold: 2,
        cool_down: Duration::from_millis(200),
        ..BreakerSettings::default()
    };
    let upstream = upstream.with_breaker(settings).with_retry(RetrySettings { max_retries: 0, ..SHORT });
    let error = async |text: &str| upstream.chat(asking(text)).await.err().expect("a error");
    // Two requests open the breaker. The error is the original failure instead of the open breaker.
    assert!(matches!(error("one").await, Error::Unanswered { .. }));
    assert!(matches!(error("two").await, Error::Unanswered { .. }));
    assert_eq!(canned.requests().len(), 2);
    let resting = error("three").await;
    assert_eq!(
        resting.to_string(),
        "cannot call model m of provider canned: its circuit breaker is open after repeated failures; the next \
         attempt is in 1 s (last failure: cannot reach it)"
    );
    assert!(matches!(resting, Error::BreakerOpen { .. }) && !upstream.open_breakers().is_empty());
    assert_eq!(canned.requests().len(), 2, "it was not called");
    sleep(Duration::from_millis(250)).await;
    assert!(matches!(error("four").await, Error::Unanswered { .. }));
    assert_eq!(canned.requests().len(), 3, "one call tried, and only once");
    sleep(Duration::from_millis(250)).await;
    assert_eq!(text(upstream.chat(asking("five")).await.unwrap()).await, "back");
    assert_eq!(upstream.open_breakers(), []);
}

#[tokio::test]
async fn one_failing_request_opens_no_breaker_and_models_have_separate_breakers() {
    let (canned, upstream) = patient([answered(500, None).into()]);
    let settings = BreakerSettings { failure_threshold: 2, ..BreakerSettings::default() };
    let upstream = upstream.with_breaker(settings).with_retry(RetrySettings { max_retries: 0, ..SHORT });
    let error = async |request| upstream.chat(request).await.err().expect("a error");
    for _ in 0..10 {
        assert!(matches!(error(asking("the same")).await, Error::Answered { .. }));
    }
    assert!(upstream.open_breakers().is_empty());
    assert!(matches!(error(asking("another")).await, Error::Answered { .. }));
    assert!(matches!(error(asking("a third")).await, Error::BreakerOpen { .. }));
    assert_eq!(upstream.open_breakers()[0].cause, "model m: provider canned answered 500");
    let other = Request::new(Json::from([("model", "n".into())]), false);
    assert!(matches!(error(other).await, Error::Answered { .. }));
    assert_eq!(canned.requests().len(), 12);
}

#[tokio::test]
async fn all_layers_share_one_retry_count() {
    for (outer, inner, tries) in [(2, 2, 3), (5, 2, 6), (0, 2, 3), (2, 0, 3), (0, 0, 1)] {
        let (canned, upstream) = patient([answered(503, None).into()]);
        let upstream = upstream.with_retry(RetrySettings { max_retries: inner, ..SHORT });
        let agent = RetryingProvider::new(Arc::new(upstream), RetrySettings { max_retries: outer, ..SHORT });
        let request = Request { turn: Some(Turn::default()), ..request(false) };
        assert!(agent.chat(request).await.is_err());
        assert_eq!(canned.requests().len(), tries, "{outer} around {inner}");
    }
}

#[tokio::test]
async fn whole_answers_streams_failures_and_disconnects_are_counted_separately() {
    let never = RetrySettings { max_retries: 0, ..SHORT };
    let measured = |reply: Reply| patient([reply]).1.with_retry(never);
    let ended = |upstream: &Upstream| -> Vec<&'static str> {
        let outcomes = upstream.metrics().unwrap().outcomes();
        outcomes.into_iter().filter(|(_, count)| *count > 0).map(|(word, _)| word).collect()
    };
    let whole = measured("hi".into());
    assert!(whole.chat(request(false)).await.is_ok());
    assert_eq!(ended(&whole), ["answered"]);

    let stream = measured(Reply::chunks(["a", "b"]));
    let Ok(Answer::Stream(chunks)) = stream.chat(request(true)).await else { panic!("no stream") };
    assert_eq!((ended(&stream), stream.metrics().unwrap().running()), (vec![], 1));
    assert!(chunks.collect::<Vec<_>>().await.len() > 1);
    assert_eq!((ended(&stream), stream.metrics().unwrap().first().count), (vec!["answered"], 1));

    let left = measured(Reply::chunks(["a", "b"]));
    let Ok(Answer::Stream(mut chunks)) = left.chat(request(true)).await else { panic!("no stream") };
    assert!(chunks.next().await.is_some());
    drop(chunks);
    assert_eq!(ended(&left), ["canceled"]);

    let busy = measured(answered(429, None).into());
    assert!(busy.chat(request(false)).await.is_err());
    assert_eq!(ended(&busy), ["rate_limited"]);
}

#[tokio::test]
async fn client_errors_and_rate_limits_do_not_open_the_breaker() {
    let (canned, patient) = patient([answered(400, None).into()]);
    let patient =
        patient.with_breaker(BreakerSettings { failure_threshold: 1, ..BreakerSettings::default() });
    for _ in 0..5 {
        assert!(matches!(error(&patient).await, Error::Answered { status: 400, .. }));
    }
    assert_eq!(canned.requests().len(), 5);
    let (canned, patient) = self::patient([answered(429, None).into()]);
    let patient =
        patient.with_breaker(BreakerSettings { failure_threshold: 1, ..BreakerSettings::default() });
    assert!(matches!(error(&patient).await, Error::Answered { status: 429, .. }));
    assert_eq!((canned.requests().len(), patient.open_breakers()), (3, Vec::new()));
}

#[tokio::test]
async fn a_missing_provider_key_is_reported_with_a_fix() {
    let (_, patient) = patient([answered(401, None).into()]);
    let Error::Answered { status: 502, body, .. } = error(&patient.keyless("set LAB_KEY")).await else {
        panic!()
    };
    let message = body.at_path("error.message").to_string();
    assert!(message.contains("returned 401, and its key is not set: set LAB_KEY"), "{message}");
}

#[tokio::test]
async fn a_disconnected_caller_ends_the_wait() {
    let outcome = Arc::new(Mutex::new(None));
    let (canned, patient) = patient([answered(503, Some("0.3")).into()]);
    let seen = outcome.clone();
    let work = tokio::spawn(async move {
        *seen.lock() = Some(patient.chat(request(false)).await.is_ok());
    });
    sleep(Duration::from_millis(50)).await;
    work.abort();
    sleep(Duration::from_millis(400)).await;
    assert_eq!((canned.requests().len(), *outcome.lock()), (1, None));
}
