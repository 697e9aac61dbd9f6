use super::CANARY;
use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};

const LOOKS: &str = "fn inlet(body) { body }\nfn stream(event) { event }";

async fn collector() -> (Upstream, String) {
    let collector = Upstream::start().await;
    collector.reply(Reply::json(&json!({})));
    let address = collector.url();
    let endpoint = address.trim_end_matches("/v1").to_owned();
    (collector, endpoint)
}

/// Returns the spans of all batches so far.
fn spans(batches: &[UpstreamRequest]) -> Vec<Value> {
    let of = |batch: &UpstreamRequest| {
        batch.json()["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
    };
    batches.iter().filter(|batch| batch.path == "/v1/traces").flat_map(of).collect()
}

/// Returns an attribute as text.
fn attribute(span: &Value, key: &str) -> Option<String> {
    let found = span["attributes"].as_array().unwrap().iter().find(|one| one["key"] == key)?;
    let value = found["value"].as_object().unwrap().values().next().unwrap();
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

#[tokio::test]
async fn a_collector_gets_a_span_for_a_request_and_one_for_each_step() {
    let (collector, endpoint) = collector().await;
    let config =
        format!("[otlp]\nendpoint = \"{endpoint}\"\nheaders = {{ authorization = \"Bearer sk-collector\" }}");
    let host = TestHost::new().filter("looks", LOOKS).config(&config).start().await;
    let (id, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let mut body = chat_body(MODEL, CANARY);
    body["user"] = json!("ann");
    let request = host.posting(body.to_string()).header("traceparent", format!("00-{id}-{parent}-01"));
    assert_eq!(Answer::of(request).await.status, 200);
    collector.wait_for_requests(1).await;
    let batch = collector.last();
    assert_eq!(
        (batch.path.as_str(), batch.headers["authorization"].to_str().unwrap()),
        ("/v1/traces", "Bearer sk-collector")
    );
    assert!(!batch.text().contains(CANARY), "{}", batch.text());
    let resource = batch.json()["resourceSpans"][0]["resource"].clone();
    assert_eq!(attribute(&resource, "service.name").as_deref(), Some("valvehouse"));
    let spans = spans(&[batch]);
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["chat mock-1", "inlet looks", "chat mock-1", "stream looks"]);
    let (root, model) = (&spans[0], &spans[2]);
    assert_eq!(
        (&root["traceId"], &root["parentSpanId"], &root["kind"]),
        (&json!(id), &json!(parent), &json!(2))
    );
    assert_eq!(attribute(root, "user.id").as_deref(), Some("ann"));
    assert_eq!(attribute(root, "http.response.status_code").as_deref(), Some("200"));
    assert_eq!(
        (&model["traceId"], &model["parentSpanId"], &model["kind"]),
        (&json!(id), &root["spanId"], &json!(3))
    );
    assert_eq!(attribute(model, "gen_ai.provider.name").as_deref(), Some("mock"));
    assert_eq!(attribute(model, "gen_ai.usage.input_tokens").as_deref(), Some("1"));
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(root, "startTimeUnixNano") <= time(model, "startTimeUnixNano"));
    assert!(time(model, "startTimeUnixNano") <= time(model, "endTimeUnixNano"));
}

#[tokio::test]
async fn spans_are_resent_after_an_outage_and_flushed_at_shutdown() {
    let (collector, endpoint) = collector().await;
    collector.reply(Reply::json(&json!({})).status(503));
    let config = format!("[otlp]\nendpoint = \"{endpoint}\"");
    let mut host = TestHost::new().filter("looks", LOOKS).config(&config).start().await;
    host.chat(&streaming(MODEL, "one")).await;
    collector.wait_for_requests(2).await;
    collector.reply(Reply::json(&json!({})));
    let before = collector.requests().len();
    collector.wait_for_requests(before + 1).await;
    assert_eq!(spans(&[collector.last()])[0]["name"], "chat mock-1");
    host.upstream.reply(Reply::text("no").status(500));
    host.chat(&streaming(MODEL, "two")).await;
    host.stop().await;
    let failed = spans(&collector.requests()).into_iter().find(|span| {
        span["kind"] == 2 && attribute(span, "http.response.status_code").as_deref() == Some("500")
    });
    let failed = failed.expect("what ended last has come");
    assert_eq!(
        (&failed["status"]["code"], attribute(&failed, "error.type").as_deref()),
        (&json!(2), Some("500"))
    );
}

#[tokio::test]
async fn a_collector_gets_the_tokens_and_the_time_of_model_calls_as_histograms() {
    let (collector, endpoint) = collector().await;
    let config = format!("[otlp]\nendpoint = \"{endpoint}\"");
    let mut host = TestHost::new().config(&config).start().await;
    for _ in 0..2 {
        host.chat(&chat_body(MODEL, CANARY)).await;
    }
    host.upstream.reply(Reply::text("no").status(500));
    host.chat(&chat_body(MODEL, CANARY)).await;
    host.stop().await;
    let last = collector.last();
    assert_eq!(last.path, "/v1/metrics");
    assert!(!last.text().contains(CANARY), "{}", last.text());
    let metrics = &last.json()["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let points = |place: usize, name: &str| {
        assert_eq!(metrics[place]["name"], name);
        metrics[place]["histogram"]["dataPoints"].as_array().unwrap().clone()
    };
    let tokens = points(0, "gen_ai.client.token.usage");
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    for (point, kind) in tokens.iter().zip(["input", "output"]) {
        assert_eq!(attribute(point, "gen_ai.token.type").as_deref(), Some(kind));
        assert_eq!(attribute(point, "gen_ai.provider.name").as_deref(), Some("mock"));
        assert_eq!(attribute(point, "gen_ai.request.model").as_deref(), Some(MODEL));
        assert_eq!((&point["count"], point["sum"].as_f64()), (&json!("2"), Some(2.0)));
        let (counts, bounds) = (&point["bucketCounts"], &point["explicitBounds"]);
        assert_eq!(
            (counts[0].as_str(), bounds[0].as_f64(), bounds[13].as_f64()),
            (Some("2"), Some(1.0), Some(67_108_864.0))
        );
        assert_eq!((counts.as_array().unwrap().len(), bounds.as_array().unwrap().len()), (15, 14));
    }
    let times = points(1, "gen_ai.client.operation.duration");
    let counts: Vec<_> =
        times.iter().map(|point| (attribute(point, "error.type"), point["count"].clone())).collect();
    assert!(counts.contains(&(None, json!("2"))) && counts.len() == 2, "{counts:?}");
    assert!(counts.iter().any(|(error, _)| error.as_deref() == Some("_OTHER")), "{counts:?}");
}

#[test]
fn an_invalid_collector_address_is_an_error_in_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = [("otlp.endpoint".to_owned(), "localhost".to_owned())];
    let error = valvehouse::config::Config::load_with(folder.path(), [], &wrong).unwrap_err();
    assert!(error.to_string().contains("otlp.endpoint"), "{error}");
}
