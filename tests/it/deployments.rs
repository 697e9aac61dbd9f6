//! Providers with several deployments and weighted keys: the spread of requests, rests, and what a client sees of both.

use crate::host::{TestHost, chat_body, streaming, until};
use crate::upstream::{Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};

const MODEL: &str = "fleet-1";
/// Makes the host read the response.
const LOOKS: &str = "fn stream(event) { event }\nfn outlet(body) { body }";
const NO_RETRIES: &str = "retry = { max_attempts = 1 }";

/// A host whose provider `fleet` has the deployments `east` and `west`, each with a key of its own.
struct Fleet {
    host: TestHost,
    east: Upstream,
    west: Upstream,
}

impl Fleet {
    /// Starts both deployments, with these weights and more settings of the provider.
    async fn start(weights: [u32; 2], settings: &str, looks: bool) -> Self {
        let (east, west) = (Upstream::start().await, Upstream::start().await);
        for (member, name) in [(&east, "east"), (&west, "west")] {
            member.script(move |request| Reply::fitting(request, name));
        }
        let deployment = |name: &str, member: &Upstream, weight: u32| {
            format!(
                "[[providers.deployments]]\nname = \"{name}\"\nbase_url = \"{}\"\napi_key = \"sk-of-{name}\"\nweight = {weight}\n",
                member.url()
            )
        };
        let config = format!(
            "[[providers]]\nname = \"fleet\"\nkind = \"openai\"\nmodels = [\"{MODEL}\"]\n{settings}\n{}{}",
            deployment("east", &east, weights[0]),
            deployment("west", &west, weights[1])
        );
        let setup = TestHost::new().config(&config);
        let host = if looks { setup.filter("looks", LOOKS) } else { setup }.start().await;
        Self { host, east, west }
    }

    fn counts(&self) -> [usize; 2] {
        [self.east.requests().len(), self.west.requests().len()]
    }

    async fn ask(&self) -> String {
        self.host.chat(&chat_body(MODEL, "hi")).await.text()
    }

    /// Returns the state of each deployment on the page.
    async fn targets(&self) -> Vec<Value> {
        let overview = self.host.get("/api/v1/overview").await.json();
        let providers = overview["providers"].as_array().unwrap();
        let fleet = providers.iter().find(|provider| provider["name"] == "fleet").unwrap();
        fleet["targets"].as_array().unwrap().clone()
    }

    async fn has_metric(&self, line: &str) {
        let metrics = self.host.get("/metrics").await;
        assert!(metrics.body().contains(line), "{line}\n{}", metrics.body());
    }
}

fn refusal(status: u16) -> Reply {
    Reply::json(&json!({"error": {"message": "not now", "type": "error"}})).status(status)
}

fn key_of(request: &UpstreamRequest) -> &str {
    request.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or("")
}

#[tokio::test]
async fn requests_are_spread_by_weight_and_each_deployment_gets_its_own_key() {
    for looks in [false, true] {
        let fleet = Fleet::start([3, 1], NO_RETRIES, looks).await;
        for number in 0..20 {
            fleet.host.chat(&chat_body(MODEL, &number.to_string())).await.text();
            fleet.host.chat(&streaming(MODEL, &number.to_string())).await.text();
        }
        assert_eq!(fleet.counts(), [30, 10]);
        for (member, key) in [(&fleet.east, "Bearer sk-of-east"), (&fleet.west, "Bearer sk-of-west")] {
            assert!(member.requests().iter().all(|request| key_of(request) == key));
        }
        let calls = |name: &str, calls: usize| json!({"name": name, "calls": calls, "rests_s": null});
        assert_eq!(fleet.targets().await, [calls("east", 30), calls("west", 10)]);
        fleet
            .has_metric(
                "valvehouse_provider_deployment_calls_total{provider=\"fleet\",deployment=\"east\"} 30",
            )
            .await;
    }
}

#[tokio::test]
async fn keys_share_requests_by_weight() {
    let keys = "api_keys = [{ key = \"two\", weight = 2 }, \"three\"]";
    let host = TestHost::new().provider(keys).start().await;
    for number in 0..8 {
        host.ask(&number.to_string()).await.text();
    }
    let sent = host.upstream.requests();
    let used = |key: &str| sent.iter().filter(|one| key_of(one) == key).count();
    assert_eq!(["Bearer sk-upstream", "Bearer two", "Bearer three"].map(used), [2, 4, 2]);
}

#[tokio::test]
async fn a_limited_deployment_rests_and_the_first_to_be_ready_is_named() {
    for looks in [false, true] {
        let fleet = Fleet::start([1, 1], NO_RETRIES, looks).await;
        fleet.west.script(|_| refusal(429).header("retry-after", "3000"));
        for _ in 0..6 {
            assert_eq!(fleet.ask().await, "east");
        }
        assert_eq!(fleet.counts(), [6, 1]);
        fleet.has_metric("valvehouse_provider_keys{provider=\"fleet\",state=\"resting\"} 1").await;
        fleet
            .has_metric("valvehouse_provider_deployment_resting{provider=\"fleet\",deployment=\"west\"} 1")
            .await;
        let targets = fleet.targets().await;
        assert_eq!((&targets[0]["rests_s"], &targets[1]["name"]), (&Value::Null, &json!("west")));
        assert!((2000..=3000).contains(&targets[1]["rests_s"].as_u64().unwrap()), "{targets:?}");

        fleet.east.script(|_| refusal(429).header("retry-after", "900"));
        let refused = fleet.host.chat(&chat_body(MODEL, "hi")).await;
        assert_eq!((refused.status, refused.message().as_str()), (429, "not now"));
        let before = fleet.counts();
        for body in [chat_body(MODEL, "hi"), streaming(MODEL, "hi")] {
            let refused = fleet.host.chat(&body).await;
            let message = refused.message();
            assert_eq!(refused.status, 429, "{message}");
            assert!(message.contains("`east` is the first to be ready, in "), "{message}");
            let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
            assert!((600..=900).contains(&wait), "{wait}");
        }
        assert_eq!(fleet.counts(), before, "a resting deployment is left alone");
    }
}

