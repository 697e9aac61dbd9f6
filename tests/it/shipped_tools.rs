//! The tools in `tools/` and the host's own: their results, and their errors for invalid arguments.

use crate::host::TestHost;
use crate::upstream::{Reply, Upstream};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use valvehouse::context::{Context, Events, Turn, TurnFacts};
use valvehouse::json::Json;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools");

/// Returns the ids of all shipped tools, or with `lib/` the names of the modules that they import.
fn shipped(below: &str) -> Vec<String> {
    let files = std::fs::read_dir(format!("{FOLDER}/{below}")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let scripts = names.filter(|name| !name.ends_with(".test.rhai"));
    let mut ids: Vec<String> =
        scripts.filter_map(|name| Some(format!("{below}{}", name.strip_suffix(".rhai")?))).collect();
    ids.sort();
    ids
}

/// Starts a host with all shipped tools.
async fn host(config: &str) -> TestHost {
    let mut setup = TestHost::new().config(config);
    for id in [shipped(""), shipped("lib/")].concat() {
        setup = setup.tool(&id, std::fs::read(format!("{FOLDER}/{id}.rhai")).unwrap());
    }
    setup.start().await
}

/// Calls a tool and returns its result or its error.
async fn call_as(host: &TestHost, user: &str, tool: &str, args: Value) -> Result<Value, String> {
    let user = Json::parse(json!({"id": user}).to_string().as_bytes()).unwrap();
    let facts = TurnFacts { user, ..TurnFacts::default() };
    let turn = Turn::new(facts, Context::default(), Events::default());
    let args = Json::parse(args.to_string().as_bytes()).unwrap();
    let invoked = host.snapshot().invoking().invoke_in(tool, args, &turn).await;
    let value = invoked.map_err(|error| error.to_string())?.value;
    Ok(serde_json::from_str(&value.to_string()).unwrap())
}

async fn call(host: &TestHost, tool: &str, args: Value) -> Result<Value, String> {
    call_as(host, "ann", tool, args).await
}

#[tokio::test]
async fn every_shipped_tool_loads_with_a_valid_schema() {
    let host = host("[grants.file_read]\nfiles = [\".\"]\n[grants.shell_exec]\nshell = [\"ls\"]\n").await;
    assert!(host.snapshot().problems.is_empty(), "{:?}", host.snapshot().problems);
    let ids = shipped("");
    assert!(ids.len() >= 14, "{ids:?}");
    for id in ids {
        assert!(host.problems(&id).is_empty(), "{:?}", host.problems(&id));
        assert!(Path::new(&format!("{FOLDER}/{id}.test.rhai")).exists(), "{id} has no tests");
    }
    let snapshot = host.snapshot();
    let names: Vec<&str> = snapshot.tools.iter().map(|tool| tool.name()).collect();
    for expected in
        ["calculator", "notes_add", "weather", "todo_add", "human_confirm", "file_read", "shell_exec"]
    {
        assert!(names.contains(&expected), "{expected}: {names:?}");
    }
    for tool in &snapshot.tools {
        let schema: Value = serde_json::from_str(&tool.spec.parameters.schema().to_string()).unwrap();
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{}: {schema}", tool.name());
        jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{}: {error}", tool.name()));
        assert!(tool.spec.description.len() > 20 && !tool.spec.tags.is_empty(), "{}", tool.name());
        let properties = schema["properties"].as_object().unwrap();
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{}.{name} has no description", tool.name());
        }
    }
    let schema = host.snapshot().tools.iter().find(|tool| tool.name() == "weather").unwrap().spec.clone();
    let keys = schema.parameters.schema().at_path("properties").as_object().unwrap().keys();
    assert_eq!(keys.iter().map(|key| key.as_str()).collect::<Vec<_>>(), ["city", "unit"]);
}

