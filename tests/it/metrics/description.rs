//! `/openapi.json` describes every route, and no other.

use crate::host::{Answer, TestHost};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A path and a method.
type Route = (String, String);

#[tokio::test]
async fn every_route_is_described_and_nothing_else_is() {
    let host = TestHost::new().start().await;
    let described = described(&host.get("/openapi.json").await.json());
    let there = routes_of_the_sources();
    let missing: Vec<_> = there.difference(&described).collect();
    let invented: Vec<_> = described.difference(&there).collect();
    assert!(
        missing.is_empty() && invented.is_empty(),
        "not described: {missing:#?}\nnot there: {invented:#?}"
    );
}

#[tokio::test]
async fn the_description_is_valid() {
    let Some(python) = crate::python::python() else { return };
    let host = TestHost::new().start().await;
    let file = host.folder().join("openapi.json");
    std::fs::write(&file, host.get("/openapi.json").await.body()).unwrap();
    let output = Command::new(python).args(["-m", "openapi_spec_validator"]).arg(&file).output().unwrap();
    let words = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&words));
}

#[tokio::test]
async fn every_reference_is_valid_and_every_component_is_used() {
    let document = TestHost::new().start().await.get("/openapi.json").await.json();
    let text = document.to_string();
    for (kind, parts) in document["components"].as_object().unwrap() {
        for name in parts.as_object().unwrap().keys() {
            let reference = format!("\"#/components/{kind}/{name}\"");
            let is_used = kind == "securitySchemes" || text.contains(&reference);
            assert!(is_used, "nothing refers to {reference}");
        }
    }
    for reference in text.split("\"$ref\":\"#/").skip(1) {
        let (place, _) = reference.split_once('"').unwrap();
        assert!(document.pointer(&format!("/{place}")).is_some(), "{place} is not there");
    }
}

/// The JSON that other packages write has the described fields and no others.
#[tokio::test]
async fn answers_are_as_described() {
    let agent = "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\n";
    let loud =
        "fn inlet(body) { log::info(\"x\"); emit(#{ type: \"status\", data: #{} }); body.x = 1; body }";
    let host = TestHost::new().config(agent).filter("loud", loud).start().await;
    let document = host.get("/openapi.json").await.json();
    let sent = |path: &str, body: Value| {
        host.request("POST", path).header("x-valvehouse-trace", "content").body(body.to_string())
    };
    let begun = json!({"input": "hi", "chat_id": "c1", "user": "ann"});
    let begun = Answer::of(sent("/api/v1/agents/clerk/runs", begun)).await.json();
    let tried = Answer::of(sent("/api/v1/try", json!({"model": "clerk", "text": "hi"}))).await.json();
    let trace = host.get("/api/v1/traces").await.json()["past"][0]["id"].as_str().unwrap().to_owned();
    let replay = sent(&format!("/api/v1/traces/{trace}/replay"), json!({"plugin": "loud"}));
    let replay = Answer::of(replay).await.json();
    let chat = "/api/v1/agents/conversations/c1";
    let step = host.get(&format!("{chat}/checkpoints")).await.json()["data"][0]["checkpoint_id"].clone();
    let mut answers = vec![
        ("/api/v1/agents/{agent}/runs", "post", begun.clone()),
        ("/api/v1/try", "post", tried),
        ("/api/v1/traces/{id}/replay", "post", replay),
    ];
    for (route, path) in [
        ("/api/v1/traces", "/api/v1/traces".to_owned()),
        ("/api/v1/traces/{id}", format!("/api/v1/traces/{trace}")),
        ("/api/v1/overview", "/api/v1/overview".to_owned()),
        ("/api/v1/models/{model}/chain", "/api/v1/models/clerk/chain".to_owned()),
        ("/models", "/models".to_owned()),
        ("/api/v1/agents/{agent}/runs", "/api/v1/agents/clerk/runs".to_owned()),
        ("/api/v1/agents/runs/{run}", format!("/api/v1/agents/runs/{}", begun["run_id"].as_str().unwrap())),
        ("/api/v1/agents/conversations", "/api/v1/agents/conversations".to_owned()),
        ("/api/v1/agents/conversations/{chat_id}", chat.to_owned()),
        ("/api/v1/agents/conversations/{chat_id}/checkpoints", format!("{chat}/checkpoints")),
        ("/api/v1/agents/checkpoints/{id}", format!("/api/v1/agents/checkpoints/{}", step.as_str().unwrap())),
    ] {
        answers.push((route, "get", host.get(&path).await.json()));
    }
    for (route, method, answer) in answers {
        let answers = &document["paths"][route][method]["responses"];
        let mut schema = answers["200"]["content"]["application/json"]["schema"].clone();
        schema["components"] = document["components"].clone();
        close(&mut schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let wrong: Vec<String> = validator
            .iter_errors(&answer)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{method} {route}: {wrong:#?}\n{answer:#}");
    }
}

/// Refuses the fields that a schema does not describe.
fn close(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        if object.get("properties").is_some_and(Value::is_object)
            && !object.contains_key("additionalProperties")
        {
            object.insert("additionalProperties".into(), false.into());
        }
        object.values_mut().for_each(close);
    }
    schema.as_array_mut().into_iter().flatten().for_each(close);
}

#[tokio::test]
async fn every_operation_has_a_summary_a_tag_and_answers() {
    let document = TestHost::new().start().await.get("/openapi.json").await.json();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            // The WebSocket routes.
            let refuses =
                [("get", "/v1/responses"), ("get", "/v1/realtime"), ("post", "/v1/realtime/{rest}")];
            let is_refused = refuses.contains(&(method.as_str(), path.as_str()));
            let is_whole = operation["summary"].is_string()
                && operation["tags"][0].is_string()
                && operation["security"].is_array()
                && operation["responses"]["200"].is_object() != is_refused;
            assert!(is_whole, "{method} {path}: {operation}");
        }
    }
}

