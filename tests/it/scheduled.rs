//! Periodic calls of scripts: background refreshes of model and tool lists, and `fn tick()`.

use crate::host::{TestHost, chat_body, until};
use crate::upstream::{Gate, Reply, Upstream};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Returns a filter, tool or pipe that sends requests to a service, and its grant.
fn asks(service: &Upstream, id: &str, code: &str) -> (String, String) {
    let url = service.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let code = code.replace("URL", &url);
    (
        format!("/*\nrequirements: http, kv\ndescription: asks\n*/\n{code}\n"),
        format!("[grants.{id}]\nhttp = [\"{address}\"]\n"),
    )
}

async fn service() -> Upstream {
    let service = Upstream::start().await;
    service.script(|_| Reply::raw("text/plain", "noted"));
    service
}

async fn figure(host: &TestHost, name: &str) -> f64 {
    let text = host.get("/metrics").await.body().to_owned();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn models(host: &TestHost) -> BTreeSet<String> {
    let listed = host.get("/v1/models").await.json();
    let ids = listed["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned());
    ids.collect()
}

const PIPE: &str = r#"const ttl = "1s";
fn pipes() { http::get("URL/names").json().map(|name| #{ id: name, name: name.to_upper() }) }
fn pipe(body) { `I am ${body.model}` }"#;

#[tokio::test]
async fn a_model_list_tolerates_a_slow_or_failing_service() {
    let service = service().await;
    let gate = Gate::closed();
    service.reply(Reply::json(&json!(["small", "large"])).behind(&gate));
    let (pipe, config) = asks(&service, "many", PIPE);
    // The service has not responded and the host has started; other files are loaded and run.
    let mut host = TestHost::new().config(&config).filter("many", pipe).start().await;
    service.wait_for_requests(1).await;
    assert!(!models(&host).await.contains("many.small"));
    host.update("loud", "fn outlet(body) { body.messages[-1].content += \"!\"; }").await;
    assert!(host.chat(&chat_body("demo", "hi")).await.text().ends_with('!'));
    service.script(|_| Reply::json(&json!(["small", "large"])));
    gate.open();
    until("the models are there", async || models(&host).await.contains("many.small")).await;
    assert_eq!(host.chat(&chat_body("many.large", "hi")).await.text(), "I am many.large!");
    // A list that fails or is invalid keeps the previous one, and the problem is reported.
    for (reply, why) in [
        (json!({"error": "down"}), "failed in the background"),
        (json!(["small", "small"]), "lists `many.small` twice"),
    ] {
        service.script(move |_| Reply::json(&reply));
        until(why, async || {
            host.problems("many")
                .iter()
                .any(|problem| problem.code.to_string() == "V802" && problem.message.contains(why))
        })
        .await;
        assert_eq!(host.chat(&chat_body("many.small", "hi")).await.text(), "I am many.small!");
    }
    let page = host.api_get("/id/many").await.to_string() + host.get("/api/v1/overview").await.body();
    assert!(page.contains("V802"), "{page}");
    assert!(figure(&host, "valvehouse_scheduled_total{end=\"failed\"}").await >= 2.0);
    let traces = host.app().traces.past();
    let trace = traces.iter().find(|trace| trace.request.endpoint == "pipes").expect("a trace of its own");
    assert_eq!(trace.records()[0].hook, "pipes");
    service.script(|_| Reply::json(&json!(["other"])));
    until("it has recovered", async || models(&host).await.contains("many.other")).await;
    until("nothing is wrong", async || host.problems("many").is_empty()).await;
    assert!(!models(&host).await.contains("many.small"));
    // The list survives a restart of the host while its service is away.
    service.script(|_| Reply::raw("text/plain", "away").status(503));
    host.restart().await;
    until("the last list is back", async || models(&host).await.contains("many.other")).await;
}

#[tokio::test]
async fn a_service_lists_tools_and_an_updated_script_lists_its_own() {
    let service = service().await;
    service.script(|request| {
        Reply::json(&match request.path.ends_with("/tools") {
            true => json!([{"name": "add", "about": "Adds"}, {"name": "halve", "about": "Halves"}]),
            false => json!({"did": request.json()}),
        })
    });
    let code = r#"const ttl = "10m";
fn tools() {
    http::get("URL/tools").json().map(|tool| #{
        name: tool.name, description: tool.about, parameters: #{ x: #{ type: "integer", required: true } },
        handler: Fn("call_it").curry(tool.name),
    })
}
fn call_it(name, args) { http::post("URL/call", #{ json: #{ name: name, x: args.x } }).json().did }"#;
    let (tool, config) = asks(&service, "far", code);
    let config = format!("{config}\n[[models]]\nname = \"helped\"\nprovider = \"demo\"\ntools = [\"far\"]\n");
    let host = TestHost::new().config(&config).tool("far", &tool).start().await;
    let names = || host.snapshot().tools.iter().map(|tool| tool.name().to_owned()).collect::<Vec<_>>();
    until("the tools are there", async || names().contains(&"halve".to_owned())).await;
    assert!(host.problems("far").is_empty(), "{:?}", host.problems("far"));
    let did = host.chat(&chat_body("helped", r#"/halve {"x": 4}"#)).await.text();
    assert!(did.contains("halve") && did.contains('4'), "{did}");
    // A changed script is called at once, regardless of the interval.
    host.save_tool(
        "far",
        &tool.replace("name: tool.name, desc", "name: tool.name + \"_it\", desc").replace("call_it", "do_it"),
    );
    until("the other tools are there", async || names().contains(&"halve_it".to_owned())).await;
    assert!(!names().contains(&"halve".to_owned()));
    until("nothing is wrong", async || host.problems("far").is_empty()).await;
}

#[tokio::test]
async fn a_list_function_with_calls_requires_a_ttl() {
    let service = service().await;
    let (pipe, config) = asks(&service, "many", &PIPE.replace("const ttl = \"1s\";", ""));
    let host = TestHost::new().config(&config).filter("many", pipe).start().await;
    let problems = host.problems("many");
    assert!(problems[0].help.as_deref().unwrap().contains("const ttl = \"10m\";"), "{problems:?}");
}

#[tokio::test]
async fn a_tick_repeats_and_its_failures_reject_no_requests() {
    let service = service().await;
    let code = r#"const every = "1s";
const Valves = #{ fails: false };
fn tick(valves) {
    if valves.fails { throw "nothing to do"; }
    kv::incr("ticks");
    http::post("URL/ticked", #{ json: kv::get("ticks") });
}
fn inlet(body) { body }"#;
    let (filter, config) = asks(&service, "clock", code);
    let host = TestHost::new().config(&config).filter("clock", filter).start().await;
    assert!(host.problems("clock").is_empty(), "{:?}", host.problems("clock"));
    service.wait_for_requests(3).await;
    let ticks: Vec<Value> = service.requests().iter().map(|request| request.json()).collect();
    assert_eq!(ticks[..3], [json!(1), json!(2), json!(3)]);
    until("they are counted", async || {
        figure(&host, "valvehouse_scheduled_total{end=\"done\"}").await >= 3.0
    })
    .await;
    assert!(figure(&host, "valvehouse_plugin_calls_total{plugin=\"clock\",hook=\"tick\"").await >= 3.0);
    let traces = host.app().traces.past();
    let trace = traces.iter().find(|trace| trace.request.endpoint == "tick").expect("a trace of its own");
    assert_eq!(trace.records()[0].hook, "tick");
    host.set_valves("clock", None, json!({"fails": true})).await;
    until("the failure is reported", async || {
        host.problems("clock")
            .iter()
            .any(|problem| problem.message.contains("`tick()` failed in the background"))
    })
    .await;
    assert_eq!(host.chat(&chat_body("demo", "hi")).await.status, 200);
    host.set_valves("clock", None, json!({"fails": false})).await;
    until("nothing is wrong", async || host.problems("clock").is_empty()).await;
}

#[tokio::test]
async fn one_of_two_hosts_ticks_and_the_other_takes_over() {
    let service = service().await;
    let gate = Gate::closed();
    let behind = gate.clone();
    service.script(move |_| Reply::raw("text/plain", "noted").behind(&behind));
    let (tool, config) = asks(
        &service,
        "clock",
        "const every = \"2s\";\nfn tick() { http::post(\"URL/ticked\", #{ json: 1 }); }\nfn handler(args) { 1 }",
    );
    let mut host = TestHost::new().config(&config).tool("clock", tool).start().await;
    let other = host.another().await;
    service.wait_for_requests(1).await;
    // During a tick, and until the next one is due, no other host may tick.
    let store = other.host.store().clone();
    let is_free = async || store.lease_secret("tick/clock/0/2", "somebody else", 1).await.unwrap();
    assert!(!is_free().await);
    let running = [other.schedule.counts().running, host.app().schedule.counts().running];
    assert_eq!(running.iter().sum::<usize>(), 1, "both tick");
    gate.open();
    service.wait_for_requests(3).await;
    host.stop().await;
    let before = service.requests().len();
    service.wait_for_requests(before + 2).await;
    other.stop().await;
    other.close().await;
}

#[tokio::test]
async fn a_tick_that_waits_does_not_overlap_with_itself_and_ends_with_its_host() {
    let service = service().await;
    let gate = Gate::closed();
    let behind = gate.clone();
    service.script(move |_| Reply::raw("text/plain", "late").behind(&behind));
    let (filter, config) = asks(
        &service,
        "slow",
        "const every = \"1s\";\nfn tick() { http::get(\"URL/slow\"); }\nfn inlet(body) { body }",
    );
    let mut host = TestHost::new().config(&config).filter("slow", filter).start().await;
    service.wait_for_requests(1).await;
    // Requests and two more intervals pass.
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    assert_eq!(host.chat(&chat_body("demo", "hi")).await.status, 200);
    assert_eq!(service.requests().len(), 1, "a tick runs beside itself");
    assert_eq!(figure(&host, "valvehouse_scheduled_running").await, 1.0);
    host.stop().await;
    service.was_deserted(1).await;
}

#[tokio::test]
async fn endless_background_work_is_stopped_and_requests_continue() {
    let ticks = "const every = \"1s\";\nfn tick() { loop {} }\nfn inlet(body) { body }";
    let lists = "const ttl = \"1s\";\nfn pipes() { loop {} }\nfn pipe(body) { \"\" }";
    let long = "const ttl = \"1s\";\nfn pipes() { let a = json::parse(\"[]\"); let s = \"\"; s.pad(3_000_000, \"x\"); a.push(s); a.push(s); a }\nfn pipe(body) { \"\" }";
    let doubles = "const ttl = \"1s\";\nfn pipes() { let a = json::parse(\"[1]\"); for i in 0..60 { let b = json::parse(\"[]\"); b.push(a); b.push(a); a = b; } a }\nfn pipe(body) { \"\" }";
    let host = TestHost::new()
        .filter("ticks", ticks)
        .filter("lists", lists)
        .filter("long", long)
        .filter("doubles", doubles)
        .start()
        .await;
    for (id, why) in [
        ("ticks", "exceeded its"),
        ("lists", "exceeded its"),
        ("long", "the list exceeded its limit of 4 MiB"),
        ("doubles", "the JSON would exceed its limit of 8 MiB"),
    ] {
        until(id, async || host.problems(id).iter().any(|problem| problem.message.contains(why))).await;
    }
    assert_eq!(host.chat(&chat_body("demo", "hi")).await.status, 200);
    // A plugin that fails repeatedly in the background is disabled there only.
    until("its breaker is open", async || {
        host.problems("lists").iter().any(|problem| problem.message.contains("circuit breaker is open"))
    })
    .await;
    assert_eq!(host.chat(&chat_body("demo", "hi")).await.status, 200);
}

#[tokio::test]
async fn tools_of_a_list_may_have_inline_functions() {
    let code = "/*\nrequirements: kv\n*/\nconst ttl = \"10m\";\nfn tools() {\n    let factor = 3;\n    \
                [#{ name: \"triple\", description: \"Three times x\", \
                parameters: #{ x: #{ type: \"integer\", required: true } }, handler: |args| args.x * factor }]\n}\n";
    let config = "[[models]]\nname = \"helped\"\nprovider = \"demo\"\ntools = [\"far\"]\n";
    let host = TestHost::new().config(config).tool("far", code).start().await;
    let names = || host.snapshot().tools.iter().map(|tool| tool.name().to_owned()).collect::<Vec<_>>();
    until("the tool is there", async || names().contains(&"triple".to_owned())).await;
    assert!(host.problems("far").is_empty(), "{:?}", host.problems("far"));
    let did = host.chat(&chat_body("helped", r#"/triple {"x": 14}"#)).await.text();
    assert!(did.contains("42"), "{did}");
}