#[tokio::test]
async fn the_calculator_computes() {
    let host = host("").await;
    let cases = [
        ("1", "1"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2**10", "1024"),
        ("2^-2", "0.25"),
        ("10 / 4", "2.5"),
        ("10 / 5", "2"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("7.5 % 2", "1.5"),
        ("10 - 4 - 3", "3"),
        ("100 / 10 / 2", "5"),
        ("--3", "3"),
        ("-(-3)", "3"),
        ("2 * -3", "-6"),
        ("+5", "5"),
        ("1_000 * 2", "2000"),
        ("1e3", "1000"),
        ("1.5e2", "150"),
        ("2E-1", "0.2"),
        (".5 + .5", "1"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("sqrt(16)", "4"),
        ("abs(-4.5)", "4.5"),
        ("abs(-4)", "4"),
        ("round(2.5)", "3"),
        ("floor(-1.5)", "-2"),
        ("ceil(1.2)", "2"),
        ("ln(e)", "1"),
        ("log(1000)", "3"),
        ("exp(0)", "1"),
        ("sin(0)", "0"),
        ("cos(0)", "1"),
        ("tan(0)", "0"),
        ("sin(pi / 2)", "1"),
        ("min(3, 1, 2)", "1"),
        ("max(3, 1, 2)", "3"),
        ("max(1, min(5, 3)) * 2", "6"),
        ("SQRT(9)", "3"),
        ("PI * 0", "0"),
        ("3 × 4 ÷ 2", "6"),
        ("5 − 3", "2"),
        ("((((((((1))))))))", "1"),
        ("9223372036854775807", "9223372036854775807"),
        ("9007199254740993 + 1", "9007199254740994"),
        ("3037000500 * 3037000500", "9223372037000250000"),
        ("2 ^ 62", "4611686018427387904"),
        ("2^0.5", "1.4142135623730951"),
        ("1/3", "0.3333333333333333"),
        ("0 * -1", "0"),
        ("2+2=", "ERR '='"),
        ("1 / 0", "ERR zero"),
        ("1 % 0", "ERR zero"),
        ("2 3", "ERR operator"),
        ("(1", "ERR not closed"),
        ("1)", "ERR no parenthesis"),
        ("", "ERR empty"),
        ("  ", "ERR empty"),
        ("max()", "ERR ')'"),
        ("1 +", "ERR too early"),
        ("* 2", "ERR '*'"),
        ("x + 1", "ERR 'x'"),
        ("sqrt 4", "ERR parentheses"),
        ("sqrt(-1)", "ERR square root"),
        ("ln(0)", "ERR above zero"),
        ("sqrt(1, 2)", "ERR one number"),
        ("1, 2", "ERR ','"),
        ("(1, 2)", "ERR comma"),
        ("(-8) ^ 0.5", "ERR power"),
        ("10 ^ 400", "ERR too large"),
        ("1..2", "ERR"),
        ("import(1)", "ERR 'import'"),
    ];
    let mut wrong = Vec::new();
    for (expression, expected) in cases {
        let got = match call(&host, "calculator", json!({"expression": expression})).await {
            Ok(value) => value["result"].to_string(),
            Err(message) => format!("ERR {message}"),
        };
        let fits = match expected.strip_prefix("ERR") {
            Some(words) => got.starts_with("ERR") && got.contains(words.trim()) && !got.contains("failed:"),
            None if expected.contains(['.', 'e']) => got == expected,
            None => got == expected || got.parse::<f64>().is_ok_and(|got| expected.parse::<f64>() == Ok(got)),
        };
        if !fits {
            wrong.push(format!("{expression:?}: expected {expected}, got {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a random expression and its value.
fn expression(random: &mut fastrand::Rng, depth: u32) -> (String, f64) {
    if depth == 0 || random.u8(..4) == 0 {
        let number = f64::from(random.i32(0..1000)) / [1.0, 1.0, 4.0, 10.0][random.usize(..4)];
        return (number.to_string(), number);
    }
    let (a, left) = expression(random, depth - 1);
    let (b, right) = expression(random, depth - 1);
    match random.u8(..6) {
        0 => (format!("({a} + {b})"), left + right),
        1 => (format!("({a} - {b})"), left - right),
        2 => (format!("({a}) * ({b})"), left * right),
        3 => (format!("-({a}) / ({b} + 1001)"), -left / (right + 1001.0)),
        4 => (format!("max({a}, {b}, 0)"), left.max(right).max(0.0)),
        _ => (format!("sqrt(abs({a}))"), left.abs().sqrt()),
    }
}

#[tokio::test]
async fn the_calculator_agrees_with_rust_on_random_expressions() {
    let host = host("").await;
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..150 {
        let (text, expected) = expression(&mut random, 4);
        let got = call(&host, "calculator", json!({"expression": text})).await;
        let got = got.unwrap_or_else(|error| panic!("{text}: {error}"))["result"].as_f64().unwrap();
        let near = (got - expected).abs() <= 1e-9 * expected.abs().max(1.0);
        assert!(near, "{text}: {got}, not {expected}");
    }
}

#[tokio::test]
async fn the_clock_supports_time_zones() {
    let host = host("").await;
    let at = |zone: &str| json!({"at": 1_700_000_000, "zone": zone});
    let tokyo = call(&host, "clock", at("Asia/Tokyo")).await.unwrap();
    assert_eq!((&tokyo["date"], &tokyo["time"]), (&json!("2023-11-15"), &json!("07:13:20")));
    assert_eq!(call(&host, "clock", at("UTC")).await.unwrap()["weekday"], "Tuesday");
    host.set_valves("clock", Some("ann"), json!({"zone": "Europe/Berlin"})).await;
    assert_eq!(call(&host, "clock", json!({})).await.unwrap()["zone"], "Europe/Berlin");
    assert_eq!(call_as(&host, "bob", "clock", json!({})).await.unwrap()["zone"], "UTC");
    let error = call(&host, "clock", at("Mars/Base")).await.unwrap_err();
    assert!(error.contains("Mars/Base"), "{error}");
}

#[tokio::test]
async fn notes_belong_to_their_user_and_survive_a_restart() {
    let mut host = host("").await;
    let add = |text: &str| json!({"text": text});
    for text in ["buy milk", "call Bob about the milk", "read"] {
        call(&host, "notes_add", add(text)).await.unwrap();
    }
    call_as(&host, "bob", "notes_add", add("a secret")).await.unwrap();
    let found = call(&host, "notes_find", json!({"words": "MILK bob"})).await.unwrap();
    assert_eq!((&found["count"], &found["notes"][0]["id"]), (&json!(1), &json!(2)));
    assert_eq!(call(&host, "notes_delete", json!({"id": 1})).await.unwrap(), "note 1 is deleted");
    assert!(call(&host, "notes_delete", json!({"id": 1})).await.unwrap_err().contains("there is no note 1"));
    assert!(call(&host, "notes_add", add("  ")).await.unwrap_err().contains("empty"));
    host.set_valves("notes", None, json!({"most": 2})).await;
    assert!(call(&host, "notes_add", add("x")).await.unwrap_err().contains("2 notes already"));
    host.restart().await;
    let all = call(&host, "notes_find", json!({})).await.unwrap();
    assert_eq!(all["count"], 2);
    assert!(!all.to_string().contains("secret"));
    // The ids continue.
    host.set_valves("notes", None, json!({})).await;
    assert_eq!(call(&host, "notes_add", add("next")).await.unwrap()["id"], 4);
}

#[tokio::test]
async fn texts_are_counted() {
    let host = host("").await;
    let text = "The cat sat. The dog didn't!\nÜber 3 Katzen?";
    let stats = call(&host, "text_stats", json!({"text": text, "frequent": 1})).await.unwrap();
    assert_eq!(
        (&stats["words"], &stats["lines"], &stats["sentences"], &stats["frequent"]),
        (&json!(9), &json!(2), &json!(3), &json!([{"word": "the", "count": 2}]))
    );
    assert_eq!(call(&host, "text_stats", json!({"text": ""})).await.unwrap()["words"], 0);
    let large = "lorem ipsum dolor ".repeat(2_000);
    assert_eq!(call(&host, "text_stats", json!({"text": large})).await.unwrap()["words"], 6_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_weather_tool_reports_service_failures() {
    let service = Upstream::start().await;
    let url = service.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let host = host(&format!(
        "[tools.weather.valves]\nplaces_url = \"{url}/places\"\nforecast_url = \"{url}/forecast\"\n[grants.weather]\nhttp = [\"{address}\"]\n"
    ))
    .await;
    let place =
        json!({"results": [{"name": "Tokyo", "country": "Japan", "latitude": 35.7, "longitude": 139.7}]});
    let forecast = json!({"current": {"time": "2026-11-21T09:00", "temperature_2m": 12.5, "relative_humidity_2m": 60,
        "weather_code": 63, "wind_speed_10m": 7.2}});
    service.script(move |request| {
        Reply::json(if request.path.ends_with("places") { &place } else { &forecast })
    });
    let tokyo = json!({"city": "Tokyo"});
    let weather = call(&host, "weather", tokyo.clone()).await.unwrap();
    assert_eq!(
        (&weather["temperature"], &weather["conditions"], &weather["unit"]),
        (&json!(12.5), &json!("rain"), &json!("celsius"))
    );

    service.reply(Reply::json(&json!({"generationtime_ms": 0.5})));
    assert!(
        call(&host, "weather", json!({"city": "Xyzzy"}))
            .await
            .unwrap_err()
            .contains("no place is called Xyzzy")
    );
    for (reply, words) in [
        (Reply::json(&json!({})).status(500), "status 500"),
        (Reply::raw("text/html", "<p>busy"), "JSON"),
        (Reply::json(&json!({"results": [{"name": "x"}]})), ""),
    ] {
        service.reply(reply);
        let error = call(&host, "weather", tokyo.clone()).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    assert!(
        call(&host, "weather", json!({"city": "x", "unit": "kelvin"}))
            .await
            .unwrap_err()
            .contains("\"celsius\", \"fahrenheit\"")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn web_fetch_returns_text_in_parts_and_requires_a_grant() {
    let service = Upstream::start().await;
    let url = service.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/v1");
    let host =
        host(&format!("[tools.web_fetch.valves]\nmost = 500\n[grants.web_fetch]\nhttp = [\"{address}\"]\n"))
            .await;
    let page = format!(
        "<html><head><title>A &amp; B</title><script>x()</script></head><body><p>{}</p></body></html>",
        "wörd ".repeat(150)
    );
    service.reply(Reply::raw("text/html; charset=utf-8", page));
    let first = call(&host, "web_fetch", json!({"url": format!("{url}/page")})).await.unwrap();
    assert_eq!((&first["title"], &first["next_from"]), (&json!("A & B"), &json!(500)));
    let text = first["text"].as_str().unwrap();
    assert!(text.contains("wörd wörd") && !text.contains("x()"), "{text}");
    let rest = call(&host, "web_fetch", json!({"url": format!("{url}/page"), "from": 500})).await.unwrap();
    assert_eq!(rest["next_from"], Value::Null);
    service.reply(Reply::raw("image/png", "\u{1}\u{2}"));
    assert!(
        call(&host, "web_fetch", json!({"url": format!("{url}/x")})).await.unwrap_err().contains("image/png")
    );
    let elsewhere = call(&host, "web_fetch", json!({"url": "http://127.0.0.1:1/"})).await.unwrap_err();
    assert!(elsewhere.contains("valvehouse grant web_fetch"), "{elsewhere}");
    assert!(
        call(&host, "web_fetch", json!({"url": "file:///etc/passwd"})).await.unwrap_err().contains("`url`")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_arguments_never_break_a_tool() {
    let host = host("").await;
    let large = "(".repeat(200_000);
    let values = [
        json!(""),
        json!(large),
        json!("🦀\u{0}\u{202e}"),
        json!(-1),
        json!(1e308),
        json!([]),
        json!({"a": {}}),
        json!(null),
        json!(true),
    ];
    let deadline = tokio::time::Instant::now() + Duration::from_secs(100);
    for tool in host.snapshot().tools.clone() {
        if tool.spec.tags.iter().any(|tag| tag == "human") {
            continue;
        }
        let schema: Value = serde_json::from_str(&tool.spec.parameters.schema().to_string()).unwrap();
        for value in &values {
            let args: serde_json::Map<String, Value> = schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .map(|key| (key.clone(), value.clone()))
                .collect();
            let result = call(&host, tool.name(), Value::Object(args)).await;
            if let Err(message) = result {
                let bug = ["panicked", "Function not found", "not found:", "` of ()"]
                    .iter()
                    .find(|bug| message.contains(**bug));
                assert!(bug.is_none(), "{}: {}", tool.name(), message.chars().take(300).collect::<String>());
            }
            assert!(tokio::time::Instant::now() < deadline, "{} takes too long", tool.name());
        }
    }
}