#[tokio::test]
async fn types_describe_the_input_and_the_answer_of_a_route() {
    let document = TestHost::new().start().await.get("/openapi.json").await.json();
    let rollback = &document["paths"]["/api/v1/functions/id/{id}/rollback"]["post"];
    let body = &rollback["requestBody"]["content"]["application/json"];
    assert_eq!(rollback["requestBody"]["required"], true);
    assert_eq!(body["schema"]["properties"]["version"]["type"], "integer");
    assert_eq!(body["schema"]["additionalProperties"], false);
    assert_eq!(body["example"], serde_json::json!({"version": 1}));
    let function = "#/components/schemas/Function";
    assert_eq!(rollback["responses"]["200"]["content"]["application/json"]["schema"]["$ref"], function);
    let required = document["components"]["schemas"]["Function"]["required"].as_array().unwrap();
    assert!(required.contains(&"problems".into()) && !required.contains(&"content".into()), "{required:?}");
    let traces = &document["paths"]["/api/v1/traces"]["get"]["parameters"];
    let named =
        |name: &str| traces.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    assert_eq!(
        (&named("limit")["in"], &named("limit")["schema"]["type"]),
        (&"query".into(), &"integer".into())
    );
    assert_eq!(named("failed")["schema"]["type"], "boolean");
    let trace = &document["paths"]["/api/v1/traces/{id}"]["get"]["parameters"][0];
    assert_eq!((&trace["name"], &trace["required"]), (&"id".into(), &true.into()));
}

#[test]
fn the_docs_explain_exactly_the_existing_metrics() {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md")).unwrap();
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let explained: BTreeSet<String> = rows.flat_map(|(names, _)| words_of(names)).collect();
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/src/metrics"), &mut files);
    let mut there = BTreeSet::new();
    for file in files.iter().filter(|file| !file.ends_with("families.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        for call in [".counter(", ".gauge(", ".histogram("] {
            for (at, _) in text.match_indices(call) {
                let name = text[at + call.len()..].split('"').nth(1).unwrap();
                let is_everybodys = name.starts_with("process_");
                there.insert(if is_everybodys { name.to_owned() } else { format!("valvehouse_{name}") });
            }
        }
    }
    assert_eq!(explained, there);
}

fn words_of(names: &str) -> Vec<String> {
    names.split(['`', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn described(document: &Value) -> BTreeSet<Route> {
    let paths = document["paths"].as_object().unwrap().iter();
    let routes = paths.flat_map(|(path, item)| {
        item.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
    });
    routes.collect()
}

/// Returns the routes in the source code: each `.route("path", method(…))`, and the helpers of the pipelines
/// that add several routes.
fn routes_of_the_sources() -> BTreeSet<Route> {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/src"), &mut files);
    let mut routes = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (call, several) in
            [(".route(", one as fn(&str) -> Vec<String>), ("both(", both), ("everywhere(", everywhere)]
        {
            for (at, _) in text.match_indices(call) {
                let arguments = arguments(&text[at + call.len()..]);
                let Some(rest) = arguments.trim_start().strip_prefix('"') else { continue };
                let (path, methods) = rest.split_once('"').unwrap();
                for method in ["get", "post", "put", "delete"].iter().filter(|method| takes(methods, method))
                {
                    let named = |path: String| (path.replace("{*", "{"), method.to_uppercase());
                    routes.extend(several(path).into_iter().map(named));
                }
            }
        }
    }
    for path in aliases() {
        routes.extend(["GET", "POST", "DELETE"].map(|method| (path.clone(), method.to_owned())));
    }
    assert!(routes.len() > 30, "the sources have changed their form: {routes:?}");
    routes
}

/// Returns the paths of Azure's clients that are rewritten before routing.
fn aliases() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/src/passthrough/azure.rs");
    let text = std::fs::read_to_string(file).unwrap();
    let list = text.split("const ALIASES").nth(1).unwrap().split(';').nth(1).unwrap();
    let names: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.iter().all(|name| name.starts_with("/openai/")), "{names:?}");
    names
}

/// Returns the text up to the closing bracket.
fn arguments(text: &str) -> &str {
    let mut open = 1;
    let end = text.find(|letter| {
        open += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        open == 0
    });
    &text[..end.unwrap_or(text.len())]
}

fn takes(methods: &str, method: &str) -> bool {
    let word = format!("{method}(");
    methods
        .match_indices(&word)
        .any(|(at, _)| !methods[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
}

fn one(path: &str) -> Vec<String> {
    vec![path.to_owned()]
}

fn both(path: &str) -> Vec<String> {
    vec![path.to_owned(), format!("/v1{path}")]
}

fn everywhere(path: &str) -> Vec<String> {
    ["/{id}", "/{id}/{of}", "/{id}/{of}/{all}"].iter().flat_map(|id| both(&format!("{id}{path}"))).collect()
}

/// Collects the source files of a folder recursively.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