#[tokio::test]
async fn a_deployment_that_fails_is_replaced_at_once_without_opening_the_breaker() {
    let settings = format!("{NO_RETRIES}\nbreaker = {{ failure_threshold = 1, cool_down_ms = 600_000 }}");
    for looks in [false, true] {
        for failure in [None, Some(500), Some(503)] {
            let fleet = Fleet::start([1, 1], &settings, looks).await;
            match failure {
                None => fleet.east.stop(),
                Some(status) => fleet.east.script(move |_| refusal(status)),
            }
            for number in 0..5 {
                for body in [chat_body(MODEL, &number.to_string()), streaming(MODEL, &number.to_string())] {
                    assert_eq!(fleet.host.chat(&body).await.text(), "west", "{failure:?}");
                }
            }
            assert_eq!(fleet.counts(), [usize::from(failure.is_some()), 10], "{failure:?}");
            fleet.has_metric("valvehouse_provider_breaker_open{provider=\"fleet\"} 0").await;
            fleet.has_metric("valvehouse_model_retries_total{provider=\"fleet\"} 0").await;
        }
    }
}

#[tokio::test]
async fn a_deployment_that_works_again_gets_its_share_again() {
    let settings = format!("{NO_RETRIES}\nbreaker = {{ cool_down_ms = 50 }}");
    let fleet = Fleet::start([1, 1], &settings, false).await;
    fleet.east.script(|_| refusal(503));
    assert_eq!(fleet.ask().await, "west");
    fleet.east.script(|request| Reply::fitting(request, "east"));
    until("the deployment is used again", || async { fleet.ask().await == "east" }).await;
    let before = fleet.counts();
    for _ in 0..10 {
        fleet.ask().await;
    }
    let after = fleet.counts();
    assert_eq!([after[0] - before[0], after[1] - before[1]], [5, 5]);
}

#[tokio::test]
async fn if_all_deployments_fail_each_is_asked_once_and_later_requests_are_still_tried() {
    let fleet = Fleet::start([1, 1], NO_RETRIES, false).await;
    for member in [&fleet.east, &fleet.west] {
        member.script(|_| refusal(503));
    }
    let failed = fleet.host.chat(&chat_body(MODEL, "one")).await;
    assert_eq!((failed.status, failed.message().as_str(), fleet.counts()), (503, "not now", [1, 1]));
    for member in [&fleet.east, &fleet.west] {
        member.script(|request| Reply::fitting(request, "back"));
    }
    assert_eq!(fleet.ask().await, "back");
}

#[tokio::test]
async fn a_request_is_not_sent_again_once_its_answer_has_begun() {
    for looks in [false, true] {
        let fleet = Fleet::start([1, 1], NO_RETRIES, looks).await;
        fleet.east.reply(Reply::begun(["one", "two"]).then_cut());
        let answer = fleet.host.chat(&streaming(MODEL, "hi")).await;
        assert!(answer.body().contains("one") && !answer.body().contains("west"), "{}", answer.body());
        assert_eq!(fleet.counts(), [1, 0]);
    }
    // A client's mistake is the same everywhere.
    let fleet = Fleet::start([1, 1], NO_RETRIES, false).await;
    fleet.east.script(|_| refusal(400));
    assert_eq!(fleet.host.chat(&chat_body(MODEL, "hi")).await.status, 400);
    assert_eq!(fleet.counts(), [1, 0]);
}

#[tokio::test]
async fn deployments_without_keys_use_those_of_the_provider_and_none_is_shown() {
    let (east, west) = (Upstream::start().await, Upstream::start().await);
    let member = |name: &str, url: String| format!("{{ name = \"{name}\", base_url = \"{url}\" }}");
    let config = format!(
        "[[providers]]\nname = \"fleet\"\nkind = \"vllm\"\nmodels = [\"{MODEL}\"]\napi_keys = [{{ key = \"sk-fleet-1234\", weight = 2 }}, \"sk-fleet-5678\"]\ndeployments = [{}, {}]",
        member("east", east.url()),
        member("west", west.url())
    );
    let host = TestHost::new().config(&config).start().await;
    for number in 0..12 {
        host.chat(&chat_body(MODEL, &number.to_string())).await.text();
    }
    let count =
        |member: &Upstream, key: &str| member.requests().iter().filter(|one| key_of(one) == key).count();
    for member in [&east, &west] {
        assert_eq!(["Bearer sk-fleet-1234", "Bearer sk-fleet-5678"].map(|key| count(member, key)), [4, 2]);
    }
    let overview = host.get("/api/v1/overview").await;
    assert!(overview.body().contains("\"east, key 2\""), "{}", overview.body());
    for path in ["/api/v1/overview", "/metrics", "/readyz?verbose"] {
        let shown = host.get(path).await;
        assert!(!shown.body().contains("sk-fleet"), "{path}: {}", shown.body());
    }
}
